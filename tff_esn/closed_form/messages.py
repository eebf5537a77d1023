"""Messages of the clients: bytes that are counted, checked and rebuilt at the server.

A message is a header of `HEADER_BYTES`, the indices of the units it is about (two bytes each, four from
65,537 columns on) and its values, in float32 or float64:

    kind       values                                                      number of values
    full       A, lower half of B                                          N_y N + N (N + 1) / 2
    columns    A[:, S], B[:, S] (thesis eq. B.16)                          k (N_y + N)
    block      A, diagonal of B, B[S, S] below its diagonal (pFedRR, eq. 2)  N_y N + N + k (k - 1) / 2
    low_rank   A, r eigenvalues and eigenvectors of B, the diagonal left   N_y N + N + r (1 + N)
    readout    W                                                           N_y N
    gains      gain and bias of each unit (FedIP)                          2 N

N is the number of units, one more with a readout bias; k = |S|.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Callable

import numpy as np
from numpy.typing import NDArray

from tff_esn.closed_form.selection import Units
from tff_esn.closed_form.statistics import RidgeStatistics, unpack
from tff_esn.errors import TffEsnError

_HEADER = struct.Struct("<4sBBBBIIIQ8s")
_MAGIC, _VERSION = b"ESNM", 2
#: The header ends with the checksum of the rest of the message.
_CHECKSUM = struct.Struct("<I")
HEADER_BYTES = _HEADER.size + _CHECKSUM.size
_NO_UNITS = np.empty(0, np.int64)

Shapes = tuple[tuple[int, ...], ...]
#: Shapes of a kind's values, of outputs N_y, columns N and the number of indices (or the rank) k.
_SHAPES: Mapping[str, Callable[[int, int, int], Shapes]] = {
    "full": lambda outputs, n, k: ((outputs, n), (n * (n + 1) // 2,)),
    "columns": lambda outputs, n, k: ((outputs, k), (n, k)),
    "block": lambda outputs, n, k: ((outputs, n), (n,), (k * (k - 1) // 2,)),
    "low_rank": lambda outputs, n, k: ((outputs, n), (n,), (k,), (n, k)),
    "readout": lambda outputs, n, k: ((outputs, n),),
    "gains": lambda outputs, n, k: ((n,), (n,)),
}
_KINDS = tuple(_SHAPES)
_INDEXED = ("columns", "block")


class MessageError(TffEsnError):
    """A message that cannot be used."""


@dataclass(frozen=True)
class Message:
    """A message before it is sent, or after it has arrived.

    Attributes:
        kind: A row of the table above.
        outputs: N_y.
        columns: N.
        count: k or r.
        samples: Number of samples behind it.
        reservoir: Digest of the reservoir.
        bias: Whether the last column is a readout bias's.
        units: S, of the kinds that have one.
        values: The arrays of the table above.
    """

    kind: str
    outputs: int
    columns: int
    count: int
    samples: int
    reservoir: str
    bias: bool
    units: Units
    values: tuple[NDArray, ...]

    def encode(self, dtype: type[np.floating] = np.float64) -> bytes:
        """The message as bytes."""
        size = np.dtype(dtype).itemsize
        parts = [self.units.astype(_index_type(self.columns)).tobytes()]
        parts += [np.ascontiguousarray(values, f"<f{size}").tobytes() for values in self.values]
        body = b"".join(parts)
        header = _HEADER.pack(
            _MAGIC,
            _VERSION,
            _KINDS.index(self.kind),
            size,
            self.bias,
            self.outputs,
            self.columns,
            self.count,
            self.samples,
            bytes.fromhex(self.reservoir or "0" * 16),
        )
        return header + _CHECKSUM.pack(zlib.crc32(header + body)) + body

    @classmethod
    def decode(cls, data: bytes) -> Message:
        """Reads a message, or raises an error that says what is wrong with it."""
        if len(data) < HEADER_BYTES:
            raise MessageError(f"{len(data)} bytes; expected at least the {HEADER_BYTES} of a header")
        magic, version, kind, size, bias, outputs, columns, count, samples, reservoir = _HEADER.unpack_from(data)
        if magic != _MAGIC or version != _VERSION or kind >= len(_KINDS) or size not in (4, 8) or bias > 1:
            raise MessageError("a header of something else; expected a message of this version")
        name = _KINDS[kind]
        if count > columns:
            raise MessageError(f"{count} units of {columns}; expected no more than there are")
        expected = message_bytes(name, outputs, columns, count, size)
        if len(data) != expected:
            raise MessageError(f"{len(data)} bytes; expected {expected}")
        if _CHECKSUM.pack(zlib.crc32(data[: _HEADER.size] + data[HEADER_BYTES:])) != data[_HEADER.size : HEADER_BYTES]:
            raise MessageError("a checksum that does not fit; expected a message as it was sent")
        units, offset = _read_units(data, name, columns, count)
        values = []
        for shape in _SHAPES[name](outputs, columns, count):
            array = np.frombuffer(data, f"<f{size}", math.prod(shape), offset).reshape(shape).astype(np.float64)
            if not np.isfinite(array).all():
                raise MessageError(
                    f"{np.count_nonzero(~np.isfinite(array))} values are not finite; expected finite ones"
                )
            values.append(array)
            offset += array.size * size
        return cls(name, outputs, columns, count, samples, reservoir.hex(), bool(bias), units, tuple(values))

    def rebuilt(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """A and B as the server sees them, zeros where nothing was sent."""
        if self.kind == "full":
            return self.values[0], unpack(self.values[1])
        if self.kind == "columns":
            a, b = np.zeros((self.outputs, self.columns)), np.zeros((self.columns, self.columns))
            a[:, self.units], b[:, self.units] = self.values
            return a, b
        if self.kind == "block":
            a, diagonal, below = self.values
            b = np.diag(diagonal)
            rows, columns = np.tril_indices(self.count, -1)
            b[self.units[rows], self.units[columns]] = b[self.units[columns], self.units[rows]] = below
            return a, b
        if self.kind == "low_rank":
            a, left, eigenvalues, eigenvectors = self.values
            return a, (eigenvectors * eigenvalues) @ eigenvectors.T + np.diag(left)
        raise MessageError(f"a message of kind {self.kind}; expected one with statistics")


def _index_type(columns: int) -> str:
    return "<u2" if columns <= 1 << 16 else "<u4"


def _read_units(data: bytes, kind: str, columns: int, count: int) -> tuple[Units, int]:
    if kind not in _INDEXED:
        return _NO_UNITS, HEADER_BYTES
    units = np.frombuffer(data, _index_type(columns), count, HEADER_BYTES)
    offset = HEADER_BYTES + units.nbytes
    if count and (units.max() >= columns or (np.diff(units.astype(np.int64)) <= 0).any()):
        raise MessageError(f"units that are not in order or not below {columns}; expected each once")
    return units.astype(np.int64), offset


def message_bytes(kind: str, outputs: int, columns: int, count: int = 0, value_bytes: int = 8) -> int:
    """Length of a message: header, indices and values."""
    values = sum(math.prod(shape) for shape in _SHAPES[kind](outputs, columns, count))
    indices = count * np.dtype(_index_type(columns)).itemsize if kind in _INDEXED else 0
    return HEADER_BYTES + indices + value_bytes * values


def full_message(statistics: RidgeStatistics) -> Message:
    """All of A and B."""
    return _message("full", statistics, 0, _NO_UNITS, statistics.a, statistics.half_b)


def columns_message(statistics: RidgeStatistics, units: Units) -> Message:
    """The columns of A and B of some units, and of the readout bias if there is one (thesis eq. B.16)."""
    units = _with_bias(statistics, units)
    return _message("columns", statistics, len(units), units, statistics.a[:, units], statistics.b[:, units])


def block_message(statistics: RidgeStatistics, units: Units) -> Message:
    """A, and B (.) (M_S + I): the diagonal of B, and its block of some units (pFedRR paper, eq. 2)."""
    units, b = _with_bias(statistics, units), statistics.b
    rows, columns = np.tril_indices(len(units), -1)
    below = b[units[rows], units[columns]]
    return _message("block", statistics, len(units), units, statistics.a, np.diag(b), below)


def low_rank_message(statistics: RidgeStatistics, rank: int) -> Message:
    """A, the `rank` leading eigenvectors of B, and the rest of its diagonal."""
    from scipy.linalg import eigh

    b = statistics.b
    if not 1 <= rank <= len(b):
        raise MessageError(f"rank {rank}; expected 1 to {len(b)}")
    eigenvalues, eigenvectors = eigh(b, subset_by_index=[len(b) - rank, len(b) - 1])
    left = np.diag(b) - (eigenvectors**2 @ eigenvalues)
    return _message("low_rank", statistics, rank, _NO_UNITS, statistics.a, left, eigenvalues, eigenvectors)


def readout_message(kernel: NDArray, samples: int, reservoir: str, bias: bool = False) -> Message:
    """A readout W, `(outputs, columns)`."""
    outputs, columns = kernel.shape
    return Message("readout", outputs, columns, 0, samples, reservoir, bias, _NO_UNITS, (kernel,))


def gains_message(gain: NDArray, bias: NDArray, samples: int) -> Message:
    """Gains and biases of a reservoir that adapts."""
    return Message("gains", 0, len(gain), 0, samples, "", False, _NO_UNITS, (gain, bias))


def _with_bias(statistics: RidgeStatistics, units: Units) -> Units:
    return np.append(units, statistics.units) if statistics.bias else np.asarray(units, np.int64)


def _message(kind: str, statistics: RidgeStatistics, count: int, units: Units, *values: NDArray) -> Message:
    outputs, columns = statistics.a.shape
    return Message(
        kind, outputs, columns, count, statistics.samples, statistics.reservoir, statistics.bias, units, values
    )
