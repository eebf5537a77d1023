"""FedAvg with equal client weights, as in thesis Listing 3.3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic.dataclasses import dataclass

from tff_esn.algorithm import ALGORITHMS
from tff_esn.federated.fedavg import FedAvg
from tff_esn.parameters import STRICT
from tff_esn.runtime.context import load_tff

if TYPE_CHECKING:
    from collections.abc import Callable


@ALGORITHMS.register
@dataclass(frozen=True, repr=False, config=STRICT)
class UnweightedFedAvg(FedAvg):
    """The plain mean of the clients' updates."""

    name = "fedavg-unweighted"
    label = "FedAvg, unweighted"

    @property
    def client_weighting(self) -> str:
        """Equal weights."""
        return "uniform"

    def build(self, model: Callable[[], Any], client_optimizer: Any, server_optimizer: Any) -> Any:
        """TFF's unweighted FedAvg."""
        return load_tff().learning.algorithms.build_unweighted_fed_avg(model, client_optimizer, server_optimizer)
