"""Named runs of a study: what of them is there, what is left, and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Any, Protocol

from tff_esn.config import (
    AssessmentConfig,
    ClosedFormConfig,
    JudgeConfig,
    SelectionConfig,
    StatisticsConfig,
    SweepConfig,
    from_mapping,
)
from tff_esn.datasets.synthetic import is_generated
from tff_esn.errors import ConfigError
from tff_esn.features.source import Source
from tff_esn.runs.named import NamedRun
from tff_esn.runs.result import Provenance, ResultFigure, RunResult
from tff_esn.store.cache import Cache
from tff_esn.store.tasks import ELAPSED, Arrays, Task, kept_results, run_tasks
from tff_esn.tables import Table
from tff_esn.versions import stack_versions


class Work(Protocol):
    """What every kind of run can do."""

    @property
    def seeds(self) -> Sequence[int]:
        """Of its repetitions."""

    def prepare(self, jobs: int | None) -> None:
        """Makes what its tasks read of the study."""

    def tasks(self) -> list[Task]:
        """Its parts, each kept as soon as it is done."""

    def outcome(self, results: Mapping[str, Arrays]) -> tuple[list[Table], list[ResultFigure]]:
        """Tables and figures, of the results by key."""


CONFIGS: Mapping[str, Any] = {
    "statistics": StatisticsConfig,
    "selection": SelectionConfig,
    "central": AssessmentConfig,
    "discriminator": JudgeConfig,
    "federated": SweepConfig,
    "closed-form": ClosedFormConfig,
}


def work_of(run: NamedRun, source: Source, first: int = 0, seeds: int | None = None, quick: bool = False) -> Work:
    """What a run does with a study.

    Args:
        run: The run.
        source: The study.
        first: The first seed.
        seeds: How many; None for the run's own.
        quick: Whether printed numbers stand beside what was cut short.
    """
    kind = run.settings.get("kind", "")
    if kind not in CONFIGS:
        raise ConfigError(f"{run.name}: kind = {kind!r}; expected {', '.join(CONFIGS)}")
    config = from_mapping(CONFIGS[kind], run.settings, run.name)
    chosen = range(first, first + seeds_of(config, seeds))
    # Imported here, since TensorFlow takes its time and not every kind needs it.
    if kind == "statistics":
        from tff_esn.runs.kinds.statistics import StatisticsRun

        return StatisticsRun(config, source, chosen)
    if kind == "selection":
        from tff_esn.runs.kinds.selection import SelectionRun

        return SelectionRun(run.name, config, source, chosen)
    if kind == "central":
        from tff_esn.runs.kinds.central import AssessmentRun

        return AssessmentRun(config, source, chosen)
    if kind == "discriminator":
        from tff_esn.runs.kinds.discriminator import JudgeRun

        return JudgeRun(config, source, chosen)
    if kind == "closed-form":
        from tff_esn.runs.kinds.closed_form import ClosedFormRun

        return ClosedFormRun(run.name, config, source, chosen)
    from tff_esn.runs.kinds.federated import SweepRun

    return SweepRun(config, source, chosen, quick)


def seeds_of(config: Any, wanted: int | None) -> int:
    """How many seeds a configuration is run with; one where chance plays no part or a search has its own."""
    own = getattr(config, "seeds", getattr(config, "repetitions", None))
    return 1 if own is None else wanted or own


@dataclass(frozen=True)
class Plan:
    """A named run of a study.

    Attributes:
        run: The run.
        work: What it does.
        source: The study.
        seeds: How many.
        quick: Whether it is cut short.
    """

    run: NamedRun
    work: Work
    source: Source
    seeds: int
    quick: bool

    @cached_property
    def tasks(self) -> list[Task]:
        """Its parts, each once."""
        return list({task.key: task for task in self.work.tasks()}.values())

    @cached_property
    def kept(self) -> dict[str, Arrays]:
        """Results that are there."""
        return kept_results(self.tasks, Cache(self.source.cache))

    @property
    def missing(self) -> list[Task]:
        """Parts that are left to run."""
        return [task for task in self.tasks if task.key not in self.kept]

    def seconds(self, processors: int) -> float:
        """An estimate for what is left: as long as what is there took, else as long as its file says."""
        measured = [elapsed(arrays) for arrays in self.kept.values()]
        each = median(measured) if measured else self.run.about.cell_seconds
        return each * len(self.missing) / min(processors, max(1, len(self.missing)))


def plan_run(run: NamedRun, source: Source, first: int = 0, seeds: int | None = None, quick: bool = False) -> Plan:
    """Plans a run; nothing is computed yet."""
    work = work_of(run, source, first, seeds, quick)
    return Plan(run, work, source, len(work.seeds), quick)


def execute(plans: Sequence[Plan], jobs: int | None) -> list[RunResult]:
    """Runs what is left of some plans, all their parts in one queue, and returns the results."""
    left = [plan for plan in plans if plan.missing]
    for plan in left:
        plan.work.prepare(jobs)
    results = {key: arrays for plan in plans for key, arrays in plan.kept.items()}
    tasks = [task for plan in left for task in plan.missing]
    if tasks:
        results.update(run_tasks(tasks, Cache(plans[0].source.cache), jobs, "Reproducing"))
    return [_result(plan, results) for plan in plans]


def _result(plan: Plan, results: Mapping[str, Arrays]) -> RunResult:
    tables, figures = plan.work.outcome(results)
    if plan.quick:
        tables = [
            replace(table, notes=[*table.notes, "A quick look: few rounds or trials, one seed."]) for table in tables
        ]
    generated = is_generated(plan.source.study)
    options = ([] if generated else ["--data", "DIR"]) + ["--seeds", str(plan.seeds)] + ["--quick"] * plan.quick
    provenance = Provenance(
        " ".join(["tff-esn reproduce", plan.run.name, *options]),
        "generated subjects" if generated else _STUDIES[plan.run.about.study],
        generated,
        plan.quick,
        plan.seeds,
        len(plan.tasks),
        round(sum(elapsed(results[task.key]) for task in plan.tasks), 1),
        {name: version for name, version in stack_versions().items() if name != "platform"},
    )
    return RunResult(plan.run.name, plan.run.settings["title"], plan.run.about, provenance, tables, figures)


_STUDIES = {"wesad": "WESAD's recordings", "hhar": "HHAR's recordings"}


def elapsed(arrays: Arrays) -> float:
    """Seconds that a part took."""
    return float(arrays[ELAPSED])
