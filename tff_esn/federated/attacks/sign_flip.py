"""An update with the opposite sign."""

from __future__ import annotations

from pydantic.dataclasses import dataclass

from tff_esn.federated.attacks.attack import ATTACKS, Attack
from tff_esn.parameters import STRICT, PositiveFloat


@ATTACKS.register
@dataclass(frozen=True, repr=False, config=STRICT)
class SignFlip(Attack):
    """Sends the update with the opposite sign.

    Attributes:
        strength: Factor of the update beside the sign.
    """

    strength: PositiveFloat = 1.0

    name = "sign-flip"

    def on_update(self) -> tuple[float, float]:
        """The negative factor, no noise."""
        return -self.strength, 0.0
