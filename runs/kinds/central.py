"""Table 6.3: the centralised model over seeds, beside its baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path

from tff_esn.central.assess import PARTS, PRINTED_MODEL, Outcome, assess_baselines, assess_esn
from tff_esn.config import AssessmentConfig, CentralConfig, from_mapping, merged, nested
from tff_esn.features.source import Source
from tff_esn.metrics import Scores, scores_from
from tff_esn.runs.reported import printed_assessment
from tff_esn.runs.result import ResultFigure
from tff_esn.store.json_values import fingerprint
from tff_esn.store.tasks import Arrays, Task, packed, unpacked
from tff_esn.tables import Table, score_table
from tff_esn.versions import version_of

#: Part of every key: raise it when a result changes.
_VERSION = 1


def assessment_table(title: str, found: Mapping[str, Sequence[Outcome]], printed: bool = True) -> Table:
    """Table 6.3: a row per model, design and test set beside each other.

    Args:
        title: Its title.
        found: By preset, every model of every seed.
        printed: Whether the thesis's numbers stand beside the model they are about.
    """
    scores: dict[str, dict[str, dict[str, list[Scores]]]] = {}
    for preset, outcomes in found.items():
        for outcome in outcomes:
            parts = scores.setdefault(outcome.model, {}).setdefault(preset, {part: [] for part in PARTS})
            for part, own in parts.items():
                own.append(outcome.parts[part])
    constant = {outcome.model for outcomes in found.values() for outcome in outcomes if outcome.seed is None}
    reference = {PRINTED_MODEL: printed_assessment()} if printed else {}
    return score_table("table-6-3", title, scores, reference, constant)


@dataclass(frozen=True)
class AssessmentRun:
    """The centralised models of a study."""

    config: AssessmentConfig
    source: Source
    seeds: Sequence[int]

    def prepare(self, jobs: int | None) -> None:
        """Makes what the models see."""
        for own in self._configs.values():
            self.source.prepare(own.inputs, jobs)

    def tasks(self) -> list[Task]:
        """The baselines and each seed, by preset."""
        return list(self._tasks.values())

    def outcome(self, results: Mapping[str, Arrays]) -> tuple[list[Table], list[ResultFigure]]:
        """Table 6.3 under each preset."""
        found: dict[str, list[Outcome]] = {preset: [] for preset in self._configs}
        for (preset, _), task in self._tasks.items():
            for one in unpacked(results[task.key]):
                scores = {
                    name: {key: scores_from(own) for key, own in one[name].items()} for name in ("parts", "subjects")
                }
                found[preset].append(Outcome(**{**one, **scores}))
        return [assessment_table(self.config.title, found)], []

    @cached_property
    def _configs(self) -> dict[str, CentralConfig]:
        title = self.config.title
        return {
            preset: from_mapping(
                CentralConfig,
                merged({"inputs": {"preset": preset}}, nested(self.config.settings), nested(changed)),
                title,
            )
            for preset, changed in self.config.presets.items()
        }

    @cached_property
    def _tasks(self) -> dict[tuple[str, int | None], Task]:
        tasks: dict[tuple[str, int | None], Task] = {}
        versions = [version_of(name) for name in ("tensorflow", "numpy", "scikit-learn")]
        for preset, config in self._configs.items():
            content = self.source.content(config.inputs)
            for seed in (None, *self.seeds):
                name = "baselines" if seed is None else f"seed {seed}"
                key = fingerprint([_VERSION, config, seed, content, versions])
                work = partial(_assess, self.source, config, seed)
                tasks[preset, seed] = Task(f"central model, {preset}, {name}", "central", key, work)
        return tasks


def _assess(source: Source, config: CentralConfig, seed: int | None, scratch: Path) -> Arrays:
    inputs = source.inputs(config.inputs)
    if seed is None:
        return packed([asdict(outcome) for outcome in assess_baselines(inputs)])
    return packed([asdict(outcome) for outcome, _ in assess_esn(inputs, config, seed)])
