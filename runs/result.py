"""What came out of a named run: small, as JSON, and all that the report and the documentation are made of."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal, Optional

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from tff_esn.config import AboutConfig
from tff_esn.console import size_text
from tff_esn.errors import DataError
from tff_esn.metrics import METRICS, Scores, spread
from tff_esn.runs.named import load_run, run_names
from tff_esn.store.files import atomic_write
from tff_esn.store.json_values import jsonable

_strict = ConfigDict(extra="forbid")
#: The line of a row that a document prints; the others are presets.
PRINTED = "printed"
#: A printed number is within the spread if it is at most so many standard deviations from our mean.
DEVIATIONS = 2.0
HEADINGS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "bal. acc.",
    "auroc": "AUROC",
    "average_precision": "avg. prec.",
    "mcc": "MCC",
    "f1_stress": "F1 stress",
}
#: Micro-averaged F1 is the accuracy.
SHOWN_METRICS = tuple(metric for metric in METRICS if metric in HEADINGS)
Agreement = Literal["same", "within", "above", "below", "other", "unknown"]


@dataclass(frozen=True, config=_strict)
class Number:
    """A cell of a table.

    Attributes:
        mean: Over seeds; None where there is none.
        std: Standard deviation over seeds.
        n: Seeds; 0 of a number without chance in it.
        single_class: Seeds in which the model gave every example the same answer.
        text: The cell where it is no number.
    """

    mean: Optional[float] = None
    std: Optional[float] = None
    n: int = 1
    single_class: int = 0
    text: Optional[str] = None

    @classmethod
    def of(cls, values: Sequence[float], single_class: int = 0) -> Number:
        """Of a value for each seed."""
        own = spread(values)
        mean, std = (None if math.isnan(one) else one for one in (own.mean, own.std))
        return cls(mean, std, own.n, single_class)


@dataclass(frozen=True, config=_strict)
class Column:
    """A column of a table.

    Attributes:
        name: By which headlines find it.
        heading: What stands above it.
        group: What stands above several of them.
        digits: After the point, as the documents print them.
        kind: What its numbers are: plain ones, or `bytes`.
    """

    name: str
    heading: str
    group: str = ""
    digits: int = 4
    kind: Literal["plain", "bytes"] = "plain"


@dataclass(frozen=True, config=_strict)
class Row:
    """A row of a table: by `printed` or preset, a line of cells."""

    label: str
    lines: dict[str, list[Optional[Number]]]


@dataclass(frozen=True, config=_strict)
class ResultTable:
    """A table.

    Attributes:
        name: Of its files.
        title: What the documents call it.
        corner: What tells its rows apart.
        columns: Its columns.
        rows: Its rows.
        notes: What must be said below it.
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
        return [source for source in (PRINTED, "thesis", "corrected") if source in found]

    def cell(self, row: str, source: str, column: str) -> Number | None:
        """A cell by its names, or None where there is none."""
        position = next((i for i, one in enumerate(self.columns) if one.name == column), None)
        lines = next((one.lines for one in self.rows if one.label == row), {})
        return None if position is None or source not in lines else lines[source][position]

    def agreements(self) -> list[Agreement]:
        """Of all printed numbers that ours stand beside, those of the `thesis` preset where there is one."""
        ours = "thesis" if "thesis" in self.sources else "corrected"
        return [
            agreement(own, printed, column.digits)
            for row in self.rows
            if PRINTED in row.lines and ours in row.lines
            for column, own, printed in zip(self.columns, row.lines[ours], row.lines[PRINTED])
            if own is not None and printed is not None
        ]


@dataclass(frozen=True, config=_strict)
class Series:
    """A curve of a figure.

    Attributes:
        panel: Title of the panel it is in.
        name: In the legend.
        preset: Whose it is; None for what is the same under all.
        mark: A `line` with its band over seeds, a constant `level`, `bar`s, `step`s, or `points` joined by a line.
        x: Positions.
        y: Means.
        low: Least over seeds; empty where there is one value only.
        high: Largest over seeds.
    """

    panel: str
    name: str
    x: list[float]
    y: list[float]
    preset: Optional[str] = None
    mark: Literal["line", "level", "bar", "step", "points"] = "line"
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)


