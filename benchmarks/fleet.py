"""Time of rounds on workers, against this process's own, interleaved in one run; and what a lost worker costs.

    python -m benchmarks.fleet

Workers listen on loopback addresses behind mutual TLS. `local`, `1 worker` and `3 workers` run the same rounds of
FedAvg, ten of ten generated subjects, 200 units. The speed-up has workers with one processor each, as small hosts have
it, on IncFed's statistics of ten clients. A worker is killed or paused in the middle of a round of slow clients.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil

import tff_esn as te
from tff_esn.closed_form.computations import Shapes, build_incfed, client_struct, reservoir_struct
from tff_esn.federated.training.experiment import FederatedExperiment
from tff_esn.reservoir.weights import draw_weights
from tff_esn.runs.presets import algorithm_of
from tff_esn.runtime.certificates import create_certificates
from tff_esn.runtime.fleet import Fleet, FleetConfig
from tff_esn.store.cache import Cache
from tff_esn.store.client_files import write_examples

REPETITIONS, ROUNDS, PORT = 5, 10, 18443
UNITS, CLIENTS, SEQUENCES, STEPS, INPUTS = 500, 10, 40, 700, 8


def main() -> None:
    with tempfile.TemporaryDirectory() as name, Cache().scratch() as scratch:
        folder = Path(name)
        create_certificates(folder, [["127.0.0.1"]])
        rounds(scratch, folder)
        speed_up(scratch, folder)
        losses(scratch, folder)


def rounds(scratch: Path, folder: Path) -> None:
    """What workers elsewhere cost."""
    data = te.generate_study().clients("thesis", task="stress", split="thesis")
    algorithm: Any = algorithm_of("fedavg", "thesis", {"clients_per_round": 10}, "benchmark")
    federation = FederatedExperiment(data, scratch).program(algorithm).federation
    state = federation.initial_state()

    def job() -> None:
        for number in range(1, ROUNDS + 1):
            federation.next(state, federation.clients, number)

    with workers(folder, 3):
        times = interleaved(
            {"local": None, "1 worker": fleet(folder, 1), "3 workers": fleet(folder, 3)}, job, REPETITIONS
        )
    print(f"FedAvg, 10 clients, median of {REPETITIONS} times {ROUNDS} rounds")
    for name, seconds in times.items():
        print(f"{name:10} {seconds / ROUNDS:8.4f} s per round {seconds / times['local']:6.2f}x")


def speed_up(scratch: Path, folder: Path) -> None:
    """From one worker to two, each on a processor of its own."""
    weights = draw_weights(te.ESN(units=UNITS), INPUTS, 0)
    process = build_incfed(Shapes(UNITS, INPUTS, STEPS, 4), 1.0)
    reservoir, state = reservoir_struct(weights), process.initialize()
    random = np.random.default_rng(0)
    clients = []
    for number in range(CLIENTS):
        path = scratch / f"sequences-{number}.f32"
        write_examples(path, random.normal(size=(SEQUENCES, STEPS, INPUTS)), random.integers(0, 4, SEQUENCES))
        clients.append(client_struct(path, np.arange(UNITS)))
    with workers(folder, 2, processors=(0, 1)):
        times = interleaved(
            {"1 worker": fleet(folder, 1), "2 workers": fleet(folder, 2)},
            lambda: process.next(state, reservoir, clients),
            3,
        )
    print(
        f"IncFed, {CLIENTS} clients of {SEQUENCES} sequences of {STEPS} steps, {UNITS} units; one processor per worker"
    )
    for name, seconds in times.items():
        print(f"{name:10} {seconds:8.3f} s {times['1 worker'] / seconds:6.2f} times as fast")


def losses(scratch: Path, folder: Path) -> None:
    """What a worker costs that is lost in the middle of a round."""
    from tests.runtime.test_fleet import slow_sum

    (scratch / "slow").mkdir()
    total = slow_sum(scratch / "slow", 1.0)
    print("6 clients of 1 s on 3 workers, one lost after 0.5 s; default heartbeat and answer")
    for way, number in (("none", None), ("killed", signal.SIGKILL), ("paused", signal.SIGSTOP)):
        with workers(folder, 3) as running, Fleet(fleet(folder, 3, slots=1)).installed():
            total(3)
            if number is not None:
                (victim,) = psutil.Process(running[1].pid).children()
                threading.Timer(0.5, os.kill, (victim.pid, number)).start()
            start = time.perf_counter()
            total(6)
            print(f"{way:10} {time.perf_counter() - start:8.2f} s")


def fleet(folder: Path, count: int, slots: int = 2) -> FleetConfig:
    """So many of the workers."""
    addresses = tuple(f"127.0.0.1:{PORT + number}" for number in range(count))
    return FleetConfig(workers=addresses, certificates=folder / "coordinator", slots=slots)


def interleaved(ways: dict[str, FleetConfig | None], job: Callable[[], object], repetitions: int) -> dict[str, float]:
    """Median seconds of a job in each way, one after the other and again."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(repetitions + 1):
        for name, config in ways.items():
            with ExitStack() as stack:
                if config is not None:
                    stack.enter_context(Fleet(config).installed())
                job()  # Connects, and the first time traces and compiles.
                start = time.perf_counter()
                job()
                if number:
                    seconds[name].append(time.perf_counter() - start)
    return {name: median(own) for name, own in seconds.items()}


@contextmanager
def workers(folder: Path, count: int, processors: Sequence[int] = ()) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Running workers, each on a processor of its own if some are named."""
    options = ["--host", "127.0.0.1", "--certificates", str(folder / "127.0.0.1")]
    running = []
    try:
        for number in range(count):
            command = [sys.executable, "-m", "tff_esn", "worker", *options, "--port", str(PORT + number)]
            pinned = ["taskset", "--cpu-list", str(processors[number])] if processors else []
            running.append(subprocess.Popen([*pinned, *command], stderr=subprocess.PIPE))
        for process in running:
            assert process.stderr is not None
            process.stderr.readline()
        yield running
    finally:
        for process in running:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
