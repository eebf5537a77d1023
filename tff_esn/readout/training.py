"""A readout's training on states that are computed once: an epoch is one compiled loop over batches.

The reservoir never changes, so training `Reservoir + Dense` and training `Dense` on the reservoir's states are the
same. The centralised model trains on all states in this way, and each client of a federation on its own states.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tff_esn.readout.likelihood import losses_of, probabilities_of, targets_of
from tff_esn.readout.parameters import GradientTraining, class_weights
from tff_esn.readout.readout import Readout, initial_readout
from tff_esn.seeds import generator_for


class Batch(NamedTuple):
    """Examples of one step of training, or with one more axis in front the batches of an epoch.

    Attributes:
        states: `(size, units + 1)`, the last of them always 1.
        targets: `(size, outputs)`: 0 or 1.
        share: `(size, 1)`: weight of each example's class, divided by `examples`; 0 for what only fills up.
        examples: How many there are, not counting what fills up.
    """

    states: tf.Tensor
    targets: tf.Tensor
    share: tf.Tensor
    examples: tf.Tensor


class Optimizer(Protocol):
    """A rule for steps, as `tff.learning.optimizers.Optimizer`, with the rates of all steps known before."""

    def rates(self, learning_rate: tf.Tensor, steps: tf.Tensor) -> tf.Tensor:
        """The rate of each step, given the steps' numbers from 1 on, float32."""

    def initialize(self, weights: tf.Tensor) -> Any:
        """What the rule remembers before the first step."""

    def next(self, memory: Any, weights: tf.Tensor, gradient: tf.Tensor, rate: tf.Tensor) -> tuple[Any, tf.Tensor]:
        """What it remembers after a step, and the new weights."""


class Penalty(Protocol):
    """A term of the objective beside the loss."""

    def __call__(self, weights: tf.Tensor, batch: Batch, memory: Any) -> tuple[tf.Tensor | None, Any]:
        """The term at `weights`, None for none, and what is remembered until the next step."""


class Sgd:
    """w <- w - eta g."""

    def rates(self, learning_rate: tf.Tensor, steps: tf.Tensor) -> tf.Tensor:
        """Always eta."""
        return tf.fill(tf.shape(steps), learning_rate)

    def initialize(self, weights: tf.Tensor) -> Any:
        """Nothing to remember."""
        return ()

    def next(self, memory: Any, weights: tf.Tensor, gradient: tf.Tensor, rate: tf.Tensor) -> tuple[Any, tf.Tensor]:
        """One step."""
        return memory, weights - rate * gradient


class Adam:
    """Kingma and Ba (2015), with the defaults and in the form of Keras and of TFF.

    The moments are kept without their factors 1 - beta, which are part of the rates and of epsilon: the same
    numbers in fewer operations.
    """

    BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-7

    def rates(self, learning_rate: tf.Tensor, steps: tf.Tensor) -> tf.Tensor:
        """Eta with the corrections of both moments."""
        corrected = learning_rate * tf.sqrt(1 - self.BETA_2**steps) / (1 - self.BETA_1**steps)
        return corrected * ((1 - self.BETA_1) / (1 - self.BETA_2) ** 0.5)

    def initialize(self, weights: tf.Tensor) -> Any:
        """The gradients' first and second moments."""
        return tf.zeros_like(weights), tf.zeros_like(weights)

    def next(self, memory: Any, weights: tf.Tensor, gradient: tf.Tensor, rate: tf.Tensor) -> tuple[Any, tf.Tensor]:
        """One step."""
        first, second = memory
        first = self.BETA_1 * first + gradient
        second = self.BETA_2 * second + gradient * gradient
        epsilon = self.EPSILON / (1 - self.BETA_2) ** 0.5
        return (first, second), weights - rate * first / (tf.sqrt(second) + epsilon)


OPTIMIZERS: dict[str, Optimizer] = {"adam": Adam(), "sgd": Sgd()}


