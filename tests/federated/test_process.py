"""The algorithms as TFF runs them: ours against TFF's own, on states and with the reservoir in the graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray

from tests.federated.small import EXAMPLES, TRAIN, UNITS, play, small_config, small_study
from tff_esn.config import FederatedConfig
from tff_esn.errors import ConfigError
from tff_esn.federated.fedavg import ProximalObjective
from tff_esn.federated.federation import Federation, ReadoutFederation
from tff_esn.federated.local import LocalTraining
from tff_esn.federated.study import FederatedStudy
from tff_esn.presets import CORRECTED, THESIS
from tff_esn.readout.readout import initial_readout

SEED = 3
CURVED = replace(CORRECTED.fedcurv, factor=0.1)


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FederatedStudy]:
    """The small study with two classes and with four."""
    return {task: small_study(tmp_path_factory.mktemp(task), task=task) for task in ("stress", "affect")}


def federation(study: FederatedStudy, config: FederatedConfig) -> Federation:
    return study.program(config, SEED).federation


def weights_of(federation: Federation, state: Any) -> NDArray:
    readout = federation.readout(state)
    return np.concatenate((readout.kernel, readout.bias[None]))


def trained(study: FederatedStudy, config: FederatedConfig, rounds: int) -> NDArray:
    """Kernel and bias after so many rounds of all clients."""
    own = federation(study, config)
    state, _ = play(own, rounds)
    return weights_of(own, state)


def start(study: FederatedStudy) -> NDArray:
    """The weights before the first round."""
    readout = initial_readout(UNITS, len(study.inputs.task.classes), SEED)
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
    studies: dict[str, FederatedStudy],
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
    config = small_config(local, reservoirs=reservoirs, server_learning_rate=0.5)
    # Adam divides by gradients that may be small, and lets rounding errors grow from round to round.
    rounds = 1 if optimizer == "adam" else 10
    ours, before = trained(studies[task], config, rounds), start(studies[task])
    assert np.abs(ours - before).max() > 0.005
    theirs = trained(studies[task], replace(config, engine=engine), rounds)
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-5 * np.abs(ours).max())


def test_fedprox_pulls_clients_to_the_server_and_tffs_own_pushes_them_away(studies: dict[str, FederatedStudy]) -> None:
    """TFF 0.87 adds mu (w_server - w) to the gradient; that of mu/2 |w - w_server|^2 is its negative."""
    study, rate, strength = studies["stress"], 0.2, 0.5
    local = {"order": "time", "learning_rate": rate}
    config = small_config(local, algorithm="fedprox", proximal_strength=strength)
    examples, before = study.inputs.states(study.reservoir(config, SEED)), start(study)[:, 0].astype(np.float64)

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

    np.testing.assert_allclose(trained(study, config, 1)[:, 0], by_hand(strength), atol=1e-5)
    np.testing.assert_allclose(
        trained(study, replace(config, engine="builtin"), 1)[:, 0], by_hand(-strength), atol=1e-5
    )
    lengths = [np.linalg.norm(by_hand(mu) - before) for mu in (strength, 0, -strength)]
    assert lengths == sorted(lengths)


def test_fedcurv_without_a_factor_and_our_unweighted_fedavg_are_tffs_own(studies: dict[str, FederatedStudy]) -> None:
    study, config = studies["stress"], small_config(algorithm="fedavg-unweighted")
    theirs = trained(study, replace(config, engine="builtin"), 5)
    np.testing.assert_allclose(trained(study, config, 5), theirs, rtol=0, atol=1e-6)
    switches = replace(CURVED, weighting="uniform", factor=0.0)
    curved = replace(config, algorithm="fedcurv", fedcurv=switches)
    np.testing.assert_allclose(trained(study, curved, 5), theirs, rtol=0, atol=1e-6)
    # Neither the weights of the clients nor the penalty are nothing.
    assert np.abs(trained(study, replace(config, algorithm="fedavg"), 5) - theirs).max() > 1e-3
    penalised = replace(curved, fedcurv=replace(switches, factor=0.1))
    assert np.abs(trained(study, penalised, 5) - theirs).max() > 1e-3


def test_fedcurv_as_printed_is_unweighted_fedavg_for_two_classes(studies: dict[str, FederatedStudy]) -> None:
    printed = small_config(algorithm="fedcurv", fedcurv=replace(THESIS.fedcurv, factor=1e6))
    assert printed.inputs.preset == "thesis"
    unweighted = small_config(algorithm="fedavg-unweighted")
    found, expected = (trained(studies["stress"], config, 3) for config in (printed, unweighted))
    np.testing.assert_array_equal(found, expected)


def test_fedcurv_on_states_is_that_with_the_reservoir_in_the_graph(studies: dict[str, FederatedStudy]) -> None:
    config = small_config(algorithm="fedcurv", fedcurv=CURVED, reservoirs="different")
    ours, theirs = (trained(studies["affect"], replace(config, engine=engine), 5) for engine in ("states", "graph"))
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-5 * np.abs(ours).max())


def test_mimelite_runs_and_learns(studies: dict[str, FederatedStudy]) -> None:
    study = studies["stress"]
    own = federation(study, small_config({"optimizer": "adam", "learning_rate": 0.01}, algorithm="mimelite"))
    state, reports = play(own, 4)
    assert reports[-1].loss < reports[0].loss
    assert [report.examples for report in reports] == [sum(EXAMPLES[client] for client in TRAIN)] * 4
    assert all(report.left_out == () for report in reports)
    assert np.abs(weights_of(own, state) - start(study)).max() > 0.01


def test_a_round_of_fedsgd_is_a_step_along_the_gradient_of_all_examples(studies: dict[str, FederatedStudy]) -> None:
    study = studies["stress"]
    config = small_config({"order": "time", "epochs": 1}, algorithm="fedsgd", server_learning_rate=0.5)
    examples, before = study.inputs.states(study.reservoir(config, SEED)), start(study)[:, 0]
    h = with_one(np.concatenate([examples[client].values for client in TRAIN]))
    y = np.concatenate([examples[client].labels for client in TRAIN])
    p = 1 / (1 + np.exp(-h @ before))
    own = federation(study, config)
    state, (report,) = play(own, 1)
    np.testing.assert_allclose(weights_of(own, state)[:, 0], before - 0.5 * (p - y) @ h / len(y), atol=1e-6)
    assert report.loss == pytest.approx(-np.log(np.where(y == 1, p, 1 - p)).mean(), rel=1e-5)
    assert (report.examples, report.left_out) == (len(y), ())


def test_the_servers_learning_rate_scales_the_first_step(studies: dict[str, FederatedStudy]) -> None:
    study, whole = studies["stress"], small_config()
    before = start(study)
    step = trained(study, whole, 1) - before
    for rate in (0.1, 3.0):
        found = trained(study, replace(whole, server_learning_rate=rate), 1) - before
        np.testing.assert_allclose(found, rate * step, rtol=1e-4, atol=1e-7)


def test_the_clients_learning_rate_is_the_configurations_in_a_process_that_is_kept(
    studies: dict[str, FederatedStudy],
) -> None:
    study, one_batch = studies["stress"], {"epochs": 1, "batch_size": 100, "order": "time"}
    before = start(study)
    slow, fast = (
        trained(study, small_config({**one_batch, "learning_rate": rate}), 1) - before for rate in (0.01, 0.1)
    )
    np.testing.assert_allclose(fast, 10 * slow, rtol=1e-3, atol=1e-7)


# ---- What FedCurv's clients and server tell each other ----


def test_fedcurvs_server_sums_messages_that_each_client_gets_back(studies: dict[str, FederatedStudy]) -> None:
    own = federation(studies["stress"], small_config(algorithm="fedcurv", fedcurv=CURVED))
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
def broken(tmp_path_factory: pytest.TempPathFactory) -> FederatedStudy:
    """The small study with a NaN in one client's file."""
    return small_study(tmp_path_factory.mktemp("broken"), broken=["S3"])


