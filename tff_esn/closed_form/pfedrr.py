"""Partial Federated Ridge Regression (De Caro et al. 2023): A whole, of B the diagonal and some units' block.

I_i = sum_j B_ij^2, scaled to [0, 1]                importance of each unit         (pFedRR paper, eq. 5)
S = {i : I_i > 1 - tau}                             the units a client sends
B*_c = B_c (.) (M_S + I)                            M_S: 1 between units of S       (eq. 2)
W = (sum_c A_c) (sum_c B*_c + lambda I)^-1
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Callable, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from tff_esn.algorithm import ALGORITHMS
from tff_esn.closed_form.algorithm import ClosedForm
from tff_esn.closed_form.computations import Shapes, build_pfedrr
from tff_esn.closed_form.messages import Message, block_message
from tff_esn.closed_form.selection import Units, mixed_units, random_order, squared_importance
from tff_esn.closed_form.server import FederatedReadout, Statistics, federate
from tff_esn.closed_form.statistics import RidgeStatistics
from tff_esn.parameters import STRICT

Threshold = Annotated[float, Field(gt=0, lt=1)]


@ALGORITHMS.register
@dataclass(frozen=True, repr=False, config=STRICT)
class PFedRR(ClosedForm):
    """I-pFedRR: a client sends the units whose scaled importance exceeds 1 - tau.

    Attributes:
        tau: Threshold of the importance, in (0, 1).
        last_unit: Whether the last unit can be sent: `kept`, or `dropped`, as printed.
    """

    tau: Threshold = 0.5
    last_unit: Literal["kept", "dropped"] = "kept"

    name = "pfedrr"
    label = "pFedRR"

    @property
    def important_share(self) -> float:
        """Of the selected units, the share that is chosen by importance; the others are drawn by chance."""
        return 1.0

    def units(self, client: str, own: RidgeStatistics) -> Units:
        """The units that a client sends: as many as the threshold selects."""
        importances = squared_importance(own.b[: own.units, : own.units], self.last_unit)
        count = int((importances > 1 - self.tau).sum())
        return mixed_units(importances, count, self.important_share, random_order(own.units, self.esn.seed, client))

    def solve(self, statistics: Statistics) -> FederatedReadout:
        """The readout of the sums of blocks."""

        def compress(client: str, own: RidgeStatistics) -> Message:
            return block_message(own, self.units(client, own))

        return federate(statistics, compress, self.ridge, self.regularization, self.wire_type)

    def build(self, shapes: Shapes, clients: int) -> Callable[[Any, Sequence[Any]], Any]:
        """Clients send blocks, the server rebuilds and solves."""
        return build_pfedrr(shapes, self.ridge_of_all(clients), self.tau, self.important_share, self.last_unit)
