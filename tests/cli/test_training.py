"""`central`, `tune` and `runs` as a user runs them, on fifteen short generated subjects."""

from __future__ import annotations

import json
import subprocess
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
    options = ("--preset", "corrected", "--features", "tEDA,HR", "--seeds", 2)
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
    for name in ("run.json", "metrics.csv", "scores.csv", "outcomes.json", "model.keras", "model.json"):
        assert (folder / name).is_file(), name
    assert list((folder / "tensorboard").iterdir())
    shown = run(work, "runs", "show", central["name"])
    assert shown.returncode == 0, shown.stderr
    assert "tensorflow-federated" in shown.stdout

    predicted = run(work, "predict", folder, study / "S15")
    assert predicted.returncode == 0, predicted.stderr
    assert predicted.stdout.startswith("time_seconds,probability,answer")


def test_a_configuration_file_says_the_same_as_options(study: Path, work: Path) -> None:
    config = work / "central.toml"
    config.write_text(
        '[inputs]\npreset = "corrected"\nfeatures = ["tEDA"]\nreading = "carried"\n'
        '[inputs.split]\ntrain = ["S2", "S3"]\nvalidation = ["S4"]\ntest = ["S5"]\n'
        "[reservoir]\nunits = 20\n"
    )
    result = run(work, "central", study, "--config", config, "--seeds", 1)
    assert result.returncode == 0, result.stderr
    assert "carried reading, tEDA, preset corrected" in result.stdout
    config.write_text("[reservoir]\nunits = 0\n")
    refused = run(work, "central", study, "--config", config)
    assert refused.returncode == 2
    assert "central.toml: reservoir.units = 0: Input should be greater than 0" in refused.stderr
    config.write_text("[reservoir]\nunit = 5\n")
    refused = run(work, "central", study, "--config", config)
    assert refused.returncode == 2
    assert refused.stderr.strip() == f"tff-esn: {config}: reservoir.unit = 5: Unexpected keyword argument"


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
        (("central", "{study}", "--features", "GSR"), "inputs.features.0 = 'GSR': Input should be 'pEDA'"),
        (("central", "{study}", "--split", "nobody"), "no split 'nobody'; expected thesis"),
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
