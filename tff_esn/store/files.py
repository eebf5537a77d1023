"""Files that are either complete or not there, and arrays in them with a checksum.

An array file is NumPy's `.npz`, readable as such. Its last bytes, where a zip archive has its comment, are the
format's version and the SHA-256 of all before them. Reading one runs nothing: it holds arrays, never pickles.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from tff_esn.errors import DataError

#: The kind and version of an array file.
_FORMAT = b"tff-esn arrays 1 "
_DIGEST_BYTES = 64
_BLOCK = 1 << 20
#: Ending of a file that is being written.
_PART = ".part"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def atomic_write(path: Path, durable: bool = True) -> Iterator[BinaryIO]:
    """Opens a temporary file beside `path` that takes its name once the block succeeds.

    What killed processes left of the same file is removed.

    Args:
        path: The file; the folders to it are made.
        durable: Whether the file survives a crash of the machine, for which this waits for the disk. A file is
            never half written.

    Raises:
        OSError: About `path`, whatever name the file had while it was written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_left(path)
        name, file = _temporary(path)
        with file:
            try:
                yield file
                file.flush()
                os.fchmod(file.fileno(), 0o666 & ~_umask())  # A temporary file is its owner's alone.
                if durable:
                    os.fsync(file.fileno())
                os.replace(name, path)
            except BaseException:
                os.unlink(name)
                # What is left in the buffer need not reach a disk that may be full.
                with suppress(OSError):
                    file.close()
                raise
        if durable:
            with suppress(OSError):  # Some file systems have no such thing, and the file is there.
                _sync_folder(path.parent)
    except OSError as error:
        if error.filename is None or Path(error.filename).name.startswith(f".{path.name}."):
            raise OSError(error.errno, error.strerror or str(error), str(path)) from error
        raise


def _temporary(path: Path) -> tuple[str, BinaryIO]:
    """A file that only this process writes; its lock shows that it is in use."""
    while True:
        handle, name = tempfile.mkstemp(_PART, f".{path.name}.", path.parent)
        file = os.fdopen(handle, "w+b")
        fcntl.flock(file, fcntl.LOCK_EX)
        # Between the two calls another process may have removed it as one left behind.
        if os.fstat(handle).st_nlink:
            return name, file
        file.close()


def _remove_left(path: Path) -> None:
    for left in path.parent.glob(f".{glob.escape(path.name)}.????????{_PART}"):
        with suppress(BlockingIOError, FileNotFoundError), hold(left, wait=False):
            left.unlink()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def append_bytes(path: Path, content: bytes) -> None:
    """Adds to a file, on disk before this returns; a crash can cut it off."""
    try:
        with path.open("ab") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def hold(path: Path, wait: bool = True) -> BinaryIO:
    """Takes a lock, which ends when the file that is returned is closed, or its process ends in whatever way.

    Raises:
        BlockingIOError: Another process holds it, and waiting was not requested.
    """
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        file.close()
        raise
    return file


def write_arrays(path: Path, arrays: Mapping[str, NDArray]) -> None:
    """Writes an array file, whole or not at all."""
    with atomic_write(path) as file:
        with zipfile.ZipFile(file, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
            archive.comment = _FORMAT + b"0" * _DIGEST_BYTES
        digest = _digest(file)
        file.seek(-_DIGEST_BYTES, os.SEEK_END)
        file.write(digest)


def read_arrays(path: Path) -> dict[str, NDArray]:
    """The arrays of a file that `write_arrays` wrote.

    Raises:
        FileNotFoundError: There is none.
        DataError: It is damaged, or something else.
    """
    expected = "arrays as they were written, with their checksum"
    try:
        with path.open("rb") as file:
            digest = _digest(file)
            file.seek(-min(_DIGEST_BYTES + len(_FORMAT), file.tell()), os.SEEK_CUR)
            if not file.read(len(_FORMAT)).startswith(_FORMAT):
                raise DataError(path, "no array file of this version", expected)
            if file.read() != digest:
                raise DataError(path, "contents that do not fit their checksum", expected)
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                return dict(archive)
    except (DataError, FileNotFoundError):
        raise
    except OSError as error:
        raise DataError(path, error.strerror or str(error), expected) from None
    # With a valid checksum only a malicious file gets here, which may raise anything.
    except Exception as error:
        raise DataError(path, " ".join(str(error).split()) or type(error).__name__, expected) from None


def sha256(file: BinaryIO, size: int) -> str:
    """The digest of the next `size` bytes of a file."""
    digest = hashlib.sha256()
    while block := file.read(min(_BLOCK, size)):
        digest.update(block)
        size -= len(block)
    return digest.hexdigest()


def _digest(file: BinaryIO) -> bytes:
    """Of a file but for its last bytes, which are the digest; ends at the file's end."""
    size = max(0, file.seek(0, os.SEEK_END) - _DIGEST_BYTES)
    file.seek(0)
    digest = sha256(file, size)
    file.seek(0, os.SEEK_END)
    return digest.encode()
