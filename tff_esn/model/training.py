"""A readout's training on states that are computed once: an epoch is one compiled loop over batches.

The reservoir never changes, so training `Reservoir + Dense` and training `Dense` on the reservoir's states are the
same. The centralised model trains so on everybody's states, and so does each client of a federation on its own.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tff_esn.config import ReadoutConfig
from tff_esn.errors import ConfigError
from tff_esn.model.readout import Readout, initial_readout
from tff_esn.seeds import generator_for


class Weights(NamedTuple):
    """A dense layer's: `kernel` `(units, outputs)` and `bias` `(outputs,)`."""

    kernel: tf.Tensor
    bias: tf.Tensor


class Batch(NamedTuple):
    """Examples of one step of training, or with one more axis in front the batches of an epoch.

    Attributes:
        states: `(size, units)`.
        targets: `(size, outputs)`: 0 or 1.
        weight: `(size,)`, the weight of each example's class; 0 for what only fills up the last batch.
        examples: How many there are, not counting what fills up.
    """

    states: tf.Tensor
    targets: tf.Tensor
    weight: tf.Tensor
    examples: tf.Tensor


class Optimizer(Protocol):
    """A rule for steps, as `tff.learning.optimizers.Optimizer`, with the learning rate handed in."""

    def initialize(self, weights: Any) -> Any:
        """What the rule remembers before the first step."""

    def next(self, memory: Any, weights: Any, gradients: Any, learning_rate: tf.Tensor) -> tuple[Any, Any]:
        """What it remembers after a step, and the new weights."""


class Penalty(Protocol):
    """A term of the objective beside the loss."""

    def __call__(self, weights: Weights, batch: Batch, memory: Any) -> tuple[tf.Tensor, Any]:
        """The term at `weights`, and what is remembered until the next step."""


class Sgd:
    """w <- w - eta g."""

    def initialize(self, weights: Any) -> Any:
        """Nothing to remember."""
        return ()

    def next(self, memory: Any, weights: Any, gradients: Any, learning_rate: tf.Tensor) -> tuple[Any, Any]:
        """One step."""
        return memory, tf.nest.map_structure(lambda w, g: w - learning_rate * g, weights, gradients)


class Adam:
    """Kingma and Ba (2015), with the defaults and in the form of Keras and of TFF."""

    BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-7

    def initialize(self, weights: Any) -> Any:
        """Number of steps, and the gradients' first and second moments."""
        return tf.constant(0), *(tf.nest.map_structure(tf.zeros_like, weights) for _ in range(2))

    def next(self, memory: Any, weights: Any, gradients: Any, learning_rate: tf.Tensor) -> tuple[Any, Any]:
        """One step."""
        step, first, second = memory
        step += 1
        t = tf.cast(step, tf.float32)
        rate = learning_rate * tf.sqrt(1 - self.BETA_2**t) / (1 - self.BETA_1**t)
        first = tf.nest.map_structure(lambda m, g: self.BETA_1 * m + (1 - self.BETA_1) * g, first, gradients)
        second = tf.nest.map_structure(lambda v, g: self.BETA_2 * v + (1 - self.BETA_2) * g**2, second, gradients)
        weights = tf.nest.map_structure(
            lambda w, m, v: w - rate * m / (tf.sqrt(v) + self.EPSILON), weights, first, second
        )
        return (step, first, second), weights


OPTIMIZERS: dict[str, Optimizer] = {"adam": Adam(), "sgd": Sgd()}


class Progress(NamedTuple):
    """Where training has come to.

    Attributes:
        weights: The readout's.
        optimizer: What the optimizer remembers.
        penalty: What the penalty remembers.
        objective: Sum of the objective over the examples so far.
    """

    weights: Weights
    optimizer: Any
    penalty: Any
    objective: tf.Tensor


def logits_of(weights: Weights, states: tf.Tensor) -> tf.Tensor:
    """W x + b."""
    return tf.matmul(states, weights.kernel) + weights.bias


