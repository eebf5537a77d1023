"""A network that detects updates of clients with noisy inputs (thesis chapter 4, section 6.1).

Two dense layers with dropout and a sigmoid (Figure 6.2) classify an update d = w_k - w_t; thesis Algorithms 3 and 4
then average over all drawn clients, with d = 0 for those it rejects, or, as meant, over those it accepts.

It learns from subjects with no other role: from each of them with and without noise on its inputs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from pydantic import TypeAdapter

from tff_esn.datasets.federated import FederatedDataset
from tff_esn.errors import ConfigError, DataError
from tff_esn.federated.algorithm import GradientAlgorithm
from tff_esn.federated.attacks.attack import HONEST
from tff_esn.federated.defences.defence import Aggregate, Defence
from tff_esn.federated.defences.discriminator import DiscriminatorDefence, DiscriminatorParameters
from tff_esn.federated.input_noise import InputNoise
from tff_esn.federated.objective import ProximalObjective
from tff_esn.federated.training.client_states import client_reservoirs, write_client_states
from tff_esn.federated.training.local import Client, LocalTraining, LocalWork
from tff_esn.metrics import score
from tff_esn.readout.parameters import GradientTraining, class_weights
from tff_esn.readout.readout import Readout, initial_readout, output_layer
from tff_esn.readout.training import batches_of, filled_up, trajectory_of, with_ones
from tff_esn.reservoir.samples import Samples, sample_states
from tff_esn.reservoir.weights import draw_weights
from tff_esn.seeds import generator_for, seed_for
from tff_esn.store.files import read_arrays, write_arrays

REAL, FAKE = 1, 0
#: Share of the examples that is kept to test on, and of the rest that Keras validates on.
TEST_SHARE, VALIDATION_SHARE = 0.2, 0.2
#: Names in a file: of the card, and of a layer's arrays.
_CARD, _PARTS = "card", ("kernel", "bias")
#: Rounds that are simulated to learn from whole rounds, and the number of restarts.
ROUNDS, RESTARTS = 40, 3


@dataclass(frozen=True)
class UpdateExamples:
    """Updates of the readout.

    Attributes:
        updates: `(examples, parameters)`, new weights minus old ones.
        real: `(examples,)`: `REAL`, or `FAKE` for those of a client with noise.
        accuracy: Of the ESNs that the updates come from, on the test subjects; empty for whole rounds.
    """

    updates: NDArray[np.float32]
    real: NDArray[np.int64]
    accuracy: dict[str, float]

    def split(self, seed: int) -> tuple[UpdateExamples, UpdateExamples]:
        """Those to train on and those to test on, both in a random order."""
        order = generator_for(seed, "discriminator", "split").permutation(len(self.real))
        tested = round(TEST_SHARE * len(order))
        parts = (order[tested:], order[:tested])
        train, test = (replace(self, updates=self.updates[part], real=self.real[part]) for part in parts)
        return train, test


def step_examples(
    network: DiscriminatorParameters, data: FederatedDataset, algorithm: GradientAlgorithm
) -> UpdateExamples:
    """The steps of training two random ESNs: one on the subjects as they are, one with noise (the thesis)."""
    subjects, seed, classes = _subjects(data), algorithm.esn.seed, len(data.classes)
    updates, accuracy = [], {}
    for kind in ("real", "fake"):
        weights = draw_weights(algorithm.esn, data.inputs, seed_for(seed, "discriminator", kind))
        own = data.of(subjects)
        if kind == "fake":
            own = InputNoise(network.noise).added_to(own, seed_for(seed, "discriminator"))
        examples = Samples.concatenate(list(sample_states(own, weights).values()))
        start = initial_readout(algorithm.esn.units, classes, seed_for(seed, "readout", kind))
        steps, last = readout_steps(examples, network.readout, classes, start)
        updates.append(steps)
        if data.partition.test:
            tested = Samples.concatenate(list(sample_states(data.part("test"), weights).values()))
            accuracy[kind] = score(tested.labels, last.outputs(tested.values)).accuracy
    real = np.repeat([REAL, FAKE], [len(steps) for steps in updates])
    return UpdateExamples(np.concatenate(updates), real, accuracy)


def readout_steps(
    examples: Samples, config: GradientTraining, classes: int, start: Readout
) -> tuple[NDArray[np.float32], Readout]:
    """What each step of an epoch changes, in time order, and the readout after it."""
    weights = class_weights(config.class_weight, examples.labels, classes)
    rows = filled_up(examples.values, config.batch_size)
    labels = filled_up(examples.labels.astype(np.int32), config.batch_size, -1)
    states = with_ones(tf.constant(rows))
    batches, _ = batches_of(states, tf.constant(labels), config.batch_size, classes, weights)
    trajectory = trajectory_of(config.optimizer)
    path = trajectory(batches, tf.constant(start.weights), tf.constant(config.learning_rate)).numpy()
    points = np.concatenate([start.weights[None], path]).reshape(len(path) + 1, -1)
    return np.diff(points, axis=0), Readout.from_weights(path[-1], start.activation)


def round_examples(
    network: DiscriminatorParameters,
    data: FederatedDataset,
    algorithm: GradientAlgorithm,
    training: GradientTraining,
    scratch: Path,
) -> UpdateExamples:
    """Updates of whole rounds, such as the network will be given.

    FedAvg is simulated with the subjects as clients, each once without and once with noise, some of the noisy ones in
    the mean.
    """
    subjects, seed, classes = _subjects(data), algorithm.esn.seed, len(data.classes)
    updates: list[NDArray] = []
    real: list[int] = []
    for restart in range(RESTARTS):
        own_seed = seed_for(seed, "discriminator", "restart", str(restart))
        different = algorithm.reservoirs == "different"
        # Under `same` the clients to come have the server's reservoir, so that is what to learn from.
        reservoir_seed = own_seed if different else seed
        _, reservoirs = client_reservoirs(algorithm.esn, data.inputs, subjects, different, reservoir_seed)
        noise = InputNoise(network.noise)
        paths, rows = [], 0
        for kind, seen in (("real", data.of(subjects)), ("fake", noise.added_to(data.of(subjects), own_seed))):
            files = write_client_states(scratch / f"{restart}-{kind}", seen, reservoirs, training.batch_size)
            paths += [(str(files.path(subject)), REAL if kind == "real" else FAKE) for subject in subjects]
            rows = files.rows
        work = LocalWork(algorithm.esn.units, algorithm.esn.units, classes, rows, training)
        played = _play(LocalTraining(work, ProximalObjective()), paths, own_seed)
        updates += [update for update, _ in played]
        real += [kind for _, kind in played]
    return UpdateExamples(np.stack(updates), np.array(real), {})


def _play(training: LocalTraining, clients: Sequence[tuple[str, int]], seed: int) -> list[tuple[NDArray, int]]:
    work, random, run = training.work, generator_for(seed, "mixture"), tf.function(training, autograph=False)
    weights = tf.constant(initial_readout(work.units, work.classes, seed).weights)
    server, rate = training.objective.initialize(weights), tf.constant(work.readout.learning_rate)
    played = []
    for number in range(ROUNDS):
        drawn: list[tf.Tensor] = []
        for i, (path, kind) in enumerate(clients):
            order = tf.constant([seed_for(seed, "order", str(i)), number * work.readout.epochs], tf.int32)
            client = Client(tf.constant(path), order, tf.constant(0), tf.constant(HONEST), ())
            result = run(weights, rate, server, client)
            played.append((result.update.numpy().ravel(), kind))
            if kind == REAL or random.random() < 0.5:
                drawn.append(result.update)
        weights += tf.add_n(drawn) / len(drawn)
    return played


def _subjects(data: FederatedDataset) -> tuple[str, ...]:
    subjects = data.partition.discriminator
    if not subjects:
        raise ConfigError("a split without discriminator subjects; expected one such as 'thesis-discriminative'")
    return subjects


@dataclass(frozen=True)
class DiscriminatorCard:
    """Metadata of a discriminator.

    Attributes:
        parameters: Of the readouts whose updates it takes, bias included.
        subjects: Subjects it learnt from.
        trained_on: `steps` or `rounds`.
        config: The network.
        validation_accuracy: Keras's, after the last epoch.
        train_f1: F1 of the real updates, on the training examples.
        test_f1: F1 of the real updates, on the held-out examples.
    """

    parameters: int
    subjects: tuple[str, ...]
    trained_on: str
    config: DiscriminatorParameters
    validation_accuracy: float
    train_f1: float
    test_f1: float


@dataclass(frozen=True, eq=False)
class Discriminator:
    """A trained network with its metadata.

    Attributes:
        layers: Kernel and bias of each dense layer.
        card: Its metadata.
    """

    layers: tuple[tuple[NDArray, NDArray], ...]
    card: DiscriminatorCard

    def save(self, path: Path) -> None:
        """Writes an array file, with the card in it."""
        parts = {f"{name}_{i}": part for i, layer in enumerate(self.layers) for name, part in zip(_PARTS, layer)}
        write_arrays(path, {_CARD: np.array(json.dumps(asdict(self.card))), **parts})

    @classmethod
    def load(cls, path: Path, parameters: int) -> Discriminator:
        """Reads a file of `save`, for readouts with this number of parameters."""
        expected = "a discriminator that `tff-esn discriminator` wrote"
        try:
            arrays = read_arrays(path)
            card = TypeAdapter(DiscriminatorCard).validate_json(str(arrays.pop(_CARD)))
            layers = tuple((arrays.pop(f"kernel_{i}"), arrays.pop(f"bias_{i}")) for i in range(len(arrays) // 2))
        except FileNotFoundError:
            raise DataError(path, "no such file", expected) from None
        except DataError as error:
            raise DataError(path, error.found, expected) from None
        except (KeyError, ValueError) as error:
            raise DataError(path, str(error).splitlines()[0], expected) from None
        if card.parameters != parameters:
            raise DataError(path, f"a discriminator of {card.parameters} parameters", f"one of {parameters}")
        sizes = (parameters, *card.config.units, 1)
        shapes = [((before, after), (after,)) for before, after in zip(sizes, sizes[1:])]
        if [(kernel.shape, bias.shape) for kernel, bias in layers] != shapes:
            raise DataError(path, "layers of other sizes than its card says", expected)
        return cls(layers, card)

    def defence(self, treatment: str) -> TrainedDefence:
        """The network as the server's defence."""
        return TrainedDefence(self.layers, treatment)


