"""The state equation of a reservoir, once for NumPy and once for TensorFlow.

    n(t) = W_in u(t) + W x(t-1)
    h(t) = tanh(g * n(t) + b)
    x(t) = (1 - a) x(t-1) + a h(t)                      (Jaeger et al. 2007; thesis definition 2.1.4)

`states` and `deployment.predict` work in buffers of their own, and an exported step has the form that TensorFlow Lite
has operations for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tff_esn.reservoir.weights import ReservoirWeights


class Step(NamedTuple):
    """Result of a step, arrays or tensors `(..., units)`.

    Attributes:
        net: Net input n(t).
        activation: h(t).
        state: x(t).
    """

    net: Any
    activation: Any
    state: Any


def step(state: NDArray, inputs: NDArray, weights: ReservoirWeights) -> Step:
    """One step in NumPy, in the precision of `state`, from x(t-1) `(..., units)` and u(t) `(..., inputs)`."""
    net = np.concatenate((state, inputs), axis=-1) @ weights.stacked_kernel
    activation = np.tanh(weights.gain * net + weights.bias)
    rate = state.dtype.type(weights.leaking_rate)
    return Step(net, activation, (1 - rate) * state + rate * activation)


def tf_step(state: Any, inputs: Any, weights: ReservoirWeights, activation: Callable[[Any], Any] | None = None) -> Step:
    """One step in TensorFlow: tensors `(n, units)` and `(n, inputs)`, weights whose arrays may be tensors.

    Args:
        state: x(t-1).
        inputs: u(t).
        weights: The reservoir.
        activation: A function to take the place of tanh.
    """
    import tensorflow as tf

    rate = weights.leaking_rate
    net = tf.matmul(inputs, weights.input_kernel) + tf.matmul(state, weights.recurrent_kernel)
    activated = (activation or tf.tanh)(weights.gain * net + weights.bias)
    return Step(net, activated, (1 - rate) * state + rate * activated)
