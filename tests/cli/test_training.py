"""Settings of commands that train; `central`, `tune`, and what is done with trained runs; on fifteen short subjects."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.test_command_line import run as run_command
from tests.commands import run_here
from tff_esn.datasets.synthetic.wesad import write_wesad


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fifteen")
    write_wesad(folder, minutes=5.0)
    return folder


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("work")


def environment(work: Path) -> dict[str, str]:
    return {"TFF_ESN_CACHE": str(work / "cache"), "TFF_ESN_RUNS": str(work / "runs")}


def run(work: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return run_here(*arguments, **environment(work))


def test_central_trains_and_keeps_everything_in_a_run_folder(study: Path, work: Path) -> None:
    options = ("--preset", "corrected", "--columns", "tEDA,HR", "--seeds", 2)
    (work / "tmp").mkdir()
    result = run_command("central", study, *options, **environment(work), TMPDIR=str(work / "tmp"))
    assert result.returncode == 0, result.stderr
    assert "tensorflow" not in result.stderr.lower()
    for text in ("majority", "threshold", "logistic", "ESN, time", "0.9018", "not the study's numbers"):
        assert text in result.stdout
    assert not list((work / "tmp").iterdir())
    listed = json.loads(run(work, "runs", "list", "--json").stdout)
    (central,) = (entry for entry in listed if entry["kind"] == "central")
    assert central["status"] == "complete"
    folder = Path(central["folder"])
    for name in ("run.json", "metrics.csv", "scores.csv", "outcomes.json", "model.keras"):
        assert (folder / name).is_file(), name
    assert list((folder / "tensorboard").iterdir())
    shown = run(work, "runs", "show", central["name"])
    assert shown.returncode == 0, shown.stderr
    assert "tensorflow-federated" in shown.stdout

    predicted = run(work, "predict", folder, study / "S15")
    assert predicted.returncode == 0, predicted.stderr
    assert predicted.stdout.startswith("time_seconds,probability,answer")


SMALL = ("--features", "corrected", "--columns", "tEDA", "--units", 10)


def newest(work: Path) -> Path:
    """The folder of the last run."""
    return Path(json.loads(run(work, "runs", "list", "--json").stdout)[-1]["folder"])


def test_splits_without_validation_and_without_test_subjects(study: Path, work: Path) -> None:
    options = (*SMALL, "--seeds", 1, "--jobs", 1)
    left_out = run(work, "central", study, *options, "--split", "leave-out-S6")
    assert left_out.returncode == 0, left_out.stderr
    assert "\ndesign\n" in left_out.stdout and "\ntest\n" in left_out.stdout
    everyone = run(work, "central", study, *options, "--split", "all")
    assert everyone.returncode == 0, everyone.stderr
    assert "\ndesign\n" in everyone.stdout and "\ntest\n" not in everyone.stdout
    assert run(work, "runs", "list").returncode == 0


def test_central_resumes_after_an_interrupt(study: Path, work: Path) -> None:
    arguments = ("central", study, *SMALL, "--seeds", 4, "--split", "leave-out-S5", "--jobs", 1)
    parts = work / "cache" / "central"
    before = set(parts.glob("*.npz"))
    process = subprocess.Popen(
        [sys.executable, "-m", "tff_esn", *map(str, arguments)],
        env={**os.environ, **environment(work)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while len({*parts.glob("*.npz")} - before) < 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, message = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in message) == (130, False)
    assert message.splitlines()[-1].startswith("tff-esn: interrupted")
    interrupted = newest(work)
    assert json.loads((interrupted / "run.json").read_text())["status"] == "interrupted"
    kept = {path: path.stat().st_mtime_ns for path in {*parts.glob("*.npz")} - before}
    assert 2 <= len(kept) < 5
    result = run(work, *arguments)
    assert result.returncode == 0, result.stderr
    assert newest(work) == interrupted
    assert json.loads((interrupted / "run.json").read_text())["status"] == "complete"
    # The baselines and four seeds: what was there is not trained again.
    assert len({*parts.glob("*.npz")} - before) == 5
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


CHUNKS = ("--device", "wrist", "--rate", 8, "--steps", 40, "--units", 10)
TRAINED: dict[str, tuple[tuple[str, ...], tuple[object, ...]]] = {
    "central": (("central",), (*SMALL, "--seeds", 1)),
    "federate": (("federate", "fedavg"), (*SMALL, "--rounds", 2, "--clients-per-round", 2)),
    "solve": (("solve", "incfed"), (*SMALL, "--task", "stress", "--seeds", 1)),
    "solve of four classes": (("solve", "pfedrr"), (*CHUNKS, "--seeds", 1, "--tau", 0.5)),
    "solve with TFF": (("solve", "incfed"), (*CHUNKS, "--task", "stress", "--engine", "tff")),
}


@pytest.mark.parametrize("name", TRAINED)
def test_a_trained_run_is_shown_exported_and_predicts(name: str, study: Path, work: Path, tmp_path: Path) -> None:
    command, options = TRAINED[name]
    trained = run(work, *command, study, *options, "--split", "leave-out-S15", "--jobs", 1)
    assert trained.returncode == 0, trained.stderr
    folder = Path(trained.stderr.splitlines()[-1].removeprefix("Run folder: "))
    shown = run(work, "runs", "show", folder.name)
    assert shown.returncode == 0, shown.stderr
    assert "complete" in shown.stdout and "model.keras" in shown.stdout
    assert "esn.units" in shown.stdout
    exported = run(work, "export", folder.name, "--format", "keras", "--out", tmp_path / "model.keras")
    assert exported.returncode == 0, exported.stderr
    predictions = [run(work, "predict", model, study / "S15") for model in (folder.name, tmp_path / "model.keras")]
    for predicted in predictions:
        assert predicted.returncode == 0, predicted.stderr
        assert len(predicted.stdout.splitlines()) > 200
    assert predictions[0].stdout == predictions[1].stdout


# ---- Settings ----


def test_a_configuration_file_says_the_same_as_options(study: Path, work: Path) -> None:
    config = work / "central.toml"
    config.write_text(
        'preset = "corrected"\n[esn]\nunits = 20\n'
        '[data.features]\ncolumns = ["tEDA"]\nreading = "carried"\n'
        '[data.split]\ntrain = ["S2", "S3"]\nvalidation = ["S4"]\ntest = ["S5"]\n'
    )
    result = run(work, "central", study, "--config", config, "--seeds", 1, "--jobs", 1)
    assert result.returncode == 0, result.stderr
    assert "carried reading, tEDA, preset corrected, seed 0" in " ".join(result.stdout.split())


def test_what_only_one_of_options_file_and_set_says_counts(study: Path, work: Path) -> None:
    config = work / "parts.toml"
    config.write_text('rounds = 2\nattack = "sign-flip"\n[data]\nfeatures = "corrected"\nsplit = "leave-out-S4"\n')
    options = ("--columns", "tEDA", "--attack-clients", "S2", "--set", "esn.units=7", "--set", "clients_per_round=3")
    result = run(work, "federate", "fedavg", study, "--config", config, *options)
    assert result.returncode == 0, result.stderr
    kept = json.loads((newest(work) / "run.json").read_text())["config"]
    algorithm = kept["algorithm"]
    assert (algorithm["rounds"], algorithm["esn"]["units"], algorithm["clients_per_round"]) == (2, 7, 3)
    assert (algorithm["attack"]["name"], algorithm["attack"]["clients"]) == ("sign-flip", ["S2"])
    assert kept["data"]["features"]["name"] == "corrected" and kept["data"]["features"]["columns"] == ["tEDA"]
    assert kept["data"]["split"] == "leave-out-S4"


@pytest.mark.parametrize(
    ("toml", "options", "key", "sources"),
    [
        ("[esn]\nunits = 5", ("--units", "5"), "esn.units", ("--units", "twice.toml")),
        ('preset = "thesis"', ("--preset", "thesis"), "preset", ("--preset", "twice.toml")),
        ('[data]\nfeatures = "thesis"', ("--features", "thesis"), "data.features.name", ("--features", "twice.toml")),
        ('[data]\nsplit = "all"', ("--split", "all"), "data.split", ("--split", "twice.toml")),
        ("rounds = 3", ("--set", "rounds=3"), "rounds", ("--set", "twice.toml")),
        ("", ("--rounds", "3", "--set", "rounds=3"), "rounds", ("--rounds", "--set")),
        ('defence = "median"', ("--defence", "krum"), "defence.name", ("--defence", "twice.toml")),
    ],
)
def test_what_two_of_them_say_is_an_error_that_names_both(
    study: Path, work: Path, toml: str, options: tuple[str, ...], key: str, sources: tuple[str, str]
) -> None:
    config = work / "twice.toml"
    config.write_text(f"{toml}\n")
    refused = run(work, "federate", "fedavg", study, "--config", config, *options)
    assert refused.returncode == 2
    (line,) = refused.stderr.splitlines()
    assert line.startswith(f"tff-esn: {key} is set by ") and line.endswith("; expected one of them")
    assert all(source in line for source in sources)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--preset", "corected"), "no preset 'corected'; did you mean 'corrected'?"),
        (("--features", "thesi"), "no feature 'thesi'; did you mean 'thesis'?"),
        (("--split", "thesi"), "no split 'thesi'; did you mean 'thesis'?"),
        (
            ("--task", "stres", "--features", "corrected"),
            "no task 'stres' of a study of kind wesad; did you mean 'stress'?",
        ),
        (("--order", "shufled"), "order = 'shufled': Input should be 'time' or 'shuffled' (did you mean 'shuffled'?)"),
        (("--reading", "windw"), "reading = 'windw': Input should be 'window' or 'carried' (did you mean 'window'?)"),
        (("--columns", "GSR"), "columns.0 = 'GSR': Input should be 'pEDA'"),
        (("--set", "epoch=3"), "options: no setting 'epoch'; did you mean 'epochs'?"),
        (("--set", "esn.unit=3"), "options: no setting 'esn.unit'; did you mean 'units'?"),
        (("--set", "data.features.colums=tEDA"), "no setting 'colums'; did you mean 'columns'?"),
        (("--config", "{toml}"), "wrong.toml: no setting 'esn.leaking'; did you mean 'leaking_rate'?"),
        (("--config", "/nowhere.toml"), "/nowhere.toml: no such file; expected a TOML file"),
        (("--leakage-rate", "1"), "No such option: --leakage-rate (Possible options: --leaking-rate"),
        (("--leaking-rate", "2"), "options: esn.leaking_rate = 2: Input should be less than or equal to 1"),
        (("--units", "many"), "options: esn.units = 'many': Input should be a valid integer"),
    ],
)
def test_unknown_names_are_answered_with_the_nearest(
    study: Path, work: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    wrong = work / "wrong.toml"
    wrong.write_text("[esn]\nleaking = 0.5\n")
    refused = run(work, "central", study, *(one.format(toml=wrong) for one in arguments))
    assert refused.returncode == 2
    assert len(refused.stderr.splitlines()) == 1
    assert complaint in refused.stderr


# ---- Model selection ----


def test_tune_searches_resumes_and_assesses(study: Path, work: Path) -> None:
    space = work / "space.toml"
    space.write_text(
        'document = "mine"\nalgorithm = "central"\n[choice]\n"esn.units" = [10, 20]\n'
        '"data.features.columns" = ["tEDA", "tEDA+HR"]\n'
    )
    arguments = ("tune", study, "--space", space, "--preset", "corrected", "--assess", 1)
    first = run(work, *arguments, "--trials", 2)
    assert first.returncode == 0, first.stderr
    assert "mine: best 2 of 2 trials" in first.stdout
    assert "Best configuration retrained on the design set" in first.stdout
    whole = run(work, *arguments, "--exhaust")
    assert "mine: best 4 of 4 trials" in whole.stdout
    assert "2 trials in" in whole.stdout
    again = run(work, *arguments, "--exhaust")
    assert "nothing left to run" in again.stdout


def test_the_closed_forms_are_tuned_on_raw_channels(study: Path, work: Path) -> None:
    result = run(work, "tune", study, "--space", "thesis-table-b-1", "--device", "wrist", "--rate", 64, "--trials", 1)
    assert result.returncode == 0, result.stderr
    assert "best 1 of 1 trials" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("central", "/nowhere"), "/nowhere: no such folder"),
        (("tune", "{study}", "--space", "nothing"), "no search space 'nothing'; expected one of fedip"),
        (("tune", "{study}", "--space", "pfedrr", "--exhaust", "--device", "wrist"), "the space is infinite"),
        (("runs", "show", "nothing"), "nothing"),
    ],
)
def test_bad_input_is_one_line_before_any_training(
    study: Path, work: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    result = run(work, *(argument.format(study=study) for argument in arguments))
    assert result.returncode == 2, result.stderr
    assert complaint in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
