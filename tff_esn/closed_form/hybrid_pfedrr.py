"""Between pFedRR and R-pFedRR, as the paper's conclusions propose: some units by importance, the others by chance."""

from __future__ import annotations

from pydantic.dataclasses import dataclass

from tff_esn.algorithm import ALGORITHMS
from tff_esn.closed_form.pfedrr import PFedRR
from tff_esn.parameters import STRICT, Share


@ALGORITHMS.register
@dataclass(frozen=True, repr=False, config=STRICT)
class HybridPFedRR(PFedRR):
    """As many units as the threshold selects, a share of them by importance.

    Attributes:
        alpha: Share of important units.
    """

    alpha: Share = 0.5

    name = "hybrid"
    label = "hybrid pFedRR"

    @property
    def important_share(self) -> float:
        """Alpha."""
        return self.alpha
