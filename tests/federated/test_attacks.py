"""Attacks: who attacks, what changes of data and updates, and defences against them, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from pydantic.dataclasses import dataclass

from tests.federated.small import TRAIN, play, small, small_data, small_experiment
from tff_esn.datasets.federated import FederatedDataset, LabelledSequences
from tff_esn.errors import ConfigError
from tff_esn.federated.algorithm import GradientAlgorithm
from tff_esn.federated.attacks.attack import ATTACKS, HONEST, Attack
from tff_esn.federated.attacks.label_flip import LabelFlip
from tff_esn.federated.attacks.noise import InputNoiseAttack
from tff_esn.federated.attacks.scaled import Scaled
from tff_esn.federated.attacks.sign_flip import SignFlip
from tff_esn.federated.defences.defence import DEFENCES, Defence
from tff_esn.federated.defences.median import Median
from tff_esn.federated.fedavg import FedAvg
from tff_esn.federated.input_noise import InputNoise
from tff_esn.federated.training.client_states import training_data
from tff_esn.federated.training.experiment import FederatedExperiment
from tff_esn.parameters import STRICT, from_mapping
from tff_esn.runs.presets import algorithm_of

# ---- By name ----


def test_attacks_and_defences_are_given_by_name_by_table_or_as_themselves() -> None:
    tables = {"attack": {"name": "sign-flip", "share": 0.4}, "defence": {"name": "trimmed-mean", "share": 0.3}}
    algorithm = from_mapping(FedAvg, tables, "run.toml")
    assert algorithm.attack == SignFlip(share=0.4)
    assert algorithm.defence == DEFENCES["trimmed-mean"](share=0.3)
    assert FedAvg(attack="noise", defence="median") == FedAvg(attack=InputNoiseAttack(), defence=Median())
    for nothing in (None, "none", {"name": "none"}):
        assert FedAvg(defence=nothing).defence is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"attack": "sign-flop"}, "no attack 'sign-flop'; did you mean 'sign-flip'?"),
        ({"attack": {"share": 0.5}}, "attack: no name among share; expected one of label-flip, noise, random"),
        (
            {"attack": {"name": "label-flip", "strength": 2.0}},
            "attack: no setting 'strength'; expected one of clients, share",
        ),
        ({"attack": {"name": "scaled", "strength": 0.0}}, "attack: strength = 0.0: Input should be greater than 0"),
        ({"defence": "medium"}, "no defence 'medium'; did you mean 'median'?"),
        ({"defence": {"name": "none", "file": "x"}}, "no defence 'none'; expected one of cosine-filter, discriminator"),
        ({"defence": 3}, "run.toml: defence = 3: Input should be an instance of Defence"),
    ],
)
def test_what_is_no_attack_or_defence_is_refused_in_a_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        from_mapping(FedAvg, given, "run.toml")
    assert str(error.value).startswith(message)


def test_presets_change_the_discriminator_and_no_other_defence() -> None:
    found = algorithm_of("fedavg", "thesis", {"defence": "discriminator"}, "test")
    table = algorithm_of("fedavg", "thesis", {"defence": {"name": "discriminator", "trained_on": "rounds"}}, "test")
    assert isinstance(found, GradientAlgorithm) and isinstance(table, GradientAlgorithm)
    assert found.defence == DEFENCES["discriminator"](treatment="replaced", trained_on="steps")
    assert table.defence == DEFENCES["discriminator"](treatment="replaced", trained_on="rounds")
    corrected = algorithm_of("fedavg", "corrected", {"defence": "discriminator"}, "test")
    assert isinstance(corrected, GradientAlgorithm) and corrected.defence == DEFENCES["discriminator"]()
    for other, expected in (("median", Median()), ("none", None), (None, None)):
        algorithm = algorithm_of("fedavg", "thesis", {"defence": other}, "test")
        assert isinstance(algorithm, GradientAlgorithm) and algorithm.defence == expected


@pytest.mark.parametrize(
    ("name", "factor", "noise"),
    [("sign-flip", -1.0, 0.0), ("scaled", 10.0, 0.0), ("random", 0.0, 1.0), ("stealthy", 1.0, 0.3)],
)
def test_an_attack_has_a_strength_of_its_own(name: str, factor: float, noise: float) -> None:
    assert ATTACKS[name]().on_update() == (factor, noise)


# ---- Who attacks ----


def test_fakes_are_a_share_by_seed_or_named() -> None:
    clients = [f"S{number}" for number in range(2, 12)]
    drawn = SignFlip(share=0.3).fake_clients(clients, 5)
    assert len(drawn) == 3 and set(drawn) < set(clients)
    assert drawn == Scaled(share=0.3).fake_clients(clients, 5)
    assert any(SignFlip(share=0.3).fake_clients(clients, seed) != drawn for seed in range(5))
    assert len(SignFlip().fake_clients(clients, 5)) == 5
    assert SignFlip(share=0.0).fake_clients(clients, 0) == ()
    assert SignFlip(clients=("S4", "S2")).fake_clients(clients, 0) == ("S4", "S2")
    with pytest.raises(ConfigError, match="has S99; expected training clients: S2, S3"):
        SignFlip(clients=("S4", "S99")).fake_clients(clients, 0)
    with pytest.raises(ConfigError, match="names a client twice"):
        SignFlip(clients=("S4", "S4")).fake_clients(clients, 0)


# ---- What they change ----


@pytest.mark.parametrize(
    ("task", "labels", "expected"),
    [
        ("affect", np.array([0, 1, 2, 3, -1]), [1, 2, 3, 0, -1]),
        ("stress", np.array([0, 1, -1]), [1, 0, -1]),
        ("stress", (np.array([0, -1]), np.array([1])), [1, -1, 0]),
    ],
)
def test_labels_are_flipped_to_the_next_class(task: str, labels: Any, expected: list[int]) -> None:
    data = small_data(task)
    own = LabelledSequences(data["S2"].values[: len(labels)], labels)
    flipped = LabelFlip().on_data(replace(data, sequences={**data.sequences, "S2": own}), ["S2"], 0)
    assert np.concatenate([np.atleast_1d(part) for part in flipped["S2"].labels]).tolist() == expected
    assert flipped["S3"] is data["S3"]
    assert flipped.clients == data.clients


def updates_under(experiment: FederatedExperiment, algorithm: GradientAlgorithm) -> tuple[np.ndarray, np.ndarray]:
    """The update of S2 alone, and of S3 alone."""
    federation = experiment.program(algorithm).federation
    before = federation.readout(federation.initial_state())
    found = []
    for name in ("S2", "S3"):
        after = federation.readout(play(federation, 1, [name])[0])
        found.append((after.weights - before.weights).ravel())
    return found[0], found[1]


def test_attacks_change_the_update_of_fakes_alone(tmp_path: Path) -> None:
    experiment = small_experiment(tmp_path)
    honest, other = updates_under(experiment, small())
    size = np.sqrt(np.mean(honest**2))

    def under(name: str, **parameters: float) -> np.ndarray:
        attack = ATTACKS[name](clients=("S2",), **parameters)
        attacked, untouched = updates_under(experiment, small(attack=attack))
        np.testing.assert_allclose(untouched, other, atol=1e-6)
        return attacked

    np.testing.assert_allclose(under("sign-flip"), -honest, atol=1e-6)
    np.testing.assert_allclose(under("sign-flip", strength=2.0), -2 * honest, atol=1e-6)
    np.testing.assert_allclose(under("scaled"), 10 * honest, atol=1e-5)
    # The noise is the same whatever its strength.
    noise = under("random")
    assert 0.3 * size < np.sqrt(np.mean(noise**2)) < 3 * size
    assert abs(np.corrcoef(noise, honest)[0, 1]) < 0.95
    np.testing.assert_allclose(under("random", strength=2.0), 2 * noise, atol=1e-6)
    np.testing.assert_allclose(under("stealthy"), honest + 0.3 * noise, atol=1e-6)
    for name in ("noise", "label-flip"):
        assert not np.allclose(under(name), honest, atol=1e-3)
        assert ATTACKS[name]().on_update() == HONEST
    whole = under("noise")
    np.testing.assert_array_equal(under("noise", strength=1.0), whole)


def test_an_attackers_noise_is_not_that_of_its_inputs_once_more() -> None:
    data, clean = small_data(), small_data()["S2"].values
    noise, attack = InputNoise(1.0, ("S2",)), InputNoiseAttack(clients=("S2",))
    own, attacked, both = (
        training_data(data, small(**given), 0)["S2"].values - clean
        for given in ({"noise": noise}, {"attack": attack}, {"noise": noise, "attack": attack})
    )
    assert abs(np.corrcoef(own.ravel(), attacked.ravel())[0, 1]) < 0.3
    np.testing.assert_allclose(both, own + attacked, atol=1e-12)


@pytest.mark.parametrize("name", ["sign-flip", "scaled", "random", "stealthy"])
def test_clients_files_are_shared_by_attacks_on_updates(name: str, tmp_path: Path) -> None:
    experiment = small_experiment(tmp_path)
    assert experiment.files(small(attack=name)) is experiment.files(small())
    assert experiment.files(small(attack="noise")) is not experiment.files(small())


# ---- Attacks and defences of another package ----


@dataclass(frozen=True, repr=False, config=STRICT)
class ZeroInputs(Attack):
    """Trains on zeros."""

    name = "zero-inputs"

    def on_data(self, data: FederatedDataset, clients: Sequence[str], seed: int) -> FederatedDataset:
        """Zeros for the attackers."""
        zeros = {client: replace(data[client], values=0 * data[client].values) for client in clients}
        return replace(data, sequences={**data.sequences, **zeros})


@dataclass(frozen=True, repr=False, config=STRICT)
class FirstClients(Defence):
    """Accepts so many clients.

    Attributes:
        number: How many.
    """

    number: int = 1

    name = "first-clients"

    def accepts(self, updates: tf.Tensor) -> tf.Tensor:
        """The first."""
        return tf.range(tf.shape(updates)[0]) < self.number


def test_attacks_and_defences_of_another_package_work_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for registry, kind in ((ATTACKS, ZeroInputs), (DEFENCES, FirstClients)):
        monkeypatch.setattr(registry, "_found", dict(registry.items()))
        registry.register(kind)
    experiment = small_experiment(tmp_path)
    attack = {"name": "zero-inputs", "clients": ("S3",)}
    zeros, other = updates_under(experiment, small(attack=attack))[1], updates_under(experiment, small())[1]
    # States of zeros are zeros: only the bias is left to learn.
    assert zeros[-1] and not zeros[:-1].any() and other[:-1].all()
    _, (report,) = play(experiment.program(small(defence={"name": "first-clients", "number": 2})).federation, 1)
    assert report.accepted == {"S2": True, "S3": True, "S4": False}


# ---- Defences in rounds ----


@pytest.mark.parametrize(
    ("name", "defence"),
    [("fedavg", "krum"), ("fedcurv", "median"), ("fedavg", "tff-robust"), ("fedcurv", "none")],
)
def test_defences_run_with_both_algorithms_and_say_whom_they_accept(name: str, defence: str, tmp_path: Path) -> None:
    attack = Scaled(strength=50.0, clients=("S3",))
    algorithm = small(name, defence=defence, attack=attack, clients_per_round=3, rounds=2)
    _, records = small_experiment(tmp_path).program(algorithm).run()
    report = records[-1].report
    assert report is not None and report.fake == ("S3",)
    assert tuple(report.accepted) == (TRAIN if defence in ("krum", "median") else ())
    values = records[-1].values()
    if defence == "krum":
        assert report.accepted["S3"] is False
        assert (values["S3/accepted"], values["S3/fake"], values["round/fake"]) == (0.0, True, 1)
        assert values["round/accepted"] == 1


def test_tffs_robust_aggregator_limits_a_scaled_update(tmp_path: Path) -> None:
    experiment, attack = small_experiment(tmp_path), Scaled(strength=1e6, clients=("S2",))
    undefended, _ = updates_under(experiment, small(attack=attack))
    defended, _ = updates_under(experiment, small(attack=attack, defence="tff-robust"))
    assert np.abs(undefended).max() > 1e4 > 100 > np.abs(defended).max()


def test_tff_s_own_processes_have_no_defence_here(tmp_path: Path) -> None:
    experiment = small_experiment(tmp_path)
    for changes in ({"defence": "median"}, {"attack": "sign-flip"}):
        with pytest.raises(ConfigError, match="with engine = 'builtin'; expected engine = 'states'"):
            experiment.program(small(engine="builtin", **changes))
    experiment.program(small(engine="builtin", attack="label-flip"))
