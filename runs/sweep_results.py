"""Tables and figures of federated sweeps: Tables 6.4 and 6.5, Figures 6.3 to 6.13, appendix A, and the defences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from tff_esn.federated.algorithm import GradientAlgorithm
from tff_esn.metrics import Scores
from tff_esn.runs.kinds.federated import Cell, CellResult, SweepConfig, SweepFigure, SweepPivot, SweepTable, detection
from tff_esn.runs.presets import PRESETS
from tff_esn.runs.reported import reported
from tff_esn.runs.result import ResultFigure, Series
from tff_esn.tables import PRINTED, Column, Number, Row, Table, metric_headings, score_numbers, score_table

MAJORITY = "majority class"
#: Parts that tables and figures show.
SHOWN = ("validation", "test")
_LABELS = {
    "clients_per_round": "{} clients",
    "noise.standard_deviation": "noise {}",
    "reservoirs": "{} reservoirs",
    "factor": "lambda {}",
    "data.features.name": "features {}",
    "data.features.reading": "{} reading",
    "data.features.columns": "{}",
    "learning_rate": "learning rate {}",
}
_PRINTED_IN = {"same": "table_6_4_same_reservoir", "different": "table_6_5_different_reservoirs"}
#: What Tables 6.4 and 6.5 call "train" are scores of the validation subjects: a model that always predicts "not
#: stressed" has 0.8878 there, the number they print most often.
_PRINTED_COLUMNS = {"validation": "train_f1", "test": "test_f1"}
#: Settings that distinguish the rows of the thesis's tables.
_PRINTED_ROWS = ["algorithm", "server_learning_rate"]
#: Measures of the rejection of fakes, over all rounds.
_DETECTION = {"precision": "precision", "recall": "recall", "error": "clients off"}
_DIGITS = 4


@dataclass(frozen=True)
class SweepResults:
    """The results of a sweep.

    Attributes:
        config: Its configuration.
        results: The result of each cell.
        majority: Scores of the majority class, by preset and part.
        quick: As in `SweepRun`.
    """

    config: SweepConfig
    results: Mapping[Cell, CellResult]
    majority: Mapping[str, Mapping[str, Scores]]
    quick: bool = False

    @property
    def presets(self) -> tuple[str, ...]:
        """Those that were run."""
        found = {cell.preset for cell in self.results}
        return tuple(preset for preset in PRESETS if preset in found)

    def shown(self) -> tuple[list[Table], list[ResultFigure]]:
        """All tables and figures that the configuration names."""
        pivots = [self.pivot(pivot, metric) for pivot in self.config.pivots for metric in pivot.metrics]
        figures = [
            self.figure(figure, chosen)
            for figure in self.config.figures
            for chosen in product(*(self.config.grid[key] for key in figure.each))
        ]
        # The grid of a quick run may lack what a figure shows.
        return [*(self.table(table) for table in self.config.tables), *pivots], [one for one in figures if one.series]

    def table(self, table: SweepTable) -> Table:
        """The last round's scores: the majority class, then every setting."""
        detects = any(result.rejections[:, 1:].any() for result in self._chosen(table.where).values())
        scores: dict[str, dict[str, dict[str, list[Scores]]]] = {
            MAJORITY: {preset: {part: [own[part]] for part in SHOWN} for preset, own in self.majority.items()}
        }
        printed: dict[str, dict[str, float]] = {}
        detected: dict[tuple[str, str], list[Number | None]] = {}
        for preset in self.presets:
            for values, group in self._groups(table.rows, {**table.where, "preset": preset}).items():
                algorithm, results = next(iter(group)).algorithm, list(group.values())
                label = _label(algorithm, table.rows, values)
                scores.setdefault(label, {})[preset] = {
                    part: [result.scores[part] for result in results] for part in SHOWN
                }
                if table.rows == _PRINTED_ROWS:
                    printed.setdefault(label, self._printed(algorithm))
                    detected[label, PRINTED] = _printed_detection(algorithm)
                if detects:
                    detected[label, preset] = [_detected(results, name) for name in _DETECTION]
        made = score_table(table.name, table.title, scores, printed, {MAJORITY})
        if not detects:
            return made
        columns = [Column(f"judge.{name}", heading, "fakes rejected") for name, heading in _DETECTION.items()]
        nothing: list[Number | None] = [None] * len(columns)
        rows = [
            Row(row.label, {key: [*line, *detected.get((row.label, key), nothing)] for key, line in row.lines.items()})
            for row in made.rows
        ]
        return replace(made, columns=[*made.columns, *columns], rows=rows)

    def pivot(self, pivot: SweepPivot, metric: str) -> Table:
        """A metric of the last round on the test subjects, one setting down and others across."""
        across = list(product(*(self.config.grid[key] for key in pivot.columns)))
        digits = 2 if metric in _DETECTION else 3
        columns = [Column("|".join(map(_text, own)), _text(own[-1]), _text(own[0]), digits) for own in across]
        rows = []
        for value in self.config.grid[pivot.rows]:
            lines = {}
            for preset in self.presets:
                where = {**pivot.where, "preset": preset, pivot.rows: value}
                groups = [self._chosen({**where, **dict(zip(pivot.columns, own))}) for own in across]
                lines[preset] = [_summary(list(group.values()), metric) for group in groups]
            rows.append(Row(_text(value), lines))
        title = f"{pivot.title}: {metric_headings().get(metric, metric)}"
        return Table(f"{pivot.name}-{metric.replace('_', '-')}", title, pivot.rows.split(".")[0], columns, rows)

    def figure(self, figure: SweepFigure, chosen: Sequence[Any] = ()) -> ResultFigure:
        """Accuracy over rounds, validation above test, a column for each value of the figure's setting.

        Args:
            figure: The figure.
            chosen: Values of the settings for which there is a figure each.
        """
        name = "-".join([figure.name, *map(str, chosen)])
        title = ", ".join([figure.title, *map(str, chosen)])
        if figure.kind == "rejections":
            return self._rejections_figure(figure, name, title)
        series: list[Series] = []
        across = self.config.grid[figure.columns]
        for part, column, preset in product(SHOWN, across, self.presets):
            where = {**figure.where, **dict(zip(figure.each, chosen)), "preset": preset, figure.columns: column}
            panel = f"{part}, {_LABELS.get(figure.columns, '{}').format(_text(column))}"
            groups = self._groups(figure.lines, where)
            for values, group in groups.items():
                rounds = next(iter(group.values())).rounds
                curves = np.stack([result.curve(part, "accuracy") for result in group.values()])
                label = _label(next(iter(group)).algorithm, figure.lines, values)
                series.append(band(panel, label, preset, rounds, curves))
            if groups:
                ends = [0.0, float(rounds[-1])]
                levels = {MAJORITY: self.majority[preset][part].accuracy}
                if part == "test":
                    levels["central, printed"] = reported()["thesis"]["table_6_3"]["accuracy"]["TS"]
                series += [
                    Series(panel, label, ends, [round(level, _DIGITS)] * 2, preset, "level")
                    for label, level in levels.items()
                ]
        return ResultFigure(name, title, "round", "accuracy", series, len(across))

    def _rejections_figure(self, figure: SweepFigure, name: str, title: str) -> ResultFigure:
        """Accuracy of the first seed, and its numbers of accepted and of honest clients of each round."""
        series: list[Series] = []
        above, below = "test accuracy", "clients of a round"
        for preset in self.presets:
            result = next(iter(self._chosen({**figure.where, "preset": preset}).values()), None)
            if result is None:
                continue
            drawn, fake, rejected, _ = result.rejections.T
            rounds = np.arange(1, len(drawn) + 1)
            series += [
                band(above, "accuracy", preset, result.rounds, result.curve("test", "accuracy")[None]),
                Series(below, "really valid", rounds.tolist(), (drawn - fake).tolist(), preset, "bar"),
                Series(below, "accepted", rounds.tolist(), (drawn - rejected).tolist(), preset, "step"),
            ]
        return ResultFigure(name, title, "round", "", series, 1, y_range=None)

    def _printed(self, algorithm: GradientAlgorithm) -> dict[str, float]:
        """By column, what Tables 6.4 and 6.5 print; also for a quick run the numbers after all rounds."""
        rounds = reported()["thesis"]["federated"]["rounds"] if self.quick else algorithm.rounds
        return printed_scores(replace(algorithm, rounds=rounds))

    def _groups(self, keys: Sequence[str], where: Mapping[str, Any]) -> dict[tuple, dict[Cell, CellResult]]:
        """The runs that `where` chooses, by their values of `keys`, in the grid's order."""
        groups: dict[tuple, dict[Cell, CellResult]] = {}
        for values in product(*(self.config.grid[key] for key in keys)):
            group = self._chosen({**where, **dict(zip(keys, values))})
            if group:
                groups[values] = group
        return groups

    def _chosen(self, where: Mapping[str, Any]) -> dict[Cell, CellResult]:
        return {
            cell: result
            for cell, result in self.results.items()
            if all(_text(cell.setting(key)) == _text(value) for key, value in where.items())
        }


