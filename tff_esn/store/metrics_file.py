"""The metrics of a run by step: `metrics.csv`, and the same numbers for TensorBoard in `tensorboard/`."""

from __future__ import annotations

import csv
import io
import operator
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Union

from tff_esn.errors import ConfigError, DataError
from tff_esn.store.events import EventsFile
from tff_esn.store.files import append_bytes, atomic_write

METRICS_CSV = "metrics.csv"
_EVENTS, _STEP = "tensorboard", "step"

Cell = Union[bool, int, float, str, None]


class MetricsFile:
    """Rows of metrics in a folder; also a `tff.program.ReleaseManager`.

    A row may have columns that earlier rows lack. The first row that is written replaces all rows from its step on,
    which a resumed run computes again.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / METRICS_CSV
        self._events = EventsFile(folder / _EVENTS)
        self._columns: dict[str, None] = {}

    def log(self, *, step: int, **values: Any) -> None:
        """Adds a row, on disk before this returns, and its numbers for TensorBoard."""
        number, cells = operator.index(step), {name: _cell(name, value) for name, value in values.items()}
        row = {_STEP: number, **cells}
        if not row.keys() <= self._columns.keys():
            self._add_columns(row)
        append_bytes(self._path, _csv_bytes([[row.get(name) for name in self._columns]]))
        numbers = {name: float(cell) for name, cell in cells.items() if isinstance(cell, (int, float))}
        if numbers:
            self._events.write(number, numbers)

    async def release(self, value: Mapping[str, Any], key: int) -> None:
        """`log`, as TFF calls it after each round."""
        self.log(step=key, **value)

    def rows(self) -> list[dict[str, Cell]]:
        """The rows that are on disk, with numbers as such; None where a cell is empty."""
        header, *lines = self._lines()
        return [dict(zip(header, map(_parsed, line))) for line in lines]

    def _lines(self) -> list[list[str]]:
        """The header and the rows, without a last line that was cut off."""
        content = b""
        with suppress(FileNotFoundError):
            content = self._path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1].decode(errors="replace")
        try:
            return list(csv.reader(io.StringIO(whole, newline=""))) or [[_STEP]]
        except csv.Error as error:
            raise DataError(self._path, str(error), "a CSV file") from None

    def _add_columns(self, row: Mapping[str, Any]) -> None:
        header, *lines = self._lines()
        if not self._columns:
            try:
                lines = [line for line in lines if int(line[header.index(_STEP)]) < row[_STEP]]
            except (ValueError, IndexError):
                raise DataError(self._path, "a row without a step", f"a number in a column {_STEP!r}") from None
        self._columns = dict.fromkeys([*header, *row])
        filled = [line + [""] * (len(self._columns) - len(line)) for line in lines]
        with atomic_write(self._path) as file:
            file.write(_csv_bytes([self._columns, *filled]))


def _csv_bytes(lines: Iterable[Iterable[Cell]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue().encode()


def _cell(name: str, value: Any) -> Cell:
    if hasattr(value, "numpy"):
        value = value.numpy()
    if getattr(value, "size", None) == 1:
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ConfigError(f"metric {name} is {value!r}; expected a number or a text")


def _parsed(text: str) -> Cell:
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text or None
