"""The discriminator: what it learns from, its network, and rounds whose updates it accepts or rejects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from tests.federated.small import TRAIN, UNITS, play, small, small_data, small_experiment
from tff_esn.datasets.federated import FederatedDataset
from tff_esn.datasets.splits import ClientSplit
from tff_esn.errors import ConfigError, DataError
from tff_esn.federated.defences.discriminator import DiscriminatorDefence, DiscriminatorParameters
from tff_esn.federated.objective import ProximalObjective
from tff_esn.federated.training.discriminator import (
    FAKE,
    REAL,
    ROUNDS,
    Discriminator,
    TrainedDefence,
    UpdateExamples,
    _play,
    discriminator_for,
    discriminator_network,
    readout_steps,
    step_examples,
    train_discriminator,
    update_examples,
)
from tff_esn.federated.training.experiment import FederatedExperiment
from tff_esn.federated.training.federation import build_federation
from tff_esn.federated.training.local import Client, LocalWork
from tff_esn.readout.readout import initial_readout
from tff_esn.readout.training import fit_readout
from tff_esn.reservoir.samples import Samples

PARAMETERS = UNITS + 1


def held_out() -> FederatedDataset:
    """The small data set with S5 for the discriminator."""
    return small_data().partitioned(ClientSplit(TRAIN, (), ("S6",), ("S5",)))


def by_first_parameter(treatment: str) -> TrainedDefence:
    """A network that takes an update for real if its first parameter grows."""
    first = np.zeros((PARAMETERS, 2), np.float32)
    first[0] = (1, -1)
    output = np.array([[1], [-1]], np.float32)
    return TrainedDefence(((first, np.zeros(2, np.float32)), (output, np.zeros(1, np.float32))), treatment)


# ---- What it learns from ----


def test_steps_add_up_to_what_training_changes() -> None:
    random = np.random.default_rng(0)
    examples = Samples(random.normal(size=(57, UNITS)).astype(np.float32), random.integers(0, 2, 57))
    config = small(epochs=1, order="time", optimizer="adam").training
    start = initial_readout(UNITS, 2, seed=4)
    steps, last = readout_steps(examples, config, 2, start)
    assert steps.shape == (6, PARAMETERS)
    fitted = fit_readout(examples.values, examples.labels, 2, config, seed=4)
    np.testing.assert_allclose(last.kernel, fitted.kernel, atol=1e-6)
    change = np.concatenate([(fitted.kernel - start.kernel).ravel(), fitted.bias - start.bias])
    np.testing.assert_allclose(steps.sum(axis=0), change, atol=1e-5)
    # One step of Adam is about the learning rate in every coordinate.
    np.testing.assert_allclose(np.abs(steps[0]), config.learning_rate, rtol=1e-3)


@pytest.mark.parametrize("trained_on", ["steps", "rounds"])
def test_examples_are_of_both_kinds_and_the_seed_s_own(trained_on: str, tmp_path: Path) -> None:
    data, defence = held_out(), DiscriminatorDefence(trained_on=trained_on)

    def made(seed: int) -> UpdateExamples:
        algorithm = small().with_seed(seed)
        return update_examples(defence, data, algorithm, algorithm.training, tmp_path / str(seed))

    first, again, other = made(0), made(0), made(1)
    np.testing.assert_array_equal(first.updates, again.updates)
    assert not np.allclose(first.updates, other.updates)
    assert first.updates.shape[1] == PARAMETERS
    assert np.count_nonzero(first.real == REAL) == np.count_nonzero(first.real == FAKE) > 0
    assert np.isfinite(first.updates).all()
    train, test = first.split(0)
    together = np.concatenate([train.updates, test.updates])
    np.testing.assert_array_equal(np.sort(together[:, 0]), np.sort(first.updates[:, 0]))


class Marked:
    """Training whose update is 0 for honest clients and 1 for noisy ones."""

    def __init__(self) -> None:
        self.work = LocalWork(UNITS, UNITS, 2, 10, small().training)
        self.objective = ProximalObjective()
        self.seen: list[np.ndarray] = []

    def __call__(self, weights: tf.Tensor, rate: tf.Tensor, server: object, client: Client) -> SimpleNamespace:
        self.seen.append(weights.numpy())
        return SimpleNamespace(update=tf.fill(weights.shape, float(client.path.numpy() == b"noisy")))


def test_half_of_the_noisy_clients_are_in_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tf, "function", lambda training, **_: training)
    training, clients = Marked(), [*[("honest", REAL)] * 50, *[("noisy", FAKE)] * 50]
    assert len(_play(training, clients, 0)) == ROUNDS * 100  # type: ignore[arg-type]
    # The mean is n / (50 + n) with n noisy clients in it.
    means = np.diff([weights.mean() for weights in training.seen[::100]])
    counts = 50 * means / (1 - means)
    assert counts.mean() == pytest.approx(25, abs=2)
    assert counts.std() > 1


def test_a_split_without_subjects_for_it_is_refused() -> None:
    with pytest.raises(ConfigError, match="without discriminator subjects; expected one such as 'thesis-disc"):
        step_examples(DiscriminatorParameters(), small_data(), small())


# ---- The network ----


def separable(examples: int = 400) -> UpdateExamples:
    random = np.random.default_rng(1)
    real = random.integers(0, 2, examples)
    updates = random.normal(size=(examples, PARAMETERS)) + 2.0 * real[:, None]
    return UpdateExamples(updates.astype(np.float32), real, {})


def test_the_network_learns_is_kept_and_accepts_as_keras_does(tmp_path: Path) -> None:
    examples, config = separable(), DiscriminatorParameters(units=(16, 8), epochs=20, learning_rate=0.02)
    defence = DiscriminatorDefence(network=config)
    made = train_discriminator(defence, examples, ("S5",), seed=0)
    assert made.card.test_f1 > 0.95 and made.card.validation_accuracy > 0.95
    again = train_discriminator(defence, examples, ("S5",), seed=0)
    assert again.card == made.card
    path = tmp_path / "discriminator.npz"
    made.save(path)
    loaded = Discriminator.load(path, PARAMETERS)
    assert loaded.card == made.card
    network = discriminator_network(PARAMETERS, config, seed=1)
    network.set_weights([part for layer in made.layers for part in layer])
    expected = network.predict(examples.updates, verbose=0)[:, 0] > 0.5
    for own in (made, loaded):
        aggregate = own.defence("left_out")(tf.constant(examples.updates), tf.ones(len(expected)))
        np.testing.assert_array_equal(aggregate.accepted, expected)
    with pytest.raises(DataError, match=r"a discriminator of 9 parameters; expected one of 201"):
        Discriminator.load(path, 201)
    content = path.read_bytes()
    path.write_bytes(content[:-200] + b"x" + content[-199:])
    with pytest.raises(DataError, match="contents that do not fit their checksum; expected a discriminator"):
        Discriminator.load(path, PARAMETERS)
    replace(made, layers=made.layers[:2]).save(path)
    with pytest.raises(DataError, match="layers of other sizes than its card says"):
        Discriminator.load(path, PARAMETERS)
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(DataError, match="expected a discriminator that `tff-esn discriminator` wrote"):
        Discriminator.load(path, PARAMETERS)
    with pytest.raises(DataError, match="no such file"):
        missing = DiscriminatorDefence(file=str(tmp_path / "missing.npz"))
        discriminator_for(missing, held_out(), small(), small().training, tmp_path)


# ---- A round by hand ----


@pytest.mark.parametrize(("treatment", "divisor"), [("replaced", 8.0), ("left_out", 6.0)])
def test_one_rejected_and_one_accepted(treatment: str, divisor: float) -> None:
    updates = np.zeros((2, PARAMETERS), np.float32)
    updates[0, :2], updates[1, :2] = (-1, 5), (2, 7)
    aggregate = by_first_parameter(treatment)(tf.constant(updates), tf.constant([2.0, 6.0]))
    assert aggregate.accepted.numpy().tolist() == [False, True]
    expected = 6.0 * updates[1] / divisor
    np.testing.assert_allclose(aggregate.update, expected, atol=1e-6)


@pytest.mark.parametrize("treatment", ["replaced", "left_out"])
def test_nobody_accepted_changes_nothing_and_nan_is_never_accepted(treatment: str) -> None:
    updates = np.full((3, PARAMETERS), -1, np.float32)
    updates[1] = np.nan
    updates[2, 0] = np.inf
    aggregate = by_first_parameter(treatment)(tf.constant(updates), tf.ones(3))
    assert not aggregate.accepted.numpy().any()
    np.testing.assert_array_equal(aggregate.update, np.zeros(PARAMETERS))


@pytest.mark.parametrize("name", ["fedavg", "fedcurv"])
@pytest.mark.parametrize("treatment", ["replaced", "left_out"])
def test_clients_are_accepted_and_rejected_inside_the_process(name: str, treatment: str, tmp_path: Path) -> None:
    experiment, algorithm = small_experiment(tmp_path), small(name).with_seed(0)
    plain = experiment.program(algorithm).federation
    files, defence = experiment.files(algorithm), by_first_parameter(treatment)
    start = initial_readout(UNITS, 2, 0)
    defended = build_federation(algorithm, algorithm.training, files, 2, start, 0, defence=defence)
    before = plain.readout(plain.initial_state())
    alone = {name: plain.readout(play(plain, 1, [name])[0]) for name in TRAIN}
    updates = np.stack([(alone[name].weights - before.weights).ravel() for name in TRAIN])
    weights = np.array([files.examples[files.clients.index(name)] for name in TRAIN], np.float32)
    accepted = updates[:, 0] > 0
    assert accepted.any() and not accepted.all(), "the small data set must give both kinds"
    total = weights.sum() if treatment == "replaced" else weights[accepted].sum()
    expected = (weights[accepted] @ updates[accepted]) / total

    state, (report,) = play(defended, 1, TRAIN)
    assert report.accepted == dict(zip(TRAIN, accepted.tolist()))
    after = defended.readout(state)
    found = (after.weights - before.weights).ravel()
    np.testing.assert_allclose(found, expected, atol=1e-6)
    if name == "fedcurv":
        counted = np.ones(len(TRAIN), bool) if treatment == "replaced" else accepted
        own = state.own.u[[defended.row[name] for name in TRAIN]]
        assert own.any(axis=(1, 2)).tolist() == counted.tolist()
        np.testing.assert_allclose(state.server.objective.curvature.u, own[counted].sum(axis=0), rtol=1e-5)


def test_a_trained_discriminator_is_kept_and_each_has_a_process_of_its_own(tmp_path: Path) -> None:
    experiment = FederatedExperiment(held_out(), tmp_path)
    few = small(defence=DiscriminatorDefence(network=DiscriminatorParameters(epochs=1)))
    many = few.replaced({"defence.network.epochs": 40})
    first, again, other = (experiment._defence(algorithm) for algorithm in (few, few, many))
    assert first is again and first != other
    accepted = [play(experiment.program(algorithm).federation, 5)[1] for algorithm in (few, many)]
    assert [report.accepted for report in accepted[0]] != [report.accepted for report in accepted[1]]
