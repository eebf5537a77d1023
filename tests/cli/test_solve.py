"""`solve` as a user runs it, on fifteen short generated subjects."""

from __future__ import annotations

import json
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
    result = run(work, "solve", "pfedrr", study, *SMALL, "--repetitions", 2, "--tau", "0.3,0.8")
    assert result.returncode == 0, result.stderr
    for text in ("majority", "units %", "against tau", "guessing is right in 25.00 %", "not the study's numbers"):
        assert text in result.stdout
    listed = json.loads(run(work, "runs", "list", "--json").stdout)
    (entry,) = (one for one in listed if one["kind"] == "solve")
    assert entry["status"] == "complete"
    outcomes = json.loads((Path(entry["folder"]) / "outcomes.json").read_text())
    assert len(outcomes) == 2 * 4 * 2
    again = run(work, "solve", "pfedrr", study, *SMALL, "--repetitions", 2, "--tau", "0.3,0.8")
    assert again.stdout == result.stdout  # the same seed, the same numbers


def test_a_table_from_a_file_with_fedip(study: Path, work: Path) -> None:
    config = work / "table.toml"
    config.write_text(
        'kind = "closed-form"\ntitle = "mine"\nprinted = "fedip.table_2"\nrepetitions = 1\npercent = [100]\n'
        '[channels]\ndevice = "wrist"\nrate = 8.0\nsteps = 40\n'
        '[[methods]]\nname = "IncFed"\nreservoir = { units = 20 }\n'
        '[[methods]]\nname = "FedIP"\nreservoir = { units = 20 }\nplasticity = { sigma = 0.1, epochs = 1 }\n'
    )
    result = run(work, "solve", "fedip", study, "--config", config)
    assert result.returncode == 0, result.stderr
    assert "80.42 ±0.79" in result.stdout
    config.write_text(config.read_text().replace("sigma = 0.1", "sigma = 0"))
    refused = run(work, "solve", "fedip", study, "--config", config)
    assert refused.returncode == 2
    assert "table.toml: methods.1.plasticity.sigma = 0: Input should be greater than 0" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ("solve", "pfedrr", "{study}", *SMALL, "--tau", "1.5"),
            "methods.0.tau.0 = '1.5': Input should be less than 1",
        ),
        (("solve", "incfed", "{study}", *SMALL, "--ridge", "-1"), "methods.0.ridge = -1.0: Input should be greater"),
        (("solve", "incfed", "{study}", *SMALL, "--split", "nobody"), "no split 'nobody'"),
        (("solve", "incfed", "{study}", "--device", "wrist", "--steps", "999999"), "no sequence of 999999 steps"),
        (("solve", "incfed", "/nowhere"), "/nowhere: no such folder"),
    ],
)
def test_bad_input_is_one_line(study: Path, work: Path, arguments: tuple[object, ...], complaint: str) -> None:
    result = run(work, *(str(argument).format(study=study) for argument in arguments))
    assert result.returncode == 2, result.stderr
    assert complaint in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
