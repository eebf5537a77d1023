"""R-pFedRR: as many units as pFedRR sends, drawn by chance (De Caro et al. 2023, section 3)."""

from __future__ import annotations

from pydantic.dataclasses import dataclass

from tff_esn.algorithm import ALGORITHMS
from tff_esn.closed_form.pfedrr import PFedRR
from tff_esn.parameters import STRICT


@ALGORITHMS.register
@dataclass(frozen=True, repr=False, config=STRICT)
class RandomPFedRR(PFedRR):
    """Units by chance, as many as the threshold selects."""

    name = "r-pfedrr"
    label = "R-pFedRR"

    @property
    def important_share(self) -> float:
        """None by importance."""
        return 0.0
