"""Runs that are killed at random moments and continued, against one that nothing stopped.

    python benchmarks/kills.py [--runs 100] [--seed 0]

Each run is `tff-esn federate fedcurv` on five short generated subjects, killed (SIGKILL) at a random moment after its
folder is there, every fourth at any moment at all, and then started again with the same command. It must end with the
metrics, scores and weights of the unbroken run, to the last bit; every process that it had started must be gone; and
neither its folder nor the cache may hold a file that was half written.

A command is a fork of this process, which has imported all it needs: importing takes longer than the rounds, and has
nothing to lose.
"""

from __future__ import annotations

import argparse
import atexit
import io
import os
import random
import shutil
import sys
import tempfile
import time
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import psutil
import tensorflow_federated as _  # noqa: F401

from tff_esn.cli.main import main as main_of_command
from tff_esn.datasets.synthetic.wesad import write_wesad

OPTIONS = (
    *("--preset", "corrected", "--columns", "tEDA,HR", "--split", "leave-out-S6", "--seeds", "1", "--jobs", "1"),
    *("--clients-per-round", "3", "--rounds", "240", "--reservoirs", "different", "--server-learning-rate", "0.1"),
)
#: Of a run that does not count.
_OVER = "it was over before the kill"
#: Seconds within which what a killed process had started is gone.
PATIENCE = 20.0


@dataclass(frozen=True)
class Place:
    """Where a run's study, cache and folder are."""

    study: Path
    cache: Path
    runs: Path

    def start(self) -> psutil.Process:
        """The command, in a process of its own."""
        pid = os.fork()
        if pid:
            return psutil.Process(pid)
        status: object = 1
        try:
            os.environ.update(TFF_ESN_CACHE=str(self.cache), TFF_ESN_RUNS=str(self.runs))
            for stream in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            sys.argv = ["tff-esn", "federate", "fedcurv", str(self.study), *OPTIONS]
            main_of_command()
        except SystemExit as end:
            status = end.code
        finally:
            atexit._run_exitfuncs()
            os._exit(status if isinstance(status, int) else int(status is not None))

    def finish(self) -> Path:
        """Runs the command to its end."""
        if status := self.start().wait():
            raise RuntimeError(f"the command ended with status {status}")
        return self.folder()

    def folder(self) -> Path:
        """That of the only run."""
        (record,) = self.runs.glob("federate-*/run.json")
        return record.parent

    def wait_for_folder(self, process: psutil.Process) -> float:
        """The moment at which the run has a folder."""
        while is_alive(process) and not list(self.runs.glob("federate-*/run.json")):
            time.sleep(0.005)
        return time.monotonic()


def is_alive(process: psutil.Process) -> bool:
    """Whether a process runs; one that nobody has waited for does not."""
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def member(folder: Path, name: str) -> bytes:
    """A part of a run's model."""
    with zipfile.ZipFile(folder / "model.keras") as archive:
        return archive.read(name)


def weights(folder: Path) -> dict[str, np.ndarray]:
    """Every array of a run's model."""
    arrays: dict[str, np.ndarray] = {}
    with h5py.File(io.BytesIO(member(folder, "model.weights.h5"))) as file:
        file.visititems(lambda name, own: arrays.update({name: own[()]}) if isinstance(own, h5py.Dataset) else None)
    return arrays


def problems(folder: Path, expected: Path) -> list[str]:
    """In what a run that was continued differs from the unbroken one."""
    found = [
        f"{name} differs"
        for name in ("metrics.csv", "scores.csv")
        if (folder / name).read_bytes() != (expected / name).read_bytes()
    ]
    if member(folder, "model.json") != member(expected, "model.json"):
        found.append("model.json differs")
    ours, theirs = weights(folder), weights(expected)
    if ours.keys() != theirs.keys() or any(not np.array_equal(ours[name], theirs[name]) for name in ours):
        found.append("weights differ")
    return found + unfinished(folder)


def unfinished(folder: Path) -> list[str]:
    """Files that somebody was about to write."""
    names = [path for path in folder.rglob("*") if path.name.endswith(".part") or "_temp" in path.name]
    return [f"half-written {path.name}" for path in names]


def left_running(processes: list[psutil.Process]) -> list[str]:
    """Those that outlive the one that started them."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        alive = [own for own in processes if is_alive(own)]
        if not alive:
            return []
        time.sleep(0.05)
    return [f"process {own.pid} still runs" for own in alive]


def killed_and_continued(number: int, seed: int, place: Place, expected: Path, begins: float, lasts: float) -> str:
    """One run: what was wrong with it, or the moment at which it was killed."""
    draw = random.Random(f"{seed}/{number}")
    start = time.monotonic()
    process = place.start()
    if number % 4 == 0:
        deadline = start + draw.uniform(0.0, begins + lasts)
    else:
        deadline = place.wait_for_folder(process) + draw.uniform(0.0, lasts)
    children: list[psutil.Process] = []
    while time.monotonic() < deadline and is_alive(process):
        time.sleep(0.005)
    if is_alive(process):
        children = process.children(recursive=True)
        process.kill()
    killed = process.wait() != 0
    moment = reached(place) if killed else _OVER
    folder = place.finish() if killed else place.folder()
    wrong = left_running(children) + problems(folder, expected)
    return f"run {number}: {'; '.join(wrong)}" if wrong else moment


def reached(place: Place) -> str:
    """How far a run had come when it was killed."""
    if not list(place.runs.glob("federate-*/run.json")):
        return "killed before it had a folder"
    files = {path.name for path in place.folder().iterdir()}
    if "metrics.csv" not in files:
        return "killed before the first round"
    if "model.keras" in files:
        return "killed after the last round"
    return f"killed between rounds, {'with' if 'state.npz' in files else 'without'} a checkpoint"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp())  # Not a TemporaryDirectory, which a fork would remove when it ends.
    try:
        write_wesad(root / "study", subjects=5, minutes=5.0)
        unbroken = Place(root / "study", root / "cache", root / "unbroken")
        unbroken.finish()
        shutil.rmtree(unbroken.runs)  # Its features are in the cache now, as those of the others will be.
        start = time.monotonic()
        process = unbroken.start()
        begins = unbroken.wait_for_folder(process) - start
        process.wait()
        lasts = time.monotonic() - start - begins
        expected = unbroken.folder()
        print(f"an unbroken run has its folder after {begins:.1f} s and is over {lasts:.1f} s later", flush=True)
        outcomes: Counter[str] = Counter()
        while sum(outcomes.values()) - outcomes[_OVER] < given.runs:
            number = sum(outcomes.values())
            place = Place(unbroken.study, unbroken.cache, root / f"runs-{number}")
            outcome = killed_and_continued(number, given.seed, place, expected, begins, lasts)
            outcomes[outcome] += 1
            print(number + 1, outcome, flush=True)
        left = [path for path in (root / "cache" / "scratch").iterdir() if path.is_dir()] + unfinished(root / "cache")
    finally:
        shutil.rmtree(root)
    for outcome, count in outcomes.items():
        print(f"{count:4d}  {outcome}")
    print(f"left in the cache: {left or 'nothing'}")
    sys.exit(any(outcome.startswith("run ") for outcome in outcomes) or bool(left))


if __name__ == "__main__":
    main()
