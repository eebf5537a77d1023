"""The median of each coordinate (Yin et al. 2018)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic.dataclasses import dataclass

from tff_esn.federated.defences.defence import DEFENCES, Defence, median
from tff_esn.parameters import STRICT

if TYPE_CHECKING:
    import tensorflow as tf


@DEFENCES.register
@dataclass(frozen=True, repr=False, config=STRICT)
class Median(Defence):
    """median_i u_ij for each coordinate j, unweighted; of two middle values their mean."""

    name = "median"

    def combined(self, updates: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """The median of each coordinate."""
        return median(updates)
