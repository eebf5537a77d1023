"""Noise in place of an update."""

from __future__ import annotations

from pydantic.dataclasses import dataclass

from tff_esn.federated.attacks.attack import ATTACKS, Attack
from tff_esn.parameters import STRICT, PositiveFloat


@ATTACKS.register
@dataclass(frozen=True, repr=False, config=STRICT)
class RandomUpdate(Attack):
    """Sends Gaussian noise of the update's size.

    Attributes:
        strength: Standard deviation of the noise, in units of the update's root mean square.
    """

    strength: PositiveFloat = 1.0

    name = "random"

    def on_update(self) -> tuple[float, float]:
        """Nothing of the update, only noise."""
        return 0.0, self.strength
