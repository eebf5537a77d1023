"""Updates that point where most do, after AFA (Muñoz-González et al. 2019)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from tff_esn.federated.defences.defence import DEFENCES, Defence, median
from tff_esn.lazy import LazyModule
from tff_esn.parameters import STRICT

if TYPE_CHECKING:
    import tensorflow as tf
else:
    tf = LazyModule("tensorflow")


@DEFENCES.register
@dataclass(frozen=True, repr=False, config=STRICT)
class CosineFilter(Defence):
    """The weighted mean over cos(u_i, median_j u_j) >= c, with the median of each coordinate.

    AFA compares with the mean instead of the median, and its threshold is not fixed. An update of zeros has a cosine
    of 0.

    Attributes:
        least: Smallest accepted cosine, c.
    """

    least: Annotated[float, Field(ge=-1, le=1)] = 0.0

    name = "cosine-filter"

    def accepts(self, updates: tf.Tensor) -> tf.Tensor:
        """Updates in about the median's direction."""

        def direction(vectors: tf.Tensor) -> tf.Tensor:
            return tf.math.divide_no_nan(vectors, tf.norm(vectors, axis=-1, keepdims=True))

        return tf.linalg.matvec(direction(updates), direction(median(updates))) >= self.least
