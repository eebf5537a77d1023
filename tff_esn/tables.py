"""Tables: one type, and a renderer for each target: terminal, Markdown, LaTeX, HTML and CSV."""

from __future__ import annotations

import csv
import html
import io
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import groupby
from types import MappingProxyType
from typing import Literal, Optional

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from tff_esn.console import size_text
from tff_esn.metrics import METRICS, Scores, metric_names, spread

_strict = ConfigDict(extra="forbid")
#: The line of a row that a document prints; the others are presets.
PRINTED = "printed"
#: The only line of the rows of a table that compares nothing.
PLAIN = ""
_ORDER = (PRINTED, "thesis", "corrected")
#: A printed number is within the spread if it is at most this many standard deviations from our mean.
DEVIATIONS = 2.0
Agreement = Literal["same", "within", "above", "below", "other", "unknown"]
#: How a number of ours compares with the printed one, as a sign and in words.
SIGNS: dict[Agreement, str] = {"same": "=", "within": "≈", "above": "▲", "below": "▼", "other": "≠", "unknown": ""}
WORDS: dict[Agreement, str] = {
    "same": "as printed",
    "within": "within the spread",
    "above": "above the printed number, beyond the spread",
    "below": "below the printed number, beyond the spread",
    "other": "other than printed",
    "unknown": "spread not known",
}
SINGLE_CLASS = "predicts one class only"
_MARK = "†"
#: Spaces between two columns of the terminal.
_GAP = 2
#: Labels that are longer are folded where numbers need the room.
_LABEL_WIDTH = 24
_LATEX = {"%": r"\%", "_": r"\_", "&": r"\&", "#": r"\#", "±": r"$\pm$", "†": r"\dag{}", "τ": r"$\tau$"}
_LATEX.update({"▲": r"$\blacktriangle$", "▼": r"$\blacktriangledown$", "≈": r"$\approx$", "≠": r"$\neq$"})
_EMPTY: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, config=_strict)
class Number:
    """A cell of a table.

    Attributes:
        mean: Over seeds; None where it is not defined.
        std: Standard deviation over seeds.
        n: Number of seeds; 0 for a number that no seed changes.
        single_class: Number of seeds in which the model predicts one class only.
        text: Text of a cell that is not a number.
    """

    mean: Optional[float] = None
    std: Optional[float] = None
    n: int = 1
    single_class: int = 0
    text: Optional[str] = None

    @classmethod
    def of(cls, values: Sequence[float], single_class: int = 0) -> Number:
        """The mean and standard deviation of one value for each seed."""
        found = spread(values)
        mean, std = (None if math.isnan(value) else value for value in (found.mean, found.std))
        return cls(mean, std, found.n, single_class)


@dataclass(frozen=True, config=_strict)
class Column:
    """A column of a table.

    Attributes:
        name: Name by which headlines refer to it.
        heading: Its heading.
        group: Heading of a group of columns.
        digits: Digits after the point, as the documents print them.
        kind: What its cells are: plain numbers, `bytes`, or `text`, which is aligned left and may be wrapped.
    """

    name: str
    heading: str
    group: str = ""
    digits: int = 4
    kind: Literal["plain", "bytes", "text"] = "plain"


@dataclass(frozen=True, config=_strict)
class Row:
    """A row of a table: for `printed` and each preset, a line of cells."""

    label: str
    lines: dict[str, list[Optional[Number]]]


