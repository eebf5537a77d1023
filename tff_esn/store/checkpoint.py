"""What a run has reached, in its folder: the server's last state, and the numbers of every round.

Both are read without running anything in them. TFF's own `FileProgramStateManager` keeps states as SavedModels, which
are programs.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tff_esn.console import log
from tff_esn.errors import DataError
from tff_esn.store.files import append_bytes, atomic_write, read_arrays, whole_lines, write_arrays

_ROUND = "round"


class Checkpoint:
    """The last state that was saved, as the arrays of a file; the former one stays until the next is complete."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def save(self, state: Any, number: int) -> None:
        """Keeps the state after a round."""
        leaves = {str(i): np.asarray(leaf) for i, leaf in enumerate(tf.nest.flatten(state))}
        write_arrays(self.path, {_ROUND: np.array(number), **leaves})

    def load(self, like: Any) -> tuple[Any, int]:
        """The state that was saved and its round; `like` and 0 if there is none.

        A damaged file counts as none: the rounds that it stood for come again, with the same numbers.

        Args:
            like: A state of the same structure.

        Raises:
            DataError: The file holds a state of something else.
        """
        try:
            arrays = read_arrays(self.path)
        except FileNotFoundError:
            return like, 0
        except DataError as error:
            log.warning("%s: damaged checkpoint (%s), the run begins anew", error.source, error.found)
            return like, 0
        expected = [np.asarray(leaf) for leaf in tf.nest.flatten(like)]
        found = [arrays.get(str(i)) for i in range(len(expected))]
        if len(arrays) != len(expected) + 1 or any(
            own is None or (own.dtype, own.shape) != (other.dtype, other.shape) for own, other in zip(found, expected)
        ):
            raise DataError(self.path, "a state of something else", f"{len(expected)} arrays, as of this run")
        # Numbers as such, not as arrays without a dimension.
        return tf.nest.pack_sequence_as(like, [own[()] for own in found if own is not None]), int(arrays[_ROUND])


class MetricsFile:
    """A CSV with one row a round and the columns that came up so far; a `tff.program.ReleaseManager`.

    Rows from the first round that is released on are written over: they are those of a run that was stopped.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._columns: list[str] | None = None

    async def release(self, value: Mapping[str, Any], key: int) -> None:
        """Writes the numbers of a round, on disk before this returns."""
        if self._columns is None:
            self._begin(key)
        assert self._columns is not None
        known = set(self._columns)
        new = [name for name in value if name not in known]
        if new:
            self._widen(new)
        text = io.StringIO()
        csv.DictWriter(text, self._columns, restval="", lineterminator="\n").writerow({_ROUND: key, **value})
        append_bytes(self._path, text.getvalue().encode())

    def _begin(self, key: int) -> None:
        header, *rows = whole_lines(self._path).decode(errors="replace").splitlines() or [_ROUND]
        self._columns = next(csv.reader([header]))
        self._write(row for row in rows if row.split(",")[0].isdigit() and int(row.split(",")[0]) < key)

    def _widen(self, new: list[str]) -> None:
        assert self._columns is not None
        rows = whole_lines(self._path).decode().splitlines()[1:]
        self._columns += new
        self._write(row + "," * len(new) for row in rows)

    def _write(self, rows: Any) -> None:
        with atomic_write(self._path) as file:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="")
            csv.writer(text, lineterminator="\n").writerow(self._columns or ())
            text.writelines(f"{row}\n" for row in rows)
            text.detach()
