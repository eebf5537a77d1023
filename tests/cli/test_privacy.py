"""`privacy` as a user runs it, on fifteen short generated subjects and on nine of HHAR's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import run_here
from tff_esn.datasets.synthetic.hhar import write_hhar
from tff_esn.datasets.synthetic.wesad import write_wesad

ESN = ("--units", 20, "--spectral-radius", 0.8, "--leaking-rate", 0.5, "--input-scaling", 0.5)
WRIST = ("--device", "wrist", "--rate", 8)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fifteen")
    write_wesad(folder / "wesad", minutes=5.0)
    return folder


def run(study: Path, *arguments: object) -> str:
    result = run_here("privacy", *arguments, TFF_ESN_CACHE=str(study / "cache"), COLUMNS="120")
    assert result.returncode == 0, result.stderr
    return result.stdout


def rows(text: str) -> dict[str, list[str]]:
    """The cells of a table's rows of numbers, by the first."""
    return {line.split()[0]: line.split()[1:] for line in text.splitlines() if line[:1].isdigit() and ":" not in line}


def test_reconstruct(study: Path) -> None:
    text = run(study, "reconstruct", study / "wesad", *WRIST, *ESN, "--steps", "1,2")
    plain, secure, private = map(float, rows(text)["1"])
    assert plain < 1e-3
    assert min(secure, private) > 0.5
    assert "Input of S2" in text
    # Only the subject that was attacked is prepared.
    assert len(list((study / "cache" / "channels").glob("*.npz"))) == 1


def test_budget(study: Path) -> None:
    options = (*WRIST, *ESN, "--steps", 40, "--epsilons", "1,1000", "--seeds", 2)
    text = run(study, "budget", study / "wesad", *options)
    assert set(rows(text)) == {"1", "1000"}
    assert "no noise" in text
    assert "of one step" in text
    assert run(study, "budget", study / "wesad", *options) == text
    assert run(study, "budget", study / "wesad", *options, "--seed", 2) != text


def test_any_study(study: Path) -> None:
    write_hhar(study / "hhar", users=9, seconds=20)
    text = run(study, "budget", study / "hhar", *ESN, "--steps", 50, "--epsilons", "1e6", "--seeds", 1)
    assert float(rows(text)["1e+06"][0]) > 100 / 6
    assert "Input of b" in run(study, "reconstruct", study / "hhar", *ESN, "--steps", 1, "--subject", "b")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("reconstruct", "{study}", *WRIST, "--steps", "0"), "steps = 0; expected whole numbers"),
        (("reconstruct", "{study}", *WRIST, "--subject", "S99"), "no subject S99"),
        (("reconstruct", "{study}", "--leaking-rate", 2), "leaking_rate = 2.0: Input should be less than or equal"),
        (("budget", "{study}", *WRIST, "--epsilons", "x"), "epsilons = x; expected numbers"),
        (("budget", "{study}", *WRIST, "--epsilons", "0"), "epsilon = 0,"),
        (("budget", "{study}", *WRIST, "--ridge", "-1"), "'--ridge': -1.0 is not in the range x>=0"),
        (("budget", "{study}", *WRIST, "--steps", "999999"), "no sample of a train client"),
        (("budget", "{study}", "--device", "phones"), "device 'phones' of a study of kind wesad"),
    ],
)
def test_bad_input_is_one_line(study: Path, arguments: tuple[object, ...], complaint: str) -> None:
    told = [str(argument).format(study=study / "wesad") for argument in arguments]
    result = run_here("privacy", *told, TFF_ESN_CACHE=str(study / "cache"))
    assert result.returncode == 2, result.stderr
    assert complaint in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
