"""The states of a data set's samples in a reservoir."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tff_esn.datasets.federated import FederatedDataset, LabelledSequences
from tff_esn.reservoir.states import carried_states, last_states
from tff_esn.reservoir.weights import ReservoirWeights


@dataclass(frozen=True)
class Samples:
    """States (or features) with their labels."""

    values: NDArray
    labels: NDArray[np.int64]

    @classmethod
    def concatenate(cls, parts: Sequence[Samples]) -> Samples:
        """The samples of several clients, in the order given."""
        return cls(np.concatenate([part.values for part in parts]), np.concatenate([part.labels for part in parts]))


def sample_states(data: FederatedDataset, weights: ReservoirWeights) -> dict[str, Samples]:
    """By client, the state of each sample: that of a sequence's last step, or of each labelled step."""
    if all(isinstance(own.values, tuple) and own.per_step and len(own) for own in data.sequences.values()):
        # Recordings of all clients advance together, which makes a step one product of matrices.
        counts = [len(own) for own in data.sequences.values()]
        pieces = carried_states([piece for own in data.sequences.values() for piece in own.values], weights)
        ends = np.cumsum(counts)
        states = [
            np.concatenate(pieces[end - count : end]) if count > 1 else pieces[end - count]
            for count, end in zip(counts, ends)
        ]
        return {
            client: Samples(of_client if own.counted.all() else of_client[own.counted], own.sample_labels)
            for (client, own), of_client in zip(data.sequences.items(), states)
        }
    return {client: client_samples(own, weights) for client, own in data.sequences.items()}


def client_samples(client: LabelledSequences, weights: ReservoirWeights) -> Samples:
    """The state of each sample of one client."""
    states = _states(client, weights)
    return Samples(states if client.counted.all() else states[client.counted], client.sample_labels)


def sample_features(data: FederatedDataset) -> dict[str, Samples]:
    """By client, the input of each sample for a model without a reservoir."""
    return {client: Samples(own.sample_features, own.sample_labels) for client, own in data.sequences.items()}


def _states(own: LabelledSequences, weights: ReservoirWeights) -> NDArray[np.float32]:
    if not len(own):
        return np.empty((0, weights.units), np.float32)
    if not own.per_step and not isinstance(own.values, tuple):
        return last_states(own.values, weights)
    pieces = carried_states(list(own.values), weights)
    return np.stack([piece[-1] for piece in pieces]) if not own.per_step else np.concatenate(pieces)
