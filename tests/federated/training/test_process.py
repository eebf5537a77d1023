"""The algorithms as TFF runs them: ours against TFF's own, on states and with the reservoir in the graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from tests.federated.small import EXAMPLES, SEED, TRAIN, UNITS, play, small, small_data, small_experiment
from tff_esn.algorithm import ALGORITHMS
from tff_esn.datasets.federated import FederatedDataset
from tff_esn.errors import ConfigError
from tff_esn.federated.algorithm import GradientAlgorithm
from tff_esn.federated.fedavg import FedAvg
from tff_esn.federated.fedcurv import CurvatureSwitches
from tff_esn.federated.objective import ProximalObjective
from tff_esn.federated.training.experiment import FederatedExperiment
from tff_esn.federated.training.federation import Federation, ReadoutFederation
from tff_esn.federated.training.local import LocalTraining
from tff_esn.parameters import STRICT
from tff_esn.readout.readout import initial_readout
from tff_esn.reservoir.samples import Samples, sample_states
from tff_esn.reservoir.weights import draw_weights
from tff_esn.runs.presets import PRESETS


@pytest.fixture(scope="module")
def experiments(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FederatedExperiment]:
    """The small data set with two classes and with four."""
    return {task: small_experiment(tmp_path_factory.mktemp(task), task=task) for task in ("stress", "affect")}


def federation(experiment: FederatedExperiment, algorithm: GradientAlgorithm) -> Federation:
    return experiment.program(algorithm).federation


def weights_of(federation: Federation, state: Any) -> NDArray:
    readout = federation.readout(state)
    return np.concatenate((readout.kernel, readout.bias[None]))


def trained(experiment: FederatedExperiment, algorithm: GradientAlgorithm, rounds: int) -> NDArray:
    """Kernel and bias after so many rounds of all clients."""
    own = federation(experiment, algorithm)
    state, _ = play(own, rounds)
    return weights_of(own, state)


def states(experiment: FederatedExperiment, algorithm: GradientAlgorithm) -> dict[str, Samples]:
    """The states of all clients in the server's reservoir."""
    return sample_states(experiment.data, draw_weights(algorithm.esn, experiment.data.inputs, SEED))


def start(experiment: FederatedExperiment) -> NDArray:
    """The weights before the first round."""
    readout = initial_readout(UNITS, len(experiment.data.classes), SEED)
    return np.concatenate((readout.kernel, readout.bias[None]))


def with_one(states: NDArray) -> NDArray:
    """States with a unit that is 1, whose weight is the bias."""
    return np.pad(states, ((0, 0), (0, 1)), constant_values=1.0)


# ---- Ours and TFF's own ----

# Every pair of values of two settings.
CASES = [
    # task, reservoirs, order, epochs, class weights, optimizer; compared with
    ("stress", "same", "time", 1, False, "sgd", "builtin"),
    ("stress", "same", "shuffled", 2, True, "adam", "graph"),
    ("affect", "same", "shuffled", 2, False, "sgd", "builtin"),
    ("affect", "different", "shuffled", 1, True, "adam", "builtin"),
    ("affect", "different", "time", 1, False, "adam", "graph"),
    ("stress", "different", "time", 2, True, "sgd", "graph"),
]


@pytest.mark.parametrize(("task", "reservoirs", "order", "epochs", "weighted", "optimizer", "engine"), CASES)
def test_fedavg_on_states_is_tffs_own_and_that_with_the_reservoir_in_the_graph(
    experiments: dict[str, FederatedExperiment],
    task: str,
    reservoirs: str,
    order: str,
    epochs: int,
    weighted: bool,
    optimizer: str,
    engine: str,
) -> None:
    weights = {"stress": (12.0, 88.0), "affect": (1.0, 2.0, 3.0, 4.0)}[task] if weighted else None
    rate = 0.01 if optimizer == "adam" or weighted else 0.2
    local = {"order": order, "epochs": epochs, "class_weight": weights, "optimizer": optimizer, "learning_rate": rate}
    config = small(**local, reservoirs=reservoirs, server_learning_rate=0.5)
    # Adam divides by gradients that may be small, and lets rounding errors grow from round to round.
    rounds = 1 if optimizer == "adam" else 10
    ours, before = trained(experiments[task], config, rounds), start(experiments[task])
    assert np.abs(ours - before).max() > 0.005
    theirs = trained(experiments[task], replace(config, engine=engine), rounds)
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-5 * np.abs(ours).max())


