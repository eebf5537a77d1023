"""Noise on a bad client's inputs."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic.dataclasses import dataclass

from tff_esn.datasets.federated import FederatedDataset
from tff_esn.federated.attacks.attack import ATTACKS, Attack
from tff_esn.federated.input_noise import InputNoise
from tff_esn.parameters import STRICT, PositiveFloat


@ATTACKS.register
@dataclass(frozen=True, repr=False, config=STRICT)
class InputNoiseAttack(Attack):
    """Adds Gaussian noise to the inputs.

    Attributes:
        strength: Standard deviation of the noise, in units of the normalised input.
    """

    strength: PositiveFloat = 1.0

    name = "noise"

    def on_data(self, data: FederatedDataset, clients: Sequence[str], seed: int) -> FederatedDataset:
        """The data with noise on the attackers' inputs."""
        return InputNoise(self.strength, tuple(clients)).added_to(data, seed)
