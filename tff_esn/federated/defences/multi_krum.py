"""Multi-Krum (Blanchard et al. 2017)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic.dataclasses import dataclass

from tff_esn.federated.defences.defence import DEFENCES
from tff_esn.federated.defences.krum import Krum, least_scores
from tff_esn.parameters import STRICT, PositiveInt

if TYPE_CHECKING:
    import tensorflow as tf


@DEFENCES.register
@dataclass(frozen=True, repr=False, config=STRICT)
class MultiKrum(Krum):
    """The weighted mean of the k updates of least score, by Krum's scores; all are accepted if m <= k.

    Attributes:
        kept: Number of accepted updates, k.
    """

    kept: PositiveInt = 3

    name = "multi-krum"

    def accepts(self, updates: tf.Tensor) -> tf.Tensor:
        """The k clients of least score."""
        return least_scores(updates, self.bad, self.kept)