@dataclass(frozen=True, config=_strict)
class Table:
    """A table.

    Attributes:
        name: Name of its files.
        title: What the documents call it.
        corner: Heading of the rows' labels.
        columns: Its columns.
        rows: Its rows.
        notes: Printed below it.
    """

    name: str
    title: str
    corner: str
    columns: list[Column]
    rows: list[Row]
    notes: list[str] = field(default_factory=list)

    @property
    def sources(self) -> list[str]:
        """The lines that some row has, the printed one first."""
        found = dict.fromkeys(source for row in self.rows for source in row.lines)
        return sorted(found, key=lambda source: _ORDER.index(source) if source in _ORDER else len(_ORDER))

    @property
    def has_single_class(self) -> bool:
        """Whether some model predicts one class only, in some seed."""
        lines = (line for row in self.rows for line in row.lines.values())
        return any(cell is not None and cell.single_class for line in lines for cell in line)

    def cell(self, row: str, source: str, column: str) -> Number | None:
        """A cell by its names, or None where there is none."""
        position = next((i for i, one in enumerate(self.columns) if one.name == column), None)
        lines = next((one.lines for one in self.rows if one.label == row), {})
        return None if position is None or source not in lines else lines[source][position]

    def compared(self, row: Row) -> Iterator[tuple[str, list[tuple[Number | None, Number | None, Column]]]]:
        """The lines of a row: each cell with the printed one that it is compared with, and its column."""
        nothing: list[Number | None] = [None] * len(self.columns)
        for source in self.sources:
            if source in row.lines:
                printed = nothing if source == PRINTED else row.lines.get(PRINTED, nothing)
                yield source, list(zip(row.lines[source], printed, self.columns))

    def agreements(self) -> list[Agreement]:
        """How our numbers compare with the printed ones; those of the `thesis` preset where there is one."""
        ours = "thesis" if "thesis" in self.sources else "corrected"
        return [
            agreement(own, printed, column.digits)
            for row in self.rows
            for source, cells in self.compared(row)
            if source == ours
            for own, printed, column in cells
            if own is not None and printed is not None
        ]


def text_table(
    title: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    notes: Sequence[str] = (),
    numeric: Collection[str] = (),
) -> Table:
    """A table of texts.

    Args:
        title: Its title.
        headings: Of the labels and of the other columns.
        rows: A label and the other cells each.
        notes: Printed below it.
        numeric: Headings of the columns that are aligned right and never wrapped.
    """
    corner, *others = headings
    columns = [Column(name, name, kind="plain" if name in numeric else "text") for name in others]
    made = [Row(str(label), {PLAIN: [Number(text=str(cell), n=0) for cell in cells]}) for label, *cells in rows]
    return Table("", title, corner, columns, made, list(notes))


def score_table(
    name: str,
    title: str,
    scores: Mapping[str, Mapping[str, Mapping[str, Sequence[Scores]]]],
    printed: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
    constant: Collection[str] = (),
) -> Table:
    """Scores of models: a row per model, the metrics of each part of the data across.

    Args:
        name: Name of its files.
        title: Its title.
        scores: By model, preset and part, one for each seed.
        printed: By model and column, such as `test.accuracy`, what a document prints.
        constant: Models that no seed changes.
    """
    found = [own for presets in scores.values() for parts in presets.values() for own in parts.items()]
    more_classes = any(len(one.confusion) > 2 for _, own in found for one in own)
    headings = metric_headings(more_classes)
    parts = list(dict.fromkeys(part for part, _ in found))
    columns = [Column(f"{part}.{metric}", heading, part) for part in parts for metric, heading in headings.items()]
    rows = []
    for model, presets in scores.items():
        known = printed.get(model, {})
        reference = [Number(known[column.name], n=0) if column.name in known else None for column in columns]
        lines = {PRINTED: reference} if any(reference) else {}
        for preset, own in presets.items():
            numbers = [number for part in parts for number in score_numbers(own[part]).values()]
            lines[preset] = [replace(number, n=0) if model in constant else number for number in numbers]
        rows.append(Row(model, lines))
    return Table(name, title, "model", columns, rows)


def metric_headings(more_classes: bool = False) -> dict[str, str]:
    """The metrics that tables show, with their headings; micro-averaged F1 equals the accuracy and is left out."""
    found = {name: METRICS[name] for name in metric_names()}
    return {
        name: (metric.heading_of_many if more_classes else None) or metric.heading
        for name, metric in found.items()
        if metric.heading is not None
    }


def score_numbers(scores: Sequence[Scores]) -> dict[str, Number]:
    """Scores of a model over seeds, by metric."""
    single = sum(one.single_class is not None for one in scores)
    return {metric: Number.of([getattr(one, metric) for one in scores], single) for metric in metric_headings()}