@dataclass(frozen=True, eq=False)
class TrainedDefence(Defence):
    """Accepts the updates that the network classifies as real; thesis Algorithms 3 and 4.

    Attributes:
        layers: Kernel and bias of each dense layer.
        treatment: `replaced` or `left_out`; see `DiscriminatorDefence`.
    """

    layers: tuple[tuple[NDArray, NDArray], ...]
    treatment: str

    def __call__(self, updates: tf.Tensor, weights: tf.Tensor) -> Aggregate:
        """Aggregates a round."""
        aggregate = super().__call__(updates, weights)
        if self.treatment == "left_out":
            return aggregate
        # A rejected client's weights are the server's: an update of 0 that counts in the mean.
        share = tf.math.divide_no_nan(
            tf.reduce_sum(tf.boolean_mask(weights, aggregate.accepted)), tf.reduce_sum(weights)
        )
        # Algorithm 4 sums what all clients send beside their weights.
        return Aggregate(share * aggregate.update, aggregate.accepted, weights > 0)

    def accepts(self, updates: tf.Tensor) -> tf.Tensor:
        """Updates for which the network's sigmoid is above 1/2."""
        values = updates
        for kernel, bias in self.layers[:-1]:
            values = tf.nn.relu(tf.matmul(values, tf.constant(kernel)) + bias)
        kernel, bias = self.layers[-1]
        return tf.matmul(values, tf.constant(kernel))[:, 0] + bias[0] > 0


