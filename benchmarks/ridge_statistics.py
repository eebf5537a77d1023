"""The statistics kernel against the machine's own sgemm, against peers, and as data grow.

    python benchmarks/ridge_statistics.py                          # ours: rate, memory, many clients
    python -m venv peers && peers/bin/pip install reservoirpy jax esnfed
    python benchmarks/ridge_statistics.py --peers peers/bin/python

9 clients x 100 chunks x 700 steps x 8 features, 500 units, float32. Flops of a step are 2 N (N + F) for the state and
N^2 for S S^T, which is symmetric. Every ratio is of mean rates taken in turns in one run, sgemm's over about as many
seconds before and after the kernel as the kernel takes; the median of the turns counts.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import numpy as np
from threadpoolctl import ThreadpoolController

from tff_esn.reservoir.esn import ESN
from tff_esn.reservoir.moments import TargetSequences, second_moments
from tff_esn.reservoir.weights import ReservoirWeights, draw_weights

CLIENTS, CHUNKS, STEPS, FEATURES, UNITS, CLASSES = 9, 100, 700, 8, 500, 4
#: Side of sgemm's matrices, where it is at its best, and its calls on each side of a turn.
SGEMM, SGEMM_CALLS = 4096, 3
#: Sequences that peers are timed on.
PEER_CHUNKS = 50


def client(seed: int, chunks: int, steps: int, features: int = FEATURES) -> TargetSequences:
    """Noise with labels."""
    random = np.random.default_rng(seed)
    values = random.normal(size=(chunks, steps, features)).astype(np.float32)
    return TargetSequences(values, np.eye(CLASSES)[random.integers(0, CLASSES, chunks)])


def blas() -> ThreadpoolController:
    """NumPy's."""
    return ThreadpoolController().select(user_api="blas")


def seconds_of(run: Callable[[], object]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def rate(turns: int, leaking_rate: float) -> None:
    """Against the machine's own sgemm."""
    weights = draw_weights(ESN(units=UNITS, leaking_rate=leaking_rate), FEATURES, seed=0)
    clients = [client(i, CHUNKS, STEPS) for i in range(CLIENTS)]
    steps = CLIENTS * CHUNKS * STEPS
    flops = steps * (2 * UNITS * (UNITS + FEATURES) + UNITS**2)
    square = np.random.default_rng(0).normal(size=(SGEMM, SGEMM)).astype(np.float32)
    product = np.empty_like(square)

    def sgemm_seconds() -> float:
        return seconds_of(lambda: [np.matmul(square, square, out=product) for _ in range(SGEMM_CALLS)])

    list(second_moments(clients[:1], weights)), sgemm_seconds()  # the first use of memory is another matter
    found = []
    for _ in range(turns):
        before = sgemm_seconds()
        own = flops / seconds_of(lambda: list(second_moments(clients, weights)))
        sgemm = 2 * SGEMM_CALLS * 2 * SGEMM**3 / (before + sgemm_seconds())
        found.append((own / sgemm, own, sgemm))
    ratios, own_rates, sgemm_rates = zip(*found)
    print(
        f"leaking rate {leaking_rate:g}: {median(own_rates) / 1e9:.0f} of {median(sgemm_rates) / 1e9:.0f} GFLOP/s, "
        f"median ratio {median(ratios):.2f} ({', '.join(f'{ratio:.2f}' for ratio in sorted(ratios))})"
    )


def against_peers(interpreter: str, turns: int) -> None:
    """Against other libraries."""
    weights = draw_weights(ESN(units=UNITS, leaking_rate=0.5), FEATURES, seed=0)
    ours = [client(i, CHUNKS, STEPS) for i in range(CLIENTS)]
    some = client(99, PEER_CHUNKS, STEPS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, **peer_data(weights, some))
        found: dict[str, list[float]] = {}
        # Their own NumPy finds its kernels itself.
        environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}
        for turn in range(turns):
            own = seconds_of(lambda: list(second_moments(ours, weights))) / (CLIENTS * CHUNKS * STEPS)
            result = subprocess.run(
                [interpreter, str(Path(__file__).with_name("peers.py")), str(path)],
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )
            for peer in map(json.loads, result.stdout.splitlines()):
                if "error" in peer:
                    print(f"{peer['name']}: {peer['error']}")
                    continue
                if not turn:
                    print(f"{peer['name']}: B differs by {peer['off']:.1e} from ours")
                found.setdefault(peer["name"], []).append(peer["seconds_a_step"] / own)
        for name, ratios in found.items():
            print(f"ours is {median(ratios):.1f} times as fast as {name} ({', '.join(f'{r:.1f}' for r in ratios)})")


def peer_data(weights: ReservoirWeights, some: TargetSequences) -> dict[str, np.ndarray]:
    """The reservoir and some sequences, in the peers' orientation."""
    (moments,) = second_moments([some], weights)
    return {
        "w": weights.recurrent_kernel.T.astype(np.float64),
        "w_in": weights.input_kernel.T.astype(np.float64),
        "rate": np.array(weights.leaking_rate),
        "values": some.values.astype(np.float64),
        "targets": np.repeat(some.targets[:, None], some.values.shape[1], axis=1),
        "b": moments[1 : 1 + UNITS, 1 : 1 + UNITS],
    }


def long_recording() -> None:
    """1000 units, one hour at 700 Hz, one client."""
    weights = draw_weights(ESN(units=1000), FEATURES, seed=0)
    one = client(0, 3600, 700)
    seconds = seconds_of(lambda: list(second_moments([one], weights)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"1000 units, one hour at 700 Hz: {seconds:.1f} s, peak memory of the process {peak:.2f} GB")


def many_clients() -> None:
    """100 units, up to 10,000 clients of 5 chunks of 100 steps, as a stream."""
    weights = draw_weights(ESN(units=100), FEATURES, seed=0)
    same = client(0, 5, 100)

    def stream(count: int) -> Iterator[TargetSequences]:
        for _ in range(count):
            yield same

    for count in (1000, 3000, 10_000):
        total = np.zeros((1 + 100 + CLASSES,) * 2)
        start = time.perf_counter()
        for moments in second_moments(stream(count), weights):
            total += moments
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"{count} clients: {seconds:.2f} s, {1e6 * seconds / count:.0f} us each, peak memory {peak:.3f} GB")


def main() -> None:
    """One part, or all of ours."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", metavar="PYTHON", help="interpreter that has reservoirpy, jax and esnfed")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", choices=["rate", "many", "long", "peers"], help="one part, in this process")
    arguments = parser.parse_args()
    if arguments.only == "rate":
        print("BLAS:", ", ".join(f"{own['internal_api']} for {own['architecture']}" for own in blas().info()))
        for leaking_rate in (1.0, 0.5):
            rate(arguments.turns, leaking_rate)
    elif arguments.only == "peers":
        against_peers(arguments.peers, arguments.turns)
    elif arguments.only:
        {"long": long_recording, "many": many_clients}[arguments.only]()
    else:
        # Each in a process of its own, for its memory, and for the BLAS to be told of the processor in time.
        for part in ["peers"] if arguments.peers else ["rate", "many", "long"]:
            command = [sys.executable, __file__, "--only", part, "--turns", str(arguments.turns)]
            subprocess.run(command + (["--peers", arguments.peers] if arguments.peers else []), check=True)


if __name__ == "__main__":
    main()
