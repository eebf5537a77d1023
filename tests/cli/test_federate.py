"""`federate` as a user runs it, on five short generated subjects; stopped in every way and taken up again."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np
import psutil
import pytest

from tests.cli.test_command_line import run as run_command
from tests.commands import run_here
from tff_esn.datasets.synthetic.hhar import write_hhar
from tff_esn.datasets.synthetic.wesad import write_wesad

ROUNDS = 78  # as in the thesis, whose numbers are printed beside
#: Seconds for what takes a few on an idle machine.
PATIENCE = 120.0
OPTIONS = (
    *("--preset", "corrected", "--columns", "tEDA,HR", "--split", "leave-out-S6", "--clients-per-round", "3"),
    *("--rounds", str(ROUNDS), "--reservoirs", "different", "--server-learning-rate", "0.1"),
)
SAME_IN_A_FILE = f"""
preset = "corrected"
reservoirs = "different"
clients_per_round = 3
rounds = {ROUNDS}
server_learning_rate = 0.1

[data]
split = "leave-out-S6"
[data.features]
columns = ["tEDA", "HR"]
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("five")
    write_wesad(folder, subjects=5, minutes=5.0, e4_csv=True)
    return folder


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work")
    (folder / "tmp").mkdir()
    return folder


def environment(work: Path) -> dict[str, str]:
    folders = {"TFF_ESN_CACHE": work / "cache", "TFF_ESN_RUNS": work / "runs", "TMPDIR": work / "tmp"}
    return {name: str(folder) for name, folder in folders.items()}


