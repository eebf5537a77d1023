"""TFF's built-in processes by name, on Keras models of a readout or of a reservoir with its readout.

Nothing is added to their mathematics, so that our algorithms can be compared with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tff_esn.federated.algorithm import GradientAlgorithm
from tff_esn.federated.training.local import Client, LocalWork
from tff_esn.readout.likelihood import KERAS_LOSSES
from tff_esn.readout.parameters import GradientTraining
from tff_esn.readout.readout import Activation, Readout
from tff_esn.readout.training import shuffled_order
from tff_esn.reservoir.step import tf_step
from tff_esn.reservoir.weights import ReservoirWeights
from tff_esn.runtime.context import load_tff
from tff_esn.store.client_files import read_examples

if TYPE_CHECKING:
    import tensorflow_federated as tff


class ReservoirBank(tf.keras.layers.Layer):
    """Reservoirs of one size; each batch runs through the one that its first example names.

    TFF has one model for all clients. With this layer each client can still have its own reservoir.

    Args:
        bank: The reservoirs.
        **options: Options of a Keras layer.
    """

    def __init__(self, bank: Sequence[ReservoirWeights], **options: Any) -> None:
        super().__init__(trainable=False, **options)
        self.bank = bank

    def build(self, input_shape: Any) -> None:
        """Makes the weights, none of them trainable."""
        self.stacked = [
            self._fixed(name, np.stack([getattr(weights, name) for weights in self.bank]))
            for name in ("input_kernel", "recurrent_kernel", "bias", "gain")
        ]
        self.built = True

    def call(self, inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        """The last state of each of the `(n, steps, columns)` sequences, given the `(n,)` reservoirs."""
        sequences, chosen = inputs
        return self.states(sequences, chosen[0])

    def states(self, sequences: tf.Tensor, chosen: tf.Tensor) -> tf.Tensor:
        """The last state of each sequence in one reservoir."""
        kernel, recurrent, bias, gain = (tf.gather(part, chosen) for part in self.stacked)
        own = ReservoirWeights(kernel, recurrent, bias, gain, self.bank[0].leaking_rate)

        def step(values: tf.Tensor, states: Sequence[tf.Tensor]) -> tuple[tf.Tensor, Sequence[tf.Tensor]]:
            state = tf_step(states[0], values, own).state
            return state, [state]

        zero = tf.zeros((tf.shape(sequences)[0], self.bank[0].units))
        last, _, _ = tf.keras.backend.rnn(step, sequences, [zero])
        return last

    def _fixed(self, name: str, value: np.ndarray) -> tf.Variable:
        # A constant, not an assignment: it holds wherever the layer is built, in a TFF computation's graph too.
        initializer = tf.keras.initializers.Constant(value)
        return self.add_weight(name, value.shape, initializer=initializer, trainable=False)


class WeightedCrossEntropy(tf.keras.losses.Loss):
    """The cross-entropy of each example times the weight of its class, as Keras's `class_weight` has it.

    Of logits: the sigmoid of a readout belongs to the loss here. Given its output, Keras would clip it inside TFF's
    graphs (not in `fit`), and clipped outputs have no gradient.
    """

    def __init__(self, activation: Activation, class_weight: Sequence[float] | None) -> None:
        super().__init__(name="loss")
        self.activation, self.class_weight = activation, class_weight

    def call(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Losses of a batch."""
        losses = KERAS_LOSSES[self.activation](labels, logits, from_logits=True)
        if self.class_weight is None:
            return losses
        return losses * tf.gather(tf.constant(self.class_weight, tf.float32), labels[:, 0])


def model_function(
    work: LocalWork, start: Readout, bank: Sequence[ReservoirWeights] | None, steps: int
) -> Callable[[], tff.learning.models.VariableModel]:
    """What TFF makes models with: a dense readout, after a reservoir if there is one.

    Args:
        work: The readout's sizes and loss.
        start: Its initial weights.
        bank: The clients' reservoirs; None where the examples are states.
        steps: Of a sequence, for a reservoir.
    """
    tff = load_tff()
    labels = tf.TensorSpec((None, 1), tf.int32)

    def dense() -> tf.keras.layers.Dense:
        return tf.keras.layers.Dense(
            len(start.bias),
            kernel_initializer=tf.keras.initializers.Constant(start.kernel),
            bias_initializer=tf.keras.initializers.Constant(start.bias),
        )

    def on_states() -> tuple[tf.keras.Model, Any]:
        spec = tf.TensorSpec((None, work.units), tf.float32)
        return tf.keras.Sequential([tf.keras.Input((work.units,)), dense()]), spec

    def with_reservoir() -> tuple[tf.keras.Model, Any]:
        assert bank is not None
        shape = (steps, bank[0].inputs)
        sequences, chosen = tf.keras.Input(shape), tf.keras.Input((), dtype=tf.int32)
        outputs = dense()(ReservoirBank(bank)((sequences, chosen)))
        spec = (tf.TensorSpec((None, *shape), tf.float32), tf.TensorSpec((None,), tf.int32))
        return tf.keras.Model((sequences, chosen), outputs), spec

    def model() -> Any:
        keras_model, spec = on_states() if bank is None else with_reservoir()
        loss = WeightedCrossEntropy(start.activation, work.class_weight)
        return tff.learning.models.from_keras_model(keras_model, loss, (spec, labels))

    return model


def client_optimizer(readout: GradientTraining) -> tff.learning.optimizers.Optimizer:
    """TFF's optimizer of a client."""
    optimizers = load_tff().learning.optimizers
    build = {"adam": optimizers.build_adam, "sgd": optimizers.build_sgdm}[readout.optimizer]
    return build(readout.learning_rate)


def build_builtin_process(
    algorithm: GradientAlgorithm, training: GradientTraining, model: Callable[[], Any]
) -> tff.learning.templates.LearningProcess:
    """TFF's process of an algorithm, with its optimizers."""
    server = load_tff().learning.optimizers.build_sgdm(algorithm.server_learning_rate)
    return algorithm.build(model, client_optimizer(training), server)


def client_dataset(client: Client, work: LocalWork, shape: tuple[int, ...] | None = None) -> tf.data.Dataset:
    """A client's batches for one round, read where they are used.

    Args:
        client: The client.
        work: What it does.
        shape: Steps and columns of a sequence; None where the examples are states.
    """
    readout = work.readout

    def epoch(number: tf.Tensor) -> tf.data.Dataset:
        values, labels = read_examples(client.path, work.columns, work.rows)
        count = tf.math.count_nonzero(labels >= 0)
        if readout.order == "shuffled":
            order = shuffled_order(labels, tf.stack([client.seed[0], client.seed[1] + number]))
            values, labels = tf.gather(values, order), tf.gather(labels, order)
        values, labels = values[:count], labels[:count]
        inputs: Any = values
        if shape is not None:
            inputs = (tf.reshape(values, (-1, *shape)), tf.fill((tf.size(labels),), client.reservoir))
        return tf.data.Dataset.from_tensor_slices((inputs, labels[:, None])).batch(readout.batch_size)

    options = tf.data.Options()
    # Autotuning has a thread that wakes late, and a round would wait for it.
    options.autotune.enabled = False
    return tf.data.Dataset.range(readout.epochs, output_type=tf.int32).flat_map(epoch).with_options(options)
