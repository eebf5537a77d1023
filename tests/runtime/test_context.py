"""Tests of TFF's worker; the process pool imports this file, so what it calls is defined at its top level."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Callable

import numpy as np
import psutil
import pytest

from tests.conftest import DEAF
from tff_esn.parallel import map_unordered
from tff_esn.runtime import local_worker
from tff_esn.runtime.context import load_tff
from tff_esn.runtime.local_worker import HiddenWorker


def workers() -> list[psutil.Process]:
    """TFF's workers of this process."""
    return [child for child in psutil.Process().children(recursive=True) if child.name() == "worker_binary"]


def compute(clients: int) -> list[int]:
    """Runs a federated computation on so many clients; returns the workers that there are then."""
    tff = load_tff()

    @tff.tensorflow.computation(np.int32)
    def double(number: object) -> object:
        return number + number

    @tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
    def total(numbers: object) -> object:
        return tff.federated_sum(tff.federated_map(double, numbers))

    assert total(list(range(clients))) == clients * (clients - 1)
    return [worker.pid for worker in workers()]


def ends(pid: int) -> bool:
    """Whether the process is gone within a few seconds; one that nobody has waited for is."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


def test_the_worker_has_nothing_of_the_terminal() -> None:
    (worker,) = compute(3)
    for stream in (0, 1, 2):
        assert os.readlink(f"/proc/{worker}/fd/{stream}") == os.devnull
    assert os.getsid(worker) == worker


def test_a_worker_that_died_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    compute(2)  # whose connection to the worker is lost too
    (worker,) = compute(3)
    os.kill(worker, signal.SIGKILL)
    (other,) = compute(3)
    assert other != worker
    assert compute(2) == [other]
    assert "worker ended with status 137" in caplog.text


def test_the_worker_outlives_the_thread_that_first_needed_it() -> None:
    stack = load_tff().framework.get_context_stack()
    context = stack.current  # each thread has its own stack

    def first() -> None:
        with stack.install(context):
            compute(3)

    for worker in workers():
        worker.kill()
    thread = threading.Thread(target=first)
    thread.start()
    thread.join()
    (worker,) = workers()
    time.sleep(0.2)
    assert worker.status() != psutil.STATUS_ZOMBIE
    assert compute(3) == [worker.pid]


def test_processes_of_the_pool_have_workers_of_their_own() -> None:
    pids = []
    for _, found in map_unordered(compute, [3, 4], jobs=2, description=""):
        assert isinstance(found, list)
        pids += found
    assert len(set(pids)) == len(pids) > 0
    assert all(map(ends, pids))


def test_a_worker_that_cannot_start_is_an_error_at_once() -> None:
    # Python knows no option --port.
    with pytest.raises(RuntimeError, match="ended with status 2 as it started"):
        HiddenWorker(Path(sys.executable)).address()


@pytest.fixture
def mute(tmp_path: Path) -> Path:
    """A worker that never listens, and leaves its process id behind."""
    script = tmp_path / "mute"
    script.write_text(
        f"#!/bin/sh\necho $$ > {tmp_path}/started\nmv {tmp_path}/started {tmp_path}/pid\nexec sleep 600\n"
    )
    script.chmod(0o755)
    return script


def test_a_worker_that_does_not_listen_is_given_up(mute: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_worker, "_PATIENCE", 0.5)
    with pytest.raises(RuntimeError, match="did not listen"):
        HiddenWorker(mute).address()
    assert ends(int((mute.parent / "pid").read_text()))


def test_the_end_does_not_wait_for_a_start(mute: Path) -> None:
    worker = HiddenWorker(mute)
    errors = []

    def start() -> None:
        with pytest.raises(RuntimeError) as caught:
            worker.address()
        errors.append(str(caught.value))

    thread = threading.Thread(target=start)
    thread.start()
    while not (mute.parent / "pid").exists():
        time.sleep(0.01)
    worker.end()
    thread.join(timeout=5)
    start()
    assert len(errors) == 2
    assert "this process is ending" in errors[1]
    assert ends(int((mute.parent / "pid").read_text()))


SCRIPT = """
import os, signal, sys, threading
import psutil
import tensorflow as tf
from tests.runtime.test_context import compute, workers
from tff_esn.runtime.context import load_tff

tff = load_tff()
assert not workers(), "importing alone starts one"

@tff.tensorflow.computation
def endless():
    return tf.while_loop(lambda step: step >= 0, lambda step: step, [tf.constant(0)])

def interrupt_soon():
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()

print(*compute(3), flush=True)
"""


def nothing(pid: int) -> None:
    """For a process that ends by itself."""


def sends(number: signal.Signals, to: Callable[[int, int], None] = os.kill) -> Callable[[int], None]:
    return lambda pid: to(pid, number)


@pytest.mark.parametrize(
    ("ending", "then", "before", "status", "error"),
    [
        pytest.param("", nothing, DEAF, 0, "", id="end"),
        pytest.param("raise ValueError", nothing, (), 1, "ValueError", id="exception"),
        pytest.param("sys.exit(3)", nothing, (), 3, "", id="exit"),
        pytest.param("os._exit(4)", nothing, (), 4, "", id="exit at once"),
        pytest.param(
            "interrupt_soon(); endless()",
            nothing,
            (),
            -signal.SIGINT,
            "KeyboardInterrupt",
            id="interrupt",
        ),
        pytest.param(
            "signal.pause()",
            sends(signal.SIGINT, os.killpg),
            (),
            -signal.SIGINT,
            "KeyboardInterrupt",
            id="interrupt from the terminal",
        ),
        pytest.param("endless()", sends(signal.SIGTERM), (), -signal.SIGTERM, "", id="termination"),
        pytest.param("endless()", sends(signal.SIGKILL), (), -signal.SIGKILL, "", id="kill"),
    ],
)
def test_the_worker_ends_with_its_process(
    ending: str, then: Callable[[int], None], before: Sequence[str], status: int, error: str
) -> None:
    process = subprocess.Popen(
        [*before, sys.executable, "-c", SCRIPT + ending],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    try:
        assert process.stdout is not None
        worker = int(process.stdout.readline())
        then(process.pid)
        # Returns when nobody holds the other ends of the pipes any more.
        rest, complaints = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == status
    assert ends(worker)
    assert rest == ""
    assert complaints.count("Traceback") == bool(error)
    assert complaints.strip().split("\n")[-1] == error
