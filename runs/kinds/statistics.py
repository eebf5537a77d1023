"""Tables 5.1 to 5.3: statistics of the features at each stage of their preparation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from tff_esn.config import FEATURES, InputConfig, StatisticsConfig
from tff_esn.features.source import Source
from tff_esn.presets import PRESETS
from tff_esn.runs.feature_statistics import STAGES, stage_statistics
from tff_esn.runs.reported import TABLE_OF_STAGE, printed_statistics
from tff_esn.runs.result import ResultFigure
from tff_esn.store.json_values import fingerprint
from tff_esn.store.tasks import Arrays, Task, packed, unpacked
from tff_esn.tables import PRINTED, Column, Number, Row, Table

_COLUMNS = [Column(name, name) for name in ("min", "max", "mean", "var")]
_VERSION = 1


def statistics_table(stage: str, found: Mapping[str, Mapping[str, Any]]) -> Table:
    """Table 5.1, 5.2 or 5.3: a row per feature, and the share of label 1.

    Args:
        stage: One of `STAGES`.
        found: By preset, the fields of its `StageStatistics`.
    """
    printed, number = printed_statistics(stage), TABLE_OF_STAGE[stage].replace("table_", "").replace("_", ".")
    rows = []
    for feature in FEATURES:
        lines: dict[str, list[Number | None]] = {
            PRINTED: [Number(printed[feature][column.name], n=0) for column in _COLUMNS]
        }
        for preset, own in found.items():
            lines[preset] = [Number(own["features"][feature][column.name], n=0) for column in _COLUMNS]
        rows.append(Row(feature, lines))
    shares = {PRINTED: printed["label_1_percent"]}
    shares.update({preset: round(own["label_1_percent"], 2) for preset, own in found.items()})
    rows.append(Row("label 1, %", {name: [None, None, Number(own, n=0), None] for name, own in shares.items()}))
    counts = [f"{preset}: {len(own['subjects'])} subjects, {own['samples']:,} samples" for preset, own in found.items()]
    title, notes = f"Table {number}: {stage} features", ["; ".join(counts) + "."]
    return Table(f"table-{number.replace('.', '-')}", title, "feature", _COLUMNS, rows, notes)


@dataclass(frozen=True)
class StatisticsRun:
    """The tables of a study, by preset; `seeds` play no part in them."""

    config: StatisticsConfig
    source: Source
    seeds: Sequence[int]

    def prepare(self, jobs: int | None) -> None:
        """Makes the features."""
        for inputs in self._inputs.values():
            self.source.prepare(inputs, jobs)

    def tasks(self) -> list[Task]:
        """One for each preset."""
        return list(self._tasks.values())

    def outcome(self, results: Mapping[str, Arrays]) -> tuple[list[Table], list[ResultFigure]]:
        """The three tables, each with the share of label 1."""
        found = {preset: unpacked(results[task.key]) for preset, task in self._tasks.items()}
        return [statistics_table(stage, {preset: own[stage] for preset, own in found.items()}) for stage in STAGES], []

    @cached_property
    def _inputs(self) -> dict[str, InputConfig]:
        return {preset: InputConfig(preset=preset, split=self.config.split) for preset in self.config.presets}

    @cached_property
    def _tasks(self) -> dict[str, Task]:
        return {
            preset: Task(
                f"statistics, {preset}",
                "statistics",
                fingerprint([_VERSION, inputs, self.source.content(inputs)]),
                partial(_statistics, self.source, inputs),
            )
            for preset, inputs in self._inputs.items()
        }


def _statistics(source: Source, inputs: InputConfig, scratch: Path) -> Arrays:
    features, split = source.prepare(inputs).load_all(), source.split(inputs)
    return packed({stage: stage_statistics(stage, features, split, PRESETS[inputs.preset]) for stage in STAGES})
