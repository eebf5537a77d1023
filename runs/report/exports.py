"""Tables as files and for the terminal: CSV for machines, Markdown and LaTeX for documents."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from tff_esn.runs.report.summary import PRESETS, beside, came_out, headlines
from tff_esn.runs.result import PRINTED, Column, ResultTable, RunResult, number_text
from tff_esn.store.files import atomic_write

GENERATED = "Generated subjects: these are not the study's numbers."
_SPECIAL = {"%": r"\%", "_": r"\_", "&": r"\&", "#": r"\#", "±": r"$\pm$", "†": r"\dag{}", "τ": r"$\tau$"}
_SPECIAL.update({"▲": r"$\blacktriangle$", "▼": r"$\blacktriangledown$", "≈": r"$\approx$", "≠": r"$\neq$"})


def notes_of(result: RunResult, table: ResultTable) -> list[str]:
    """What must be said below a table."""
    single = any(
        cell is not None and cell.single_class for row in table.rows for line in row.lines.values() for cell in line
    )
    notes = [GENERATED] if result.provenance.generated else []
    notes += table.notes
    return [*notes, "† answers with a single class in some seed."] if single else notes


def cells_of(table: ResultTable) -> list[list[str]]:
    """The table as text: headings, then a line for each row and source, ours with a sign where a number is printed."""
    lines = [[table.corner, "", *(_heading(column) for column in table.columns)]]
    for row in table.rows:
        printed = row.lines.get(PRINTED)
        for source in table.sources:
            if source not in row.lines:
                continue
            others = printed if printed and source != PRINTED else [None] * len(table.columns)
            texts = [beside(*cell) for cell in zip(row.lines[source], others, table.columns)]
            lines.append([row.label, source, *texts])
    return lines


def to_markdown(table: ResultTable) -> str:
    """For a document."""
    head, *lines = cells_of(table)
    rule = ["---", "---", *("---:" for _ in table.columns)]
    return (
        "\n".join(
            f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in (head, rule, *lines)
        )
        + "\n"
    )


def to_latex(table: ResultTable) -> str:
    """For a document, with booktabs and amssymb."""
    head, *lines = ([_latex(cell) for cell in line] for line in cells_of(table))
    body = [f"{' & '.join(line)} \\\\" for line in lines]
    return "\n".join(
        [
            f"\\begin{{tabular}}{{ll{'r' * len(table.columns)}}}",
            "\\toprule",
            f"{' & '.join(head)} \\\\",
            "\\midrule",
            *body,
            "\\bottomrule",
            "\\end{tabular}",
            "",
        ]
    )


def to_csv(table: ResultTable) -> str:
    """For machines: a record for each number, with all digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["row", "source", "column", "mean", "std", "seeds", "single_class_seeds", "text"])
    for row in table.rows:
        for source, line in row.lines.items():
            for cell, column in zip(line, table.columns):
                if cell is not None:
                    own = [cell.mean, cell.std, cell.n, cell.single_class, cell.text]
                    writer.writerow([row.label, source, column.name, *own])
    return text.getvalue()


def write_table(table: ResultTable, folder: Path) -> None:
    """Writes all three."""
    for ending, text in (("csv", to_csv(table)), ("md", to_markdown(table)), ("tex", to_latex(table))):
        with atomic_write(folder / f"{table.name}.{ending}") as file:
            file.write(text.encode())


def summary_table(results: Sequence[RunResult]) -> Table:
    """The runs' headlines, for the terminal."""
    made = Table(
        title="Claimed and come out",
        title_justify="left",
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for heading in ("Where", "Number", "Printed", "thesis", "corrected"):
        made.add_column(heading, justify="left" if heading in ("Where", "Number") else "right")
    for result in results:
        where = escape(", ".join(result.about.covers) or result.title)
        for line in headlines(result):
            ours = (beside(line.ours.get(preset), line.printed, line.column) for preset in PRESETS)
            made.add_row(where, escape(line.claim), number_text(line.printed, line.column), *map(escape, ours))
            where = ""
        if where:
            made.add_row(where, came_out([result]))
    return made


def _heading(column: Column) -> str:
    return f"{column.group}: {column.heading}" if column.group else column.heading


def _latex(text: str) -> str:
    return "".join(_SPECIAL.get(letter, letter) for letter in text)