def discriminator_network(parameters: int, config: DiscriminatorParameters, seed: int) -> tf.keras.Model:
    """The untrained network, compiled."""
    first, second = config.units

    def initializer(layer: str) -> tf.keras.initializers.Initializer:
        return tf.keras.initializers.GlorotUniform(seed_for(seed, "discriminator", layer))

    def dropout(layer: str) -> tf.keras.layers.Dropout:
        return tf.keras.layers.Dropout(config.dropout, seed=seed_for(seed, "dropout", layer))

    model = tf.keras.Sequential(
        [
            tf.keras.Input((parameters,)),
            tf.keras.layers.Dense(first, activation="relu", kernel_initializer=initializer("first")),
            dropout("first"),
            tf.keras.layers.Dense(second, activation="relu", kernel_initializer=initializer("second")),
            dropout("second"),
            tf.keras.layers.Dense(1, activation="sigmoid", kernel_initializer=initializer("output")),
        ]
    )
    optimizer = tf.keras.optimizers.Adam(config.learning_rate)
    model.compile(optimizer, loss="binary_crossentropy", metrics=["binary_accuracy"])
    return model


def update_examples(
    defence: DiscriminatorDefence,
    data: FederatedDataset,
    algorithm: GradientAlgorithm,
    training: GradientTraining,
    scratch: Path,
) -> UpdateExamples:
    """Training examples of an algorithm's discriminator."""
    if defence.trained_on == "steps":
        return step_examples(defence.network, data, algorithm)
    return round_examples(defence.network, data, algorithm, training, scratch)


