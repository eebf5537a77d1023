"""FedAvg (McMahan et al. 2017, thesis Algorithm 1) and FedProx (Li et al. 2020): a client's objective.

In round t each drawn client k starts from the server's w_t and minimises

    F_k(w) + mu / 2 |w - w_t|^2          mu = 0: FedAvg (thesis eq. 2.12); mu > 0: FedProx (Li et al. 2020, eq. 2)

to w_k with its own optimizer; the server then steps along the mean of the updates (Reddi et al. 2021, thesis
section 6.2), which with a server rate of 1 is FedAvg's mean of the clients' weights:

    w_{t+1} = w_t + eta_server sum_k (n_k / sum_j n_j) (w_k - w_t),        k and j over the clients drawn
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from tff_esn.readout.training import Batch


class ProximalMemory(NamedTuple):
    """FedProx's mu, and the server's weights."""

    strength: tf.Tensor
    server: tf.Tensor


@dataclass(frozen=True)
class ProximalObjective:
    """FedProx's term mu/2 |w - w_server|^2; with mu = 0 it is FedAvg, which has none."""

    strength: float = 0.0

    def initialize(self, weights: tf.Tensor) -> Any:
        """Mu, for the clients."""
        return tf.constant(self.strength, tf.float32)

    def start(self, server: Any, own: Any, weights: tf.Tensor) -> Any:
        """The weights to stay near to."""
        return ProximalMemory(server, weights) if self.strength else ()

    def __call__(self, weights: tf.Tensor, batch: Batch, memory: Any) -> tuple[tf.Tensor | None, Any]:
        """The term at `weights`."""
        if not self.strength:
            return None, memory
        return memory.strength / 2 * tf.reduce_sum((weights - memory.server) ** 2), memory

    def message(self, server: Any, trained: tf.Tensor, everything: Batch, memory: Any) -> Any:
        """Clients send their weights only."""
        return ()

    def silence(self, weights: tf.Tensor) -> Any:
        """Nothing."""
        return ()

    def finish(self, server: Any, total: Any) -> Any:
        """The server learns nothing beside the weights."""
        return server
