"""Terms of a client's objective in addition to its loss, and the messages that they need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tff_esn.lazy import LazyModule

if TYPE_CHECKING:
    import tensorflow as tf

    from tff_esn.readout.training import Batch
else:
    tf = LazyModule("tensorflow")


class Objective(Protocol):
    """A term of a client's objective in addition to its loss, and the messages that it needs."""

    def initialize(self, weights: tf.Tensor) -> Any:
        """State of the server before the first round; sent to every client of a round."""

    def start(self, server: Any, own: Any, weights: tf.Tensor) -> Any:
        """State of a client before its first step, from the server's and the client's message of the previous round."""

    def __call__(self, weights: tf.Tensor, batch: Batch, memory: Any) -> tuple[tf.Tensor | None, Any]:
        """The term of the objective; see `tff_esn.readout.training.Penalty`."""

    def message(self, server: Any, trained: tf.Tensor, everything: Batch, memory: Any) -> Any:
        """A client's message; the server sums them."""

    def empty_message(self, weights: tf.Tensor) -> Any:
        """A message of zeros."""

    def finish(self, server: Any, total: Any) -> Any:
        """State of the server after the round."""

    def __hash__(self) -> int:
        """Equal objectives share a process."""

    def without_rates(self) -> Objective:
        """A representative, equal for all objectives that differ only in what `initialize` returns."""


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

    def empty_message(self, weights: tf.Tensor) -> Any:
        """Nothing."""
        return ()

    def finish(self, server: Any, total: Any) -> Any:
        """The server keeps nothing in addition to the weights."""
        return server

    def without_rates(self) -> ProximalObjective:
        """Itself: with and without a strength it computes other terms."""
        return self
