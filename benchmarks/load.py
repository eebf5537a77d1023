"""Memory and time of rounds with many generated clients on one machine.

    python benchmarks/load.py fedavg        1,000 clients, 100 per round, in a run folder
    python benchmarks/load.py incfed        10,000 clients, 100 per round until all were heard, again and again
    python benchmarks/load.py incfed-tff    the same by TensorFlow Federated

200 rounds each, or as many as `--rounds` asks for. Memory is what the kernel counts as resident, of this process and
of TFF's worker; a table has one line for every tenth of the rounds.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil

import tff_esn as te
from tff_esn.closed_form.computations import Shapes, build_incfed, client_struct, reservoir_struct
from tff_esn.closed_form.statistics import dataset_statistics
from tff_esn.datasets.federated import FederatedDataset
from tff_esn.datasets.splits import ClientSplit
from tff_esn.federated.training.experiment import FederatedExperiment
from tff_esn.federated.training.federation import RoundReport
from tff_esn.reservoir.weights import draw_weights
from tff_esn.store.client_files import write_examples

A_ROUND = 100
CLIENTS = {"fedavg": 1_000, "incfed": 10_000, "incfed-tff": 10_000}
STEPS, COLUMNS, WINDOWS, UNITS = 20, 2, 40, 100
REGULARIZATION = 1e-2


class Gauge:
    """What a round took, and what the processes hold after it."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, float, float]] = []
        self._since = time.perf_counter()

    def start(self) -> None:
        self._since = time.perf_counter()

    def stop(self) -> None:
        seconds, own = time.perf_counter() - self._since, psutil.Process()
        workers = [child for child in own.children(recursive=True) if child.name() == "worker_binary"]
        held = [sum(process.memory_info().rss for process in group) / 1e6 for group in ([own], workers)]
        self.rows.append((seconds, *held))

    def print(self) -> None:
        print(f"{'rounds':>11} {'median s':>9} {'slowest s':>9} {'Python MB':>10} {'worker MB':>10}")
        size = max(1, len(self.rows) // 10)
        for first in range(0, len(self.rows), size):
            part = self.rows[first : first + size]
            seconds = [row[0] for row in part]
            print(
                f"{first + 1:5d}-{first + len(part):5d} {median(seconds):9.3f} {max(seconds):9.3f} "
                f"{part[-1][1]:10.0f} {part[-1][2]:10.0f}"
            )


def windows(number: int) -> tuple[np.ndarray, np.ndarray]:
    """A client's random windows, whose label is the sign of the last step."""
    values = np.random.default_rng(number).normal(size=(WINDOWS, STEPS, COLUMNS))
    return values, (values[:, -1, 0] > 0).astype(int)


class Gauged:
    """A federation whose rounds are measured."""

    def __init__(self, federation: Any, gauge: Gauge) -> None:
        self._federation, self._gauge = federation, gauge
        self.clients, self.initial_state, self.readout = (
            federation.clients,
            federation.initial_state,
            federation.readout,
        )

    def next(self, state: Any, drawn: list[str], round_number: int) -> tuple[Any, RoundReport]:
        if round_number > 1:  # A round is from one call to the next, so that what it writes belongs to it.
            self._gauge.stop()
        self._gauge.start()
        return self._federation.next(state, drawn, round_number)


def fedavg(clients: int, rounds: int) -> Gauge:
    """Rounds as `tff-esn federate` runs them, with metrics, events and checkpoints."""
    gauge = Gauge()
    arrays = {f"C{number}": windows(number) for number in range(clients + 20)}  # the last to validate and test
    names = tuple(arrays)
    split = ClientSplit(names[:-20], names[-20:-10], names[-10:])
    data = FederatedDataset.from_arrays(arrays, partition=split)
    esn = te.ESN(units=UNITS)
    algorithm = te.FedAvg(
        esn, rounds=rounds, clients_per_round=A_ROUND, evaluate_every=10, class_weight=None, order="time"
    )
    with tempfile.TemporaryDirectory() as scratch:
        program = FederatedExperiment(data, Path(scratch) / "clients").program(algorithm)
        gauged: Any = Gauged(program.federation, gauge)
        replace(program, federation=gauged).run_in(Path(scratch) / "run")
    gauge.stop()
    return gauge


def cohorts(clients: int, rounds: int) -> Iterator[FederatedDataset]:
    """A hundred clients per round, each once before anybody comes again; every step has its window's label."""
    for number in range(rounds):
        first, arrays = number * A_ROUND % clients, {}
        for client in range(first, first + A_ROUND):
            values, labels = windows(client)
            arrays[f"C{client}"] = values, np.repeat(labels[:, None], STEPS, axis=1)
        yield FederatedDataset.from_arrays(arrays)


def incfed_plain(clients: int, rounds: int) -> Gauge:
    """The server adds each round's messages to what it has, and solves."""
    gauge, weights = Gauge(), draw_weights(te.ESN(units=UNITS), COLUMNS, seed=0)
    total = None
    for cohort in cohorts(clients, rounds):
        gauge.start()
        statistics = dataset_statistics(cohort, weights)
        te.IncFed(ridge=REGULARIZATION).solve(statistics)
        for own in statistics.values():
            total = own if total is None else total + own
        assert total is not None
        total.solve(REGULARIZATION)
        gauge.stop()
    return gauge


def incfed_tff(clients: int, rounds: int) -> Gauge:
    """The same as a process of TFF."""
    gauge, weights = Gauge(), draw_weights(te.ESN(units=UNITS), COLUMNS, seed=0)
    process = build_incfed(Shapes(UNITS, COLUMNS, STEPS, 2, weights.leaking_rate), REGULARIZATION)
    state, reservoir, order = process.initialize(), reservoir_struct(weights), np.arange(UNITS)
    with tempfile.TemporaryDirectory() as folder:
        for cohort in cohorts(clients, rounds):
            data = []
            for number, own in enumerate(cohort.sequences.values()):
                path = Path(folder) / f"{number}.f32"
                write_examples(path, own.values, own.labels[:, 0])
                data.append(client_struct(path, order))
            gauge.start()
            state, _ = process.next(state, reservoir, data)
            gauge.stop()
    return gauge


def main() -> None:
    jobs = {"fedavg": fedavg, "incfed": incfed_plain, "incfed-tff": incfed_tff}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=jobs)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--clients", type=int)
    given = parser.parse_args()
    clients = given.clients or CLIENTS[given.job]
    print(f"{given.job}: {clients} clients, {A_ROUND} per round, {given.rounds} rounds")
    jobs[given.job](clients, given.rounds).print()


if __name__ == "__main__":
    main()
