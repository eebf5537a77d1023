"""The thesis's Random: Partial IncFed whose units are all drawn by chance (section B.4)."""

from __future__ import annotations

from pydantic.dataclasses import dataclass

from tff_esn.algorithm import ALGORITHMS
from tff_esn.closed_form.partial import PartialIncFed
from tff_esn.parameters import STRICT, Share


@ALGORITHMS.register
@dataclass(frozen=True, repr=False, config=STRICT)
class RandomIncFed(PartialIncFed):
    """k units by chance, eq. B.16 applied to them."""

    alpha: Share = 0.0

    name = "random"
    label = "Random"
