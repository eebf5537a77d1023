"""A client's part of a round, in plain TensorFlow: read its examples, train the readout, return the update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from tff_esn.federated.objective import Objective
from tff_esn.readout.parameters import GradientTraining
from tff_esn.readout.readout import output_layer
from tff_esn.readout.training import (
    OPTIMIZERS,
    Batch,
    Progress,
    batches_of,
    run_epoch,
    shuffled_order,
    started,
    with_ones,
)
from tff_esn.store.client_files import read_examples


class Client(NamedTuple):
    """Input of a round for a client.

    Attributes:
        path: The file of its examples, where the client's computation runs.
        seed: `(2,)`, of the order of its examples in this round.
        reservoir: Which of the reservoirs is its own, if the computation has them.
        attack: `(2,)`: factor of its update, and standard deviation of noise on it; 1 and 0 for an honest client.
        own: Its message of the previous round, 0 if it sent none. Simulated clients keep no state between rounds, so
            it is passed back to them.
    """

    path: Any
    seed: Any
    reservoir: Any
    attack: Any
    own: Any


class Diagnostics(NamedTuple):
    """Diagnostics of a client's round.

    Attributes:
        loss: Mean of its objective over the examples and steps.
        update_norm: Euclidean length of its change of the weights.
        examples: How many it has.
        finite: Whether its update is; if not, it does not count.
    """

    loss: Any
    update_norm: Any
    examples: Any
    finite: Any


class ClientResult(NamedTuple):
    """Output of a round for a client.

    Attributes:
        update: Its weights minus the server's.
        weight: Weight of the update in the mean.
        message: For the objectives of the next round.
        diagnostics: Diagnostics of its training.
    """

    update: tf.Tensor
    weight: Any
    message: Any
    diagnostics: Diagnostics


@dataclass(frozen=True)
class LocalWork:
    """Settings of a client's work in a round, equal for all clients.

    Attributes:
        columns: Values of an example in a client's file.
        units: Of the reservoir.
        classes: Number of classes.
        rows: Of every client's file: the examples of the client that has most, filled up to whole batches.
        readout: How a client trains.
        weighting: Of the clients' updates: `uniform`, or by `examples`.
        features: The states of the values in a file, given the client's reservoir; None where the files hold states.
    """

    columns: int
    units: int
    classes: int
    rows: int
    readout: GradientTraining
    weighting: str = "examples"
    features: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] | None = None

    @property
    def class_weight(self) -> tuple[float, ...] | None:
        """The weight of each class; None for equal ones."""
        weights = self.readout.class_weight
        assert not isinstance(weights, str), "a number for each class"
        return weights

    @property
    def outputs(self) -> int:
        """Of the readout."""
        return output_layer(self.classes)[0]

    def zero_weights(self) -> tf.Tensor:
        """A readout of zeros; see `Readout.weights`."""
        return tf.zeros((self.units + 1, self.outputs))


class LocalTraining:
    """A client's training under an objective.

    Args:
        work: What the client does.
        objective: What it minimises beside its loss.
        together: As in `run_epoch`.
    """

    def __init__(self, work: LocalWork, objective: Objective, together: int = 1) -> None:
        self.work, self.objective, self._together = work, objective, together
        self.optimizer = OPTIMIZERS[work.readout.optimizer]
        # All that follows the reading is one XLA program: its shapes are those of every client. TFF's worker has no
        # XLA and interprets it.
        self._compiled = tf.function(self._train, jit_compile=True, autograph=False)

    def __call__(self, weights: tf.Tensor, learning_rate: tf.Tensor, server: Any, client: Client) -> ClientResult:
        """Reads the client's file, trains from the server's weights, and checks the update."""
        work = self.work
        values, labels = read_examples(client.path, work.columns, work.rows)
        states = values if work.features is None else work.features(values, client.reservoir)
        orders: list[Any] = [None] * work.readout.epochs
        if work.readout.order == "shuffled":
            # Outside of the program: XLA draws other random numbers than TensorFlow itself.
            seeds = (client.seed + tf.constant([0, epoch]) for epoch in range(work.readout.epochs))
            orders = [shuffled_order(labels, seed) for seed in seeds]
        noise = tf.random.stateless_normal(weights.shape, client.seed)
        return self._compiled(weights, learning_rate, server, client.own, client.attack, states, labels, orders, noise)

    def _train(
        self,
        weights: tf.Tensor,
        learning_rate: tf.Tensor,
        server: Any,
        own: Any,
        attack: tf.Tensor,
        states: tf.Tensor,
        labels: tf.Tensor,
        orders: Sequence[Any],
        noise: tf.Tensor,
    ) -> ClientResult:
        readout, classes = self.work.readout, self.work.classes
        states = with_ones(states)
        progress = started(weights, self.optimizer, self.objective.start(server, own, weights))
        for epoch, order in enumerate(orders):
            batches, count = batches_of(states, labels, readout.batch_size, classes, self.work.class_weight, order)
            before = count * epoch
            progress = run_epoch(
                self.optimizer, self.objective, batches, count, progress, before, learning_rate, self._together
            )
        message = self.objective.message(server, progress.weights, _joined(batches), progress.penalty)
        update = progress.weights - weights
        update = attack[0] * update + attack[1] * tf.sqrt(tf.reduce_mean(update**2)) * noise
        return self._checked(update, progress, message, tf.reduce_sum(batches.examples))

    def _checked(self, update: tf.Tensor, progress: Progress, message: Any, examples: tf.Tensor) -> ClientResult:
        norm = tf.norm(update)
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(part)) for part in tf.nest.flatten((update, message))])

        def if_finite(value: tf.Tensor) -> tf.Tensor:
            return tf.where(finite, value, tf.zeros_like(value))

        diagnostics = Diagnostics(
            progress.objective / (examples * self.work.readout.epochs), norm, tf.cast(examples, tf.int32), finite
        )
        weight = examples if self.work.weighting == "examples" else tf.constant(1.0)
        update, weight, message = tf.nest.map_structure(if_finite, (update, weight, message))
        return ClientResult(update, weight, message, diagnostics)


def _joined(batches: Batch) -> Batch:
    """All batches as one."""
    examples = tf.reduce_sum(batches.examples)
    share = batches.share * (batches.examples / examples)[:, None, None]
    states, targets, share = (tf.reshape(part, (-1, part.shape[-1])) for part in (*batches[:2], share))
    return Batch(states, targets, share, examples)
