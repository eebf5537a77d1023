"""`solve` as a user runs it, on fifteen short generated subjects."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.commands import run_here
from tff_esn.datasets.synthetic.wesad import write_wesad

SMALL = ("--device", "wrist", "--rate", 8, "--steps", 40, "--units", 20)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fifteen")
    write_wesad(folder, minutes=5.0)
    return folder


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("work")


def run(work: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    folders = {"TFF_ESN_CACHE": str(work / "cache"), "TFF_ESN_RUNS": str(work / "runs")}
    return run_here(*arguments, **folders, COLUMNS="120")


def test_pfedrr_prints_its_table_and_its_figure_and_leaves_a_run(study: Path, work: Path) -> None:
    result = run(work, "solve", "pfedrr", study, *SMALL, "--seeds", 2, "--tau", "0.3,0.8")
    assert result.returncode == 0, result.stderr
    for text in ("majority", "units %", "against tau", "guessing is right in 25.00 %", "not the study's numbers"):
        assert text in result.stdout
    listed = json.loads(run(work, "runs", "list", "--json").stdout)
    (entry,) = (one for one in listed if one["kind"] == "solve")
    assert entry["status"] == "complete"
    outcomes = json.loads((Path(entry["folder"]) / "outcomes.json").read_text())
    assert len(outcomes) == 2 * 4 * 2
    again = run(work, "solve", "pfedrr", study, *SMALL, "--seeds", 2, "--tau", "0.3,0.8")
    assert again.stdout == result.stdout  # the same seed, the same numbers


def test_settings_of_a_file_with_fedip(study: Path, work: Path) -> None:
    config = work / "fedip.toml"
    config.write_text(
        "ridge = 0.5\n[esn]\nunits = 20\n[plasticity]\nsigma = 0.1\neta = 0.001\nepochs = 1\n"
        '[data.features]\nname = "channels"\ndevice = "wrist"\nrate = 8.0\nsteps = 40\n'
    )
    result = run(work, "solve", "fedip", study, "--config", config, "--seeds", 1, "--percent", 100)
    assert result.returncode == 0, result.stderr
    options = (*SMALL, "--ridge", 0.5, "--sigma", 0.1, "--eta", 0.001, "--epochs", 1, "--seeds", 1, "--percent", 100)
    assert run(work, "solve", "fedip", study, *options).stdout == result.stdout
    config.write_text(config.read_text().replace("sigma = 0.1", "sigma = 0"))
    refused = run(work, "solve", "fedip", study, "--config", config)
    assert refused.returncode == 2
    assert "fedip.toml: plasticity.sigma = 0: Input should be greater than 0" in refused.stderr


def test_splits_without_validation_or_test_subjects(study: Path, work: Path) -> None:
    options = (*SMALL, "--seeds", 1, "--percent", "100")
    left_out = run(work, "solve", "pfedrr", study, *options, "--split", "leave-out-S6", "--tau", 0.5)
    assert left_out.returncode == 0, left_out.stderr
    assert re.search(r"majority class +test +units %", left_out.stdout)
    chosen = run(work, "solve", "pfedrr", study, *options, "--split", "leave-out-S6", "--tau", "0.3,0.5")
    assert "no sequence among the validation clients at 100 %; expected some" in chosen.stderr
    for engine in ((), ("--engine", "tff")):
        everyone = run(work, "solve", "incfed", study, *options, "--split", "all", *engine)
        assert everyone.returncode == 0, everyone.stderr
        assert "train" in everyone.stdout and "test" not in everyone.stdout


def test_the_features_of_chapter_5(study: Path, work: Path) -> None:
    options = ("--columns", "tEDA,HR", "--units", 20, "--seeds", 1, "--task", "stress")
    scores = {}
    for features in ("corrected", "thesis"):
        window = ("--hrv-window", 1) if features == "thesis" else ()
        result = run(work, "solve", "incfed", study, "--features", features, *options, *window)
        assert result.returncode == 0, result.stderr
        assert "guessing is right in 50.00 %" in result.stdout
        scores[features] = result.stdout
    assert scores["corrected"] != scores["thesis"]


def test_ill_conditioned_systems_are_counted_and_told_once(
    study: Path, work: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = ("--device", "wrist", "--rate", 8, "--steps", 40, "--units", 30, "--ridge", 1e-30, "--seeds", 2)
    many = ("--spectral-radius", 0.01, "--input-scaling", 1e-6, "--percent", "100")
    for jobs in (1, 2):
        result = run(work, "solve", "incfed", study, *options, *many, "--jobs", jobs, "--cache", work / f"jobs-{jobs}")
        assert result.returncode == 0, result.stderr
        (message,) = (message for message in caplog.messages if "ill-conditioned" in message)
        # Of each seed, the system of the table; of the first also that of the model that is kept.
        assert message.startswith("systems ill-conditioned for Cholesky") and message.endswith(": 3")
        caplog.clear()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ("solve", "pfedrr", "{study}", *SMALL, "--tau", "0.5,1.5"),
            "options: tau = 1.5: Input should be less than 1",
        ),
        (("solve", "incfed", "{study}", *SMALL, "--ridge", "-1"), "options: ridge = -1: Input should be greater"),
        (("solve", "incfedd", "{study}"), "no algorithm 'incfedd'; did you mean 'incfed'?"),
        (("solve", "incfed", "{study}", "--device", "wrist", "--steps", "999999"), "no sequence among the train"),
        (("solve", "incfed", "{study}", *SMALL, "--percent", "30"), "percent.0 = 30: Input should be 25"),
        (("solve", "incfed", "{study}", *SMALL, "--workers", "a:1"), "certificates"),
        (("solve", "incfed", "/nowhere"), "/nowhere: no such folder"),
    ],
)
def test_bad_input_is_one_line(study: Path, work: Path, arguments: tuple[object, ...], complaint: str) -> None:
    result = run(work, *(str(argument).format(study=study) for argument in arguments))
    assert result.returncode == 2, result.stderr
    assert complaint in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
