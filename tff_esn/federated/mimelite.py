"""Mime Lite (Karimireddy et al. 2021): clients use the server's optimizer state and do not change it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic.dataclasses import dataclass

from tff_esn.algorithm import ALGORITHMS
from tff_esn.federated.algorithm import GradientAlgorithm
from tff_esn.parameters import STRICT
from tff_esn.runtime.context import load_tff

if TYPE_CHECKING:
    from collections.abc import Callable


@ALGORITHMS.register
@dataclass(frozen=True, repr=False, config=STRICT)
class MimeLite(GradientAlgorithm):
    """TFF's weighted Mime Lite."""

    name = "mimelite"
    label = "MimeLite"

    def build(self, model: Callable[[], Any], client_optimizer: Any, server_optimizer: Any) -> Any:
        """TFF's process."""
        tff = load_tff()
        return tff.learning.algorithms.build_weighted_mime_lite(
            model,
            client_optimizer,
            server_optimizer,
            model_aggregator=tff.aggregators.MeanFactory(no_nan_division=True),
        )
