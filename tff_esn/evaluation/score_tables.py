"""Scores of several models side by side: for the terminal, for a document, and for machines."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from tff_esn.errors import ConfigError
from tff_esn.metrics import METRICS, Scores, Spread, spread_of
from tff_esn.store.files import atomic_write

_HEADINGS = {
    "accuracy": "Acc.",
    "f1_micro": "F1 micro",
    "balanced_accuracy": "Bal. acc.",
    "auroc": "AUROC",
    "average_precision": "Avg. prec.",
    "mcc": "MCC",
    "f1_stress": "F1 stress",
}
_UNDEFINED = "n/a"
_MARK = "†"
_NUMBER_WIDTH = len("±0.0000")


@dataclass(frozen=True)
class ScoreRow:
    """A model on a part of the data.

    Attributes:
        model: Name of the model.
        part: Name of the part, such as `test`.
        scores: One for each seed.
        printed: What a document prints for it, by metric.
    """

    model: str
    part: str
    scores: Sequence[Scores]
    printed: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.scores:
            raise ConfigError(f"{self.title}: no scores; expected one for each seed")
        _check(self.printed, f"{self.title}, printed")

    @property
    def title(self) -> str:
        """The model and the part, for messages."""
        return f"{self.model}, {self.part}"

    @property
    def single_class_seeds(self) -> int:
        """In how many seeds the model gives the same answer to every example."""
        return sum(one.single_class is not None for one in self.scores)

    @property
    def marked_model(self) -> str:
        """The model's name, with a mark if it answers with a single class in some seed."""
        return f"{self.model} {_MARK}" if self.single_class_seeds else self.model


def score_table(title: str, rows: Sequence[ScoreRow], metrics: Sequence[str] = METRICS) -> Table:
    """Mean and standard deviation over seeds, with what a document prints in the line below.

    A mark and a footnote tell of models that answer with a single class.
    """
    _check(metrics, "metrics")
    # All seven metrics fit a terminal of 80 columns: deviations stand below the means, and no line parts columns.
    table = Table(title=escape(title), title_justify="left", caption_justify="left", box=SIMPLE_HEAD, padding=(0, 0))
    table.add_column("Model", overflow="fold")
    table.add_column("Part", overflow="fold")
    for metric in metrics:
        table.add_column(_heading(metric, rows), justify="right", min_width=_NUMBER_WIDTH)
    for row in rows:
        spreads = spread_of(row.scores)
        cells = (_text(spreads[metric], "\n±") for metric in metrics)
        table.add_row(escape(row.marked_model), escape(row.part), *cells, end_section=not row.printed)
        if row.printed:
            printed = (f"[dim]{_printed(row, metric)}" for metric in metrics)
            table.add_row("[dim]printed", "", *printed, end_section=True)
    table.caption = escape("\n".join(_footnotes(rows))) or None
    return table


def to_markdown(rows: Sequence[ScoreRow], metrics: Sequence[str] = METRICS) -> str:
    """The same table for a document."""
    _check(metrics, "metrics")
    lines = [
        _markdown_line(["Model", "Part", *(_heading(metric, rows) for metric in metrics)]),
        _markdown_line(["---", "---", *("---:" for _ in metrics)]),
    ]
    for row in rows:
        spreads = spread_of(row.scores)
        cells = (_text(spreads[metric], " ± ") for metric in metrics)
        lines.append(_markdown_line([row.marked_model, row.part, *cells]))
        if row.printed:
            lines.append(_markdown_line(["printed", "", *(_printed(row, metric) for metric in metrics)]))
    # A list, since a document would run plain lines together.
    notes = [f"- {note}" for note in _footnotes(rows)]
    return "\n".join([*lines, *([""] if notes else []), *notes]) + "\n"


def to_records(rows: Sequence[ScoreRow]) -> list[dict[str, Any]]:
    """One flat record for each row and metric, with all digits; None where a number is undefined or not printed."""
    records = []
    for row in rows:
        for metric, values in spread_of(row.scores).items():
            numbers = {name: None if math.isnan(value) else value for name, value in asdict(values).items()}
            records.append(
                {
                    "model": row.model,
                    "part": row.part,
                    "metric": metric,
                    **numbers,
                    "printed": row.printed.get(metric),
                    "single_class_seeds": row.single_class_seeds,
                }
            )
    return records


def to_csv(rows: Sequence[ScoreRow], path: Path) -> None:
    """Writes the records of `to_records` as CSV, whole or not at all."""
    if not rows:
        raise ConfigError(f"{path}: no rows to write; expected at least one")
    records = to_records(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    with atomic_write(path) as file:
        file.write(text.getvalue().encode())


def _check(metrics: Sequence[str] | Mapping[str, float], source: str) -> None:
    unknown = [metric for metric in metrics if metric not in METRICS]
    if unknown:
        raise ConfigError(f"{source}: {', '.join(unknown)}; expected some of {', '.join(METRICS)}")


def _heading(metric: str, rows: Sequence[ScoreRow]) -> str:
    more_classes = any(len(one.confusion) > 2 for row in rows for one in row.scores)
    return "F1 macro" if metric == "f1_stress" and more_classes else _HEADINGS[metric]


def _text(values: Spread, between: str) -> str:
    if math.isnan(values.mean):
        return _UNDEFINED
    return f"{values.mean:.4f}" + ("" if math.isnan(values.std) else f"{between}{values.std:.4f}")


def _printed(row: ScoreRow, metric: str) -> str:
    return f"{row.printed[metric]:.4f}" if metric in row.printed else ""


def _footnotes(rows: Sequence[ScoreRow]) -> list[str]:
    return [
        f"{_MARK} {row.title}: answers with a single class in {row.single_class_seeds} of {len(row.scores)} seeds"
        for row in rows
        if row.single_class_seeds
    ]


def _markdown_line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
