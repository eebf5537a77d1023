"""The mean of each coordinate without its extremes (Yin et al. 2018)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from tff_esn.federated.defences.defence import DEFENCES, Defence, trimmed_mean
from tff_esn.lazy import LazyModule
from tff_esn.parameters import STRICT

if TYPE_CHECKING:
    import tensorflow as tf
else:
    tf = LazyModule("tensorflow")


@DEFENCES.register
@dataclass(frozen=True, repr=False, config=STRICT)
class TrimmedMean(Defence):
    """The mean of each coordinate without its floor(beta m) smallest and largest values, unweighted.

    At most (m - 1) // 2 are dropped on either side, so that one or two are left: beta = 1/2 is the median.

    Attributes:
        share: Share dropped on either side, beta. The default drops one of five clients; more would be the median.
    """

    share: Annotated[float, Field(ge=0, le=0.5)] = 0.2

    name = "trimmed-mean"

    def combined(self, updates: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """The trimmed mean of each coordinate."""
        count = tf.shape(updates)[0]
        dropped = tf.cast(self.share * tf.cast(count, tf.float32), tf.int32)
        return trimmed_mean(updates, tf.minimum(dropped, (count - 1) // 2))
