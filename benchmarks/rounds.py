"""Time of a FedAvg round by each engine, and of the same work without TFF, interleaved in one run.

    python benchmarks/rounds.py [DIR]        DIR: a WESAD folder; generated subjects without it

Five of ten clients a round, 200 units, batches of 20, Adam. `plain` is the client's computation of the engine
`states` called eagerly for one client after another, and the mean of the updates: no TFF. The evaluation scores train,
validation and test, 15 subjects in all, after a round.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import tensorflow as tf

import tff_esn as te
from tff_esn.federated.training.client_states import drawn_clients
from tff_esn.federated.training.experiment import temporary_experiment
from tff_esn.federated.training.federation import ReadoutFederation
from tff_esn.federated.training.local import Client, LocalTraining
from tff_esn.federated.training.rounds import Program
from tff_esn.runs.presets import algorithm_of

REPETITIONS = 7
#: Rounds timed together, so that short ones are not lost in the clock.
ROUNDS = {"plain": 10, "states": 10, "evaluation": 10, "builtin": 3, "graph": 1}


def main() -> None:
    study = te.load_study(sys.argv[1]) if len(sys.argv) > 1 else te.generate_study()
    data = study.clients("thesis", task="stress", split="thesis")
    algorithm: Any = algorithm_of("fedavg", "thesis", {}, "benchmark")
    with temporary_experiment(data) as experiment:
        programs = {
            engine: experiment.program(algorithm.replaced({"engine": engine}))
            for engine in ("states", "builtin", "graph")
        }
        jobs = {engine: rounds_of(program) for engine, program in programs.items()}
        jobs["plain"] = plain(programs["states"])
        jobs["evaluation"] = evaluation(programs["states"])
        for job in jobs.values():
            job()  # Traces and compiles.
        seconds: dict[str, list[float]] = {name: [] for name in jobs}
        for _ in range(REPETITIONS):
            for name, job in jobs.items():
                start = time.perf_counter()
                for _ in range(ROUNDS[name]):
                    job()
                seconds[name].append((time.perf_counter() - start) / ROUNDS[name])
        start = time.perf_counter()
        experiment.program(algorithm).run()
        whole = time.perf_counter() - start
    reference = median(seconds["states"])
    print(f"{len(data)} subjects of {study.root.name}, median of {REPETITIONS}")
    print(f"{'':12} {'s per round':>16} {'against states':>15}")
    for name, own in seconds.items():
        print(f"{name:12} {median(own):16.4f} {median(own) / reference:14.2f}x")
    print(f"{algorithm.rounds} rounds with evaluations: {whole:.1f} s")


def rounds_of(program: Program) -> Callable[[], None]:
    """Rounds one after the other."""
    federation = program.federation
    state, number = federation.initial_state(), 0

    def job() -> None:
        nonlocal state, number
        number += 1
        state, _ = federation.next(state, drawn_clients(federation.clients, 5, 0, number), number)

    return job


def evaluation(program: Program) -> Callable[[], None]:
    """The scores of a readout."""
    readout = program.federation.readout(program.federation.initial_state())
    return lambda: program.evaluator(readout) and None


def plain(program: Program) -> Callable[[], None]:
    """The same rounds without TFF."""
    federation = program.federation
    assert isinstance(federation, ReadoutFederation)
    training = tf.function(LocalTraining(federation.work, federation.objective))
    weights = tf.constant(federation.initial_state().server.weights)
    rate, server = tf.constant(federation.work.readout.learning_rate), federation.objective.initialize(weights)
    number = 0

    def job() -> None:
        nonlocal weights, number
        number += 1
        results = []
        for name in drawn_clients(federation.clients, 5, 0, number):
            client = federation.client(name, number, ())
            results.append(training(weights, rate, server, Client(*map(tf.constant, client[:-1]), client.own)))
        shares = np.array([result.weight for result in results])
        shares /= shares.sum()
        weights += tf.add_n([share * result.update for share, result in zip(shares, results)])

    return job


if __name__ == "__main__":
    main()
