"""Who takes part in a round and with what; rounds from start to end, stopped and taken up again."""

from __future__ import annotations

import csv
import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray

from tests.federated.small import COLUMNS, EXAMPLES, TRAIN, UNITS, small_config, small_inputs, small_study
from tff_esn.config import FederatedConfig, NoiseConfig
from tff_esn.errors import ConfigError, DataError
from tff_esn.federated import rounds as module
from tff_esn.federated.clients import check_clients, drawn_clients
from tff_esn.federated.federation import Federation, RoundReport
from tff_esn.federated.rounds import Evaluator
from tff_esn.federated.study import FederatedStudy
from tff_esn.metrics import metric_names, score
from tff_esn.presets import CORRECTED
from tff_esn.readout.readout import Readout
from tff_esn.reservoir.states import carried_states, last_states
from tff_esn.reservoir.weights import draw_weights
from tff_esn.runtime.context import load_tff
from tff_esn.store.client_files import read_examples

SEED = 3


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> FederatedStudy:
    return small_study(tmp_path_factory.mktemp("small"))


# ---- Who is drawn ----


def test_a_round_draws_so_many_clients_without_repetition_each_as_often_as_the_others() -> None:
    clients = [f"S{number}" for number in range(2, 12)]
    draws = [drawn_clients(clients, 4, SEED, number) for number in range(1, 1001)]
    for drawn in draws:
        assert len(drawn) == len(set(drawn)) == 4
        assert drawn == [client for client in clients if client in drawn]
    often = Counter(client for drawn in draws for client in drawn)
    # Of a binomial distribution with mean 400 and deviation 15.5.
    assert all(330 < often[client] < 470 for client in clients)
    assert len({tuple(drawn) for drawn in draws}) > 150  # of 210


def test_the_draw_depends_on_seed_and_round_alone() -> None:
    clients = [f"S{number}" for number in range(2, 12)]
    forwards = {number: drawn_clients(clients, 4, SEED, number) for number in range(1, 51)}
    np.random.seed(0)
    assert all(drawn_clients(clients, 4, SEED, number) == forwards[number] for number in range(50, 0, -1))
    others = [drawn_clients(clients, 4, SEED + 1, number) for number in range(1, 51)]
    assert sum(drawn != own for drawn, own in zip(others, forwards.values())) > 40


def test_more_clients_a_round_than_there_are_is_refused() -> None:
    with pytest.raises(ConfigError, match="clients_per_round = 4; the split has 3 training clients: S2, S3, S4"):
        check_clients(small_config(clients_per_round=4), TRAIN)
    check_clients(small_config(clients_per_round=3), TRAIN)


# ---- What a client trains on, and what is scored ----


def written(study: FederatedStudy, config: FederatedConfig, seed: int = SEED) -> dict[str, NDArray]:
    """The values in each client's file."""
    files = study.files(config, seed)
    columns = int(np.prod(files.shape))
    values = {}
    for client in files.clients:
        rows, labels = read_examples(str(files.path(client)), columns)
        values[client] = rows.numpy()[labels >= 0]
    return values


def test_only_training_clients_have_files_with_their_states(study: FederatedStudy) -> None:
    config, inputs = small_config(), study.inputs
    reservoir = draw_weights(config.reservoir, COLUMNS, SEED)
    found = written(study, config)
    assert tuple(found) == TRAIN
    for client, values in found.items():
        np.testing.assert_array_equal(values, last_states(inputs.windows[client].values, reservoir))


def test_with_a_carried_state_a_clients_examples_are_the_steps_of_its_recording(tmp_path: Path) -> None:
    study, config = small_study(tmp_path, reading="carried"), small_config()
    reservoir = draw_weights(config.reservoir, COLUMNS, SEED)
    for client, values in written(study, config).items():
        np.testing.assert_allclose(values, carried_states([study.inputs.series[client]], reservoir)[0], atol=1e-6)
    with pytest.raises(ConfigError, match="reading = 'carried' with a reservoir in the graph"):
        study.program(replace(config, engine="graph"), SEED)


def test_different_reservoirs_differ_and_the_servers_is_the_one_that_is_scored(study: FederatedStudy) -> None:
    config = small_config(reservoirs="different")
    server, clients = study._reservoirs(config, SEED)
    kernels = [weights.recurrent_kernel for weights in (server, *clients)]
    for i, kernel in enumerate(kernels):
        assert not any(np.allclose(kernel, other, atol=0.1) for other in kernels[:i])
    for (client, values), weights in zip(written(study, config).items(), clients):
        np.testing.assert_allclose(values, last_states(study.inputs.windows[client].values, weights), atol=1e-6)
    windows = np.concatenate([own.values for own in study.inputs.windows.values()])
    np.testing.assert_allclose(study.program(config, SEED).evaluator.states, last_states(windows, server), atol=1e-6)
    assert study.reservoir(config, SEED) is server
    np.testing.assert_array_equal(
        server.recurrent_kernel, draw_weights(config.reservoir, COLUMNS, SEED).recurrent_kernel
    )
    same, others = study._reservoirs(small_config(), SEED)
    assert all(weights is same for weights in others)