def agreement(ours: Number, printed: Number, digits: int) -> Agreement:
    """How our number compares with the printed one.

    `same` in all printed digits, rounded or, as the thesis does, cut; `within` the spread: at most `DEVIATIONS`
    standard deviations from our mean, those of the document added to ours where it prints them; else `above` or
    `below`, or `other` of texts. `unknown` where one seed has no spread.
    """
    if ours.text is not None or printed.text is not None:
        return "same" if ours.text == printed.text else "other"
    if ours.mean is None or printed.mean is None:
        return "unknown"
    cut = math.trunc(ours.mean * 10**digits) / 10**digits
    if round(printed.mean, digits) in (round(ours.mean, digits), cut):
        return "same"
    if ours.n and ours.std is None:
        return "unknown"
    margin = DEVIATIONS * math.hypot(ours.std or 0.0, printed.std or 0.0)
    if ours.n and abs(ours.mean - printed.mean) <= margin:
        return "within"
    return "above" if ours.mean > printed.mean else "below"


def number_text(number: Number | None, column: Column) -> str:
    """A cell as text: mean and deviation, and a dagger where a model predicts one class only."""
    value, deviation = _texts(number, column)
    mark = f" {_MARK}" if number is not None and number.single_class and number.mean is not None else ""
    return f"{value} ± {deviation}{mark}" if deviation else f"{value}{mark}"


def signed_text(own: Number | None, printed: Number | None, column: Column) -> str:
    """Our number as text, with a sign where one is printed."""
    sign = SIGNS[agreement(own, printed, column.digits)] if own is not None and printed is not None else ""
    return f"{number_text(own, column)} {sign}".strip()


def text_cells(table: Table) -> list[list[str]]:
    """The table as text: headings, then a line for each row and source, ours with a sign where a number is printed."""
    named = table.sources != [PLAIN]
    headings = [f"{column.group}: {column.heading}" if column.group else column.heading for column in table.columns]
    lines = [[table.corner, *([""] if named else []), *headings]]
    for row in table.rows:
        for source, cells in table.compared(row):
            lines.append([row.label, *([source] if named else []), *(signed_text(*cell) for cell in cells)])
    return lines


def to_markdown(table: Table) -> str:
    """The table for a Markdown document, without its title and notes."""
    head, *lines = text_cells(table)
    labels = len(head) - len(table.columns)
    rule = [*["---"] * labels, *("---" if column.kind == "text" else "---:" for column in table.columns)]
    escaped = ([cell.replace("|", r"\|").replace("\n", "<br>") for cell in line] for line in (head, rule, *lines))
    return "".join(f"| {' | '.join(line)} |\n" for line in escaped)


def to_latex(table: Table) -> str:
    """The table for a LaTeX document that loads booktabs and amssymb, without its title and notes."""
    cells = [["".join(_LATEX.get(letter, letter) for letter in cell) for cell in line] for line in text_cells(table)]
    head, *body = (f"{' & '.join(line)} \\\\" for line in cells)
    aligned = "l" * (len(cells[0]) - len(table.columns))
    aligned += "".join("l" if column.kind == "text" else "r" for column in table.columns)
    rules = ["\\toprule", head, "\\midrule", *body, "\\bottomrule"]
    return "\n".join([f"\\begin{{tabular}}{{{aligned}}}", *rules, "\\end{tabular}", ""])


