"""The result of a named run, as a small JSON file from which the report and the documentation are made."""

from __future__ import annotations

import json
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal, Optional

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from tff_esn.errors import DataError
from tff_esn.runs.named import AboutConfig, load_run, run_names
from tff_esn.store.files import atomic_write
from tff_esn.store.json_values import jsonable
from tff_esn.tables import Agreement, Table

_strict = ConfigDict(extra="forbid")


@dataclass(frozen=True, config=_strict)
class Series:
    """A curve of a figure.

    Attributes:
        panel: Title of the panel it is in.
        name: Name in the legend.
        preset: Its preset; None if it is the same under all.
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
        name: Name of its files.
        title: Its name in the documents.
        x: Label of the horizontal axis.
        y: Label of the vertical axis.
        series: Its curves.
        columns: Number of panels side by side.
        y_range: Vertical range of all panels; None for one range per panel.
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
    """Origin of a result.

    Attributes:
        command: Command that computes it.
        study: Study that it was computed from.
        generated: Whether the subjects were generated.
        quick: Whether it is a quick run: few rounds or trials, one seed.
        seeds: Number of seeds.
        cells: Number of parts.
        seconds: Total duration of the parts.
        versions: Versions of the packages.
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
    """The result of a named run."""

    name: str
    title: str
    about: AboutConfig
    provenance: Provenance
    tables: list[Table]
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
    """All results of a folder, by name; those of named runs with their current description."""
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


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value
