"""FedAvg (McMahan et al. 2017, thesis Algorithm 1) and FedProx (Li et al. 2020): a client's objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from tff_esn.model.training import Batch, Weights


class ProximalMemory(NamedTuple):
    """FedProx's mu, and the server's weights."""

    strength: tf.Tensor
    server: Weights


@dataclass(frozen=True)
class ProximalObjective:
    """FedProx's term mu/2 |w - w_server|^2; with mu = 0 it is FedAvg, which has none."""

    strength: float = 0.0

    def initialize(self, weights: Weights) -> Any:
        """Mu, for the clients."""
        return tf.constant(self.strength, tf.float32)

    def start(self, server: Any, own: Any, weights: Weights) -> ProximalMemory:
        """The weights to stay near to."""
        return ProximalMemory(server, weights)

    def __call__(self, weights: Weights, batch: Batch, memory: ProximalMemory) -> tuple[tf.Tensor, ProximalMemory]:
        """The term at `weights`."""
        if not self.strength:
            return tf.constant(0.0), memory
        distances = tf.nest.map_structure(lambda w, w0: tf.reduce_sum((w - w0) ** 2), weights, memory.server)
        return memory.strength / 2 * tf.add_n(tf.nest.flatten(distances)), memory

    def message(self, server: Any, trained: Weights, everything: Batch, memory: Any) -> Any:
        """Clients send their weights only."""
        return ()

    def silence(self, weights: Weights) -> Any:
        """Nothing."""
        return ()

    def finish(self, server: Any, total: Any) -> Any:
        """The server learns nothing beside the weights."""
        return server