@pytest.mark.parametrize("engine", ["states", "graph"])
@pytest.mark.parametrize(("chosen", "noisy"), [(("S3",), ("S3",)), (None, TRAIN)], ids=["one", "all"])
def test_noise_goes_to_the_chosen_clients_and_only_while_they_train(
    study: FederatedStudy, engine: str, chosen: tuple[str, ...] | None, noisy: tuple[str, ...]
) -> None:
    clean = small_config(engine=engine)
    config = replace(clean, noise=NoiseConfig(0.5, chosen))
    before, after = written(study, clean), written(study, config)
    assert {client for client in TRAIN if not np.array_equal(before[client], after[client])} == set(noisy)
    if engine == "graph":
        added = np.concatenate([(after[client] - before[client]).ravel() for client in noisy])
        assert abs(added.std() - 0.5) < 0.05
        assert abs(added.mean()) < 0.1
    scored, clean_scored = (study._evaluator(own, SEED).states for own in (config, clean))
    np.testing.assert_array_equal(scored, clean_scored)
    again, other = written(small_study(study._scratch / "again"), config), written(study, config, seed=SEED + 1)
    for client in TRAIN:
        np.testing.assert_array_equal(again[client], after[client])
    assert not np.array_equal(other["S3"], after["S3"])


def test_shuffled_examples_come_in_another_order_every_round(study: FederatedStudy) -> None:
    def after(number: int, order: str) -> NDArray:
        """The weights after a round of this number, always from the same start."""
        federation = study.program(small_config({"order": order}), SEED).federation
        return federation.readout(federation.next(federation.initial_state(), ["S3"], number)[0]).kernel

    np.testing.assert_array_equal(after(1, "shuffled"), after(1, "shuffled"))
    np.testing.assert_array_equal(after(1, "time"), after(2, "time"))
    assert np.abs(after(1, "shuffled") - after(2, "shuffled")).max() > 1e-4


def test_noise_for_somebody_who_does_not_train_is_refused(study: FederatedStudy) -> None:
    with pytest.raises(ConfigError, match="input noise for S5; expected clients out of S2, S3, S4"):
        study.program(small_config(noise=NoiseConfig(0.5, ("S2", "S5"))), SEED)


def test_a_client_with_a_single_class_or_none_is_refused(tmp_path: Path) -> None:
    inputs = small_inputs("affect")
    for code, found in ((3, "17 examples, all of the class 'amusement'"), (0, "no example of the task 'affect'")):
        own = inputs.windows["S2"]
        windows = {**inputs.windows, "S2": replace(own, codes=np.full_like(own.codes, code))}
        with pytest.raises(DataError, match=f"S2: {found}"):
            FederatedStudy(replace(inputs, windows=windows), tmp_path).program(small_config(), SEED)


# ---- Scores ----


def test_each_part_is_scored_on_all_its_subjects(study: FederatedStudy) -> None:
    config, random = small_config(), np.random.default_rng(0)
    examples = study.inputs.states(study.reservoir(config, SEED))
    readout = Readout(random.normal(size=(UNITS, 1)).astype(np.float32), np.ones(1, np.float32), "sigmoid")
    split = study.inputs.split
    evaluator = Evaluator(examples, split)
    found = evaluator(readout)
    assert evaluator.parts == tuple(found) == ("train", "validation", "test")
    for part, subjects in (("train", split.train), ("validation", split.validation), ("test", split.test)):
        labels = np.concatenate([examples[subject].labels for subject in subjects])
        states = np.concatenate([examples[subject].values for subject in subjects])
        assert found[part] == score(labels, readout.outputs(states))
        np.testing.assert_array_equal(evaluator.labels(part), labels)
    everyone = replace(split, train=split.subjects, validation=(), test=())
    assert Evaluator(examples, everyone).parts == ("train",)


def test_every_round_is_released_and_every_second_and_the_last_are_scored(study: FederatedStudy) -> None:
    memory = load_tff().program.MemoryReleaseManager()
    program = study.program(small_config(rounds=5, evaluate_every=2), SEED)
    readout, records = program.run(release_managers=[memory])
    released = memory.values()
    assert list(released) == [record.number for record in records] == [0, 1, 2, 3, 4, 5]
    assert [record.scores is not None for record in records] == [True, False, True, False, True, True]
    assert records[-1].scores == program.evaluator(readout)
    for record in records:
        values = released[record.number]
        assert values.keys() == record.values().keys()
        scored = {f"{part}/{metric}" for part in ("train", "validation", "test") for metric in metric_names()}
        assert (scored <= values.keys()) == (record.scores is not None)
        assert ("round/loss" in values) == bool(record.number)
        if record.number:
            assert record.drawn == tuple(drawn_clients(TRAIN, 2, SEED, record.number))
            assert values["round/examples"] == sum(EXAMPLES[client] for client in record.drawn)
            assert {key.split("/")[0] for key in values} >= set(record.drawn)
    losses = [released[number]["round/loss"] for number in range(1, 6)]
    assert losses[-1] < losses[0]


