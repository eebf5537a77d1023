"""Who takes part in a round and with what; rounds from start to end, stopped and taken up again."""

from __future__ import annotations

import asyncio
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

from tests.federated.small import (
    COLUMNS,
    EXAMPLES,
    SEED,
    TRAIN,
    UNITS,
    small,
    small_data,
    small_experiment,
)
from tff_esn.errors import ConfigError, DataError
from tff_esn.federated.algorithm import GradientAlgorithm
from tff_esn.federated.input_noise import InputNoise
from tff_esn.federated.training import rounds as module
from tff_esn.federated.training.client_states import clients_per_round, drawn_clients
from tff_esn.federated.training.experiment import FederatedExperiment
from tff_esn.federated.training.federation import Federation, RoundReport
from tff_esn.federated.training.rounds import Evaluator, RoundRecord
from tff_esn.metrics import metric_names, score
from tff_esn.readout.readout import Readout
from tff_esn.reservoir.samples import sample_states
from tff_esn.reservoir.states import carried_states, last_states
from tff_esn.reservoir.weights import draw_weights
from tff_esn.runtime.context import load_tff
from tff_esn.store.client_files import read_examples


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> FederatedExperiment:
    return small_experiment(tmp_path_factory.mktemp("small"))


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
        clients_per_round(small(clients_per_round=4), TRAIN)
    assert clients_per_round(small(clients_per_round=3), TRAIN) == 3
    assert clients_per_round(small(clients_per_round=None), TRAIN) == 3


# ---- What a client trains on, and what is scored ----


def written(experiment: FederatedExperiment, algorithm: GradientAlgorithm) -> dict[str, NDArray]:
    """The values in each client's file."""
    files = experiment.files(algorithm)
    columns = int(np.prod(files.shape))
    values = {}
    for client in files.clients:
        rows, labels = read_examples(str(files.path(client)), columns)
        values[client] = rows.numpy()[labels >= 0]
    return values


def test_only_training_clients_have_files_with_their_states(experiment: FederatedExperiment) -> None:
    reservoir = draw_weights(small().esn, COLUMNS, SEED)
    found = written(experiment, small())
    assert tuple(found) == TRAIN
    for client, values in found.items():
        np.testing.assert_array_equal(values, last_states(experiment.data[client].values, reservoir))


def test_with_a_carried_state_a_clients_examples_are_the_steps_of_its_recording(tmp_path: Path) -> None:
    experiment = small_experiment(tmp_path, reading="carried")
    reservoir = draw_weights(small().esn, COLUMNS, SEED)
    for client, values in written(experiment, small()).items():
        np.testing.assert_allclose(values, carried_states([experiment.data[client].values[0]], reservoir)[0], atol=1e-6)
    with pytest.raises(ConfigError, match="S2: a label for each step with a reservoir in the graph; expected windows"):
        experiment.program(small(engine="graph"))


def test_different_reservoirs_differ_and_the_servers_is_the_one_that_is_scored(experiment: FederatedExperiment) -> None:
    config = small(reservoirs="different")
    server, clients = experiment._reservoirs(config)
    kernels = [weights.recurrent_kernel for weights in (server, *clients)]
    for i, kernel in enumerate(kernels):
        assert not any(np.allclose(kernel, other, atol=0.1) for other in kernels[:i])
    for (client, values), weights in zip(written(experiment, config).items(), clients):
        np.testing.assert_allclose(values, last_states(experiment.data[client].values, weights), atol=1e-6)
    windows = np.concatenate([own.values for own in experiment.data.sequences.values()])
    np.testing.assert_allclose(experiment.program(config).evaluator.states, last_states(windows, server), atol=1e-6)
    np.testing.assert_array_equal(server.recurrent_kernel, draw_weights(config.esn, COLUMNS, SEED).recurrent_kernel)
    same, others = experiment._reservoirs(small())
    assert all(weights is same for weights in others)


@pytest.mark.parametrize("engine", ["states", "graph"])
@pytest.mark.parametrize(("chosen", "noisy"), [(("S3",), ("S3",)), (None, TRAIN)], ids=["one", "all"])
def test_noise_goes_to_the_chosen_clients_and_only_while_they_train(
    experiment: FederatedExperiment, engine: str, chosen: tuple[str, ...] | None, noisy: tuple[str, ...]
) -> None:
    clean = small(engine=engine)
    config = replace(clean, noise=InputNoise(0.5, chosen))
    before, after = written(experiment, clean), written(experiment, config)
    assert {client for client in TRAIN if not np.array_equal(before[client], after[client])} == set(noisy)
    if engine == "graph":
        added = np.concatenate([(after[client] - before[client]).ravel() for client in noisy])
        assert abs(added.std() - 0.5) < 0.05
        assert abs(added.mean()) < 0.1
    scored, clean_scored = (experiment._evaluator(own).states for own in (config, clean))
    np.testing.assert_array_equal(scored, clean_scored)
    again = written(small_experiment(experiment._scratch / "again"), config)
    other = written(experiment, config.with_seed(SEED + 1))
    for client in TRAIN:
        np.testing.assert_array_equal(again[client], after[client])
    assert not np.array_equal(other["S3"], after["S3"])


