"""Rounds on three hosts, as locally, whatever happens to them."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
import tensorflow as tf

from tests.closed_form.test_computations import RESERVOIR, RIDGE, SHAPES, SUBJECTS
from tests.federated.small import TRAIN, play, small, small_data, small_experiment
from tests.runtime.fleet import IP, PORT, Host, hosts
from tests.runtime.test_local_worker import GREETING
from tff_esn.closed_form.computations import build_incfed, client_struct
from tff_esn.errors import DataError, FleetError
from tff_esn.federated.algorithm import GradientAlgorithm
from tff_esn.federated.attacks.sign_flip import SignFlip
from tff_esn.federated.training.discriminator import TrainedDefence
from tff_esn.federated.training.experiment import FederatedExperiment
from tff_esn.federated.training.federation import build_federation
from tff_esn.readout.readout import initial_readout
from tff_esn.runtime.certificates import create_certificates
from tff_esn.runtime.context import load_tff
from tff_esn.runtime.fleet import Fleet, FleetConfig
from tff_esn.store.checkpoint import Checkpoint
from tff_esn.store.client_files import write_examples

#: The kind of HTTP/2's first answer.
SETTINGS = b"\x04"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def three(certificates: Path) -> Iterator[list[Host]]:
    with hosts(certificates, 3) as running:
        yield running


@pytest.fixture
def fleet(three: list[Host], certificates: Path) -> FleetConfig:
    for host in three:
        if host.process is not None and host.process.poll() is not None:
            host.stop()
        if host.process is None:
            host.start()
    return FleetConfig(
        workers=tuple(f"{host.address}:{PORT}" for host in three),
        certificates=certificates / "coordinator",
        heartbeat=0.3,
        answer=1.0,
        patience=5.0,
    )


def weights(algorithm: GradientAlgorithm, folder: Path, rounds: int = 3) -> np.ndarray:
    federation = small_experiment(folder).program(algorithm).federation
    state, _ = play(federation, rounds)
    return federation.readout(state).weights


def defended(folder: Path) -> np.ndarray:
    """FedCurv under a discriminator of one layer, with a client that attacks."""
    algorithm = small("fedcurv", attack=SignFlip(clients=TRAIN[:1]))
    layers = ((np.random.default_rng(0).normal(size=(9, 1)).astype(np.float32), np.zeros(1, np.float32)),)
    experiment, defence = small_experiment(folder), TrainedDefence(layers, "left_out")
    files, training = experiment.files(algorithm), experiment.training(algorithm)
    federation = build_federation(algorithm, training, files, 2, initial_readout(8, 2, 0), 0, defence=defence)
    state, reports = play(federation, 3)
    assert len({accepted for report in reports for accepted in report.accepted.values()}) == 2
    return federation.readout(state).weights


def solved(folder: Path) -> np.ndarray:
    clients = []
    for name, own in SUBJECTS.items():
        write_examples(folder / name, own.values, own.labels[:, 0])
        clients.append(client_struct(folder / name, np.arange(16)))
    process = build_incfed(SHAPES, RIDGE)
    return np.asarray(process.next(process.initialize(), RESERVOIR, clients)[1])


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(lambda folder: weights(small(), folder), id="FedAvg"),
        pytest.param(lambda folder: weights(small(engine="builtin"), folder), id="TFF's own FedAvg"),
        pytest.param(lambda folder: weights(small(defence="median"), folder), id="median"),
        pytest.param(defended, id="FedCurv+Disc"),
        pytest.param(solved, id="IncFed"),
    ],
)
def test_the_same_numbers_as_locally(run: Callable[[Path], np.ndarray], fleet: FleetConfig, tmp_path: Path) -> None:
    expected = run(tmp_path)
    with Fleet(fleet).installed():
        found = run(tmp_path)
    np.testing.assert_array_equal(found, expected)


def slow_sum(folder: Path, seconds: float) -> Callable[[int], int]:
    """A computation in which each client counts a file of its own, for so long."""
    tff = load_tff()
    for number in range(6):
        write_examples(folder / f"{number}.f32", np.full((2, 1), number), np.zeros(2))

    @tff.tensorflow.computation(np.str_)
    def work(path: Any) -> Any:
        end = tf.timestamp() + seconds
        content = tf.io.decode_raw(tf.io.read_file(path), tf.float32)
        waited, _ = tf.while_loop(lambda now, _: now < end, lambda _, i: (tf.timestamp(), i + 1), (tf.timestamp(), 0))
        return tf.cast(content[0], tf.int32) + tf.cast(waited < 0, tf.int32)

    @tff.federated_computation(tff.FederatedType(np.str_, tff.CLIENTS))
    def total(paths: Any) -> Any:
        return tff.federated_sum(tff.federated_map(work, paths))

    return lambda clients: total([str(folder / f"{number}.f32") for number in range(clients)])


@pytest.mark.parametrize("way", ["killed", "worker killed", "paused", "unplugged"])
def test_a_round_goes_on_without_a_host(
    way: str, three: list[Host], fleet: FleetConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    victim, total = three[1], slow_sum(tmp_path, 1.0)
    worker = victim.worker()
    assert victim.process is not None
    if way == "unplugged" and not victim.before:
        pytest.skip("needs network namespaces")

    def harm() -> None:
        time.sleep(0.5)
        if way == "unplugged":
            link(victim, "down")
        elif way == "killed":
            os.kill(victim.process.pid, signal.SIGKILL)  # type: ignore[union-attr]
        else:
            os.kill(worker.pid, signal.SIGSTOP if way == "paused" else signal.SIGKILL)

    with Fleet(replace(fleet, slots=1)).installed():
        assert total(3) == 3  # All are there, each with its connection.
        caplog.clear()
        thread = threading.Thread(target=harm)
        thread.start()
        assert total(6) == 15
        thread.join()
        assert f"worker {victim.address}:{PORT} is lost" in caplog.text
        assert "goes to another worker" in caplog.text
        if way == "unplugged":
            link(victim, "up")
        elif way == "paused":
            os.kill(worker.pid, signal.SIGCONT)
        else:
            if way == "killed":
                worker.wait(5)  # It has ended with its keeper.
            victim.process.communicate(timeout=5)
            victim.start()
        deadline = time.monotonic() + 15
        while f"worker {victim.address}:{PORT} is back" not in caplog.text:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert total(6) == 15


def link(host: Host, state: str) -> None:
    devices = subprocess.run([*host.before, IP, "-o", "link"], capture_output=True, text=True, check=True).stdout
    (device,) = [line.split(": ")[1].split("@")[0] for line in devices.splitlines() if "esn" in line]
    subprocess.run([*host.before, IP, "link", "set", device, state], check=True)


def test_without_any_worker_the_run_stops_and_goes_on_later(
    three: list[Host], fleet: FleetConfig, tmp_path: Path
) -> None:
    experiment = small_experiment(tmp_path / "files")
    expected = experiment.program(small(rounds=4)).run()[0].weights
    program, run = experiment.program(small(rounds=4)), tmp_path / "run"
    with Fleet(replace(fleet, patience=1.0)).installed():
        usual, rounds = program.federation.next, []

        def next_round(state: Any, drawn: Any, number: int) -> Any:
            rounds.append(number)
            if number == 3 and len(rounds) == 3:
                for host in three:
                    host.stop()
            return usual(state, drawn, number)

        program.federation.next = next_round  # type: ignore[method-assign]
        with pytest.raises(FleetError, match="no worker answers"):
            program.run_in(run)
    assert Checkpoint(run / "state.npz").load(program.federation.initial_state())[1] == 2
    for host in three[:2]:
        host.start()
    with Fleet(fleet).installed():
        readout = program.run_in(run)
    assert rounds == [1, 2, 3, 3, 4]
    np.testing.assert_array_equal(readout.weights, expected)


def test_a_file_that_only_one_worker_has(
    three: list[Host], fleet: FleetConfig, certificates: Path, tmp_path: Path
) -> None:
    """Each worker has the files of one client; the coordinator's own are elsewhere."""
    files = small_experiment(tmp_path / "own").files(small())
    expected = weights(small(), tmp_path / "again")
    for host, client in zip(three, TRAIN):
        host.stop()
        folder = tmp_path / host.address / "study" / files.folder.name
        folder.mkdir(parents=True)
        (folder / f"{client}.f32").write_bytes(files.path(client).read_bytes())
        usual = host.command
        host.command = [*usual, "--data", str(tmp_path / host.address)]
        host.start()
        host.command = usual
    try:
        remote = FederatedExperiment(small_data(), tmp_path / "scratch", Path("study")).program(small()).federation
        with Fleet(fleet).installed():
            state, _ = play(remote, 3)
            np.testing.assert_array_equal(remote.readout(state).weights, expected)
            (tmp_path / three[0].address / "study" / files.folder.name / f"{TRAIN[0]}.f32").unlink()
            with pytest.raises(DataError, match=f"{TRAIN[0]}.f32: not on {three[0].address}"):
                remote.next(state, TRAIN, 4)
    finally:
        for host in three:
            host.stop()


