"""Norm thresholding (Sun et al. 2019), by the round's own median."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic.dataclasses import dataclass

from tff_esn.federated.defences.defence import DEFENCES, Defence, median
from tff_esn.lazy import LazyModule
from tff_esn.parameters import STRICT, PositiveFloat

if TYPE_CHECKING:
    import tensorflow as tf
else:
    tf = LazyModule("tensorflow")


@DEFENCES.register
@dataclass(frozen=True, repr=False, config=STRICT)
class NormFilter(Defence):
    """The weighted mean over |u_i| <= c median_j |u_j|.

    Attributes:
        times: Largest accepted norm in units of the median norm, c.
    """

    times: PositiveFloat = 2.0

    name = "norm-filter"

    def accepts(self, updates: tf.Tensor) -> tf.Tensor:
        """Updates that are not too long."""
        lengths = tf.norm(updates, axis=1)
        return lengths <= self.times * median(lengths)