ALGORITHMS = {
    "fedavg": small_config(),
    "fedavg-unweighted": small_config(algorithm="fedavg-unweighted"),
    "fedcurv": small_config(algorithm="fedcurv", fedcurv=CURVED),
}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_round_goes_on_without_a_client_whose_update_is_not_finite(broken: FederatedStudy, algorithm: str) -> None:
    own = federation(broken, ALGORITHMS[algorithm])
    start, _ = own.next(own.initial_state(), ["S2", "S4"], 1)
    found, report = own.next(start, TRAIN, 2)
    expected, _ = own.next(start, ["S2", "S4"], 2)
    for part, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected)):
        np.testing.assert_allclose(part, other, rtol=1e-6)
    assert report.left_out == ("S3",)
    assert [bool(one.finite) for one in report.clients.values()] == [True, False, True]
    assert report.examples == EXAMPLES["S2"] + EXAMPLES["S4"]
    assert np.isfinite(report.loss)


def test_tffs_own_round_goes_on_and_something_is_told(broken: FederatedStudy) -> None:
    own = federation(broken, small_config(engine="builtin"))
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


def test_of_every_round_of_tffs_own_something_is_told(broken: FederatedStudy) -> None:
    own = federation(broken, small_config({"order": "time", "epochs": 1}, algorithm="fedsgd"))
    before = own.initial_state()
    found, report = own.next(before, TRAIN, 1)
    expected, _ = own.next(before, ["S2", "S4"], 1)
    np.testing.assert_allclose(weights_of(own, found), weights_of(own, expected), rtol=1e-6)
    assert report.left_out


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_round_in_which_nobody_counts_changes_no_weight(broken: FederatedStudy, algorithm: str) -> None:
    own = federation(broken, ALGORITHMS[algorithm])
    state, report = own.next(own.initial_state(), ["S3"], 1)
    np.testing.assert_array_equal(weights_of(own, state), start(broken))
    assert (report.left_out, report.examples) == (("S3",), 0)


def test_fedcurvs_clients_keep_their_messages_as_long_as_the_server_does(tmp_path: Path) -> None:
    own = federation(small_study(tmp_path), ALGORITHMS["fedcurv"])
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


# ---- An objective of one's own ----


def test_an_objective_takes_the_algorithms_place(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    fedprox = small_config(algorithm="fedprox", proximal_strength=0.5)

    def kernel(config: FederatedConfig, objective: ProximalObjective | None = None) -> NDArray:
        federation = study.program(config, 0, objective).federation
        return federation.readout(play(federation, 2)[0]).kernel

    own = kernel(small_config(), ProximalObjective(0.5))
    np.testing.assert_array_equal(own, kernel(fedprox))
    assert not np.array_equal(own, kernel(small_config()))


def test_tffs_own_processes_take_no_objective(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="an objective with engine = 'builtin'; expected engine = 'states'"):
        small_study(tmp_path).program(small_config(engine="builtin"), 0, ProximalObjective(0.5))