def test_work_that_ends_every_worker_is_given_up(three: list[Host], fleet: FleetConfig) -> None:
    tff = load_tff()

    @tff.tensorflow.computation(np.int32)
    def fatal(number: Any) -> Any:
        with tf.control_dependencies([tf.raw_ops.Abort(error_msg="on purpose")]):
            return number + 1

    @tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
    def total(numbers: Any) -> Any:
        return tff.federated_sum(tff.federated_map(fatal, numbers))

    with Fleet(replace(fleet, retries=1)).installed(), pytest.raises(FleetError, match="lost 2 times"):
        total([1])


def test_an_error_in_a_computation_is_not_a_lost_worker(fleet: FleetConfig, caplog: pytest.LogCaptureFixture) -> None:
    tff = load_tff()

    @tff.tensorflow.computation(np.int32)
    def wrong(number: Any) -> Any:
        with tf.control_dependencies([tf.debugging.assert_less(number, 0, message="a number too large")]):
            return number + 1

    @tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
    def total(numbers: Any) -> Any:
        return tff.federated_sum(tff.federated_map(wrong, numbers))

    with Fleet(fleet).installed(), pytest.raises(FleetError, match="a number too large"):
        total([1])
    assert "is lost" not in caplog.text


def answers(host: Host, context: ssl.SSLContext | None) -> bool:
    """Whether the worker behind the door answers whoever speaks so."""
    try:
        with socket.create_connection((host.address, PORT), timeout=5) as knocking:
            if context is not None:
                knocking = context.wrap_socket(knocking, server_hostname=host.address)
            with knocking:
                knocking.sendall(GREETING)
                return knocking.recv(9)[3:4] == SETTINGS
    except (ssl.SSLError, ConnectionError):
        return False


