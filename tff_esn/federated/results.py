"""A sweep's results as tables, curves and figures, beside what the thesis prints."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from tff_esn.config import FederatedConfig, SweepConfig, SweepFigure, SweepPivot, SweepTable
from tff_esn.evaluation.figures import Line, Panel
from tff_esn.evaluation.metrics import METRICS, Scores, spread
from tff_esn.evaluation.reported import reported
from tff_esn.evaluation.score_tables import ScoreRow
from tff_esn.federated.report import NAMES, majority_of, model_name, printed_scores
from tff_esn.federated.rounds import PARTS, Evaluator
from tff_esn.federated.sweep import Cell, CellResult, Source, detection

#: Parts that tables and figures show; the training clients are in the curves.
SHOWN = ("validation", "test")
_LABELS = {
    "clients_per_round": "{} clients",
    "noise.standard_deviation": "noise {}",
    "reservoirs": "{} reservoirs",
    "fedcurv.factor": "lambda {}",
}
#: What tells the rows of the thesis's tables apart.
_PRINTED_ROWS = ["algorithm", "server_learning_rate"]
#: Numbers of a pivot that tell of the clients' judges.
DETECTION = ("precision", "recall", "error")
_MAJORITY, _CENTRAL = "majority class", "central, printed"


@dataclass(frozen=True)
class SweepResults:
    """What came out of a sweep.

    Attributes:
        sweep: What was run.
        results: Of each run.
        majority: Scores of the majority class, by preset and part.
    """

    sweep: SweepConfig
    results: Mapping[Cell, CellResult]
    majority: Mapping[str, Mapping[str, Scores]]

    @property
    def presets(self) -> tuple[str, ...]:
        """Those that were run."""
        return tuple(dict.fromkeys(cell.config.preset for cell in self.results))

    def table(self, table: SweepTable, preset: str) -> list[ScoreRow]:
        """The rows of a table: the majority class, then every setting, all seeds in a row."""
        groups = self._groups(table.rows, {**table.where, "preset": preset})
        rows = [ScoreRow(_MAJORITY, part, [self.majority[preset][part]]) for part in SHOWN]
        for part, (values, group) in product(SHOWN, groups.items()):
            scores = [result.scores[part] for result in group.values()]
            config = next(iter(group)).config
            printed = printed_scores(config, part) if table.rows == _PRINTED_ROWS else {}
            rows.append(ScoreRow(_label(config, table.rows, values), part, scores, printed))
        return rows

    def pivot(self, pivot: SweepPivot, preset: str, metric: str) -> list[list[str]]:
        """A table as text, headings first: mean and deviation over seeds; of `DETECTION`, over all rounds."""
        columns = list(product(*(self.sweep.grid[key] for key in pivot.columns)))
        lines = [[pivot.rows.split(".")[0], *(" ".join(map(_text, values)) for values in columns)]]
        for value in self.sweep.grid[pivot.rows]:
            cells = [_text(value)]
            for values in columns:
                wanted = {**pivot.where, "preset": preset, pivot.rows: value, **dict(zip(pivot.columns, values))}
                cells.append(_summary(self._chosen(wanted), metric))
            lines.append(cells)
        return lines

    def judged(self, figure: SweepFigure, preset: str) -> CellResult:
        """The run of the first seed that a figure of judged clients shows."""
        return next(iter(self._chosen({**figure.where, "preset": preset}).values()))

    def detections(self, table: SweepTable, preset: str) -> dict[str, dict[str, float]]:
        """How well fakes were told from others, by row of a table; empty where nobody judged."""
        groups = self._groups(table.rows, {**table.where, "preset": preset})
        return {
            _label(next(iter(group)).config, table.rows, values): detection(list(group.values()))
            for values, group in groups.items()
            if any(result.judged[:, 1:].any() for result in group.values())
        }

    def panels(self, figure: SweepFigure, preset: str, chosen: Sequence[Any]) -> list[list[Panel]]:
        """The panels of a figure: a row for each part, a column for each value of the figure's setting.

        Args:
            figure: The figure.
            preset: The preset.
            chosen: Values of the settings for which there is a figure each.
        """
        where = {**figure.where, **dict(zip(figure.each, chosen)), "preset": preset}
        return [
            [
                Panel(
                    f"{part}, {_LABELS.get(figure.columns, '{}').format(_text(column))}",
                    self._lines(figure, {**where, figure.columns: column}, part),
                    self._levels(preset, part),
                )
                for column in self.sweep.grid[figure.columns]
            ]
            for part in SHOWN
        ]

    def figures(self, figure: SweepFigure) -> list[tuple[Any, ...]]:
        """The values for which there is a figure each; one empty tuple where there is only one figure."""
        return list(product(*(self.sweep.grid[key] for key in figure.each)))

    def curves_csv(self) -> str:
        """Every run, round and part as a line."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        keys = list(self.sweep.grid)
        writer.writerow([*keys, "seed", "round", "part", *METRICS, "single_class"])
        for cell, result in self.results.items():
            values = [_text(setting(cell.config, key)) for key in keys]
            for i, j in product(range(len(result.rounds)), range(len(PARTS))):
                numbers = (f"{value:.6g}" for value in result.curves[i, j])
                single = int(result.single_class[i, j])
                writer.writerow([*values, cell.seed, result.rounds[i], PARTS[j], *numbers, single])
        return text.getvalue()

    def _lines(self, figure: SweepFigure, where: Mapping[str, Any], part: str) -> dict[str, Line]:
        lines = {}
        for values, group in self._groups(figure.lines, where).items():
            rounds = next(iter(group.values())).rounds
            curves = np.stack([result.curve(part, "accuracy") for result in group.values()])
            lines[_label(next(iter(group)).config, figure.lines, values)] = Line(rounds, curves)
        return lines

    def _levels(self, preset: str, part: str) -> dict[str, float]:
        levels = {_MAJORITY: self.majority[preset][part].accuracy}
        if part == "test":
            levels[_CENTRAL] = reported()["thesis"]["table_6_3"]["accuracy"]["TS"]
        return levels

    def _groups(self, keys: Sequence[str], where: Mapping[str, Any]) -> dict[tuple, dict[Cell, CellResult]]:
        """The runs that `where` chooses, by their values of `keys`, in the grid's order."""
        groups: dict[tuple, dict[Cell, CellResult]] = {}
        for values in product(*(self.sweep.grid[key] for key in keys)):
            group = self._chosen({**where, **dict(zip(keys, values))})
            if group:
                groups[values] = group
        return groups

    def _chosen(self, where: Mapping[str, Any]) -> dict[Cell, CellResult]:
        return {
            cell: result
            for cell, result in self.results.items()
            if all(_text(setting(cell.config, key)) == _text(value) for key, value in where.items())
        }


