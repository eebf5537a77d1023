"""FedProx (Li et al. 2020, eq. 2): clients minimise F_k(w) + mu / 2 |w - w_t|^2.

TFF 0.87 adds mu (w_t - w) to the gradient, which drives clients away from the server; here mu (w - w_t) is added. The
engines `builtin` and `graph` are TFF's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic.dataclasses import dataclass

from tff_esn.algorithm import ALGORITHMS
from tff_esn.federated.fedavg import FedAvg
from tff_esn.federated.objective import ProximalObjective
from tff_esn.parameters import STRICT, PositiveFloat
from tff_esn.runtime.context import load_tff

if TYPE_CHECKING:
    from collections.abc import Callable


@ALGORITHMS.register
@dataclass(frozen=True, repr=False, config=STRICT)
class FedProx(FedAvg):
    """FedAvg with a proximal term.

    Attributes:
        proximal_strength: Strength mu of the proximal term.
    """

    proximal_strength: PositiveFloat = 0.1

    name = "fedprox"
    label = "FedProx"

    def objective(self) -> ProximalObjective:
        """The proximal term."""
        return ProximalObjective(self.proximal_strength)

    def build(self, model: Callable[[], Any], client_optimizer: Any, server_optimizer: Any) -> Any:
        """TFF's weighted FedProx."""
        tff = load_tff()
        return tff.learning.algorithms.build_weighted_fed_prox(
            model,
            self.proximal_strength,
            client_optimizer,
            server_optimizer,
            model_aggregator=tff.aggregators.MeanFactory(no_nan_division=True),
        )