def test_fedprox_pulls_clients_to_the_server_and_tffs_own_pushes_them_away(
    experiments: dict[str, FederatedExperiment],
) -> None:
    """TFF 0.87 adds mu (w_server - w) to the gradient; that of mu/2 |w - w_server|^2 is its negative."""
    experiment, rate, strength = experiments["stress"], 0.2, 0.5
    config = small("fedprox", order="time", learning_rate=rate, proximal_strength=strength)
    examples, before = states(experiment, config), start(experiment)[:, 0].astype(np.float64)

    def by_hand(mu: float) -> NDArray:
        """A round of two epochs in batches of ten."""
        mean = np.zeros_like(before)
        for client in TRAIN:
            h, y, w = with_one(examples[client].values), examples[client].labels, before
            for first in (*range(0, len(y), 10),) * 2:
                rows = slice(first, first + 10)
                p = 1 / (1 + np.exp(-h[rows] @ w))
                w = w - rate * ((p - y[rows]) @ h[rows] / len(p) + mu * (w - before))
            mean += w * len(y) / sum(EXAMPLES[client] for client in TRAIN)
        return mean

    np.testing.assert_allclose(trained(experiment, config, 1)[:, 0], by_hand(strength), atol=1e-5)
    np.testing.assert_allclose(
        trained(experiment, replace(config, engine="builtin"), 1)[:, 0], by_hand(-strength), atol=1e-5
    )
    lengths = [np.linalg.norm(by_hand(mu) - before) for mu in (strength, 0, -strength)]
    assert lengths == sorted(lengths)


def test_fedcurv_without_a_factor_and_our_unweighted_fedavg_are_tffs_own(
    experiments: dict[str, FederatedExperiment],
) -> None:
    experiment, unweighted = experiments["stress"], small("fedavg-unweighted")
    theirs = trained(experiment, replace(unweighted, engine="builtin"), 5)
    np.testing.assert_allclose(trained(experiment, unweighted, 5), theirs, rtol=0, atol=1e-6)
    curved = small("fedcurv", weighting="uniform", factor=0.0)
    np.testing.assert_allclose(trained(experiment, curved, 5), theirs, rtol=0, atol=1e-6)
    # Neither the weights of the clients nor the penalty are nothing.
    assert np.abs(trained(experiment, small(), 5) - theirs).max() > 1e-3
    assert np.abs(trained(experiment, replace(curved, factor=0.1), 5) - theirs).max() > 1e-3


def test_fedcurv_as_printed_is_unweighted_fedavg_for_two_classes(experiments: dict[str, FederatedExperiment]) -> None:
    switches = {name: PRESETS["thesis"]["federated"][name] for name in CurvatureSwitches().get_params()}
    printed = small("fedcurv", **{**switches, "factor": 1e6})
    found, expected = (trained(experiments["stress"], own, 3) for own in (printed, small("fedavg-unweighted")))
    np.testing.assert_array_equal(found, expected)


def test_fedcurv_on_states_is_that_with_the_reservoir_in_the_graph(experiments: dict[str, FederatedExperiment]) -> None:
    config = small("fedcurv", reservoirs="different")
    ours, theirs = (trained(experiments["affect"], replace(config, engine=engine), 5) for engine in ("states", "graph"))
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-5 * np.abs(ours).max())


# ---- Classes ----


