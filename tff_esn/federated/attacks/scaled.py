"""An update that is too large."""

from __future__ import annotations

from pydantic.dataclasses import dataclass

from tff_esn.federated.attacks.attack import ATTACKS, Attack
from tff_esn.parameters import STRICT, PositiveFloat


@ATTACKS.register
@dataclass(frozen=True, repr=False, config=STRICT)
class Scaled(Attack):
    """Sends the update enlarged.

    Attributes:
        strength: Factor of the update.
    """

    strength: PositiveFloat = 10.0

    name = "scaled"

    def on_update(self) -> tuple[float, float]:
        """The factor, no noise."""
        return self.strength, 0.0
