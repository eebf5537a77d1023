"""Ridge statistics of many sequences, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from tff_esn.closed_form.ridge import RidgeReadout
from tff_esn.data.tables import Task
from tff_esn.data.windows import Sequences
from tff_esn.errors import ConfigError
from tff_esn.reservoir.states import carried_states
from tff_esn.reservoir.weights import ReservoirWeights

#: Sequences whose states are in memory at a time.
BLOCK = 64


@dataclass(frozen=True)
class RidgeStatistics:
    """A = Y S^T and B = S S^T of a client's states S and one-hot targets Y; they add up over clients.

    Attributes:
        a: `(classes, units)`.
        b: `(units, units)`.
        samples: Number of steps counted.
    """

    a: NDArray[np.float64]
    b: NDArray[np.float64]
    samples: int

    def __add__(self, other: RidgeStatistics) -> RidgeStatistics:
        return RidgeStatistics(self.a + other.a, self.b + other.b, self.samples + other.samples)

    def solve(self, regularization: float) -> RidgeReadout:
        """W = A (B + lambda I)^-1, without a bias."""
        matrix = self.b + regularization * np.eye(len(self.b))
        try:
            kernel = scipy.linalg.solve(matrix, self.a.T, assume_a="pos")
        except np.linalg.LinAlgError:
            raise ConfigError(f"B is singular with lambda = {regularization:g}; expected a larger lambda") from None
        return RidgeReadout(kernel, np.zeros(len(self.a)))


def ridge_statistics(sequences: Sequences, task: Task, weights: ReservoirWeights) -> RidgeStatistics:
    """The statistics of sequences that each start from a zero state; every step is a sample."""
    units, classes = len(weights.bias), len(task.classes)
    a, b, samples = np.zeros((classes, units)), np.zeros((units, units)), 0
    for states, labels in _blocks(sequences, task, weights):
        b += states.T @ states
        for label in range(classes):
            a[label] += states[labels == label].sum(axis=0, dtype=np.float64)
        samples += len(states)
    return RidgeStatistics(a, b, samples)


def ridge_accuracy(sequences: Sequences, task: Task, weights: ReservoirWeights, readout: RidgeReadout) -> float:
    """Share of steps whose largest answer is their label."""
    right = total = 0
    for states, labels in _blocks(sequences, task, weights):
        right += int(np.count_nonzero((states @ readout.kernel).argmax(axis=1) == labels))
        total += len(labels)
    return right / total


def _blocks(sequences: Sequences, task: Task, weights: ReservoirWeights) -> Iterator[tuple[NDArray, NDArray]]:
    labels = task.labels(sequences.codes)
    steps = sequences.values.shape[1]
    for start in range(0, len(sequences), BLOCK):
        part = slice(start, start + BLOCK)
        states = np.concatenate(carried_states(list(sequences.values[part]), weights))
        yield states, np.repeat(labels[part], steps)