@dataclass(frozen=True, config=_strict)
class ResultFigure:
    """A figure.

    Attributes:
        name: Of its files.
        title: What the documents call it.
        x: What is across.
        y: What is up.
        series: Its curves.
        columns: Panels beside each other.
        y_range: The same for all panels; None for each panel's own.
        log_x: Whether the axis across is logarithmic.
    """

    name: str
    title: str
    x: str
    y: str
    series: list[Series]
    columns: int = 2
    y_range: Optional[tuple[float, float]] = (0.0, 1.0)
    log_x: bool = False

    @property
    def presets(self) -> list[str]:
        """Those that its curves belong to."""
        return list(dict.fromkeys(one.preset for one in self.series if one.preset is not None))

    @property
    def panels(self) -> list[str]:
        """Titles of its panels, in their order."""
        return list(dict.fromkeys(one.panel for one in self.series))

    @property
    def names(self) -> list[str]:
        """The legend."""
        return list(dict.fromkeys(one.name for one in self.series))


@dataclass(frozen=True, config=_strict)
class Provenance:
    """Where a result comes from.

    Attributes:
        command: That makes it.
        study: What it was made of.
        generated: Whether that were generated subjects.
        quick: Whether it was cut short: few rounds or trials, one seed.
        seeds: How many.
        cells: Parts of the work.
        seconds: They took, added up.
        versions: Of the stack.
    """

    command: str
    study: str
    generated: bool
    quick: bool
    seeds: int
    cells: int
    seconds: float
    versions: dict[str, str]


@dataclass(frozen=True, config=_strict)
class RunResult:
    """All of a named run."""

    name: str
    title: str
    about: AboutConfig
    provenance: Provenance
    tables: list[ResultTable]
    figures: list[ResultFigure]

    def agreements(self) -> list[Agreement]:
        """Of all its printed numbers."""
        return [one for table in self.tables for one in table.agreements()]

    def to_json(self) -> str:
        """As text, numbers with nine digits."""
        return json.dumps(_rounded(jsonable(self)), ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def read_result(path: Path) -> RunResult:
    """A result from its file."""
    try:
        return TypeAdapter(RunResult).validate_json(path.read_bytes())
    except OSError as error:
        raise DataError(path, error.strerror or str(error), "a result of tff-esn reproduce") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise DataError(path, f"{where}: {first['msg']}", "a result of tff-esn reproduce") from None


def read_results(folder: Path) -> list[RunResult]:
    """All results of a folder, by name; those of named runs with what is now said about them."""
    files = sorted(folder.glob("*.json")) if folder.is_dir() else []
    if not files:
        raise DataError(folder, "no results", "a folder with results of tff-esn reproduce (*.json)")
    named = run_names()
    results = (read_result(file) for file in files)
    return [replace(one, about=load_run(one.name).about) if one.name in named else one for one in results]


def write_result(path: Path, result: RunResult) -> None:
    """Writes a result, whole or not at all."""
    with atomic_write(path) as file:
        file.write(result.to_json().encode())


def agreement(ours: Number, printed: Number, digits: int) -> Agreement:
    """How our number stands to the printed one.

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
    """A cell to read: mean and deviation, a dagger where a model answers with a single class."""
    if number is None:
        return ""
    if number.text is not None:
        return number.text
    if number.mean is None:
        return "n/a"
    if column.kind == "bytes":
        return size_text(number.mean)
    deviation = "" if number.std is None else f" ± {number.std:.{column.digits}f}"
    return f"{number.mean:.{column.digits}f}{deviation}{' †' if number.single_class else ''}"


def score_numbers(scores: Sequence[Scores]) -> dict[str, Number]:
    """Scores of a model over seeds, by metric."""
    single = sum(one.single_class is not None for one in scores)
    return {metric: Number.of([getattr(one, metric) for one in scores], single) for metric in SHOWN_METRICS}


def printed_line(columns: Sequence[Column], values: Mapping[str, float]) -> dict[str, list[Number | None]]:
    """The printed line of a row by the columns' names; empty where nothing is printed."""
    line = [Number(values[column.name], n=0) if column.name in values else None for column in columns]
    return {PRINTED: line} if any(line) else {}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value