def three_classes() -> FederatedDataset:
    """The small data set's values with the quadrant of the last step for a label, of which two are one class."""
    small_sequences = small_data().sequences
    return FederatedDataset.from_arrays(
        {
            client: (own.values, np.minimum((own.values[:, -1] > 0) @ (1, 2), 2))
            for client, own in small_sequences.items()
        },
        partition=small_data().partition,
    )


@pytest.mark.parametrize("name", ["fedavg", "fedcurv"])
def test_three_classes_are_learned_under_every_engine(name: str, tmp_path: Path) -> None:
    data = three_classes()
    experiment = FederatedExperiment(data, tmp_path)
    algorithm = small(name, class_weight="balanced", learning_rate=0.5)
    found = {engine: trained(experiment, replace(algorithm, engine=engine), 5) for engine in algorithm.engines}
    assert len(found) > 1 and found["states"].shape == (UNITS + 1, 3)
    for engine, weights in found.items():
        np.testing.assert_allclose(weights, found["states"], rtol=0, atol=1e-5 * np.abs(weights).max(), err_msg=engine)
    program = experiment.program(replace(algorithm, rounds=20, clients_per_round=3))
    readout, _ = program.run()
    assert program.evaluator(readout)["test"].balanced_accuracy > 0.6


@pytest.mark.parametrize("name", ["fedavg", "fedcurv", "mimelite"])
def test_a_client_that_holds_a_single_class_trains(name: str, tmp_path: Path) -> None:
    data = three_classes()
    own = data["S2"]
    single = {**data.sequences, "S2": replace(own, labels=np.zeros_like(own.labels))}
    experiment = FederatedExperiment(replace(data, sequences=single), tmp_path)
    fed = federation(experiment, small(name, class_weight="balanced"))
    state, (report,) = play(fed, 1, ["S2"])
    # The weights of the class it holds grow towards its states' mean, those of the others shrink.
    change = weights_of(fed, state) - start(experiment)
    assert report.left_out == () and change[-1, 0] > 0 > change[-1, 1:].max()


@pytest.mark.parametrize("engine", ["states", "builtin", "graph"])
def test_balanced_class_weights_of_a_class_that_nobody_has_are_those_of_the_others(engine: str, tmp_path: Path) -> None:
    """An absent class counts 1 and the present ones as if it were not there."""
    data = three_classes()
    without = {
        client: replace(own, labels=np.where(own.labels == 2, 0, own.labels)) for client, own in data.sequences.items()
    }
    experiment = FederatedExperiment(replace(data, sequences=without), tmp_path)
    labels = experiment.data.part("train").labels()
    zeros, ones = np.count_nonzero(labels == 0), np.count_nonzero(labels == 1)
    by_hand = (len(labels) / (2 * zeros), len(labels) / (2 * ones), 1.0)
    balanced, numbers = (small(engine=engine, class_weight=weight) for weight in ("balanced", by_hand))
    np.testing.assert_allclose(trained(experiment, balanced, 2), trained(experiment, numbers, 2), rtol=1e-6)


# ---- Other algorithms ----


def test_mimelite_runs_and_learns(experiments: dict[str, FederatedExperiment]) -> None:
    experiment = experiments["stress"]
    own = federation(experiment, small("mimelite", optimizer="adam", learning_rate=0.01))
    state, reports = play(own, 4)
    assert reports[-1].loss < reports[0].loss
    assert [report.examples for report in reports] == [sum(EXAMPLES[client] for client in TRAIN)] * 4
    assert all(report.left_out == () for report in reports)
    assert np.abs(weights_of(own, state) - start(experiment)).max() > 0.01


