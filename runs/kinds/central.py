"""Table 6.3: the centralised model over seeds, beside its baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from tff_esn.central.assess import PARTS, assess_baselines, assess_esn
from tff_esn.central.report import PRINTED_MODEL, printed_assessment
from tff_esn.config import AssessmentConfig, CentralConfig, from_mapping, merged, nested
from tff_esn.features.source import Source
from tff_esn.metrics import scores_from
from tff_esn.runs.result import (
    HEADINGS,
    SHOWN_METRICS,
    Column,
    Number,
    ResultFigure,
    ResultTable,
    Row,
    printed_line,
    score_numbers,
)
from tff_esn.store.json_values import fingerprint
from tff_esn.store.tasks import Arrays, Task, packed, unpacked
from tff_esn.versions import version_of

#: Part of every key: raise it when a result changes.
_VERSION = 1


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

    def outcome(self, results: Mapping[str, Arrays]) -> tuple[list[ResultTable], list[ResultFigure]]:
        """A row a model, design and test set side by side."""
        columns = [Column(f"{part}.{metric}", HEADINGS[metric], part) for part in PARTS for metric in SHOWN_METRICS]
        printed = {f"{part}.{name}": value for part in PARTS for name, value in printed_assessment(part).items()}
        rows: dict[str, Row] = {}
        for preset in self._configs:
            found = [
                one for (own, _), task in self._tasks.items() if own == preset for one in unpacked(results[task.key])
            ]
            for model in dict.fromkeys(one["model"] for one in found):
                own = [one for one in found if one["model"] == model]
                line: list[Number | None] = []
                for part in PARTS:
                    numbers = score_numbers([scores_from(one["parts"][part]) for one in own])
                    chance = own[0]["seed"] is not None
                    line += [number if chance else replace(number, n=0) for number in numbers.values()]
                if model not in rows:
                    lines = printed_line(columns, printed) if model == PRINTED_MODEL else {}
                    rows[model] = Row(model, lines)
                rows[model].lines[preset] = line
        return [ResultTable("table-6-3", self.config.title, "model", columns, list(rows.values()))], []

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