def band(panel: str, name: str, preset: str, x: np.ndarray, values: np.ndarray) -> Series:
    """The mean of several curves `(seeds, n)`, with the least and the largest."""
    rows = [values.mean(axis=0)] + ([values.min(axis=0), values.max(axis=0)] if len(values) > 1 else [])
    y, *limits = (np.round(row, _DIGITS).tolist() for row in rows)
    return Series(panel, name, x.tolist(), y, preset, "line", *limits)


def model_name(algorithm: GradientAlgorithm) -> str:
    """As in Tables 6.4 and 6.5: the algorithm with the server's learning rate, and the defence."""
    defence = algorithm.defence
    suffix = "" if defence is None else {"discriminator": "+Disc"}.get(defence.name, f"+{defence.name}")
    return f"{algorithm.label}-{algorithm.server_learning_rate}{suffix}"


def printed_scores(algorithm: GradientAlgorithm) -> dict[str, float]:
    """What Table 6.4 or 6.5 prints after 78 rounds, by part and metric: its micro-averaged F1 is the accuracy."""
    thesis = reported()["thesis"]
    if algorithm.rounds != thesis["federated"]["rounds"]:
        return {}
    row = thesis[_PRINTED_IN[algorithm.reservoirs]].get(model_name(algorithm), {})
    return {f"{part}.accuracy": row[column] for part, column in _PRINTED_COLUMNS.items() if column in row}