def majority_scores(cells: Sequence[Cell], source: Source) -> dict[str, dict[str, Scores]]:
    """Scores of the class that most training examples have, by preset and part."""
    scores: dict[str, dict[str, Scores]] = {}
    for preset, config in {cell.config.preset: cell.config.inputs for cell in cells}.items():
        inputs, _ = source.inputs(config)
        scores[preset] = majority_of(Evaluator(inputs.features(), inputs.split), len(inputs.task.classes))
    return scores


def setting(config: FederatedConfig, name: str) -> Any:
    """A setting by its name with dots; None below what there is none of."""
    value: Any = config
    for key in name.split("."):
        value = getattr(value, key, None)
    return value


def _summary(group: Mapping[Cell, CellResult], metric: str) -> str:
    results = list(group.values())
    if not results:
        return ""
    if metric in DETECTION:
        value = detection(results)[metric]
        return "" if np.isnan(value) else f"{value:.2f}"
    if metric == "seconds":
        return f"{np.median([result.seconds for result in results]):.3f}"
    own = spread([getattr(result.scores["test"], metric) for result in results])
    mark = "†" if any(result.scores["test"].single_class is not None for result in results) else ""
    return f"{own.mean:.3f}{mark}" + ("" if np.isnan(own.std) else f" ± {own.std:.3f}")


def _label(config: FederatedConfig, keys: Sequence[str], values: Sequence[Any]) -> str:
    """A name for a run by the settings that tell it apart."""
    named = dict(zip(keys, values))
    parts = []
    if "server_learning_rate" in named and "algorithm" in named:
        parts.append(model_name(config))
    elif "algorithm" in named:
        parts.append(NAMES[config.algorithm])
    others = (key for key in keys if key not in ("algorithm", "server_learning_rate"))
    parts += [_LABELS.get(key, key + " {}").format(_text(named[key])) for key in others]
    return ", ".join(parts)


def _text(value: Any) -> str:
    return "+".join(value) if isinstance(value, (list, tuple)) else str(value)
