"""The discriminator, the attacks it is to find, and a round that it judges."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from tests.federated.small import TRAIN, UNITS, play, small_config, small_inputs, small_study
from tff_esn.config import AttackConfig, DefenceConfig, DiscriminatorConfig, FederatedConfig
from tff_esn.datasets.splits import ClientSplit
from tff_esn.errors import ConfigError, DataError
from tff_esn.features.inputs import Examples, ModelInputs
from tff_esn.federated.attacks import fake_clients, flipped, update_attack
from tff_esn.federated.discriminator import (
    FAKE,
    REAL,
    ROUNDS,
    Discriminator,
    DiscriminatorRule,
    UpdateExamples,
    _play,
    discriminator_for,
    discriminator_network,
    readout_steps,
    round_examples,
    step_examples,
    train_discriminator,
)
from tff_esn.federated.fedavg import ProximalObjective
from tff_esn.federated.federation import build_federation
from tff_esn.federated.local import HONEST, Client, LocalWork
from tff_esn.federated.study import FederatedStudy
from tff_esn.readout.readout import initial_readout
from tff_esn.readout.training import fit_readout

PARAMETERS = UNITS + 1


def held_out() -> ModelInputs:
    """The small study with S5 for the discriminator."""
    return replace(small_inputs(), split=ClientSplit(TRAIN, (), ("S6",), ("S5",)))


def by_first_parameter(treatment: str) -> DiscriminatorRule:
    """A network that takes an update for real if its first parameter grows."""
    first = np.zeros((PARAMETERS, 2), np.float32)
    first[0] = (1, -1)
    output = np.array([[1], [-1]], np.float32)
    return DiscriminatorRule(((first, np.zeros(2, np.float32)), (output, np.zeros(1, np.float32))), treatment)


# ---- What it learns from ----


def test_steps_add_up_to_what_training_changes() -> None:
    random = np.random.default_rng(0)
    examples = Examples(random.normal(size=(57, UNITS)).astype(np.float32), random.integers(0, 2, 57))
    config = replace(small_config().readout, epochs=1, order="time", optimizer="adam")
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
    inputs, config = held_out(), small_config(defence=DefenceConfig("discriminator"))

    def made(seed: int) -> UpdateExamples:
        if trained_on == "steps":
            return step_examples(inputs, config, seed)
        return round_examples(inputs, config, seed, tmp_path / str(seed))

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
        self.work = LocalWork(UNITS, UNITS, 2, 10, small_config().readout)
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
        step_examples(small_inputs(), small_config(), 0)


# ---- The network ----


def separable(examples: int = 400) -> UpdateExamples:
    random = np.random.default_rng(1)
    real = random.integers(0, 2, examples)
    updates = random.normal(size=(examples, PARAMETERS)) + 2.0 * real[:, None]
    return UpdateExamples(updates.astype(np.float32), real, {})


def test_the_network_learns_is_kept_and_judges_as_keras_does(tmp_path: Path) -> None:
    examples, config = separable(), DiscriminatorConfig(units=(16, 8), epochs=20, learning_rate=0.02)
    made = train_discriminator(examples, config, ("S5",), DefenceConfig("discriminator", None, "steps"), seed=0)
    assert made.card.test_f1 > 0.95 and made.card.validation_accuracy > 0.95
    again = train_discriminator(examples, config, ("S5",), DefenceConfig("discriminator", None, "steps"), seed=0)
    assert again.card == made.card
    path = tmp_path / "discriminator.npz"
    made.save(path)
    loaded = Discriminator.load(path, PARAMETERS)
    assert loaded.card == made.card
    network = discriminator_network(PARAMETERS, config, seed=1)
    network.set_weights([part for layer in made.layers for part in layer])
    expected = network.predict(examples.updates, verbose=0)[:, 0] > 0.5
    for own in (made, loaded):
        judgement = own.rule("left_out")(tf.constant(examples.updates), tf.ones(len(expected)))
        np.testing.assert_array_equal(judgement.accepted, expected)
    with pytest.raises(DataError, match=r"a discriminator of 9 parameters; expected one of 201"):
        Discriminator.load(path, 201)
    content = path.read_bytes()
    path.write_bytes(content[:-200] + b"x" + content[-199:])
    with pytest.raises(DataError, match="contents that do not fit their checksum; expected a discriminator"):
        Discriminator.load(path, PARAMETERS)
    replace(made, layers=made.layers[:2]).save(path)
    with pytest.raises(DataError, match="layers of other sizes than its card tells"):
        Discriminator.load(path, PARAMETERS)
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(DataError, match="expected a discriminator that `tff-esn discriminator` wrote"):
        Discriminator.load(path, PARAMETERS)
    with pytest.raises(DataError, match="no such file"):
        discriminator_for(
            held_out(),
            small_config(defence=DefenceConfig("discriminator", file=str(tmp_path / "missing.npz"))),
            0,
            tmp_path,
        )


# ---- A round by hand ----


@pytest.mark.parametrize(("treatment", "divisor"), [("replaced", 8.0), ("left_out", 6.0)])
def test_one_rejected_and_one_accepted(treatment: str, divisor: float) -> None:
    updates = np.zeros((2, PARAMETERS), np.float32)
    updates[0, :2], updates[1, :2] = (-1, 5), (2, 7)
    judgement = by_first_parameter(treatment)(tf.constant(updates), tf.constant([2.0, 6.0]))
    assert judgement.accepted.numpy().tolist() == [False, True]
    expected = 6.0 * updates[1] / divisor
    np.testing.assert_allclose(judgement.update, expected, atol=1e-6)


@pytest.mark.parametrize("treatment", ["replaced", "left_out"])
def test_nobody_accepted_changes_nothing_and_nan_is_never_accepted(treatment: str) -> None:
    updates = np.full((3, PARAMETERS), -1, np.float32)
    updates[1] = np.nan
    updates[2, 0] = np.inf
    judgement = by_first_parameter(treatment)(tf.constant(updates), tf.ones(3))
    assert not judgement.accepted.numpy().any()
    np.testing.assert_array_equal(judgement.update, np.zeros(PARAMETERS))


@pytest.mark.parametrize("algorithm", ["fedavg", "fedcurv"])
@pytest.mark.parametrize("treatment", ["replaced", "left_out"])
def test_a_round_is_judged_inside_the_process(algorithm: str, treatment: str, tmp_path: Path) -> None:
    study = small_study(tmp_path)
    config = small_config(algorithm=algorithm, preset="corrected", fedcurv=None)
    plain = study.program(config, 0).federation
    rule = by_first_parameter(treatment)
    files = study.files(config, 0)
    judged = build_federation(config, files, 2, initial_readout(UNITS, 2, 0), 0, None, rule)
    before = plain.readout(plain.initial_state())
    alone = {name: plain.readout(play(plain, 1, [name])[0]) for name in TRAIN}
    updates = np.stack([(alone[name].weights - before.weights).ravel() for name in TRAIN])
    weights = np.array([files.examples[files.clients.index(name)] for name in TRAIN], np.float32)
    accepted = updates[:, 0] > 0
    assert accepted.any() and not accepted.all(), "the small study must give both kinds"
    total = weights.sum() if treatment == "replaced" else weights[accepted].sum()
    expected = (weights[accepted] @ updates[accepted]) / total

    state, (report,) = play(judged, 1, TRAIN)
    assert report.accepted == dict(zip(TRAIN, accepted.tolist()))
    after = judged.readout(state)
    found = (after.weights - before.weights).ravel()
    np.testing.assert_allclose(found, expected, atol=1e-6)
    if algorithm == "fedcurv":
        heard = np.ones(len(TRAIN), bool) if treatment == "replaced" else accepted
        own = state.own.u[[judged.row[name] for name in TRAIN]]
        np.testing.assert_allclose(state.server.objective.curvature.u, own[heard].sum(axis=0), rtol=1e-5)


# ---- Attacks ----


def test_fakes_are_a_share_by_seed_or_named() -> None:
    clients = [f"S{number}" for number in range(2, 12)]
    drawn = fake_clients(AttackConfig(share=0.3), clients, 5)
    assert len(drawn) == 3 and set(drawn) < set(clients)
    assert drawn == fake_clients(AttackConfig(share=0.3), clients, 5)
    assert any(fake_clients(AttackConfig(share=0.3), clients, seed) != drawn for seed in range(5))
    assert fake_clients(None, clients, 0) == fake_clients(AttackConfig(share=0.0), clients, 0) == ()
    assert fake_clients(AttackConfig(clients=("S4", "S2")), clients, 0) == ("S4", "S2")
    with pytest.raises(ConfigError, match="has S99; expected training clients: S2, S3"):
        fake_clients(AttackConfig(clients=("S4", "S99")), clients, 0)
    with pytest.raises(ConfigError, match="names a client twice"):
        fake_clients(AttackConfig(clients=("S4", "S4")), clients, 0)


def test_labels_are_flipped_to_the_next_class() -> None:
    examples = Examples(np.zeros((4, 1)), np.array([0, 1, 2, 3]))
    assert flipped(examples, 4).labels.tolist() == [1, 2, 3, 0]
    assert flipped(Examples(np.zeros((2, 1)), np.array([0, 1])), 2).labels.tolist() == [1, 0]


def updates_under(study: FederatedStudy, config: FederatedConfig) -> tuple[np.ndarray, np.ndarray]:
    """The update of S2 alone, and of S3 alone."""
    federation = study.program(config, 0).federation
    before = federation.readout(federation.initial_state())
    found = []
    for name in ("S2", "S3"):
        after = federation.readout(play(federation, 1, [name])[0])
        found.append((after.weights - before.weights).ravel())
    return found[0], found[1]


def test_attacks_change_the_update_of_fakes_alone(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    honest, other = updates_under(study, small_config())
    size = np.sqrt(np.mean(honest**2))

    def under(kind: str, strength: float | None = None) -> np.ndarray:
        attack = AttackConfig(kind, strength, clients=("S2",))
        attacked, untouched = updates_under(study, small_config(attack=attack))
        np.testing.assert_allclose(untouched, other, atol=1e-6)
        return attacked

    np.testing.assert_allclose(under("sign-flip", 2.0), -2 * honest, atol=1e-6)
    np.testing.assert_allclose(under("scaled"), 10 * honest, atol=1e-5)
    random = under("random")
    assert 0.3 * size < np.sqrt(np.mean(random**2)) < 3 * size
    assert abs(np.corrcoef(random, honest)[0, 1]) < 0.95
    stealthy = under("stealthy", 0.1)
    assert 0 < np.sqrt(np.mean((stealthy - honest) ** 2)) < 0.3 * size
    for kind in ("noise", "label-flip"):
        assert not np.allclose(under(kind), honest, atol=1e-3)
    np.testing.assert_array_equal(update_attack(AttackConfig("noise"), True), HONEST)
    np.testing.assert_array_equal(update_attack(AttackConfig("scaled"), False), HONEST)


def test_defences_run_with_both_algorithms_and_say_whom_they_accept(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    for algorithm, kind in (("fedavg", "krum"), ("fedcurv", "median"), ("fedavg", "tff-robust"), ("fedcurv", "none")):
        config = small_config(
            algorithm=algorithm,
            defence=DefenceConfig(kind),
            attack=AttackConfig("scaled", 50.0, clients=("S3",)),
            clients_per_round=3,
            rounds=2,
        )
        _, records = study.program(config, 0).run()
        report = records[-1].report
        assert report is not None and report.fake == ("S3",)
        assert bool(report.accepted) == (kind in ("krum", "median"))
        values = records[-1].values()
        if kind == "krum":
            assert report.accepted["S3"] is False
            assert (values["S3/accepted"], values["S3/fake"], values["round/fake"]) == (0.0, True, 1)
            assert values["round/accepted"] == 1


def test_tff_s_own_processes_have_no_defence_here(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    for changes in ({"defence": DefenceConfig("median")}, {"attack": AttackConfig("sign-flip")}):
        with pytest.raises(ConfigError, match="with engine = 'builtin'; expected engine = 'states'"):
            study.program(small_config(engine="builtin", **changes), 0)
