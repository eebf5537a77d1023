"""Second moments of states and targets of many sequences, fast: all that a ridge readout needs of them.

For rows r(t) = [1, x(t), y(t)] (constant, state, target) of all steps of a client's sequences, the sum of
r(t) r(t)^T holds B = S S^T and A = Y S^T side by side, and one symmetric product of matrices computes both.
Sequences of several clients advance together, so that a step is one product of matrices however few
sequences a client has, and no state stays in memory longer than its block needs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from tff_esn.errors import ConfigError
from tff_esn.reservoir.states import joint_kernel, states_by_step, threads
from tff_esn.reservoir.weights import ReservoirWeights

#: Sequences that advance together: enough to make the product of matrices efficient, few enough that their
#: states stay in a core's second-level cache.
BLOCK_ROWS = 512
#: Bytes of states that wait for their product: the longer it is, the less its adding up counts.
HISTORY_BYTES = 48 << 20
#: Steps whose states are put by together: single ones would lie on too many pages of memory.
STEPS_TOGETHER = 8
#: Products of fewer steps would spend their time on being added up.
MIN_HISTORY_STEPS = 8


@dataclass(frozen=True)
class TargetSequences:
    """A client's sequences, each with one target for all its steps.

    Attributes:
        values: `(n, steps, inputs)`; may be a strided view.
        targets: `(n, outputs)`.
        weights: `(n,)`, how much a step of each sequence counts; None for 1.
    """

    values: NDArray
    targets: NDArray
    weights: NDArray | None = None

    def __post_init__(self) -> None:
        if self.values.ndim != 3 or self.targets.ndim != 2 or len(self.values) != len(self.targets):
            found = f"sequences of shape {self.values.shape} with targets of shape {self.targets.shape}"
            raise ConfigError(f"{found}; expected (n, steps, inputs) and (n, outputs)")
        if self.weights is None:
            return
        if self.weights.shape != (len(self.values),):
            raise ConfigError(f"weights of shape {self.weights.shape}; expected {(len(self.values),)}")
        if not (np.isfinite(self.weights).all() and (self.weights >= 0).all()):
            raise ConfigError(f"weights from {self.weights.min():g}; expected finite numbers of 0 or more")

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class _Segment:
    """Some sequences of a client."""

    client: int
    rows: slice
    values: NDArray
    fixed: NDArray
    """`(rows, 1 + outputs)`: constant and targets, times the root of the weight."""

    def __len__(self) -> int:
        return len(self.values)


def second_moments(
    clients: Iterable[TargetSequences],
    weights: ReservoirWeights,
    dtype: type[np.floating] = np.float32,
    clip: float | None = None,
) -> Iterator[NDArray[np.float64]]:
    """Yields the sum of r(t) r(t)^T, r = [1, x, y], of each client in turn, `(1 + units + outputs,) * 2`.

    Every sequence starts from a zero state and every step counts. A client without sequences has zeros.
    As many threads work as the BLAS may use; a stream of any number of clients takes the same memory.

    Args:
        clients: Sequences and targets.
        weights: The reservoir, the same for all.
        dtype: Precision of states and products; sums are kept in float64.
        clip: Longest state that counts as it is; longer ones count as if they had this norm. The reservoir
            itself runs on unclipped.
    """
    kernel = joint_kernel(weights, dtype)
    with threads() as pool:
        for batch in _batches(clients, pool._max_workers * BLOCK_ROWS):
            yield from _batch_moments(batch, kernel, weights, pool, clip)


def answer_counts(values: NDArray, weights: ReservoirWeights, kernels: NDArray, biases: NDArray) -> NDArray[np.int64]:
    """How often each output is the largest over the steps of each sequence, for several readouts in one pass.

    Args:
        values: `(n, steps, inputs)`.
        weights: The reservoir.
        kernels: `(readouts, units, outputs)`.
        biases: `(readouts, outputs)`.

    Returns:
        `(n, readouts, outputs)`.
    """
    kernel, (readouts, units, outputs) = joint_kernel(weights), kernels.shape
    counts = np.zeros((len(values), readouts, outputs), np.int64)
    below_each_other = np.ascontiguousarray(kernels.transpose(0, 2, 1).reshape(-1, units), np.float32)
    offsets = biases.reshape(-1, 1).astype(np.float32)

    def count(block: slice) -> None:
        own = counts[block]
        places = np.ogrid[: len(own), :readouts]
        for (state,) in states_by_step(values[block], kernel, weights.leaking_rate):
            answers = (below_each_other @ state + offsets).reshape(readouts, outputs, len(own)).argmax(axis=1)
            own[places[0], places[1], answers.T] += 1

    with threads() as pool:
        list(pool.map(count, _even_slices(len(values), pool._max_workers)))
    return counts


def _batches(clients: Iterable[TargetSequences], rows: int) -> Iterator[list[TargetSequences]]:
    """Batches of clients that have at least `rows` sequences together; the last may have fewer."""
    batch: list[TargetSequences] = []
    for client in clients:
        batch.append(client)
        if sum(map(len, batch)) >= rows:
            yield batch
            batch = []
    if batch:
        yield batch


def _batch_moments(
    batch: Sequence[TargetSequences],
    kernel: NDArray,
    weights: ReservoirWeights,
    pool: ThreadPoolExecutor,
    clip: float | None,
) -> Iterator[NDArray[np.float64]]:
    width = 1 + weights.units + batch[0].targets.shape[1]
    totals = [np.zeros((width, width)) for _ in batch]
    waiting: deque[Future[list[tuple[int, NDArray[np.float64]]]]] = deque()

    def collect() -> None:
        for client, moments in waiting.popleft().result():
            totals[client] += moments

    for block in _blocks(batch, weights.inputs, pool._max_workers):
        waiting.append(pool.submit(_block_moments, block, kernel, weights.leaking_rate, clip))
        if len(waiting) > pool._max_workers:
            collect()
    while waiting:
        collect()
    yield from totals


def _blocks(batch: Sequence[TargetSequences], inputs: int, workers: int) -> Iterator[list[_Segment]]:
    """Sequences of the same length, in blocks of even size, as many as keep all workers busy to the end."""
    everyone = [(number, client) for number, client in enumerate(batch) if len(client)]
    for _, member in everyone:
        if member.values.shape[2] != inputs or member.targets.shape[1] != batch[0].targets.shape[1]:
            found = f"{member.values.shape[2]} inputs and {member.targets.shape[1]} outputs"
            raise ConfigError(f"a client with {found}; expected {inputs} and {batch[0].targets.shape[1]}")
    for _, group in groupby(everyone, key=lambda entry: entry[1].values.shape[1]):
        members = list(group)
        ends = np.cumsum([len(client) for _, client in members])
        for block in _even_slices(int(ends[-1]), workers):
            yield [
                _segment(number, client, max(block.start - start, 0), min(block.stop - start, len(client)))
                for (number, client), start in zip(members, ends - [len(client) for _, client in members])
                if start < block.stop and block.start < start + len(client)
            ]


def _even_slices(rows: int, workers: int) -> list[slice]:
    count = -(-rows // BLOCK_ROWS)
    count = min(-(-count // workers) * workers, rows)
    edges = np.linspace(0, rows, count + 1).astype(int)
    return [slice(start, end) for start, end in zip(edges[:-1], edges[1:])]


def _segment(number: int, client: TargetSequences, start: int, end: int) -> _Segment:
    rows = slice(start, end)
    fixed = np.concatenate((np.ones((end - start, 1)), client.targets[rows]), axis=1)
    if client.weights is not None:
        fixed *= np.sqrt(client.weights[rows, None])
    return _Segment(number, rows, client.values[rows], fixed)


def _block_moments(
    block: Sequence[_Segment], kernel: NDArray, leaking_rate: float, clip: float | None
) -> list[tuple[int, NDArray[np.float64]]]:
    units = kernel.shape[1]
    values = block[0].values if len(block) == 1 else np.concatenate([segment.values for segment in block])
    width, steps = units + block[0].fixed.shape[1], values.shape[1]
    kept = max(MIN_HISTORY_STEPS, HISTORY_BYTES // (len(values) * width * kernel.itemsize))
    kept = min(-(-kept // STEPS_TOGETHER) * STEPS_TOGETHER, steps)
    # Of each segment: in columns, step after step, [1, state, targets] of its sequences.
    histories = [_history(segment, kept, width, kernel.dtype) for segment in block]
    roots = [
        history[:1, 0].copy() if (segment.fixed[:, 0] != 1).any() else None
        for segment, history in zip(block, histories)
    ]
    edges = np.cumsum([0, *(len(segment) for segment in block)])
    totals = [np.zeros((width, width)) for _ in block]
    scratch = np.empty((width, width), kernel.dtype)
    filled = 0
    for states in states_by_step(values, kernel, leaking_rate, STEPS_TOGETHER):
        if clip is not None:
            states = states * np.minimum(1, clip / np.maximum(np.linalg.norm(states, axis=1, keepdims=True), 1e-12))
        for history, root, start, end in zip(histories, roots, edges[:-1], edges[1:]):
            own, new = history[1 : 1 + units, filled : filled + len(states)], states[:, :, start:end].swapaxes(0, 1)
            if root is None:
                own[:] = new
            else:
                np.multiply(new, root, out=own)
        filled += len(states)
        steps -= len(states)
        if filled == kept or not steps:
            for history, total in zip(histories, totals):
                columns = history[:, :filled].reshape(width, -1)
                # NumPy sees that this is a matrix with its own transpose and computes half of it.
                total += np.matmul(columns, columns.T, out=scratch)
            filled = 0
    return [(segment.client, total) for segment, total in zip(block, totals)]


def _history(segment: _Segment, steps: int, width: int, dtype: np.dtype) -> NDArray:
    history = np.empty((width, steps, len(segment)), dtype)
    history[:1] = segment.fixed[:, :1].T[:, None]
    history[width - segment.fixed.shape[1] + 1 :] = segment.fixed[:, 1:].T[:, None]
    return history
