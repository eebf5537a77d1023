"""Leading eigenvectors of B instead of units: a client sends A, r of them, and the diagonal that they leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import numpy as np
from pydantic.dataclasses import dataclass

from tff_esn.algorithm import ALGORITHMS
from tff_esn.closed_form.computations import Shapes, build_low_rank, build_mean_selected
from tff_esn.closed_form.messages import low_rank_message
from tff_esn.closed_form.pfedrr import PFedRR
from tff_esn.closed_form.server import FederatedReadout, Statistics, federate
from tff_esn.parameters import STRICT


@ALGORITHMS.register
@dataclass(frozen=True, repr=False, config=STRICT)
class LowRank(PFedRR):
    """As many eigenvectors as make the message as long as pFedRR's at the same threshold."""

    name = "low-rank"
    label = "low rank"

    def solve(self, statistics: Statistics) -> FederatedReadout:
        """The readout from the sums of the matrices rebuilt from eigenvectors."""
        selected = [len(self.units(client, own)) for client, own in statistics.items()]
        rank = rank_of_same_size(self.esn.units, int(np.mean(selected)))
        return federate(
            statistics, lambda _, own: low_rank_message(own, rank), self.ridge, self.regularization, self.wire_type
        )

    def build(self, shapes: Shapes, clients: int) -> Callable[[Any, Sequence[Any]], Any]:
        """The clients' mean number of units first, then eigenvectors of that rank."""

        def solve(reservoir: Any, data: Sequence[Any]) -> Any:
            selected = build_mean_selected(shapes, self.tau, self.last_unit)(reservoir, data)
            rank = rank_of_same_size(shapes.units, int(selected))
            return build_low_rank(shapes, self.ridge_of_all(clients), rank)(reservoir, data)

        return solve


def rank_of_same_size(units: int, selected: int) -> int:
    """The rank whose message is as long as pFedRR's of `selected` units, at least 1.

    >>> rank_of_same_size(1000, 500)
    124
    """
    return max(1, selected * (selected - 1) // 2 // (units + 1))
