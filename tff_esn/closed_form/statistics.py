"""Ridge statistics: A = Y S^T and B = S S^T of a client's states S and targets Y (IncFed paper, eqs. 6-12).

They add up: over a client's chunks, over what it records later (eqs. 11-12) and over clients (eqs. 8-9).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tff_esn.closed_form.solver import solve_symmetric
from tff_esn.datasets.federated import FederatedDataset, LabelledSequences
from tff_esn.errors import ConfigError
from tff_esn.readout.readout import Readout
from tff_esn.reservoir.moments import TargetSequences, answer_counts, second_moments
from tff_esn.reservoir.samples import client_samples
from tff_esn.reservoir.weights import ReservoirWeights


@dataclass(frozen=True)
class RidgeStatistics:
    """A, the lower half of the symmetric B, and their metadata.

    With a readout bias the states have a last column of ones, which `solve` does not penalise.

    Attributes:
        a: `(outputs, columns)`, Y S^T.
        half_b: `(columns * (columns + 1) / 2,)`, the lower triangle of S S^T row by row.
        samples: Number of steps counted.
        reservoir: Digest of the reservoir that made the states: sums over different ones mean nothing.
        bias: Whether the last column is that of the readout's bias.
    """

    a: NDArray[np.float64]
    half_b: NDArray[np.float64]
    samples: int
    reservoir: str = ""
    bias: bool = False

    def __post_init__(self) -> None:
        columns = self.a.shape[1]
        if self.half_b.shape != (columns * (columns + 1) // 2,):
            found = f"A of shape {self.a.shape} with half of B of shape {self.half_b.shape}"
            raise ConfigError(
                f"{found}; expected {columns * (columns + 1) // 2} values, half of ({columns}, {columns})"
            )

    @classmethod
    def of(
        cls,
        states: NDArray,
        targets: NDArray,
        sample_weight: NDArray | None = None,
        bias: bool = False,
        reservoir: str = "",
    ) -> RidgeStatistics:
        """The statistics of states `(n, units)` and targets `(n, outputs)` in memory, in float64."""
        states = np.asarray(states, np.float64)
        if bias:
            states = np.concatenate((states, np.ones((len(states), 1))), axis=1)
        weighted = states if sample_weight is None else states * np.asarray(sample_weight, np.float64)[:, None]
        return cls(
            np.asarray(targets, np.float64).T @ weighted, pack(weighted.T @ states), len(states), reservoir, bias
        )

    @cached_property
    def b(self) -> NDArray[np.float64]:
        """`(columns, columns)`, S S^T whole; made when it is first asked for, and not to be written to."""
        whole = unpack(self.half_b)
        whole.flags.writeable = False
        return whole

    @property
    def vector(self) -> NDArray[np.float64]:
        """A and half of B as one vector: what clients add up."""
        return np.concatenate((self.a.ravel(), self.half_b))

    def of_vector(self, vector: NDArray, samples: int) -> RidgeStatistics:
        """Statistics like these, of another vector and number of samples."""
        a, half_b = vector[: self.a.size].reshape(self.a.shape), vector[self.a.size :]
        return RidgeStatistics(a, half_b, samples, self.reservoir, self.bias)

    @property
    def units(self) -> int:
        """Number of units, N_x."""
        return self.a.shape[1] - self.bias

    @property
    def outputs(self) -> int:
        """Number of outputs, N_y."""
        return len(self.a)

    def __add__(self, other: RidgeStatistics) -> RidgeStatistics:
        self.check_same(other)
        return RidgeStatistics(
            self.a + other.a, self.half_b + other.half_b, self.samples + other.samples, self.reservoir, self.bias
        )

    def check_same(self, other: RidgeStatistics) -> None:
        """Refuses statistics that do not add up with these."""
        if self.a.shape != other.a.shape or self.bias != other.bias:
            raise ConfigError(f"statistics of shape {other.a.shape} beside {self.a.shape}; expected the same")
        if self.reservoir != other.reservoir:
            raise ConfigError(
                f"statistics of reservoir {other.reservoir} beside those of {self.reservoir}: unit i of one is not "
                "unit i of the other, and their sum means nothing; expected one reservoir for all clients"
            )

    def solve(self, regularization: float) -> Readout:
        """W = A (B + lambda I)^-1 (thesis eq. B.4), the bias not penalised."""
        return solved_readout(self.a, self.b, self.bias, regularization)


def solved_readout(a: NDArray, b: NDArray, bias: bool, regularization: float) -> Readout:
    """The readout of a symmetric system, whose last column is a readout bias's or a unit's."""
    if not bias:
        return Readout(solve_symmetric(a, b, regularization).T, np.zeros(len(a)), "linear")
    count = b[-1, -1]
    if not count > 0:
        raise ConfigError("statistics of no sample; expected some, for a readout bias")
    # Solving for the bias first leaves the statistics about the means.
    mean, target_mean = b[-1, :-1] / count, a[:, -1] / count
    centred_b = b[:-1, :-1] - count * np.outer(mean, mean)
    kernel = solve_symmetric(a[:, :-1] - count * np.outer(target_mean, mean), centred_b, regularization)
    return Readout(kernel.T, target_mean - kernel @ mean, "linear")


def pack(matrix: NDArray) -> NDArray[np.float64]:
    """The lower triangle of a symmetric matrix, row by row."""
    return np.ascontiguousarray(matrix[np.tri(len(matrix), dtype=bool)], np.float64)


def unpack(half: NDArray) -> NDArray[np.float64]:
    """The symmetric matrix of a lower triangle.

    >>> unpack(np.array([1.0, 2.0, 3.0]))
    array([[1., 2.],
           [2., 3.]])
    """
    columns = int(((8 * len(half) + 1) ** 0.5 - 1) / 2)
    matrix = np.zeros((columns, columns))
    matrix[np.tri(columns, dtype=bool)] = half
    return matrix + np.tril(matrix, -1).T


def reservoir_digest(weights: ReservoirWeights) -> str:
    """A short name of a reservoir: the same for the same weights, gains, biases and leaking rate."""
    digest = hashlib.sha256(repr(float(weights.leaking_rate)).encode())
    for part in (weights.input_kernel, weights.recurrent_kernel, weights.bias, weights.gain):
        digest.update(np.ascontiguousarray(part, np.float32).tobytes())
    return digest.hexdigest()[:16]


def client_statistics(
    clients: Iterable[LabelledSequences],
    classes: int,
    weights: ReservoirWeights,
    *,
    bias: bool = False,
    class_weight: Sequence[float] | None = None,
    dtype: type[np.floating] = np.float32,
    clip: float | None = None,
) -> Iterator[RidgeStatistics]:
    """Yields the statistics of each client in turn; a client without samples contributes zeros.

    Args:
        clients: Their labelled sequences. Where all steps of a sequence have its label, clients are computed together
            by the fast kernel of `tff_esn.reservoir.moments`; else from the states of their samples.
        classes: Number of classes.
        weights: The reservoir.
        bias: Whether the readout has a bias.
        class_weight: How much a sample of each class counts.
        dtype: Precision of states and products in the fast kernel; elsewhere states are float32, products float64.
        clip: Longest norm of a state, for differential privacy.
    """
    if class_weight is not None and len(class_weight) != classes:
        raise ConfigError(f"{len(class_weight)} class weights; expected one for each of {classes} classes")
    digest = reservoir_digest(weights)
    for together, group in groupby(clients, key=_one_label_each):
        if together:
            yield from _chunk_statistics(group, classes, weights, digest, bias, class_weight, dtype, clip)
            continue
        for client in group:
            samples = client_samples(client, weights)
            states = samples.values if clip is None else _clipped(samples.values, clip)
            weight = None if class_weight is None else np.asarray(class_weight, np.float64)[samples.labels]
            yield RidgeStatistics.of(states, np.eye(classes)[samples.labels], weight, bias, digest)


def dataset_statistics(data: FederatedDataset, weights: ReservoirWeights, **options: Any) -> dict[str, RidgeStatistics]:
    """The statistics of each client of a data set; options as of `client_statistics`."""
    found = client_statistics(data.sequences.values(), len(data.classes), weights, **options)
    return dict(zip(data.clients, found))


def _chunk_statistics(
    clients: Iterable[LabelledSequences],
    classes: int,
    weights: ReservoirWeights,
    digest: str,
    bias: bool,
    class_weight: Sequence[float] | None,
    dtype: type[np.floating],
    clip: float | None,
) -> Iterator[RidgeStatistics]:
    units = weights.units
    samples: list[int] = []

    def targets() -> Iterator[TargetSequences]:
        for client in clients:
            own = _chunk_targets(client, classes, class_weight)
            samples.append(len(own) * own.values.shape[1])
            yield own

    # Columns of the moments: constant, states, targets; the constant goes last.
    columns = np.r_[1 : 1 + units, 0:1] if bias else np.arange(1, 1 + units)
    for number, moments in enumerate(second_moments(targets(), weights, dtype, clip)):
        a = moments[1 + units : 1 + units + classes][:, columns]
        yield RidgeStatistics(a, pack(moments[np.ix_(columns, columns)]), samples[number], digest, bias)


def _one_label_each(client: LabelledSequences) -> bool:
    """Whether each sequence has one label, which all its steps have."""
    labels = client.labels
    if isinstance(labels, tuple) or labels.ndim != 2 or isinstance(client.values, tuple):
        return False
    return bool((labels == labels[:, :1]).all())


def _chunk_targets(
    client: LabelledSequences, classes: int, class_weight: Sequence[float] | None = None
) -> TargetSequences:
    values, labels = np.asarray(client.values), np.asarray(client.labels)[:, 0]
    counted = labels >= 0
    if not counted.all():
        values, labels = values[counted], labels[counted]
    weights = None if class_weight is None else np.asarray(class_weight, np.float64)[labels]
    return TargetSequences(values, np.eye(classes)[labels], weights)


def _clipped(states: NDArray, clip: float) -> NDArray:
    norms = np.linalg.norm(states, axis=1, keepdims=True)
    return states * np.minimum(1, clip / np.maximum(norms, 1e-12))


def confusions(
    client: LabelledSequences, classes: int, weights: ReservoirWeights, readouts: Sequence[Readout]
) -> NDArray[np.int64]:
    """Number of samples by readout, label and prediction, the largest output; one pass for all readouts."""
    kernels, biases = np.stack([readout.kernel for readout in readouts]), np.stack([own.bias for own in readouts])
    if _one_label_each(client):
        own = _chunk_targets(client, classes)
        counts = answer_counts(own.values, weights, kernels, biases)
        return np.einsum("nl,nro->rlo", own.targets.astype(np.int64), counts)
    samples = client_samples(client, weights)
    outputs = np.einsum("nu,ruo->rno", samples.values, kernels) + biases[:, None]
    places = samples.labels * classes + outputs.argmax(axis=2)
    return np.stack([np.bincount(own, minlength=classes**2).reshape(classes, classes) for own in places])
