"""The geometric median (RFA, Pillutla et al. 2022)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic.dataclasses import dataclass

from tff_esn.federated.defences.defence import DEFENCES, Defence, mean
from tff_esn.lazy import LazyModule
from tff_esn.parameters import STRICT, PositiveFloat, PositiveInt

if TYPE_CHECKING:
    import tensorflow as tf
else:
    tf = LazyModule("tensorflow")


@DEFENCES.register
@dataclass(frozen=True, repr=False, config=STRICT)
class GeometricMedian(Defence):
    """argmin_v sum_i w_i |v - u_i|, by the smoothed Weiszfeld algorithm.

    From the weighted mean on, v <- sum_i b_i u_i / sum_i b_i with b_i = w_i / max(nu, |v - u_i|).

    Attributes:
        iterations: Steps of the algorithm. The paper takes 3, as each costs a round of secure aggregation; here none
            does.
        smoothing: Smallest distance that is divided by, nu.
    """

    iterations: PositiveInt = 100
    smoothing: PositiveFloat = 1e-6

    name = "geometric-median"

    def combined(self, updates: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """The geometric median."""
        # Relative weights: divided by nu, a very large weight would not be finite.
        shares = weights / tf.reduce_max(weights)

        def step(point: tf.Tensor) -> tuple[tf.Tensor]:
            distances = tf.norm(updates - point, axis=1)
            return (mean(updates, shares / tf.maximum(distances, self.smoothing)),)

        start = (mean(updates, shares),)
        (point,) = tf.while_loop(lambda _: tf.constant(True), step, start, maximum_iterations=self.iterations)
        return point