def test_a_round_of_fedsgd_is_a_step_along_the_gradient_of_all_examples(
    experiments: dict[str, FederatedExperiment],
) -> None:
    experiment = experiments["stress"]
    config = small("fedsgd", order="time", epochs=1, server_learning_rate=0.5)
    examples, before = states(experiment, config), start(experiment)[:, 0]
    h = with_one(np.concatenate([examples[client].values for client in TRAIN]))
    y = np.concatenate([examples[client].labels for client in TRAIN])
    p = 1 / (1 + np.exp(-h @ before))
    own = federation(experiment, config)
    state, (report,) = play(own, 1)
    np.testing.assert_allclose(weights_of(own, state)[:, 0], before - 0.5 * (p - y) @ h / len(y), atol=1e-6)
    assert report.loss == pytest.approx(-np.log(np.where(y == 1, p, 1 - p)).mean(), rel=1e-5)
    assert (report.examples, report.left_out) == (len(y), ())


def test_the_servers_learning_rate_scales_the_first_step(experiments: dict[str, FederatedExperiment]) -> None:
    experiment, whole = experiments["stress"], small()
    before = start(experiment)
    step = trained(experiment, whole, 1) - before
    for rate in (0.1, 3.0):
        found = trained(experiment, replace(whole, server_learning_rate=rate), 1) - before
        np.testing.assert_allclose(found, rate * step, rtol=1e-4, atol=1e-7)


def test_the_clients_learning_rate_is_the_configurations_in_a_process_that_is_kept(
    experiments: dict[str, FederatedExperiment],
) -> None:
    experiment, one_batch = experiments["stress"], {"epochs": 1, "batch_size": 100, "order": "time"}
    before = start(experiment)
    slow, fast = (trained(experiment, small(**one_batch, learning_rate=rate), 1) - before for rate in (0.01, 0.1))
    np.testing.assert_allclose(fast, 10 * slow, rtol=1e-3, atol=1e-7)


# ---- What FedCurv's clients and server tell each other ----


def test_fedcurvs_server_sums_messages_that_each_client_gets_back(experiments: dict[str, FederatedExperiment]) -> None:
    own = federation(experiments["stress"], small("fedcurv"))
    assert isinstance(own, ReadoutFederation)
    first, _ = own.next(own.initial_state(), ["S2", "S3"], 1)
    second, _ = own.next(first, ["S3", "S4"], 2)
    # A client that took no part has sent nothing.
    for state, absent in ((first, 2), (second, 0)):
        for part in tf.nest.flatten(state.own):
            assert not part[absent].any()
            assert all(part[row].any() for row in range(3) if row != absent)
        sums = tf.nest.map_structure(lambda part: part.sum(axis=0), state.own)
        for found, expected in zip(tf.nest.flatten(state.server.objective.curvature), tf.nest.flatten(sums)):
            np.testing.assert_allclose(found, expected, rtol=1e-6)

    # The second round once more, client by client, without TFF.
    training = LocalTraining(own.work, own.objective)
    server = tf.nest.map_structure(tf.constant, first.server)
    for client in ("S3", "S4"):
        row = TRAIN.index(client)
        sent = tf.nest.map_structure(lambda part, i=row: part[i], first.own)
        told = tf.nest.map_structure(tf.constant, own.client(client, 2, sent))
        message = training(server.weights, server.learning_rate, server.objective, told).message
        for part, expected in zip(tf.nest.flatten(second.own), tf.nest.flatten(message)):
            np.testing.assert_allclose(part[row], expected, rtol=1e-5, atol=1e-7)


# ---- Clients that send what is no number ----


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> FederatedExperiment:
    """The small data set with a NaN in one client's file."""
    return small_experiment(tmp_path_factory.mktemp("broken"), broken=["S3"])


@pytest.mark.parametrize("name", ["fedavg", "fedavg-unweighted", "fedcurv"])
def test_a_round_goes_on_without_a_client_whose_update_is_not_finite(broken: FederatedExperiment, name: str) -> None:
    own = federation(broken, small(name))
    start, _ = own.next(own.initial_state(), ["S2", "S4"], 1)
    found, report = own.next(start, TRAIN, 2)
    expected, _ = own.next(start, ["S2", "S4"], 2)
    for part, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected)):
        np.testing.assert_allclose(part, other, rtol=1e-6)
    assert report.left_out == ("S3",)
    assert [bool(one.finite) for one in report.clients.values()] == [True, False, True]
    assert report.examples == EXAMPLES["S2"] + EXAMPLES["S4"]
    assert np.isfinite(report.loss)


