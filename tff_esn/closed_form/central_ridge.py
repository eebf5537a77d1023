"""Ridge regression on all data in one place, which IncFed equals (IncFed paper, eq. 3)."""

from __future__ import annotations

from functools import reduce
from operator import add

from pydantic.dataclasses import dataclass

from tff_esn.algorithm import ALGORITHMS
from tff_esn.closed_form.incfed import IncFed
from tff_esn.closed_form.server import FederatedReadout, Statistics
from tff_esn.parameters import STRICT


@ALGORITHMS.register
@dataclass(frozen=True, repr=False, config=STRICT)
class CentralRidge(IncFed):
    """Ridge regression of all samples; nothing is sent."""

    name = "central-ridge"
    label = "central ridge"

    def solve(self, statistics: Statistics) -> FederatedReadout:
        """The readout of all statistics added up."""
        return FederatedReadout(reduce(add, statistics.values()).solve(self.ridge), {}, 0)
