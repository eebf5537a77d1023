"""An update with a little noise."""

from __future__ import annotations

from pydantic.dataclasses import dataclass

from tff_esn.federated.attacks.attack import ATTACKS, Attack
from tff_esn.parameters import STRICT, PositiveFloat


@ATTACKS.register
@dataclass(frozen=True, repr=False, config=STRICT)
class Stealthy(Attack):
    """Sends the update with a little Gaussian noise, so that it looks like an honest one.

    Attributes:
        strength: Standard deviation of the noise, in units of the update's root mean square.
    """

    strength: PositiveFloat = 0.3

    name = "stealthy"

    def on_update(self) -> tuple[float, float]:
        """The whole update, with noise."""
        return 1.0, self.strength