def test_shuffled_examples_come_in_another_order_every_round(experiment: FederatedExperiment) -> None:
    def after(number: int, order: str) -> NDArray:
        """The weights after a round of this number, always from the same start."""
        federation = experiment.program(small(order=order)).federation
        return federation.readout(federation.next(federation.initial_state(), ["S3"], number)[0]).kernel

    np.testing.assert_array_equal(after(1, "shuffled"), after(1, "shuffled"))
    np.testing.assert_array_equal(after(1, "time"), after(2, "time"))
    assert np.abs(after(1, "shuffled") - after(2, "shuffled")).max() > 1e-4


def test_noise_for_somebody_who_does_not_train_is_refused(experiment: FederatedExperiment) -> None:
    with pytest.raises(ConfigError, match="input noise for S5; expected clients out of S2, S3, S4"):
        experiment.program(small(noise=InputNoise(0.5, ("S2", "S5"))))


def test_a_client_without_a_sample_is_refused(tmp_path: Path) -> None:
    data = small_data("affect")
    nothing = replace(data["S2"], labels=np.full_like(data["S2"].labels, -1))
    experiment = FederatedExperiment(replace(data, sequences={**data.sequences, "S2": nothing}), tmp_path)
    with pytest.raises(DataError, match="S2: no sample of the task 'affect'; expected classes"):
        experiment.program(small())


# ---- Scores ----


def test_each_part_is_scored_on_all_its_subjects(experiment: FederatedExperiment) -> None:
    random = np.random.default_rng(0)
    examples = sample_states(experiment.data, draw_weights(small().esn, COLUMNS, SEED))
    readout = Readout(random.normal(size=(UNITS, 1)).astype(np.float32), np.ones(1, np.float32), "sigmoid")
    split = experiment.data.partition
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


def test_every_round_is_released_and_every_second_and_the_last_are_scored(experiment: FederatedExperiment) -> None:
    memory = load_tff().program.MemoryReleaseManager()
    program = experiment.program(small(rounds=5, evaluate_every=2))
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


def test_rounds_run_where_an_event_loop_is_running_as_in_a_notebook(
    experiment: FederatedExperiment, tmp_path: Path
) -> None:
    async def cell() -> Readout:
        return experiment.program(small(rounds=1)).run_in(tmp_path)

    found, expected = asyncio.run(cell()), experiment.program(small(rounds=1)).run()[0]
    np.testing.assert_array_equal(found.weights, expected.weights)
    assert (tmp_path / "metrics.csv").is_file()


def test_a_client_that_is_left_out_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    healthy, broken = small_experiment(tmp_path / "a"), small_experiment(tmp_path / "b", broken=["S3"])
    config = small(rounds=1, clients_per_round=3)
    # Scored on the subjects without a NaN: those with one have no scores.
    program = replace(broken.program(config), evaluator=healthy.program(config).evaluator)
    _, (_, record) = program.run()
    assert "round 1 leaves out S3: an update that is not finite" in caplog.text
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
    "fedavg": small(),
    "fedcurv": small("fedcurv"),
    "mimelite": small("mimelite", optimizer="adam", learning_rate=0.01),
}


@pytest.mark.usefixtures("pythons_own_interrupt")
@pytest.mark.parametrize("algorithm", RUNS)
def test_a_run_that_was_stopped_ends_as_one_that_was_not(
    experiment: FederatedExperiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    program = experiment.program(replace(RUNS[algorithm], rounds=7))
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


def test_tensorboard_has_every_round(experiment: FederatedExperiment, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    experiment.program(small(rounds=3)).run_in(tmp_path)
    events = EventAccumulator(str(tmp_path / "tensorboard"), size_guidance={"tensors": 0})
    events.Reload()
    with (tmp_path / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for name in ("round/loss", "test/balanced_accuracy", "S2/update_norm"):
        found = [(event.step, float(tf.make_ndarray(event.tensor_proto))) for event in events.Tensors(name)]
        assert found == [(int(row["step"]), pytest.approx(float(row[name]))) for row in rows if row[name]]
        assert found


def test_the_note_of_a_progress_bar_names_the_metric() -> None:
    labels = np.array([0, 0, 0, 1])
    scores = {"train": score(labels, labels.astype(float)), "test": score(labels, np.array([0.9, 0.1, 0.1, 0.9]))}
    # Two of three zeros and the only one are right: (2/3 + 1) / 2.
    assert RoundRecord(3, (), None, scores).note() == "balanced accuracy: train 1.00, test 0.83"
    assert RoundRecord(4, (), None, None).note() == ""
