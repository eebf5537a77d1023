"""Caches of results: on disk by content and settings, in memory by key."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Callable, TypeVar

import platformdirs
from numpy.typing import NDArray

from tff_esn.console import log
from tff_esn.errors import DataError
from tff_esn.store.files import atomic_write, hold, read_arrays, sha256, write_arrays
from tff_esn.store.json_values import fingerprint

_LOCK = ".lock"
_T = TypeVar("_T")


def default_folder() -> Path:
    """`$TFF_ESN_CACHE`, or the user's cache folder."""
    return Path(os.environ.get("TFF_ESN_CACHE") or platformdirs.user_cache_dir("tff-esn"))


class Cache:
    """Arrays by key, below one folder.

    A damaged entry (each has a checksum) counts as missing and is computed again.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or default_folder()

    def content_digest(self, files: Sequence[Path]) -> str:
        """SHA-256 of the files' contents; read again only when size or time of change differ."""
        return fingerprint([self._file_digest(file) for file in files])

    def _file_digest(self, file: Path) -> str:
        file = file.resolve()
        try:
            status = file.stat()
            stamp = [str(file), status.st_size, status.st_mtime_ns]
            memo = self.folder / "digests" / f"{fingerprint(str(file))}.json"
            with suppress(OSError, ValueError, TypeError):
                digest, check = json.loads(memo.read_text())
                if check == fingerprint([stamp, digest]):
                    return digest
            with file.open("rb") as stream:
                digest = sha256(stream, status.st_size)
        except OSError as error:
            raise DataError(file, error.strerror or str(error), "a readable file") from None
        with atomic_write(memo, durable=False) as out:
            out.write(json.dumps([digest, fingerprint([stamp, digest])]).encode())
        return digest

    def path(self, kind: str, key: str) -> Path:
        """Where an entry lies."""
        return self.folder / kind / f"{key}.npz"

    def load(self, kind: str, key: str) -> dict[str, NDArray] | None:
        """The arrays of an entry, or None if there is none that is whole."""
        try:
            return read_arrays(self.path(kind, key))
        except FileNotFoundError:
            return None
        except DataError as error:
            log.warning("%s: damaged cache entry (%s), computed again", error.source, error.found)
            return None

    def store(self, kind: str, key: str, arrays: Mapping[str, NDArray]) -> None:
        """Writes an entry, whole or not at all."""
        write_arrays(self.path(kind, key), arrays)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder for files that only the running process needs.

        It is removed when the block ends. One that a killed process left behind, whose lock is free, is removed by
        the next call.
        """
        above = self.folder / "scratch"
        above.mkdir(parents=True, exist_ok=True)
        with hold(above / _LOCK):
            for left in filter(Path.is_dir, above.iterdir()):
                with suppress(BlockingIOError, FileNotFoundError), hold(left / _LOCK, wait=False):
                    shutil.rmtree(left, ignore_errors=True)
            own = Path(tempfile.mkdtemp(dir=above))
            lock = hold(own / _LOCK)
        with lock:
            try:
                yield own
            finally:
                shutil.rmtree(own, ignore_errors=True)


class Shared:
    """Values by key, the least recently used dropped once they are too large together.

    Args:
        memory: Bytes that are kept at most, except for a single larger value.
        dropped: Called with each value that is dropped.
    """

    def __init__(self, memory: int = 2 << 30, dropped: Callable[[Any], None] | None = None) -> None:
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._memory, self._dropped = memory, dropped

    def get(self, key: Hashable, make: Callable[[], _T], size: Callable[[_T], int]) -> _T:
        """The value of `key`, made if it is not there."""
        if key not in self._values:
            value = make()
            self._values[key] = value, size(value)
            while len(self._values) > 1 and sum(own for _, own in self._values.values()) > self._memory:
                _, (oldest, _) = self._values.popitem(last=False)
                if self._dropped is not None:
                    self._dropped(oldest)
        self._values.move_to_end(key)
        return self._values[key][0]
