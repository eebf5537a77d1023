"""Named runs of a study: finished and remaining work, and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Any

from tff_esn.datasets.synthetic import is_generated
from tff_esn.features.study import Study
from tff_esn.parameters import from_mapping
from tff_esn.runs.kind import KINDS, RunKind
from tff_esn.runs.named import NamedRun
from tff_esn.runs.result import Provenance, RunResult
from tff_esn.store.cache import Cache
from tff_esn.store.tasks import ELAPSED, Arrays, Task, kept_results, run_tasks
from tff_esn.versions import stack_versions


def kind_of(run: NamedRun, study: Study, first: int = 0, seeds: int | None = None, quick: bool = False) -> RunKind:
    """The work of a run on a study.

    Args:
        run: The run.
        study: The study.
        first: The first seed.
        seeds: Number of seeds; None for the run's default.
        quick: Whether it is a quick run, which is also compared with the printed numbers.
    """
    kind = KINDS[run.settings.get("kind", "")]
    config: Any = from_mapping(kind.settings, run.settings, run.name)
    return kind(run.name, config, study, range(first, first + seeds_of(config, seeds)), quick)


def seeds_of(config: Any, wanted: int | None) -> int:
    """Number of seeds of a configuration; one if it is deterministic or a search has its own."""
    own = getattr(config, "seeds", getattr(config, "repetitions", None))
    return 1 if own is None else wanted or own


@dataclass(frozen=True)
class Plan:
    """A named run of a study.

    Attributes:
        run: The run.
        work: Its work on the study.
        study: The study.
        seeds: Number of seeds.
        quick: Whether it is a quick run.
    """

    run: NamedRun
    work: RunKind
    study: Study
    seeds: int
    quick: bool

    @cached_property
    def tasks(self) -> list[Task]:
        """Its parts, each once."""
        return list({task.key: task for task in self.work.tasks()}.values())

    @cached_property
    def kept(self) -> dict[str, Arrays]:
        """Results in the cache."""
        return kept_results(self.tasks, Cache(self.study.cache))

    @property
    def missing(self) -> list[Task]:
        """Remaining parts."""
        return [task for task in self.tasks if task.key not in self.kept]

    def seconds(self, processors: int) -> float:
        """Estimated duration of the remaining parts, from the finished ones or else from the run's file."""
        measured = [elapsed(arrays) for arrays in self.kept.values()]
        each = median(measured) if measured else self.run.about.cell_seconds
        return each * len(self.missing) / min(processors, max(1, len(self.missing)))


def plan_run(run: NamedRun, study: Study, first: int = 0, seeds: int | None = None, quick: bool = False) -> Plan:
    """Plans a run; nothing is computed yet."""
    work = kind_of(run, study, first, seeds, quick)
    return Plan(run, work, study, len(work.seeds), quick)


def execute(plans: Sequence[Plan], jobs: int | None) -> list[RunResult]:
    """Runs the remaining parts of some plans in one queue, and returns the results."""
    left = [plan for plan in plans if plan.missing]
    for plan in left:
        plan.work.prepare(jobs)
    results = {key: arrays for plan in plans for key, arrays in plan.kept.items()}
    tasks = [task for plan in left for task in plan.missing]
    if tasks:
        results.update(run_tasks(tasks, Cache(plans[0].study.cache), jobs, "Reproducing"))
    return [_result(plan, results) for plan in plans]


def run_parts(kind: RunKind, jobs: int | None, description: str = "Training") -> dict[str, Arrays]:
    """Runs the remaining parts of a single run, and returns the results of all its parts by key."""
    cache, tasks = Cache(kind.study.cache), kind.tasks()
    if len(kept_results(tasks, cache)) < len({task.key for task in tasks}):
        kind.prepare(jobs)
    return run_tasks(tasks, cache, jobs, description)


def _result(plan: Plan, results: Mapping[str, Arrays]) -> RunResult:
    tables, figures = plan.work.outcome(results)
    if plan.quick:
        tables = [
            replace(table, notes=[*table.notes, "Quick run: few rounds or trials, one seed."]) for table in tables
        ]
    generated = is_generated(plan.study.root)
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
    return RunResult(
        plan.run.name, plan.run.settings.get("title", plan.run.name), plan.run.about, provenance, tables, figures
    )


_STUDIES = {"wesad": "WESAD's recordings", "hhar": "HHAR's recordings"}


def elapsed(arrays: Arrays) -> float:
    """Seconds that a part took."""
    return float(arrays[ELAPSED])