def train_discriminator(
    defence: DiscriminatorDefence, examples: UpdateExamples, subjects: Sequence[str], seed: int
) -> Discriminator:
    """Trains the network on four fifths of the examples and tests it on the rest."""
    config = defence.network
    train, test = examples.split(seed)
    model = discriminator_network(examples.updates.shape[1], config, seed)
    history = model.fit(
        train.updates,
        train.real,
        batch_size=config.batch_size,
        epochs=config.epochs,
        validation_split=VALIDATION_SHARE,
        shuffle=False,  # They come in a random order.
        verbose=0,
    )
    card = DiscriminatorCard(
        parameters=examples.updates.shape[1],
        subjects=tuple(subjects),
        trained_on=defence.trained_on,
        config=config,
        validation_accuracy=float(history.history["val_binary_accuracy"][-1]),
        train_f1=_f1(model, train),
        test_f1=_f1(model, test),
    )
    layers = [layer.get_weights() for layer in model.layers if layer.get_weights()]
    return Discriminator(tuple((kernel, bias) for kernel, bias in layers), card)


def _f1(model: tf.keras.Model, examples: UpdateExamples) -> float:
    return score(examples.real, model.predict(examples.updates, verbose=0)[:, 0]).f1_stress


def discriminator_for(
    defence: DiscriminatorDefence,
    data: FederatedDataset,
    algorithm: GradientAlgorithm,
    training: GradientTraining,
    scratch: Path,
) -> Discriminator:
    """The discriminator of an algorithm: read from its file, or trained on the split's subjects."""
    if defence.file is not None:
        outputs, _ = output_layer(len(data.classes))
        return Discriminator.load(Path(defence.file), (algorithm.esn.units + 1) * outputs)
    examples = update_examples(defence, data, algorithm, training, scratch)
    return train_discriminator(defence, examples, _subjects(data), algorithm.esn.seed)