def test_a_client_that_is_left_out_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    healthy, broken = small_study(tmp_path / "a"), small_study(tmp_path / "b", broken=["S3"])
    config = small_config(rounds=1, clients_per_round=3)
    # Scored on the subjects without a NaN: those with one have no scores.
    program = replace(broken.program(config, SEED), evaluator=healthy.program(config, SEED).evaluator)
    _, (_, record) = program.run()
    assert "round 1 went on without S3: an update that is not finite" in caplog.text
    assert record.values()["round/left_out"] == 1
    assert (record.values()["S3/finite"], record.values()["S2/finite"]) == (0, 1)


# ---- Stopped and taken up again ----


@dataclass(frozen=True)
class Stopping:
    """A federation during whose round `at` something happens to the process."""

    federation: Federation
    at: int
    how: str

    @property
    def clients(self) -> tuple[str, ...]:
        return self.federation.clients

    def initial_state(self) -> Any:
        return self.federation.initial_state()

    def next(self, state: Any, drawn: Sequence[str], round_number: int) -> tuple[Any, RoundReport]:
        if round_number == self.at:
            if self.how == "failure":
                raise RuntimeError("the machine is on fire")
            os.kill(os.getpid(), signal.SIGINT)
        return self.federation.next(state, drawn, round_number)

    def readout(self, state: Any) -> Readout:
        return self.federation.readout(state)


@pytest.fixture
def pythons_own_interrupt() -> Iterator[None]:
    """Ctrl-C works, even where the tests run in a shell's background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def numbers(folder: Path) -> list[int]:
    with (folder / "metrics.csv").open(newline="") as file:
        return [int(row["step"]) for row in csv.DictReader(file)]


def saved_round(folder: Path) -> int:
    return int(np.load(folder / "state.npz")["round"])


RUNS = {
    "fedavg": small_config(),
    "fedcurv": small_config(algorithm="fedcurv", fedcurv=replace(CORRECTED.fedcurv, factor=0.1)),
    "mimelite": small_config({"optimizer": "adam", "learning_rate": 0.01}, algorithm="mimelite"),
}


@pytest.mark.usefixtures("pythons_own_interrupt")
@pytest.mark.parametrize("algorithm", RUNS)
def test_a_run_that_was_stopped_ends_as_one_that_was_not(
    study: FederatedStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    program = study.program(replace(RUNS[algorithm], rounds=7), SEED)
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    expected = program.run_in(unbroken)

    with pytest.raises(KeyboardInterrupt):
        replace(program, federation=Stopping(program.federation, 2, "interrupt")).run_in(broken)
    # The round during which Ctrl-C came is finished and kept.
    assert numbers(broken) == [0, 1, 2]
    assert saved_round(broken) == 2
    monkeypatch.setattr(module, "SAVE_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt):
        replace(program, federation=Stopping(program.federation, 4, "interrupt")).run_in(broken)
    assert numbers(broken) == [0, 1, 2, 3, 4]
    monkeypatch.setattr(module, "SAVE_SECONDS", 60.0)
    with pytest.raises(RuntimeError, match="on fire"):
        replace(program, federation=Stopping(program.federation, 6, "failure")).run_in(broken)
    # Round 5 is lost, but for its numbers, which come once more.
    assert numbers(broken) == [0, 1, 2, 3, 4, 5]
    assert saved_round(broken) == 4
    found = program.run_in(broken)

    np.testing.assert_array_equal(found.kernel, expected.kernel)
    np.testing.assert_array_equal(found.bias, expected.bias)
    assert (broken / "metrics.csv").read_bytes() == (unbroken / "metrics.csv").read_bytes()
    assert saved_round(broken) == 7
    assert {path.name for path in broken.iterdir()} == {"metrics.csv", "state.npz", "tensorboard"}
    # A run that is over has nothing left to do.
    again = program.run_in(broken)
    np.testing.assert_array_equal(again.kernel, expected.kernel)
    assert (broken / "metrics.csv").read_bytes() == (unbroken / "metrics.csv").read_bytes()


def test_tensorboard_has_every_round(study: FederatedStudy, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    study.program(small_config(rounds=3), SEED).run_in(tmp_path)
    events = EventAccumulator(str(tmp_path / "tensorboard"), size_guidance={"tensors": 0})
    events.Reload()
    with (tmp_path / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for name in ("round/loss", "test/balanced_accuracy", "S2/update_norm"):
        found = [(event.step, float(tf.make_ndarray(event.tensor_proto))) for event in events.Tensors(name)]
        assert found == [(int(row["step"]), pytest.approx(float(row[name]))) for row in rows if row[name]]
        assert found
