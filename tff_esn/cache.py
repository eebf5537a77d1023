"""Results on disk, found again by the content they were made from and the settings."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from numpy.typing import NDArray

from tff_esn.console import log
from tff_esn.errors import DataError
from tff_esn.files import atomic_write

_BLOCK = 1 << 20


def default_folder() -> Path:
    """`$TFF_ESN_CACHE`, or the user's cache folder."""
    return Path(os.environ.get("TFF_ESN_CACHE") or platformdirs.user_cache_dir("tff-esn"))


def fingerprint(value: Any) -> str:
    """A short name for a JSON-able value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    try:
        with file.open("rb") as stream:
            while block := stream.read(_BLOCK):
                digest.update(block)
    except OSError as error:
        raise DataError(file, error.strerror or str(error), "a readable file") from None
    return digest.hexdigest()


class Cache:
    """Arrays by key, below one folder.

    A damaged entry (its archive carries checksums) counts as missing and is made anew.
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
        except OSError as error:
            raise DataError(file, error.strerror or str(error), "a readable file") from None
        stamp = [str(file), status.st_size, status.st_mtime_ns]
        memo = self.folder / "digests" / f"{fingerprint(str(file))}.json"
        try:
            remembered = json.loads(memo.read_text())
            if remembered["stamp"] == stamp:
                return remembered["sha256"]
        except (OSError, ValueError, KeyError, TypeError):
            pass
        digest = _sha256(file)
        with atomic_write(memo) as out:
            out.write(json.dumps({"stamp": stamp, "sha256": digest}).encode())
        return digest

    def path(self, kind: str, key: str) -> Path:
        """Where an entry lies."""
        return self.folder / kind / f"{key}.npz"

    def load(self, kind: str, key: str) -> dict[str, NDArray] | None:
        """The arrays of an entry, or None if there is none that is whole."""
        path = self.path(kind, key)
        try:
            with np.load(path, allow_pickle=False) as archive:
                return dict(archive)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
            log.warning("%s: damaged cache entry (%s), made anew", path, error)
            return None

    def store(self, kind: str, key: str, arrays: Mapping[str, NDArray]) -> None:
        """Writes an entry, whole or not at all."""
        with atomic_write(self.path(kind, key)) as file:
            np.savez(file, **arrays)
