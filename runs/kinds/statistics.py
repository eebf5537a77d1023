"""Tables 5.1 to 5.3: statistics of the features at each stage of their preparation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

from pydantic.dataclasses import dataclass

from tff_esn.features.extraction import FEATURES
from tff_esn.features.study import DataSettings, Study
from tff_esn.parameters import STRICT
from tff_esn.runs.feature_statistics import STAGES, stage_statistics
from tff_esn.runs.kind import KINDS, RunKind
from tff_esn.runs.presets import PresetName
from tff_esn.runs.reported import TABLE_OF_STAGE, printed_statistics
from tff_esn.runs.result import ResultFigure
from tff_esn.store.json_values import fingerprint
from tff_esn.store.tasks import Arrays, Task, packed, unpacked
from tff_esn.tables import PRINTED, Column, Number, Row, Table

_COLUMNS = [Column(name, name) for name in ("min", "max", "mean", "var")]
_VERSION = 1


@dataclass(frozen=True, config=STRICT)
class StatisticsConfig:
    """Tables 5.1 to 5.3 of a study's features.

    Attributes:
        split: Split whose design set Tables 5.2 and 5.3 describe.
    """

    kind: Literal["statistics"]
    title: str
    presets: tuple[PresetName, ...] = ("thesis", "corrected")
    split: str = "thesis"


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


@KINDS.register
class StatisticsRun(RunKind):
    """The tables of a study, by preset; they do not depend on seeds."""

    name = "statistics"
    settings = StatisticsConfig

    @property
    def datasets(self) -> list[DataSettings]:
        """The features of each preset."""
        return list(self._data.values())

    @cached_property
    def parts(self) -> dict[str, Task]:
        """One for each preset."""
        return {
            preset: Task(
                f"statistics, {preset}",
                "statistics",
                fingerprint([_VERSION, data, self.study.key(data)]),
                partial(_statistics, self.study, data),
            )
            for preset, data in self._data.items()
        }

    def outcome(self, results: Mapping[str, Arrays]) -> tuple[list[Table], list[ResultFigure]]:
        """The three tables, each with the share of label 1."""
        found = {preset: unpacked(results[task.key]) for preset, task in self.parts.items()}
        return [statistics_table(stage, {preset: own[stage] for preset, own in found.items()}) for stage in STAGES], []

    @cached_property
    def _data(self) -> dict[str, DataSettings]:
        return {preset: DataSettings(features=preset, split=self.config.split) for preset in self.config.presets}


def _statistics(study: Study, data: DataSettings, scratch: Path) -> Arrays:
    features, split = study.prepare(data).load_all(), study.partition(data)
    return packed({stage: stage_statistics(stage, features, split, data.features) for stage in STAGES})
