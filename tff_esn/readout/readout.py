"""A dense readout."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tff_esn.seeds import generator_for


@dataclass(frozen=True)
class Readout:
    """A dense layer: `kernel` `(units, outputs)` and `bias` `(outputs,)`; one output is a sigmoid, more a softmax."""

    kernel: NDArray[np.float32]
    bias: NDArray[np.float32]

    @classmethod
    def of(cls, weights: NDArray[np.float32]) -> Readout:
        """A readout from its weights; see `weights`."""
        return cls(weights[:-1], weights[-1])

    @property
    def weights(self) -> NDArray[np.float32]:
        """`(units + 1, outputs)`: kernel and bias in one, the bias as the weight of a unit that is always 1."""
        return np.concatenate([self.kernel, self.bias[None]])

    def probabilities(self, states: NDArray) -> NDArray:
        """`(n,)` for one output, `(n, outputs)` for more."""
        logits = states @ self.kernel + self.bias
        if logits.shape[1] == 1:
            return 1.0 / (1.0 + np.exp(-np.clip(logits[:, 0], -80.0, 80.0)))
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
        return exponentials / exponentials.sum(axis=1, keepdims=True)


def initial_readout(units: int, classes: int, seed: int) -> Readout:
    """Glorot-uniform weights and a bias of 0, as `tf.keras.layers.Dense` has them."""
    outputs = 1 if classes == 2 else classes
    limit = np.sqrt(6.0 / (units + outputs))
    kernel = generator_for(seed, "readout").uniform(-limit, limit, (units, outputs))
    return Readout(kernel.astype(np.float32), np.zeros(outputs, np.float32))