def test_who_may_connect(three: list[Host], fleet: FleetConfig, certificates: Path, tmp_path: Path) -> None:
    host = three[0]

    def client(own: Path | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
        context.set_alpn_protocols(["h2"])
        if own is not None:
            context.load_cert_chain(own / "certificate.pem", own / "key.pem")
        return context

    create_certificates(tmp_path, [["other"]])
    assert answers(host, client(certificates / "coordinator"))
    assert not answers(host, None), "in the clear"
    assert not answers(host, client(None)), "without a certificate"
    assert not answers(host, client(tmp_path / "coordinator")), "with one of another fleet"
    assert not answers(host, client(certificates / host.address)), "with a worker's"
    # TFF's own port is reached from nowhere.
    with pytest.raises(OSError, match=r"refused|unreachable"):
        socket.create_connection((host.address, 8000), timeout=5)
    # Nor does the coordinator speak to whoever has the certificate of another host.
    create_certificates(certificates, [["elsewhere"]])
    host.stop()
    usual = host.command
    host.command = [part.replace(str(certificates / host.address), str(certificates / "elsewhere")) for part in usual]
    host.start()
    only = replace(fleet, workers=fleet.workers[:1], patience=1.0)
    with Fleet(only).installed(), pytest.raises(FleetError, match="no worker answers"):
        solved(tmp_path)
    host.stop()
    host.command = usual


def test_keys_are_their_owners_alone(certificates: Path, three: list[Host]) -> None:
    keys = sorted(certificates.rglob("*key.pem"))
    assert len(keys) >= 5
    assert {key.stat().st_mode & 0o777 for key in keys} == {0o600}
