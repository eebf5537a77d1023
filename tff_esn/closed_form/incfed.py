"""Incremental Federated Learning (Bacciu et al. 2021; FedRR in later papers).

    A_c = Y_c S_c^T,  B_c = S_c S_c^T                   at client c        (IncFed paper, eqs. 6-7; thesis eq. B.2)
    A = sum_c A_c,  B = sum_c B_c                       at the server      (eqs. 8-9; B.3)
    W = A (B + lambda I)^-1                                                (eq. 10; B.4)

is the readout that all the data in one place would give (eq. 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

from pydantic.dataclasses import dataclass

from tff_esn.algorithm import ALGORITHMS
from tff_esn.closed_form.algorithm import ClosedForm
from tff_esn.closed_form.computations import Shapes, build_incfed
from tff_esn.closed_form.messages import full_message
from tff_esn.closed_form.server import FederatedReadout, Statistics, federate
from tff_esn.parameters import STRICT


@ALGORITHMS.register
@dataclass(frozen=True, repr=False, config=STRICT)
class IncFed(ClosedForm):
    """IncFed (eqs. 6-10): every client sends all of A and half of the symmetric B."""

    name = "incfed"
    label = "IncFed"

    def solve(self, statistics: Statistics) -> FederatedReadout:
        """The readout of the sums."""
        return federate(statistics, lambda _, own: full_message(own), self.ridge, self.regularization, self.wire_type)

    def build(self, shapes: Shapes, clients: int) -> Callable[[Any, Sequence[Any]], Any]:
        """One round of the incremental process."""
        process = build_incfed(shapes, self.ridge_of_all(clients))
        return lambda reservoir, data: process.next(process.initialize(), reservoir, data)[1]