class Progress(NamedTuple):
    """Where training has come to.

    Attributes:
        weights: The readout's.
        optimizer: What the optimizer remembers.
        penalty: What the penalty remembers.
        objective: Sum of the objective over the examples so far.
    """

    weights: tf.Tensor
    optimizer: Any
    penalty: Any
    objective: tf.Tensor


def started(weights: tf.Tensor, optimizer: Optimizer, penalty_memory: Any = ()) -> Progress:
    """Before the first step."""
    return Progress(weights, optimizer.initialize(weights), penalty_memory, tf.constant(0.0))


def with_ones(states: tf.Tensor) -> tf.Tensor:
    """States with one more unit, which is always 1 and whose weight is the bias."""
    return tf.concat([states, tf.ones((*states.shape[:-1], 1))], axis=-1)


def cross_entropy(logits: tf.Tensor, batch: Batch) -> tf.Tensor:
    """The class-weighted cross-entropy of batches, as Keras has it: weighted losses over the number of examples."""
    return tf.reduce_sum(batch.share * losses_of(batch.targets, logits), axis=(-2, -1))


def cross_entropy_gradient(logits: tf.Tensor, batch: Batch) -> tf.Tensor:
    """Its gradient X^T (p - y), with the examples' shares."""
    error = (probabilities_of(logits) - batch.targets) * batch.share
    return tf.matmul(batch.states, error, transpose_a=True)


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
        states: `(rows, units + 1)`, the number of rows a multiple of `size`.
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

    def by_batch(values: tf.Tensor) -> tf.Tensor:
        return tf.reshape(values, (-1, size, *values.shape[1:]))

    examples = tf.reduce_sum(by_batch(tf.cast(labels >= 0, tf.float32)), axis=1)
    share = by_batch(weight[:, None]) / tf.maximum(examples, 1.0)[:, None, None]
    batches = Batch(by_batch(states), by_batch(targets_of(labels, classes)), share, examples)
    return batches, tf.math.count_nonzero(examples, dtype=tf.int32)


