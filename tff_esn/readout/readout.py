"""The trainable part of a network: a dense layer on the reservoir's states.

    y = f(x W + b)

f is the identity for a readout solved by ridge regression, and a sigmoid or softmax for one trained by gradients. Two
classes have one output, the sigmoid of class 1; more have one each. `tff_esn.readout.likelihood` follows the same rule
in TensorFlow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Literal

import numpy as np
from numpy.typing import NDArray

from tff_esn.seeds import generator_for

Activation = Literal["linear", "sigmoid", "softmax"]


def _sigmoid(net: NDArray) -> NDArray:
    return 1.0 / (1.0 + np.exp(-np.clip(net, -80.0, 80.0)))


def _softmax(net: NDArray) -> NDArray:
    exponentials = np.exp(net - net.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


_ACTIVATIONS: dict[str, Callable[[NDArray], NDArray]] = {
    "linear": lambda net: net,
    "sigmoid": _sigmoid,
    "softmax": _softmax,
}


@dataclass(frozen=True)
class Readout:
    """A dense layer on states.

    Attributes:
        kernel: `(units, outputs)`, W; float32 if trained by gradients, float64 if solved.
        bias: `(outputs,)`, b.
        activation: f. One output has no softmax, and several have no sigmoid.
    """

    kernel: NDArray[np.floating]
    bias: NDArray[np.floating]
    activation: Activation

    def __post_init__(self) -> None:
        expected = "sigmoid" if len(self.bias) == 1 else "softmax"
        if self.activation not in (expected, "linear"):
            raise ValueError(f"readout with activation {self.activation!r}; expected {expected!r} or 'linear'")

    @classmethod
    def from_weights(cls, weights: NDArray[np.floating], activation: Activation) -> Readout:
        """A readout from its weights; see `weights`."""
        return cls(weights[:-1], weights[-1], activation)

    @property
    def weights(self) -> NDArray[np.floating]:
        """`(units + 1, outputs)`: kernel and bias in one, the bias as the weight of a unit that is always 1."""
        return np.concatenate([self.kernel, self.bias[None]])

    def outputs(self, states: NDArray) -> NDArray:
        """The outputs for states `(n, units)`: `(n,)` if there is one, else `(n, outputs)`."""
        return self.activate(states @ self.kernel)

    def activate(self, products: NDArray) -> NDArray:
        """The outputs, given the products `(n, outputs)` of states and kernel."""
        return _ACTIVATIONS[self.activation](squeeze_single(products + self.bias))


def squeeze_single(outputs: NDArray) -> NDArray:
    """`(n,)` for a single output, `(n, outputs)` for several."""
    return outputs[:, 0] if outputs.shape[1] == 1 else outputs


def nearest_probabilities(outputs: NDArray) -> NDArray:
    """The probabilities nearest to outputs `(n, classes)`, in their order (Duchi et al. 2008, Figure 1).

    >>> nearest_probabilities(np.array([[0.2, 0.5, 0.3], [-0.1, 0.3, 0.8], [3.0, 0.0, 0.0]])).round(3)
    array([[0.2 , 0.5 , 0.3 ],
           [0.  , 0.25, 0.75],
           [1.  , 0.  , 0.  ]])
    """
    descending = -np.sort(-outputs, axis=1)
    excess = (np.cumsum(descending, axis=1) - 1) / np.arange(1, outputs.shape[1] + 1)
    positive = np.count_nonzero(descending > excess, axis=1)
    return np.maximum(outputs - np.take_along_axis(excess, positive[:, None] - 1, axis=1), 0)


def output_layer(classes: int) -> tuple[int, Activation]:
    """The number of outputs of a classifier with `classes` classes, and their activation.

    >>> output_layer(2), output_layer(4)
    ((1, 'sigmoid'), (4, 'softmax'))
    """
    return (1, "sigmoid") if classes == 2 else (classes, "softmax")


def class_targets(labels: NDArray[np.integer], classes: int) -> NDArray[np.float64]:
    """The outputs `(n, outputs)` that labels ask for, each 0 or 1."""
    outputs, _ = output_layer(classes)
    return np.eye(classes)[labels][:, -outputs:]


def initial_readout(units: int, classes: int, seed: int) -> Readout:
    """Glorot-uniform weights and a bias of 0, as `tf.keras.layers.Dense` has them."""
    outputs, activation = output_layer(classes)
    limit = np.sqrt(6.0 / (units + outputs))
    kernel = generator_for(seed, "readout").uniform(-limit, limit, (units, outputs))
    return Readout(kernel.astype(np.float32), np.zeros(outputs, np.float32), activation)
