"""Partial IncFed (thesis appendix B): each client sends the columns of A and B of k of its units.

    I_c = B_c 1                                         importance of each unit         (eq. B.15)
    A*_c = A_c diag(1_S),  B*_c = B_c diag(1_S)         S: k units                      (eq. B.16)
    W = (sum_c A*_c) (sum_c B*_c + lambda I)^-1                                         (eqs. B.17 and B.4)

alpha k units of S by importance, the others by chance; k = (150 / |C| / 100) N_x (section B.4). The summed B is not
symmetric and is solved as a general system.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, Optional

from pydantic.dataclasses import dataclass

from tff_esn.algorithm import ALGORITHMS
from tff_esn.closed_form.algorithm import ClosedForm
from tff_esn.closed_form.computations import Shapes, build_partial
from tff_esn.closed_form.messages import Message, columns_message
from tff_esn.closed_form.selection import importance, mixed_units, partial_count, random_order
from tff_esn.closed_form.server import FederatedReadout, Statistics, federate
from tff_esn.closed_form.statistics import RidgeStatistics
from tff_esn.parameters import STRICT, PositiveInt, Share


@ALGORITHMS.register
@dataclass(frozen=True, repr=False, config=STRICT)
class PartialIncFed(ClosedForm):
    """Partial IncFed (eqs. B.14-B.17): alpha k units by importance B 1, the others by chance.

    Attributes:
        alpha: Share of important units.
        count: Number of units a client sends, k; None for (150 / |C| / 100) N_x.
    """

    alpha: Share = 0.5
    count: Optional[PositiveInt] = None

    name = "partial"
    label = "Partial IncFed"

    def solve(self, statistics: Statistics) -> FederatedReadout:
        """The readout of the masked sums."""

        def compress(client: str, own: RidgeStatistics) -> Message:
            order = random_order(own.units, self.esn.seed, client)
            importances = importance(own.b[: own.units, : own.units])
            count = self._count(len(statistics), own.units)
            return columns_message(own, mixed_units(importances, count, self.alpha, order))

        return federate(statistics, compress, self.ridge, self.regularization, self.wire_type)

    def build(self, shapes: Shapes, clients: int) -> Callable[[Any, Sequence[Any]], Any]:
        """Clients mask columns, the server solves a general system."""
        return build_partial(shapes, self.ridge_of_all(clients), self.alpha, self._count(clients, shapes.units))

    def _count(self, clients: int, units: int) -> int:
        return partial_count(clients, units) if self.count is None else self.count
