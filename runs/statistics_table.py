"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from tff_esn.runs.feature_statistics import StageStatistics

_COLUMNS = ("min", "max", "mean", "var")


def statistics_table(title: str, statistics: StageStatistics, printed: Mapping[str, Any], generated: bool) -> Table:
    """Statistics of each feature, with the printed number in the line below its own."""
    table = Table(title=title, title_justify="left", caption_justify="left")
    table.add_column("Feature")
    for column in _COLUMNS:
        table.add_column(column.capitalize(), justify="right")
    for name, row in statistics.features.items():
        values = {column: f"{getattr(row, column):.4f}" for column in _COLUMNS}
        reference = {column: f"{printed[name][column]:.4f}" for column in _COLUMNS}
        same = ("green" if values[column] == reference[column] else "" for column in _COLUMNS)
        table.add_row(
            name, *(f"[{style}]{value}[/]" if style else value for value, style in zip(values.values(), same))
        )
        table.add_row("[dim]  printed", *(f"[dim]{value}" for value in reference.values()), end_section=True)
    label = f"label 1: {statistics.label_1_percent:.2f} % (printed {printed['label_1_percent']:.2f} %)"
    table.caption = f"{label}\n{len(statistics.subjects)} subjects, {statistics.samples} samples"
    if generated:
        table.caption += "\n[yellow]Generated subjects: these are not the study's numbers."
    return table