def run(work: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return run_here(*arguments, **environment(work))


def folders(work: Path) -> set[Path]:
    return set((work / "runs").glob("federate-*"))


def record(folder: Path) -> dict:
    return json.loads((folder / "run.json").read_text())


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def weights(folder: Path) -> dict[str, np.ndarray]:
    """Every array of a run's model."""
    arrays: dict[str, np.ndarray] = {}

    def keep(name: str, item: h5py.HLObject) -> None:
        if isinstance(item, h5py.Dataset):
            arrays[name] = item[()]

    with zipfile.ZipFile(folder / "model.keras") as archive:
        content = archive.read("model.weights.h5")
    with h5py.File(io.BytesIO(content)) as file:
        file.visititems(keep)
    return arrays


@pytest.fixture(scope="module")
def unbroken(study: Path, work: Path) -> tuple[Path, str]:
    """A run that nothing stopped: its folder and what it printed."""
    result = run_command("federate", "fedcurv", study, *OPTIONS, **environment(work))
    assert result.returncode == 0, result.stderr
    assert result.stderr.startswith("Run folder: ")
    (folder,) = folders(work)
    return folder, result.stdout


def test_a_run_keeps_everything_in_its_folder_and_prints_what_to_compare_with(unbroken: tuple[Path, str]) -> None:
    folder, printed = unbroken
    kept, metrics = record(folder), rows(folder)
    assert (kept["kind"], kept["status"], kept["seed"]) == ("federate", "complete", 0)
    # What the preset decides is kept too.
    algorithm = kept["config"]["algorithm"]
    assert (algorithm["name"], algorithm["order"], algorithm["fisher"]) == ("fedcurv", "shuffled", "true")
    assert kept["config"]["data"]["features"]["name"] == "corrected"
    for name in ("metrics.csv", "model.keras", "scores.csv"):
        assert (folder / name).is_file(), name
    assert list((folder / "tensorboard").iterdir())

    assert [int(row["step"]) for row in metrics] == list(range(ROUNDS + 1))
    for part in ("train", "test"):
        assert float(metrics[-1][f"{part}/balanced_accuracy"]) == pytest.approx(kept["result"][part])
    assert float(metrics[-1]["round/loss"]) < float(metrics[1]["round/loss"])
    took_part = [sum(row[f"{client}/loss"] != "" for client in ("S2", "S3", "S4", "S5")) for row in metrics]
    assert took_part == [0, *[3] * ROUNDS]

    words = printed.split()
    lines = [line.split() for line in printed.splitlines()]
    lines = lines[lines.index(["test"]) :]
    assert ["majority", "class", "†"] in [line[:3] for line in lines]
    (ours,) = (line for line in lines if line[:1] == ["FedCurv-0.1"])
    assert float(ours[2]) == pytest.approx(kept["result"]["test"], abs=1e-4)
    assert ["printed", "0.8693"] in lines  # in Table 6.5, for FedCurv-0.1
    assert f"{ROUNDS} rounds of 3 clients, different reservoirs, tEDA+HR, preset corrected, seed 0" in " ".join(words)
    assert "not the study's numbers" in printed


def test_a_federated_model_predicts(unbroken: tuple[Path, str], study: Path, work: Path) -> None:
    result = run(work, "predict", unbroken[0].name, study / "S6", "--runs", work / "runs")
    assert result.returncode == 0, result.stderr
    header, *lines = result.stdout.splitlines()
    assert header == "time_seconds,probability,answer"
    probabilities = [float(line.split(",")[1]) for line in lines]
    assert len(probabilities) > 200
    assert 0 < min(probabilities) < max(probabilities) < 1


FEW = ("--rounds", 2, "--clients-per-round", 2, "--units", 10, "--split", "leave-out-last")


def test_a_client_with_a_single_class_trains(study: Path, work: Path) -> None:
    labels = work / "labels.csv"
    # S2's stress is over before its first window is.
    others = [line for line in (study / "labels.csv").read_text().splitlines() if not line.startswith("S2,")]
    labels.write_text("\n".join([*others, "S2,0,10,2", "S2,10,100,1", "S2,100,300,0"]) + "\n")
    options = ("--preset", "corrected", "--columns", "tEDA", *FEW, "--clients-per-round", 4)
    before = folders(work)
    result = run(work, "federate", "fedavg", study, *options, "--labels", labels)
    assert result.returncode == 0, result.stderr
    (folder,) = folders(work) - before
    assert all(float(row["S2/loss"]) > 0 for row in rows(folder)[1:])


def test_six_classes_of_hhar(work: Path, tmp_path: Path) -> None:
    write_hhar(tmp_path / "hhar", users=3, seconds=10.0)
    result = run(work, "federate", "fedavg", tmp_path / "hhar", *FEW, "--steps", 100, "--rate", 100)
    assert result.returncode == 0, result.stderr
    assert "F1 macro" in result.stdout and "raw channels" in result.stdout
    # Guessing the most frequent of six classes is right in a sixth.
    (frequent, _) = (line.split()[-5:] for line in result.stdout.splitlines() if line.startswith("majority class †"))
    assert frequent[0] == "0.1667" and "printed" not in result.stdout


def test_raw_channels_and_several_seeds(study: Path, work: Path) -> None:
    before = folders(work)
    options = ("--features", "channels", "--device", "wrist", "--rate", 8, "--steps", 40, "--seeds", 2)
    result = run(work, "federate", "fedavg", study, *FEW, *options)
    assert result.returncode == 0, result.stderr
    assert "raw channels" in result.stdout and "2 seeds" in result.stdout
    (folder,) = folders(work) - before
    assert len(rows(folder)) == len(rows(folder / "seed-1")) == 3
    assert rows(folder)[1]["round/loss"] != rows(folder / "seed-1")[1]["round/loss"]


# ---- Stopped and taken up again ----


@contextmanager
def under_way(
    work: Path, study: Path, rounds: int, folder: Path | None = None
) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A run in another process, new or going on in `folder`, that has just done so many rounds."""
    finished = {other for other in folders(work) if other != folder}
    # The first round that is done writes the table anew, without the rounds that were lost.
    before = 0 if folder is None else (folder / "metrics.csv").stat().st_ino
    process = subprocess.Popen(
        [sys.executable, "-m", "tff_esn", "federate", "fedcurv", str(study), *OPTIONS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment(work)},
    )
    try:
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < deadline:
            for table in (own / "metrics.csv" for own in folders(work) - finished):
                if table.exists() and table.stat().st_ino != before and len(rows(table.parent)) > rounds:
                    yield process, table.parent
                    return
            time.sleep(0.02)
        pytest.fail("no round was over in time" if process.poll() is None else process.communicate()[1])
    finally:
        process.kill()
        process.communicate()


def workers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """TFF's workers of a process."""
    return [child for child in psutil.Process(process.pid).children(recursive=True) if child.name() == "worker_binary"]


def is_gone(process: psutil.Process) -> bool:
    """Whether a process ends within a few seconds; one that nobody has waited for has ended."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.02)
    return False


def test_a_run_that_was_interrupted_and_killed_ends_as_one_that_was_not(
    unbroken: tuple[Path, str], study: Path, work: Path
) -> None:
    before = folders(work)
    with under_way(work, study, 3) as (process, folder):
        (worker,) = workers(process)
        process.send_signal(signal.SIGINT)
        printed, complaint = process.communicate(timeout=PATIENCE)
    assert (process.returncode, printed) == (130, "")
    assert complaint == ("tff-esn: interrupted; finished work is kept, and the same command resumes\n")
    assert record(folder)["status"] == "interrupted"
    assert is_gone(worker)
    assert int(np.load(folder / "state.npz")["round"]) == int(rows(folder)[-1]["step"])

    for last in (25, 65):
        with under_way(work, study, random.randint(last - 15, last), folder) as (process, same):
            (worker,) = workers(process)
            time.sleep(random.uniform(0.0, 0.05))
            assert process.poll() is None, "it was over before it could be killed"
            process.kill()
            process.communicate()
        assert (same, record(folder)["status"]) == (folder, "running")
        assert is_gone(worker)

    config = work / "same.toml"
    config.write_text(SAME_IN_A_FILE)
    result = run(work, "federate", "fedcurv", study, "--config", config)
    assert result.returncode == 0, result.stderr
    assert folders(work) == {*before, folder}
    assert record(folder)["status"] == "complete"
    expected, found = weights(unbroken[0]), weights(folder)
    assert expected.keys() == found.keys()
    assert len(expected) > 3
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
    for name in ("metrics.csv", "scores.csv"):
        assert (folder / name).read_bytes() == (unbroken[0] / name).read_bytes(), name
    # What the killed ones left for their clients to read is gone too.
    assert [path.name for path in (work / "cache" / "scratch").iterdir()] == [".lock"]
    assert not list((work / "tmp").iterdir())


# ---- Bad input ----

REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "more clients than there are": (
        ("fedavg", "{study}", "--clients-per-round", "5"),
        "clients_per_round = 5; the split has 4 training clients: S2, S3, S4, S5",
    ),
    "a server rate of 0": (
        ("fedavg", "{study}", "--server-learning-rate", "0"),
        "options: server_learning_rate = 0: Input should be greater than 0",
    ),
    "a negative factor": (
        ("fedcurv", "{study}", "--factor", "-1"),
        "options: factor = -1: Input should be greater than or equal to 0",
    ),
    "no rounds": (("fedavg", "{study}", "--rounds", "0"), "options: rounds = 0: Input should be greater than 0"),
    "noise for nobody there": (
        ("fedavg", "{study}", "--noise-standard-deviation", "0.5", "--noise-clients", "S2,S99"),
        "input noise for S99; expected clients out of S2, S3, S4, S5",
    ),
    "noise for one who only tests": (
        ("fedavg", "{study}", "--noise-standard-deviation", "0.5", "--noise-clients", "S6"),
        "input noise for S6; expected clients out of S2, S3, S4, S5",
    ),
    "an engine that the algorithm lacks": (
        ("mimelite", "{study}", "--engine", "states"),
        "engine = 'states' with mimelite; expected builtin or graph",
    ),
    "an engine that FedCurv lacks": (
        ("fedcurv", "{study}", "--engine", "builtin"),
        "engine = 'builtin' with fedcurv; expected states or graph",
    ),
    "a state that is carried in the graph": (
        ("fedavg", "{study}", "--engine", "graph", "--reservoirs", "same", "--reading", "carried"),
        "a label for each step with a reservoir in the graph; expected windows with a label each",
    ),
    "no such run": (("fedavg", "{study}", "--resume", "nothing"), "nothing: no such run in"),
    "no such algorithm": (("fedavgg", "{study}"), "no algorithm 'fedavgg'; did you mean 'fedavg'?"),
    "no such attack": (
        ("fedavg", "{study}", "--attack", "sign-flop"),
        "no attack 'sign-flop'; did you mean 'sign-flip'?",
    ),
    "no such defence": (("fedavg", "{study}", "--defence", "medain"), "no defence 'medain'; did you mean 'median'?"),
    "a file with a wrong setting": (
        ("fedavg", "{study}", "--config", "{wrong}"),
        "wrong.toml: epochs = 0: Input should be greater than 0",
    ),
    "a file for another algorithm": (
        ("fedavg", "{study}", "--config", "{other}"),
        "algorithm = 'fedprox' in {other} with fedavg",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_one_line_before_any_round(name: str, study: Path, work: Path) -> None:
    before = folders(work)
    files = {"study": study, "wrong": work / "wrong.toml", "other": work / "other.toml"}
    files["wrong"].write_text("epochs = 0\n")
    files["other"].write_text('algorithm = "fedprox"\n')
    (algorithm, folder, *options), complaint = REFUSED[name]
    refused = run(work, *(part.format(**files) for part in ("federate", algorithm, folder, *OPTIONS, *options)))
    assert refused.returncode == 2, refused.stderr
    assert complaint.format(**files) in refused.stderr
    assert folders(work) == before
    assert len(refused.stderr.strip().splitlines()) == 1


def test_a_run_is_not_taken_up_with_other_settings(unbroken: tuple[Path, str], study: Path, work: Path) -> None:
    kept = record(unbroken[0])
    options = ("--resume", unbroken[0].name, "--server-learning-rate", "0.5", "--seed", "1")
    refused = run(work, "federate", "fedcurv", study, *OPTIONS, *options)
    assert refused.returncode == 2, refused.stderr
    assert "algorithm.server_learning_rate = 0.1 in the run, 0.5 now; seed = 0 in the run, 1 now" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    assert record(unbroken[0]) == kept