def to_csv(table: Table) -> str:
    """The table for programs: a record for each cell, with all digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["row", "source", "column", "mean", "std", "seeds", "single_class_seeds", "text"])
    for row in table.rows:
        for source, line in row.lines.items():
            for cell, column in zip(line, table.columns):
                if cell is not None:
                    values = [cell.mean, cell.std, cell.n, cell.single_class, cell.text]
                    writer.writerow([row.label, source, column.name, *values])
    return text.getvalue()


def html_cell(own: Number | None, printed: Number | None, column: Column, first: bool = False) -> str:
    """A cell of an HTML table.

    Args:
        own: The cell.
        printed: The number that it is compared with.
        column: Its column.
        first: Whether a group of columns begins with it.
    """
    compares = agreement(own, printed, column.digits) if own is not None and printed is not None else "unknown"
    value, deviation = _texts(own, column)
    parts = [html.escape(value)]
    if own is not None and own.single_class:
        seeds = f"{own.single_class} of {max(own.n, 1)} seeds"
        parts.append(f'<span title="{SINGLE_CLASS} in {seeds}">{_MARK}</span>')
        parts.append(f'<span class="sr">{SINGLE_CLASS}</span>')
    if compares != "unknown":
        parts.append(f'<span class="sign" aria-hidden="true">{SIGNS[compares]}</span>')
    if deviation:
        parts.append(f'<span class="std">± {deviation}</span>')
    if compares != "unknown":
        parts.append(f'<span class="sr">{WORDS[compares]}</span>')
    names = [compares] * (compares != "unknown") + ["first"] * first
    attribute = f' class="{" ".join(names)}"' if names else ""
    return f"<td{attribute}>{' '.join(parts)}</td>"


def to_terminal(table: Table, styles: Mapping[str, str] = _EMPTY) -> RenderableType:
    """The table for the terminal, as wide as it is.

    Where room is short, deviations go below their means and texts are wrapped; where that is not enough, groups of
    columns go below each other. What a document prints is in a dim line below ours; ours is green if it is the same.

    Args:
        table: The table.
        styles: Of cells that have these texts.
    """
    return _Terminal(table, styles)


def least_width(table: Table) -> int:
    """The width at which all columns fit side by side."""
    return _Block(table, range(len(table.columns)), _EMPTY).least_width


class _Terminal:
    def __init__(self, table: Table, styles: Mapping[str, str]) -> None:
        self._table, self._styles = table, styles

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        if self._table.title:
            yield Text(self._table.title, style="table.title")
        for positions in self._positions(options.max_width):
            yield from _Block(self._table, positions, self._styles).rendered(options.max_width)
        yield from (Text(note, style="table.caption") for note in (*self._table.notes, *_footnotes(self._table)))

    def _positions(self, width: int) -> list[list[int]]:
        """Groups of columns that fit side by side."""
        columns = self._table.columns
        if any(column.kind == "text" for column in columns) or least_width(self._table) <= width:
            return [list(range(len(columns)))]
        blocks: list[list[int]] = [[]]
        for _, group in groupby(range(len(columns)), key=lambda position: columns[position].group):
            whole = list(group)
            for part in [whole] if self._fits(whole, width) else ([position] for position in whole):
                if blocks[-1] and not self._fits(blocks[-1] + part, width):
                    blocks.append([])
                blocks[-1] += part
        return blocks

    def _fits(self, positions: Sequence[int], width: int) -> bool:
        return _Block(self._table, positions, self._styles).least_width <= width


class _Block:
    """Some columns of a table side by side, after the rows' labels."""

    def __init__(self, table: Table, positions: Sequence[int], styles: Mapping[str, str]) -> None:
        self._columns = [table.columns[position] for position in positions]
        groups = {column.group for column in self._columns}
        self._group = groups.pop() if len(groups) == 1 else None
        self._heads = [table.corner, *(self._heading(column) for column in self._columns)]
        self._rows = [list(_terminal_lines(table, row, positions, styles)) for row in table.rows]
        cells = [cells for row in self._rows for cells in row]
        texts = [[cell.plain for cell in column] for column in zip(*cells)] or [[] for _ in self._heads]
        self._numeric = [False, *(column.kind != "text" for column in self._columns)]
        self._natural = [_longest(_lines_of([head, *own])) for head, own in zip(self._heads, texts)]
        self._least = [
            max(_longest(head.split()), _longest(_number_parts(own) if number else _words(own)))
            for head, own, number in zip(self._heads, texts, self._numeric)
        ]
        if all(self._numeric[1:]):
            self._least[0] = min(self._least[0], _LABEL_WIDTH)

    @property
    def least_width(self) -> int:
        return sum(self._least) + _GAP * len(self._columns)

    def rendered(self, width: int) -> Iterator[RenderableType]:
        if self._group:
            yield Text(f"\n{self._group}", style="bold")
        widths = self._widths(width - _GAP * len(self._columns))
        made = RichTable(
            box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0), show_header=any(self._heads)
        )
        for head, own, number in zip(self._heads, widths, self._numeric):
            made.add_column(Text(head), width=own, justify="right" if number else "left", overflow="fold")
        # Where some row takes several lines, an empty one parts the rows; a list of settings stays dense.
        apart = made.show_header and any(
            len(row) > 1 or "\n" in cell.plain or len(cell) > own
            for row in self._rows
            for cells in row
            for cell, own in zip(cells, widths)
        )
        for row, following in zip(self._rows, [*self._rows[1:], []]):
            # A row without a label belongs to the one above.
            ends = apart and not (following and not following[0][0])
            for position, cells in enumerate(row, 1):
                fitted = (_below(cell) if len(cell) > own else cell for cell, own in zip(cells, widths))
                made.add_row(*fitted, end_section=ends and position == len(row))
        yield made

    def _heading(self, column: Column) -> str:
        return column.heading if self._group is not None else f"{column.group}\n{column.heading}".strip()

    def _widths(self, room: int) -> list[int]:
        """Deviations go below means first; then the widest columns are wrapped, at last within words."""
        widths = list(self._natural)
        if sum(widths) > room:
            widths = [least if number else own for least, own, number in zip(self._least, widths, self._numeric)]
        while sum(widths) > room and max(widths) > 1:
            shrinkable = [i for i, width in enumerate(widths) if width > self._least[i]] or range(len(widths))
            widths[max(shrinkable, key=widths.__getitem__)] -= 1
        return widths


