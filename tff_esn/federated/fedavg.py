"""FedAvg (McMahan et al. 2017, thesis Algorithm 1).

In round t each drawn client k starts from the server's w_t and minimises its loss F_k (thesis eq. 2.12) to w_k with its
own optimizer; the server then steps along the mean of the updates (Reddi et al. 2021, thesis section 6.2), which with
a server rate of 1 is FedAvg's mean of the clients' weights:

    w_{t+1} = w_t + eta_server sum_k (n_k / sum_j n_j) (w_k - w_t),        k and j over the clients drawn
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic.dataclasses import dataclass

from tff_esn.algorithm import ALGORITHMS
from tff_esn.federated.algorithm import GradientAlgorithm
from tff_esn.federated.objective import ProximalObjective
from tff_esn.parameters import STRICT
from tff_esn.runtime.context import load_tff

if TYPE_CHECKING:
    from collections.abc import Callable


@ALGORITHMS.register
@dataclass(frozen=True, repr=False, config=STRICT)
class FedAvg(GradientAlgorithm):
    """The mean of the clients' updates, weighted by their numbers of examples."""

    name = "fedavg"
    label = "FedAvg"

    def objective(self) -> ProximalObjective:
        """Clients minimise their loss alone."""
        return ProximalObjective()

    def build(self, model: Callable[[], Any], client_optimizer: Any, server_optimizer: Any) -> Any:
        """TFF's weighted FedAvg; the mean is 0, not NaN, if no client counts."""
        tff = load_tff()
        return tff.learning.algorithms.build_weighted_fed_avg(
            model,
            client_optimizer,
            server_optimizer,
            model_aggregator=tff.aggregators.MeanFactory(no_nan_division=True),
        )
