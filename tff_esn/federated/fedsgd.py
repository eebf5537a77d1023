"""FedSGD (McMahan et al. 2017): the server steps along the mean of the clients' gradients."""

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
class FedSGD(GradientAlgorithm):
    """TFF's FedSGD."""

    name = "fedsgd"
    label = "FedSGD"

    def build(self, model: Callable[[], Any], client_optimizer: Any, server_optimizer: Any) -> Any:
        """TFF's process; clients take no local steps."""
        tff = load_tff()
        mean = tff.aggregators.MeanFactory(no_nan_division=True)
        return tff.learning.algorithms.build_fed_sgd(model, server_optimizer, model_aggregator=mean)
