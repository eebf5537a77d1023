"""FedCurv's mathematics of a client, in plain TensorFlow, against formulas worked in NumPy's float64."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray

from tff_esn.federated.attacks.attack import HONEST
from tff_esn.federated.fedcurv import (
    Curvature,
    CurvatureObjective,
    CurvatureSwitches,
    FedCurv,
    ServerCurvature,
    fisher_diagonal,
    penalty_of,
)
from tff_esn.federated.training.local import Client, ClientResult, LocalTraining, LocalWork
from tff_esn.readout.parameters import GradientTraining
from tff_esn.readout.training import Batch
from tff_esn.runs.presets import algorithm_of
from tff_esn.store.client_files import write_examples


def switches(preset: str) -> CurvatureSwitches:
    """A preset's, with a factor large enough to be seen."""
    algorithm = algorithm_of("fedcurv", preset, {"factor": 0.25}, "test")
    assert isinstance(algorithm, FedCurv)
    return algorithm.objective().config


UNITS = 4
RATE = 0.5
CLASS_WEIGHT = (0.5, 2.0)
# As printed, so that what a test does not name is what the thesis prints.
PRINTED = switches("thesis")
MEANT = switches("corrected")


def draw(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def column(theta: NDArray) -> tf.Tensor:
    """The weights of a readout with one output; the last is the bias, the weight of a unit that is 1."""
    return tf.constant(theta[:, None], tf.float32)


def array(weights: tf.Tensor) -> NDArray:
    """`(units + 1, outputs)`."""
    return np.asarray(weights, np.float64)


def with_one(states: NDArray) -> NDArray:
    return np.concatenate((states, np.ones((len(states), 1))), axis=1).astype(np.float64)


def padded(states: NDArray, targets: NDArray, weight: NDArray) -> Batch:
    """A batch with two rows that only fill it up, and hold what would be seen if they counted."""
    filling = ((0, 2), (0, 0))
    return Batch(
        tf.constant(np.pad(with_one(states), filling, constant_values=9.0), tf.float32),
        tf.constant(np.pad(targets, filling, constant_values=1.0), tf.float32),
        tf.constant(np.pad(weight / len(states), (0, 2))[:, None], tf.float32),
        tf.constant(float(len(states))),
    )


def sigmoid(x: NDArray) -> NDArray:
    return 1 / (1 + np.exp(-x))


# ---- The diagonal ----


@pytest.mark.parametrize("divisor", ["examples", "tensors"])
@pytest.mark.parametrize("fisher", ["true", "empirical", "batch"])
def test_the_diagonal_of_a_sigmoid_readout_is_its_closed_form(fisher: str, divisor: str) -> None:
    theta, states = draw(UNITS + 1), draw(7, UNITS, seed=1)
    labels = np.array([0, 1, 1, 0, 0, 1, 0])
    c = np.asarray(CLASS_WEIGHT)[labels]
    h, n = with_one(states), {"examples": 7, "tensors": 2}[divisor]
    p = sigmoid(h @ theta.astype(np.float64))
    expected = {
        "true": (c * p * (1 - p)) @ h**2 / n,
        "empirical": (c * (p - labels) ** 2) @ h**2 / n,
        "batch": ((c * (labels - p)) @ h) ** 2 / n,
    }[fisher]
    found = fisher_diagonal(
        column(theta), padded(states, labels[:, None], c), replace(MEANT, fisher=fisher, divisor=divisor)
    )
    np.testing.assert_allclose(array(found)[:, 0], expected, rtol=1e-5)


@pytest.mark.parametrize("fisher", ["true", "empirical", "batch", "listing"])
def test_the_diagonal_of_a_softmax_readout_is_that_of_a_loop_over_examples(fisher: str) -> None:
    states, labels, c = draw(6, UNITS, seed=1), np.array([0, 2, 1, 1, 0, 2]), np.array([1.0, 3.0, 2.0, 2.0, 1.0, 3.0])
    h = with_one(states)
    weights = tf.constant(draw(UNITS + 1, 3))

    def gradient(example: int, label: int) -> NDArray:
        """Of the log-likelihood of a label, of one example."""
        with tf.GradientTape() as tape:
            tape.watch(weights)
            logits = tf.linalg.matvec(weights, tf.constant(h[example], tf.float32), transpose_a=True)
            outputs = tf.nn.softmax(logits)
            likelihood = tf.nn.log_softmax(outputs if fisher == "listing" else logits)[label]
        return array(tape.gradient(likelihood, weights))

    def probability(example: int, label: int) -> float:
        logits = h[example] @ weights.numpy()
        return float(np.exp(logits[label]) / np.exp(logits).sum())

    everyone = range(6)
    expected = {
        "true": lambda: sum(c[i] * probability(i, k) * gradient(i, k) ** 2 for i in everyone for k in range(3)),
        "empirical": lambda: sum(c[i] * gradient(i, labels[i]) ** 2 for i in everyone),
        "batch": lambda: sum(c[i] * gradient(i, labels[i]) for i in everyone) ** 2,
        "listing": lambda: sum(gradient(i, k) for i in everyone for k in range(3)) ** 2,
    }[fisher]()
    found = fisher_diagonal(weights, padded(states, np.eye(3)[labels], c), replace(MEANT, fisher=fisher))
    np.testing.assert_allclose(array(found), expected / 6, rtol=1e-4)
    assert (array(found) > 0).all()


# ---- What is wrong with FedCurv as it is printed ----


def test_the_listings_diagonal_is_exactly_zero_for_one_output_unit() -> None:
    states, labels = draw(7, UNITS, seed=1), np.array([0, 1, 1, 0, 0, 1, 0])
    found = fisher_diagonal(column(draw(UNITS + 1)), padded(states, labels[:, None], np.ones(7)), PRINTED)
    assert not array(found).any()


def test_the_listings_divisor_is_the_number_of_tensors_in_a_batch() -> None:
    weights, batch = column(draw(UNITS + 1)), padded(draw(7, UNITS, seed=1), np.ones((7, 1)), np.ones(7))
    by_tensors = fisher_diagonal(weights, batch, replace(MEANT, divisor="tensors"))
    by_examples = fisher_diagonal(weights, batch, MEANT)
    np.testing.assert_allclose(array(by_tensors), array(by_examples) * 7 / 2, rtol=1e-6)


@pytest.mark.parametrize("clients", [2, 5])
def test_sent_remainders_make_importances_negative_that_grow_with_the_number_of_clients(clients: int) -> None:
    weights = column(draw(UNITS + 1))
    batch = padded(draw(7, UNITS, seed=1), np.ones((7, 1)), np.ones(7))
    own = array(fisher_diagonal(weights, batch, MEANT))

    def after(rounds: int, send: str) -> NDArray:
        """The server's u when all clients have the same examples, and the weights stay."""
        objective = CurvatureObjective(replace(MEANT, send=send))
        server = objective.initialize(weights)
        for _ in range(rounds):
            memory = objective.start(server, objective.empty_message(weights), weights)
            messages = [objective.message(server, weights, batch, memory) for _ in range(clients)]
            server = objective.finish(server, tf.nest.map_structure(lambda *parts: tf.add_n(parts), *messages))
        return array(server.curvature.u)

    for rounds in (1, 2, 3):
        np.testing.assert_allclose(after(rounds, "diagonal"), clients * own, rtol=1e-5)
    # u <- K (u - D) from 0: -K D, then -(K + K^2) D, then -(K + K^2 + K^3) D.
    np.testing.assert_allclose(after(1, "remainder"), -clients * own, rtol=1e-5)
    np.testing.assert_allclose(after(2, "remainder"), -(clients + clients**2) * own, rtol=1e-5)
    np.testing.assert_allclose(after(3, "remainder"), -(clients + clients**2 + clients**3) * own, rtol=1e-5)


# ---- A client's whole round ----


class OneClient:
    """Six examples of a client, what the server knows, and the same round in TensorFlow and by hand."""

    states = draw(6, UNITS, seed=1)
    labels = np.array([0, 1, 1, 0, 1, 0])
    start = draw(UNITS + 1, seed=2)
    # The sums of several clients' messages, one of them this client's.
    u, v = draw(UNITS + 1, seed=3) ** 2 + 1, draw(UNITS + 1, seed=4)
    own_u, own_v = draw(UNITS + 1, seed=5) ** 2, draw(UNITS + 1, seed=6)

    def __init__(self, folder: Path) -> None:
        self.path = folder / "S2.f32"

    def trained(self, config: CurvatureSwitches, batch_size: int) -> ClientResult:
        readout = GradientTraining(
            optimizer="sgd", learning_rate=RATE, batch_size=batch_size, class_weight=CLASS_WEIGHT, order="time"
        )
        # Room for one batch more than there is, as for a client that has fewer than another.
        rows = (-(-6 // batch_size) + 1) * batch_size
        write_examples(self.path, self.states, self.labels, rows)
        work = LocalWork(columns=UNITS, units=UNITS, classes=2, rows=rows, readout=readout)
        server = ServerCurvature(Curvature(column(self.u), column(self.v)), tf.constant(config.factor))
        sent = Curvature(column(self.own_u), column(self.own_v))
        client = Client(str(self.path), tf.constant([0, 0]), tf.constant(0), tf.constant(HONEST), sent)
        return LocalTraining(work, CurvatureObjective(config))(column(self.start), tf.constant(RATE), server, client)

    def by_hand(self, config: CurvatureSwitches, batch_size: int) -> dict[str, NDArray]:
        """Trained weights, message and mean objective, in float64."""
        h, y, c = with_one(self.states), self.labels, np.asarray(CLASS_WEIGHT)[self.labels]

        def diagonal(w: NDArray, rows: slice) -> NDArray:
            p, n = sigmoid(h[rows] @ w), {"examples": len(y[rows]), "tensors": 2}[config.divisor]
            if config.fisher == "true":
                return (c[rows] * p * (1 - p)) @ h[rows] ** 2 / n
            if config.fisher == "empirical":
                return (c[rows] * (p - y[rows]) ** 2) @ h[rows] ** 2 / n
            return {"batch": ((c[rows] * (y[rows] - p)) @ h[rows]) ** 2 / n, "listing": np.zeros(len(w))}[config.fisher]

        w = behind = self.start.astype(np.float64)
        objective = 0.0
        share_u = share_v = np.zeros(UNITS + 1)
        for first in range(0, 6, batch_size):
            rows = slice(first, first + batch_size)
            n, p = len(y[rows]), sigmoid(h[rows] @ w)
            share_u = diagonal(w, rows)
            share_v = share_u * (behind if config.anchor == "behind" else w)
            zero = np.zeros(UNITS + 1)
            taken_u, taken_v = {
                "batch": (share_u, share_v),
                "previous": (self.own_u, self.own_v),
                "nothing": (zero, zero),
            }[config.own_share]
            u, v = self.u - taken_u, self.v - taken_v
            loss = -np.sum(c[rows] * np.log(np.where(y[rows] == 1, p, 1 - p))) / n
            objective += n * (loss + config.factor * np.sum(w**2 * u - 2 * w * v))
            gradient = (c[rows] * (p - y[rows])) @ h[rows] / n
            if config.penalty == "inside":
                gradient = gradient + config.factor * (2 * w * u - 2 * v)
            w, behind = w - RATE * gradient, w
        if config.fisher_of == "all":
            share_u = diagonal(w, slice(None))
            share_v = share_u * (behind if config.anchor == "behind" else w)
        if config.send == "remainder":
            share_u, share_v = self.u - share_u, self.v - share_v
        return {"weights": w, "u": share_u, "v": share_v, "objective": np.array(objective / 6)}


@pytest.fixture
def client(tmp_path: Path) -> OneClient:
    return OneClient(tmp_path)


# Every pair of values of two switches, in as few rows as have them all.
SWITCHES = ("fisher", "own_share", "divisor", "fisher_of", "anchor", "penalty", "send")
COMBINATIONS = [
    ("listing", "batch", "tensors", "last_batch", "behind", "outside", "diagonal"),  # as printed
    ("true", "previous", "examples", "all", "same", "inside", "diagonal"),  # as meant
    ("batch", "batch", "examples", "all", "behind", "inside", "remainder"),
    ("empirical", "batch", "tensors", "last_batch", "same", "inside", "remainder"),
    ("true", "batch", "tensors", "last_batch", "behind", "outside", "remainder"),
    ("listing", "previous", "examples", "last_batch", "same", "outside", "remainder"),
    ("batch", "previous", "tensors", "last_batch", "same", "outside", "diagonal"),
    ("empirical", "previous", "examples", "all", "behind", "outside", "diagonal"),
    ("listing", "nothing", "tensors", "all", "behind", "inside", "diagonal"),
    ("batch", "nothing", "examples", "last_batch", "behind", "inside", "diagonal"),
    ("empirical", "nothing", "tensors", "all", "same", "outside", "remainder"),
    ("true", "nothing", "examples", "last_batch", "same", "inside", "remainder"),
]


@pytest.mark.parametrize(
    ("combination", "batch_size"),
    [*((combination, 10) for combination in COMBINATIONS[:3]), *((combination, 4) for combination in COMBINATIONS)],
    ids=lambda value: {10: "one step", 4: "two steps"}.get(value) or "-".join(value),
)
def test_a_clients_round_is_what_the_formulas_say(
    client: OneClient, combination: tuple[str, ...], batch_size: int
) -> None:
    config = replace(PRINTED, **dict(zip(SWITCHES, combination)))
    expected, found = client.by_hand(config, batch_size), client.trained(config, batch_size)
    trained = array(found.update)[:, 0] + client.start
    np.testing.assert_allclose(trained, expected["weights"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(array(found.message.u)[:, 0], expected["u"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(array(found.message.v)[:, 0], expected["v"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.diagnostics.loss, expected["objective"], rtol=1e-5)
    np.testing.assert_allclose(found.diagnostics.update_norm, np.linalg.norm(trained - client.start), rtol=1e-4)
    assert (found.diagnostics.examples, found.weight, found.diagnostics.finite) == (6, 6, True)


def test_a_penalty_outside_the_tape_shifts_the_loss_and_no_weight(client: OneClient) -> None:
    outside = replace(PRINTED, own_share="nothing")
    without, with_it = client.trained(replace(outside, factor=0.0), 10), client.trained(outside, 10)
    np.testing.assert_array_equal(array(with_it.update), array(without.update))
    curvature = Curvature(column(client.u), column(client.v))
    shift = outside.factor * float(penalty_of(column(client.start), curvature))
    assert abs(shift) > 0.1
    assert float(with_it.diagnostics.loss - without.diagnostics.loss) == pytest.approx(shift, rel=1e-4)
    inside = client.trained(replace(outside, penalty="inside"), 10)
    assert not np.allclose(array(inside.update), array(without.update), atol=0.1)


def test_v_pairs_the_diagonal_with_the_weights_one_step_behind_or_with_the_same(client: OneClient) -> None:
    config = replace(MEANT, penalty="outside")
    one_step = client.trained(config, 10)
    before, after = client.start[:, None], array(one_step.update) + client.start[:, None]
    for anchor, paired in (("behind", before), ("same", after)):
        message = client.trained(replace(config, anchor=anchor), 10).message
        np.testing.assert_allclose(array(message.v), array(message.u) * paired, rtol=1e-5)


def test_the_last_batch_is_not_all_examples(client: OneClient) -> None:
    last, everything = (client.trained(replace(MEANT, fisher_of=of), 4).message for of in ("last_batch", "all"))
    assert not np.allclose(array(last.u), array(everything.u), rtol=0.05)
