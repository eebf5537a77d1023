"""A dense readout, and its training on states that are computed once.

The reservoir never changes, so training `Reservoir + Dense` and training `Dense` on the
reservoir's states are the same; the second runs as one compiled loop.
"""

from __future__ import annotations

import atexit
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tff_esn.config import ReadoutConfig
from tff_esn.errors import ConfigError
from tff_esn.seeds import generator_for

# Keras's defaults of Adam.
_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-7


@dataclass(frozen=True)
class Readout:
    """A dense layer: `kernel` `(units, outputs)` and `bias` `(outputs,)`; one output is a sigmoid, more a softmax."""

    kernel: NDArray[np.float32]
    bias: NDArray[np.float32]

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


def fit_readout(
    states: NDArray[np.float32],
    labels: NDArray[np.int64],
    classes: int,
    config: ReadoutConfig,
    seed: int,
    start: Readout | None = None,
) -> Readout:
    """Minimises the class-weighted cross-entropy by Adam, epoch after epoch.

    Equal to `tf.keras.Model.fit` with `class_weight` on a dense layer with the same start.
    """
    if config.class_weight is not None and len(config.class_weight) != classes:
        raise ConfigError(f"class_weight has {len(config.class_weight)} values; expected one for each of {classes}")
    missing = [label for label in range(classes) if not (labels == label).any()]
    if missing:
        raise ConfigError(f"no training example of class {missing[0]}; expected all {classes} classes")
    readout = start or initial_readout(states.shape[1], classes, seed)
    weight = np.ones(len(labels), np.float32)
    if config.class_weight is not None:
        weight = np.array(config.class_weight, np.float32)[labels]
    targets = labels[:, None] if classes == 2 else np.eye(classes)[labels]
    order = np.arange(len(labels))
    random = generator_for(seed, "order")
    moments: list[Any] = [np.zeros_like(part) for part in (readout.kernel, readout.bias) for _ in range(2)]
    parameters: list[Any] = [readout.kernel, readout.bias]
    step = np.int32(0)
    for _ in range(config.epochs):
        if config.order == "shuffled":
            order = random.permutation(len(labels))
        batches = _batches(config.batch_size, states[order], targets[order].astype(np.float32), weight[order])
        *result, last = _compiled_epoch()(*batches, *parameters, *moments, np.float32(config.learning_rate), step)
        parameters, moments, step = result[:2], result[2:], last
    return Readout(parameters[0].numpy(), parameters[1].numpy())


def _batches(size: int, states: NDArray, targets: NDArray, weight: NDArray) -> tuple[NDArray, ...]:
    """Arrays by batch; the last is filled up with examples of weight 0, and each weight is a share of its batch."""
    count = -(-len(states) // size)
    missing = count * size - len(states)

    def by_batch(values: NDArray) -> NDArray:
        padded = np.concatenate([values, np.zeros((missing, *values.shape[1:]), values.dtype)]) if missing else values
        return padded.reshape(count, size, *values.shape[1:])

    sizes = np.full(count, size, np.float32)
    sizes[-1] -= missing
    return by_batch(states), by_batch(targets), by_batch(weight) / sizes[:, None]


@cache
def _compiled_epoch() -> Any:
    """One epoch as one XLA program, traced once per shape."""
    import tensorflow as tf

    def adam(value: Any, gradient: Any, first: Any, second: Any, rate: Any) -> tuple[Any, Any, Any]:
        first = _BETA_1 * first + (1 - _BETA_1) * gradient
        second = _BETA_2 * second + (1 - _BETA_2) * gradient**2
        return value - rate * first / (tf.sqrt(second) + _EPSILON), first, second

    @tf.function(jit_compile=True)
    def epoch(
        states: Any, targets: Any, weight: Any, kernel: Any, bias: Any, m_k: Any, v_k: Any, m_b: Any, v_b: Any,
        learning_rate: Any, step: Any,
    ) -> Any:  # fmt: skip
        def train(i: Any, step: Any, kernel: Any, bias: Any, m_k: Any, v_k: Any, m_b: Any, v_b: Any) -> Any:
            logits = states[i] @ kernel + bias
            answer = tf.sigmoid(logits) if kernel.shape[1] == 1 else tf.nn.softmax(logits)
            error = weight[i][:, None] * (answer - targets[i])
            step += 1
            t = tf.cast(step, tf.float32)
            rate = learning_rate * tf.sqrt(1 - _BETA_2**t) / (1 - _BETA_1**t)
            kernel, m_k, v_k = adam(kernel, tf.matmul(states[i], error, transpose_a=True), m_k, v_k, rate)
            bias, m_b, v_b = adam(bias, tf.reduce_sum(error, axis=0), m_b, v_b, rate)
            return i + 1, step, kernel, bias, m_k, v_k, m_b, v_b

        count = states.shape[0]
        _, step, *rest = tf.while_loop(lambda i, *_: i < count, train, (0, step, kernel, bias, m_k, v_k, m_b, v_b))
        return (*rest, step)

    # Let go before the interpreter takes TensorFlow's modules apart, which its functions complain about.
    atexit.register(_compiled_epoch.cache_clear)
    return epoch