def test_tffs_own_round_goes_on_and_something_is_told(broken: FederatedExperiment) -> None:
    own = federation(broken, small(engine="builtin"))
    before = own.initial_state()
    found, report = own.next(before, TRAIN, 1)
    expected, whole = own.next(before, ["S2", "S4"], 1)
    np.testing.assert_allclose(weights_of(own, found), weights_of(own, expected), rtol=1e-6)
    assert (report.left_out, whole.left_out) == (("clients with 34 examples",), ())
    assert report.examples == whole.examples == EXAMPLES["S2"] + EXAMPLES["S4"]
    # Nobody counts.
    found, report = own.next(before, ["S3"], 1)
    np.testing.assert_array_equal(weights_of(own, found), weights_of(own, before))
    assert (report.left_out, report.examples) == (("clients with 34 examples",), 0)


def test_of_every_round_of_tffs_own_something_is_told(broken: FederatedExperiment) -> None:
    own = federation(broken, small("fedsgd", order="time", epochs=1))
    before = own.initial_state()
    found, report = own.next(before, TRAIN, 1)
    expected, _ = own.next(before, ["S2", "S4"], 1)
    np.testing.assert_allclose(weights_of(own, found), weights_of(own, expected), rtol=1e-6)
    assert report.left_out


@pytest.mark.parametrize("name", ["fedavg", "fedavg-unweighted", "fedcurv"])
def test_a_round_in_which_nobody_counts_changes_no_weight(broken: FederatedExperiment, name: str) -> None:
    own = federation(broken, small(name))
    state, report = own.next(own.initial_state(), ["S3"], 1)
    np.testing.assert_array_equal(weights_of(own, state), start(broken))
    assert (report.left_out, report.examples) == (("S3",), 0)


def test_fedcurvs_clients_keep_their_messages_as_long_as_the_server_does(tmp_path: Path) -> None:
    own = federation(small_experiment(tmp_path), small("fedcurv"))
    before, _ = own.next(own.initial_state(), TRAIN, 1)
    for client in TRAIN:
        (file,) = tmp_path.rglob(f"{client}.f32")
        content = np.fromfile(file, np.float32)
        content[: len(content) // (UNITS + 1) * UNITS] = np.nan  # The states, not the labels behind them.
        file.write_bytes(content.tobytes())
    after, report = own.next(before, TRAIN, 2)
    assert report.left_out == TRAIN
    for found, expected in zip(tf.nest.flatten(after), tf.nest.flatten(before)):
        np.testing.assert_array_equal(found, expected)


# ---- An algorithm of one's own ----


def test_an_algorithm_of_another_package_is_chosen_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ALGORITHMS, "_found", dict(ALGORITHMS.items()))

    @ALGORITHMS.register
    @dataclass(frozen=True, repr=False, config=STRICT)
    class StayingNear(FedAvg):
        """FedAvg with a proximal term of fixed strength."""

        name = "staying-near"
        label = "Staying near"

        def objective(self) -> ProximalObjective:
            """The term."""
            return ProximalObjective(0.5)

    experiment = small_experiment(tmp_path)
    own = trained(experiment, small("staying-near"), 2)
    np.testing.assert_array_equal(own, trained(experiment, small("fedprox", proximal_strength=0.5), 2))
    assert not np.array_equal(own, trained(experiment, small(), 2))


def test_an_engine_that_an_algorithm_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="engine = 'builtin' with fedcurv; expected states or graph"):
        small_experiment(tmp_path).program(small("fedcurv", engine="builtin"))
    with pytest.raises(ConfigError, match="engine = 'states' with mimelite; expected builtin or graph"):
        small_experiment(tmp_path).program(small("mimelite", engine="states"))