def probabilities_of(logits: tf.Tensor) -> tf.Tensor:
    """A sigmoid of one output, a softmax of several."""
    return tf.sigmoid(logits) if logits.shape[-1] == 1 else tf.nn.softmax(logits)


def weighted_losses(weights: Weights, batch: Batch) -> tf.Tensor:
    """The cross-entropy of each example times the weight of its class."""
    logits = logits_of(weights, batch.states)
    if logits.shape[-1] == 1:
        losses = tf.nn.sigmoid_cross_entropy_with_logits(batch.targets, logits)[:, 0]
    else:
        losses = tf.nn.softmax_cross_entropy_with_logits(batch.targets, logits)
    return batch.weight * losses


def cross_entropy(weights: Weights, batch: Batch) -> tf.Tensor:
    """The class-weighted cross-entropy of a batch, as Keras has it: weighted losses over the number of examples."""
    return tf.reduce_sum(weighted_losses(weights, batch)) / batch.examples


def cross_entropy_gradient(weights: Weights, batch: Batch) -> Weights:
    """Its gradient, X^T (p - y) with the examples' weights: in closed form a third faster than by a tape."""
    error = probabilities_of(logits_of(weights, batch.states)) - batch.targets
    error *= (batch.weight / batch.examples)[:, None]
    return Weights(tf.matmul(batch.states, error, transpose_a=True), tf.reduce_sum(error, axis=0))


def batches_of(
    states: tf.Tensor,
    labels: tf.Tensor,
    size: int,
    classes: int,
    class_weight: Sequence[float] | None = None,
    order: tf.Tensor | None = None,
) -> tuple[Batch, tf.Tensor]:
    """Examples in batches.

    Args:
        states: `(rows, units)`, the number of rows a multiple of `size`.
        labels: `(rows,)`, class of each; negative for rows that only fill up, the last ones.
        size: Examples in a batch; the last may have fewer.
        classes: Number of classes.
        class_weight: Weight of each class; None for equal ones.
        order: `(rows,)`, in which order they come; None for as they are.

    Returns:
        The batches, and how many of them hold examples.
    """
    if order is not None:
        states, labels = tf.gather(states, order), tf.gather(labels, order)
    weight = tf.constant((*(class_weight or (1.0,) * classes), 0.0), tf.float32)
    weight = tf.gather(weight, tf.where(labels < 0, classes, labels))
    targets = tf.equal(labels[:, None], 1 if classes == 2 else tf.range(classes))

    def by_batch(values: tf.Tensor) -> tf.Tensor:
        return tf.reshape(values, (-1, size, *values.shape[1:]))

    examples = tf.reduce_sum(by_batch(tf.cast(labels >= 0, tf.float32)), axis=1)
    batches = Batch(by_batch(states), by_batch(tf.cast(targets, tf.float32)), by_batch(weight), examples)
    return batches, tf.math.count_nonzero(examples, dtype=tf.int32)


