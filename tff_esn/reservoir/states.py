"""States of many sequences at once, in NumPy: x(t) = (1 - a) x(t-1) + a tanh(g * (W_in u(t) + W x(t-1)) + b).

All sequences advance together, so that a step is one product of matrices. In float32, as
TensorFlow computes them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from tff_esn.errors import ConfigError
from tff_esn.reservoir.weights import ReservoirWeights

#: Bytes that a block of sequences works on: what a core's second-level cache holds.
BLOCK_BYTES = 1 << 20
#: Fewer rows leave the product of matrices waiting for the weights of a large reservoir.
MIN_BLOCK_ROWS = 256

# The number of BLAS threads is the process's: two callers would restore each other's.
_blas_threads = threading.Lock()


def last_states(sequences: NDArray, weights: ReservoirWeights) -> NDArray[np.float32]:
    """The state after the last step of each sequence, from x(0) = 0.

    As many threads work as the BLAS may use; `threadpoolctl.threadpool_limits(1)` limits both.

    Args:
        sequences: `(n, steps, inputs)`. May be a strided view, such as overlapping windows:
            it is read step by step and never copied as a whole.
        weights: The reservoir.

    Returns:
        `(n, units)`.
    """
    _check_inputs(sequences.shape, ("n", "steps"), weights)
    states = np.zeros((len(sequences), weights.units), np.float32)
    kernel = joint_kernel(weights)
    rows = max(MIN_BLOCK_ROWS, BLOCK_BYTES // (4 * sum(kernel.shape)))
    blocks = [slice(start, start + rows) for start in range(0, len(sequences), rows)]

    def advance(block: slice) -> None:
        for last in deque(states_by_step(sequences[block], kernel, weights.leaking_rate), maxlen=1):
            states[block] = last[-1].T

    if len(blocks) == 1:
        advance(blocks[0])
    else:
        with threads() as pool:
            # The list passes on what a thread raised.
            list(pool.map(advance, blocks))
    return states


def carried_states(
    series: Sequence[NDArray], weights: ReservoirWeights, initial: NDArray | None = None
) -> list[NDArray[np.float32]]:
    """Every state of each recording, the state running through it from start to end.

    Args:
        series: Recordings `(steps_i, inputs)`.
        weights: The reservoir.
        initial: `(recordings, units)`, x(0) of each; 0 by default.

    Returns:
        The states `(steps_i, units)` of each recording, in the order given.
    """
    for recording in series:
        _check_inputs(recording.shape, ("steps",), weights)
    if not series:
        return []
    if initial is None:
        initial = np.zeros((len(series), weights.units), np.float32)
    elif initial.shape != (len(series), weights.units):
        raise ConfigError(f"initial states of shape {initial.shape}; expected {(len(series), weights.units)}")
    # Longest first: those that still run are the first rows at every step.
    order = sorted(range(len(series)), key=lambda i: len(series[i]), reverse=True)
    lengths = np.array([len(series[i]) for i in order])
    running = np.searchsorted(-lengths, -np.arange(1, lengths[0] + 1), side="right")
    starts = np.concatenate(([0], np.cumsum(running)))
    # Step after step, and in a step recording after recording: the rows of a step lie together.
    packed = np.empty((starts[-1], weights.units), np.float32)
    rows_of = [starts[:length] + row for row, length in enumerate(lengths)]
    kernel = joint_kernel(weights)
    for i, rows in zip(order, rows_of):
        packed[rows] = series[i].astype(np.float32) @ kernel[weights.units : -1] + kernel[-1]
    previous = np.ascontiguousarray(initial[order], dtype=np.float32)
    _advance_packed(packed, starts, previous, kernel[: weights.units], weights.leaking_rate)
    states = {i: packed[rows] for i, rows in zip(order, rows_of)}
    return [states[i] for i in range(len(series))]


def _check_inputs(shape: tuple[int, ...], axes: tuple[str, ...], weights: ReservoirWeights) -> None:
    if len(shape) != len(axes) + 1 or shape[-1] != weights.inputs:
        raise ConfigError(f"input of shape {shape}; expected ({', '.join(axes)}, {weights.inputs})")


def joint_kernel(weights: ReservoirWeights, dtype: type[np.floating] = np.float32) -> NDArray:
    """Recurrent and input kernel and bias below each other, gain multiplied in: one product is the whole drive."""
    gain = weights.gain.astype(dtype)
    return np.concatenate((weights.recurrent_kernel * gain, weights.input_kernel * gain, weights.bias[None])).astype(
        dtype, copy=False
    )


def states_by_step(
    sequences: NDArray, kernel: NDArray, leaking_rate: float, together: int = 1
) -> Iterator[NDArray[np.floating]]:
    """The states after each step, from x(0) = 0, in the precision of `kernel`.

    A sequence is a column: with states that lie so, a BLAS computes products of them with each other faster.

    Args:
        sequences: `(n, steps, inputs)`.
        kernel: Of `joint_kernel`.
        leaking_rate: a.
        together: Steps that are yielded at a time.

    Yields:
        `(together, units, n)`, at the end possibly fewer steps; always the same memory: who needs a state
        longer copies it.
    """
    (n, steps, _), units = sequences.shape, kernel.shape[1]
    # Of each step, in rows: state, the next step's input, and 1 for the bias.
    joints = np.zeros((max(together, 2), len(kernel), n), kernel.dtype)
    joints[:, -1] = 1
    place, joint = 0, joints[-1]
    for step in range(steps):
        joint[units:-1] = sequences[:, step].T
        previous, joint = joint, joints[place]
        state = joint[:units]
        np.matmul(kernel.T, previous, out=state)
        np.tanh(state, out=state)
        if leaking_rate < 1:
            _leak(previous[:units], state, leaking_rate, out=state)
        if together == 1:
            yield joints[place : place + 1, :units]
        elif place + 1 == together or step + 1 == steps:
            yield joints[: place + 1, :units]
        place = (place + 1) % len(joints)


def _advance_packed(
    packed: NDArray[np.float32],
    starts: NDArray[np.int64],
    previous: NDArray[np.float32],
    recurrent: NDArray[np.float32],
    leaking_rate: float,
) -> None:
    """Turns the drive of the input, in `packed`, into states."""
    feedback = np.empty_like(previous)
    for start, end in zip(starts[:-1], starts[1:]):
        state, feedback, previous = packed[start:end], feedback[: end - start], previous[: end - start]
        np.matmul(previous, recurrent, out=feedback)
        state += feedback
        np.tanh(state, out=state)
        if leaking_rate < 1:
            _leak(previous, state, leaking_rate, out=state)
        previous = state


def _leak(previous: NDArray, activated: NDArray, leaking_rate: float, out: NDArray) -> None:
    """Puts (1 - a) previous + a activated into `out`; `activated` is overwritten."""
    activated -= previous
    activated *= activated.dtype.type(leaking_rate)
    np.add(previous, activated, out=out)


@contextmanager
def threads() -> Iterator[ThreadPoolExecutor]:
    """Threads that fill the machine, while the BLAS keeps each of them to one processor."""
    with _blas_threads:
        blas = ThreadpoolController().select(user_api="blas")
        threads = max((library["num_threads"] for library in blas.info()), default=1)
        with blas.limit(limits=1), ThreadPoolExecutor(threads) as pool:
            yield pool