def shuffled_order(labels: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """A permutation of the rows that depends on `seed` `(2,)` alone, with those that only fill up last."""
    chance = tf.random.stateless_uniform(tf.shape(labels), seed)
    return tf.argsort(tf.where(labels < 0, 2.0, chance))


def filled_up(values: NDArray, size: int, filling: float = 0) -> NDArray:
    """The rows of an array with as many more as make their number a multiple of `size`."""
    missing = -len(values) % size
    return np.concatenate([values, np.full((missing, *values.shape[1:]), filling, values.dtype)])


def run_epoch(
    optimizer: Optimizer,
    penalty: Penalty | None,
    batches: Batch,
    count: tf.Tensor,
    progress: Progress,
    before: tf.Tensor,
    learning_rate: tf.Tensor,
    together: int = 1,
) -> Progress:
    """One epoch: a step for each of the first `count` batches, after `before` steps of earlier epochs.

    Without XLA, as in TFF's worker, every operation of a step costs time. Whatever does not depend on the previous
    step is therefore computed for all steps at once: the optimizer's rates before, the losses after the loop. With
    `together` steps in each iteration, the loop's own operations run less often.
    """
    number = batches.examples.shape[0]
    rates = optimizer.rates(learning_rate, tf.cast(before + 1 + tf.range(number), tf.float32))
    outputs = tf.TensorArray(tf.float32, number, element_shape=batches.targets.shape[1:])

    def steps(
        turn: int, i: tf.Tensor, so_far: Progress, logits: tf.TensorArray
    ) -> tuple[tf.Tensor, Progress, tf.TensorArray]:
        for place in range(turn):
            batch = Batch(*(tf.gather(part, i + place) for part in batches))
            so_far, own = training_step(optimizer, penalty, batch, so_far, tf.gather(rates, i + place))
            logits = logits.write(i + place, own)
        return i + turn, so_far, logits

    reached = tf.constant(0), progress, outputs
    for turn in sorted({together, 1}, reverse=True):  # The last turns are single steps.
        reached = tf.while_loop(
            lambda i, *_, turn=turn: i + turn <= count, partial(steps, turn), reached, parallel_iterations=1
        )
    _, trained, outputs = reached
    losses = tf.reduce_sum(cross_entropy(outputs.stack(), batches) * batches.examples)
    return trained._replace(objective=trained.objective + losses)


def training_step(
    optimizer: Optimizer, penalty: Penalty | None, batch: Batch, so_far: Progress, rate: tf.Tensor
) -> tuple[Progress, tf.Tensor]:
    """One step along the gradient of the loss and the penalty, and the logits before it.

    Of the objective it adds up the penalty's part alone.
    """
    weights, memory, objective = so_far.weights, so_far.penalty, so_far.objective
    logits = tf.matmul(batch.states, weights)
    gradient = cross_entropy_gradient(logits, batch)
    if penalty is not None:
        with tf.GradientTape() as tape:
            tape.watch(weights)
            term, memory = penalty(weights, batch, memory)
        if term is not None:
            of_term = tape.gradient(term, weights)
            gradient = gradient if of_term is None else gradient + of_term
            objective += term * batch.examples
    optimizer_memory, weights = optimizer.next(so_far.optimizer, weights, gradient, rate)
    return so_far._replace(weights=weights, optimizer=optimizer_memory, penalty=memory, objective=objective), logits


@cache
def trajectory_of(name: str) -> Callable[..., tf.Tensor]:
    """The weights after every step of an epoch by a named optimizer, stacked.

    Returns:
        A function of the batches, the start and the learning rate.
    """
    optimizer = OPTIMIZERS[name]
    # Let go before the interpreter takes TensorFlow's modules apart, which its functions complain about.
    atexit.register(trajectory_of.cache_clear)

    @tf.function(jit_compile=True, autograph=False)
    def trajectory(batches: Batch, weights: tf.Tensor, learning_rate: tf.Tensor) -> tf.Tensor:
        def step(so_far: Progress, own: tuple[Batch, tf.Tensor]) -> Progress:
            batch, rate = own
            return training_step(optimizer, None, batch, so_far, rate)[0]

        rates = optimizer.rates(learning_rate, tf.range(1.0, batches.examples.shape[0] + 1.0))
        return tf.scan(step, (batches, rates), started(weights, optimizer)).weights

    return trajectory


@cache
def _kept_epoch(optimizer: str) -> Callable[..., Progress]:
    atexit.register(_kept_epoch.cache_clear)  # as above
    return tf.function(partial(run_epoch, OPTIMIZERS[optimizer], None), jit_compile=True, autograph=False)


def fit_readout(
    states: NDArray[np.float32],
    labels: NDArray[np.int64],
    classes: int,
    config: GradientTraining,
    seed: int,
    start: Readout | None = None,
) -> Readout:
    """Minimises the class-weighted cross-entropy, epoch after epoch.

    Equal to `tf.keras.Model.fit` with `class_weight` on a dense layer with the same start.
    """
    weights = class_weights(config.class_weight, labels, classes)
    readout = start or initial_readout(states.shape[1], classes, seed)
    states = np.concatenate([states, np.ones((len(states), 1), np.float32)], axis=1)
    progress = started(tf.constant(readout.weights), OPTIMIZERS[config.optimizer])
    random, size = generator_for(seed, "order"), config.batch_size
    for epoch in range(config.epochs):
        order = random.permutation(len(labels)) if config.order == "shuffled" else slice(None)
        rows, targets = filled_up(states[order], size), filled_up(labels[order].astype(np.int32), size, -1)
        batches, count = batches_of(tf.constant(rows), tf.constant(targets), size, classes, weights)
        rate = tf.constant(config.learning_rate)
        progress = _kept_epoch(config.optimizer)(batches, count, progress, count * epoch, rate)
    return Readout.from_weights(progress.weights.numpy(), readout.activation)
