"""Krum (Blanchard et al. 2017)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from tff_esn.federated.defences.defence import DEFENCES, Defence
from tff_esn.lazy import LazyModule
from tff_esn.parameters import STRICT

if TYPE_CHECKING:
    import tensorflow as tf
else:
    tf = LazyModule("tensorflow")


@DEFENCES.register
@dataclass(frozen=True, repr=False, config=STRICT)
class Krum(Defence):
    """The update with the least s_i = sum of |u_i - u_j|^2 over the m - f - 2 nearest others j.

    Of equal scores the earlier client's is less, as in the paper. Its guarantee needs m > 2 f + 2. With fewer clients
    at least one neighbour counts, and two bad clients who send the same update are then each other's nearest: they win.

    Attributes:
        bad: Number of bad clients, f. With five clients per round the guarantee covers at most one, and with f = 2
            each update would be compared with one other only.
    """

    bad: Annotated[int, Field(ge=0)] = 1

    name = "krum"

    def accepts(self, updates: tf.Tensor) -> tf.Tensor:
        """The client of least score."""
        return least_scores(updates, self.bad, 1)


def least_scores(updates: tf.Tensor, bad: int, kept: int) -> tf.Tensor:
    """Whether a client's score s_i is among the `kept` least, with f = `bad`."""
    distances = tf.reduce_sum((updates[:, None] - updates) ** 2, axis=2)
    neighbours = tf.maximum(tf.shape(updates)[0] - bad - 2, 1)
    # The nearest is the client itself.
    scores = tf.reduce_sum(tf.sort(distances)[:, 1 : 1 + neighbours], axis=1)
    return tf.argsort(tf.argsort(scores, stable=True)) < kept