def _printed_detection(algorithm: GradientAlgorithm) -> list[Number | None]:
    """What Figure 6.13 prints about the model that it is of."""
    if (model_name(algorithm), algorithm.reservoirs) != ("FedAvg-1.0+Disc", "different"):
        return [None] * len(_DETECTION)
    error = Number(reported()["thesis"]["discriminator"]["fig_6_13_mae"], n=0)
    return [error if name == "error" else None for name in _DETECTION]


def _detected(results: Sequence[CellResult], name: str) -> Number:
    """The measures of each seed, then over seeds; a defence that never rejects has no precision."""
    values = [detection([result])[name] for result in results]
    return Number.of(values) if np.isfinite(values).all() else Number(n=len(values))


def _summary(results: Sequence[CellResult], metric: str) -> Number | None:
    if not results:
        return None
    if metric in _DETECTION:
        return _detected(results, metric)
    if metric == "seconds":
        return Number(float(np.median([result.seconds for result in results])), n=len(results))
    return score_numbers([result.scores["test"] for result in results])[metric]


def _label(algorithm: GradientAlgorithm, keys: Sequence[str], values: Sequence[Any]) -> str:
    """A name for a run by the settings that distinguish it."""
    named = dict(zip(keys, values))
    parts = []
    if "server_learning_rate" in named and "algorithm" in named:
        parts.append(model_name(algorithm))
    elif "algorithm" in named:
        parts.append(algorithm.label)
    others = (key for key in keys if key not in ("algorithm", "server_learning_rate"))
    parts += [_LABELS.get(key, key + " {}").format(_text(named[key])) for key in others]
    return ", ".join(parts)


def _text(value: Any) -> str:
    return "+".join(value) if isinstance(value, (list, tuple)) else str(value)
