"""Wrong labels of a bad client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from tff_esn.datasets.federated import FederatedDataset, LabelledSequences
from tff_esn.federated.attacks.attack import ATTACKS, Attack
from tff_esn.parameters import STRICT


@ATTACKS.register
@dataclass(frozen=True, repr=False, config=STRICT)
class LabelFlip(Attack):
    """Trains with the next class in place of every label."""

    name = "label-flip"

    def on_data(self, data: FederatedDataset, clients: Sequence[str], seed: int) -> FederatedDataset:
        """The data with the attackers' labels flipped."""
        classes = len(data.classes)
        flipped = {client: _flipped(data[client], classes) for client in clients}
        return replace(data, sequences={**data.sequences, **flipped})


def _flipped(sequences: LabelledSequences, classes: int) -> LabelledSequences:
    def next_class(labels: NDArray) -> NDArray:
        return np.where(labels < 0, labels, (labels + 1) % classes)

    labels = sequences.labels
    flipped = tuple(map(next_class, labels)) if isinstance(labels, tuple) else next_class(labels)
    return replace(sequences, labels=flipped)
