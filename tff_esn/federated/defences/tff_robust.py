"""TFF's robust aggregator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic.dataclasses import dataclass

from tff_esn.federated.defences.defence import DEFENCES, Defence
from tff_esn.parameters import STRICT
from tff_esn.runtime.context import load_tff

if TYPE_CHECKING:
    import tensorflow_federated as tff


@DEFENCES.register
@dataclass(frozen=True, repr=False, config=STRICT)
class TFFRobust(Defence):
    """`tff.learning.robust_aggregator`: zeroing of very large updates, and clipping by an adaptive norm."""

    name = "tff-robust"

    def aggregator(self) -> tff.aggregators.WeightedAggregationFactory:
        """TFF's robust aggregator."""
        return load_tff().learning.robust_aggregator()