def shuffled_order(labels: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """A permutation of the rows that depends on `seed` `(2,)` alone, with those that only fill up last."""
    chance = tf.random.stateless_uniform(tf.shape(labels), seed)
    return tf.argsort(tf.where(labels < 0, 2.0, chance))


def filled_up(values: NDArray, size: int, filling: float = 0) -> NDArray:
    """The rows of an array with as many more as make their number a multiple of `size`."""
    missing = -len(values) % size
    return np.concatenate([values, np.full((missing, *values.shape[1:]), filling, values.dtype)])


def build_epoch(optimizer: Optimizer, penalty: Penalty | None = None) -> Callable[..., Progress]:
    """One epoch as one XLA program, traced once per shape.

    Returns:
        A function of the batches, how many of them count, the progress so far and the learning rate.
    """

    @tf.function(jit_compile=True)
    def epoch(batches: Batch, count: tf.Tensor, progress: Progress, learning_rate: tf.Tensor) -> Progress:
        def step(i: tf.Tensor, so_far: Progress) -> tuple[tf.Tensor, Progress]:
            return i + 1, training_step(optimizer, penalty, _batch(batches, i), so_far, learning_rate)

        return tf.while_loop(lambda i, _: i < count, step, (tf.constant(0), progress))[1]

    return epoch


def build_trajectory(optimizer: Optimizer) -> Callable[..., Weights]:
    """The weights after every step of an epoch, stacked: a function of the batches, the progress and the rate."""

    @tf.function(jit_compile=True)
    def trajectory(batches: Batch, progress: Progress, learning_rate: tf.Tensor) -> Weights:
        def step(so_far: Progress, batch: Batch) -> Progress:
            return training_step(optimizer, None, batch, so_far, learning_rate)

        return tf.scan(step, batches, progress).weights

    return trajectory


def training_step(
    optimizer: Optimizer, penalty: Penalty | None, batch: Batch, so_far: Progress, learning_rate: tf.Tensor
) -> Progress:
    """One step along the gradient of the loss and the penalty."""
    weights, memory = so_far.weights, so_far.penalty
    objective, gradients = cross_entropy(weights, batch), cross_entropy_gradient(weights, batch)
    if penalty is not None:
        with tf.GradientTape() as tape:
            tape.watch(weights)
            term, memory = penalty(weights, batch, memory)
        of_term = tape.gradient(term, weights, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        objective, gradients = objective + term, tf.nest.map_structure(tf.add, gradients, of_term)
    optimizer_memory, weights = optimizer.next(so_far.optimizer, weights, gradients, learning_rate)
    return Progress(weights, optimizer_memory, memory, so_far.objective + objective * batch.examples)


def _batch(batches: Batch, i: tf.Tensor) -> Batch:
    states, targets, weight, examples = (part[i] for part in batches)
    return Batch(states, targets, weight, examples)


@cache
def _kept_epoch(optimizer: str) -> Callable[..., Progress]:
    # Let go before the interpreter takes TensorFlow's modules apart, which its functions complain about.
    atexit.register(_kept_epoch.cache_clear)
    return build_epoch(OPTIMIZERS[optimizer])


def fit_readout(
    states: NDArray[np.float32],
    labels: NDArray[np.int64],
    classes: int,
    config: ReadoutConfig,
    seed: int,
    start: Readout | None = None,
) -> Readout:
    """Minimises the class-weighted cross-entropy, epoch after epoch.

    Equal to `tf.keras.Model.fit` with `class_weight` on a dense layer with the same start.
    """
    check_class_weight(config, classes)
    missing = [label for label in range(classes) if not (labels == label).any()]
    if missing:
        raise ConfigError(f"no training example of class {missing[0]}; expected all {classes} classes")
    readout = start or initial_readout(states.shape[1], classes, seed)
    weights = Weights(tf.constant(readout.kernel), tf.constant(readout.bias))
    progress = Progress(weights, OPTIMIZERS[config.optimizer].initialize(weights), (), tf.constant(0.0))
    random, size = generator_for(seed, "order"), config.batch_size
    for _ in range(config.epochs):
        order = random.permutation(len(labels)) if config.order == "shuffled" else slice(None)
        rows, targets = filled_up(states[order], size), filled_up(labels[order].astype(np.int32), size, -1)
        batches, count = batches_of(tf.constant(rows), tf.constant(targets), size, classes, config.class_weight)
        progress = _kept_epoch(config.optimizer)(batches, count, progress, tf.constant(config.learning_rate))
    return Readout(*(part.numpy() for part in progress.weights))


def check_class_weight(config: ReadoutConfig, classes: int) -> None:
    """Refuses weights for another number of classes."""
    if config.class_weight is not None and len(config.class_weight) != classes:
        raise ConfigError(f"class_weight has {len(config.class_weight)} values; expected one for each of {classes}")