def _terminal_lines(
    table: Table, row: Row, positions: Sequence[int], styles: Mapping[str, str]
) -> Iterator[tuple[Text, ...]]:
    """Label and cells of each line of a row, ours first."""
    lines = dict(table.compared(row))
    several = len([source for source in table.sources if source != PRINTED]) > 1
    for source in sorted(lines, key=lambda source: source == PRINTED):
        chosen = [lines[source][position] for position in positions]
        marked = any(own is not None and own.single_class for own, _, _ in chosen)
        label = f"{row.label}, {source}" if several or source == PRINTED else row.label
        if source == PRINTED and len(lines) > 1:
            label = PRINTED
        dim = "dim" if source == PRINTED else ""
        cells = []
        for own, printed, column in chosen:
            value, deviation = _texts(own, column)
            same = own is not None and printed is not None and agreement(own, printed, column.digits) == "same"
            text = f"{value} ±{deviation}" if deviation else value
            cells.append(Text(text, style=dim or ("green" if same else styles.get(text, ""))))
        yield (Text(f"{label} {_MARK}" if marked else label, style=dim), *cells)


def _footnotes(table: Table) -> Iterator[str]:
    several = len([source for source in table.sources if source != PRINTED]) > 1
    for row in table.rows:
        for source, line in row.lines.items():
            for group, cells in groupby(zip(table.columns, line), key=lambda cell: cell[0].group):
                marked = [number for _, number in cells if number is not None and number.single_class]
                if marked:
                    where = ", ".join([row.label, *([source] if several else []), *([group] if group else [])])
                    seeds = f" in {marked[0].single_class} of {marked[0].n} seeds" if marked[0].n else ""
                    yield f"{_MARK} {where}: {SINGLE_CLASS}{seeds}"


def _texts(number: Number | None, column: Column) -> tuple[str, str]:
    """A cell's value and its deviation."""
    if number is None:
        return "", ""
    if number.text is not None:
        return number.text, ""
    if number.mean is None:
        return "n/a", ""
    if column.kind == "bytes":
        return size_text(number.mean), ""
    return f"{number.mean:.{column.digits}f}", "" if number.std is None else f"{number.std:.{column.digits}f}"


def _below(cell: Text) -> Text:
    """A number with its deviation in the next line."""
    return Text(cell.plain.replace(" ±", "\n±"), style=cell.style)


def _longest(texts: Iterable[str]) -> int:
    return max(map(len, texts), default=0)


def _lines_of(texts: Iterable[str]) -> Iterator[str]:
    return (line for text in texts for line in text.split("\n"))


def _words(texts: Iterable[str]) -> Iterator[str]:
    return (word for text in texts for word in text.split())


def _number_parts(texts: Iterable[str]) -> Iterator[str]:
    return (part for text in texts for part in re.split(r"\n| (?=±)", text))
