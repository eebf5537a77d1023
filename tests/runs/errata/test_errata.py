"""Every erratum shows its point on generated subjects, and the page says what the code shows."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.commands import run_here
from tff_esn.errors import ConfigError
from tff_esn.runs.errata.catalogue import DOCUMENTS, Evidence, Source, errata
from tff_esn.runs.errata.page import errata_page, recorded_outputs
from tff_esn.store.cache import Cache

PAGE = Path(__file__).parents[3] / "docs" / "errata.md"
ERRATA = {one.name: one for one in errata()}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Evidence]:
    """The evidence of all errata on generated subjects."""
    source = Source(None, Cache(tmp_path_factory.mktemp("errata")))
    return {name: one.show(source) for name, one in ERRATA.items()}


@pytest.mark.parametrize("name", ERRATA)
def test_the_evidence_shows_the_point(name: str, shown: dict[str, Evidence]) -> None:
    assert shown[name].holds, "\n".join(shown[name].lines)


# What must be read in the evidence, worked out by hand.
SAID = {
    "log-softmax": "listing    0.0000",
    "fisher-divisor": "25.0 times",  # 50 examples over 2 tensors
    "fedcurv-is-fedavg": "as printed  0.000000",
    "rejected-clients": "replaced  0.60",  # three of five
    "valid-clients": "“3 of five are valid”  0.7143",  # 5/7
    "sixty-percent": "saved  50.0 %",
    "table-b-3-deviation": "0.50",
    "likelihood-sign": "-0.9189  +3.5811",  # -log(2 pi) / 2, and 9/2 more
    "last-neuron": "[1, 2]",
}


@pytest.mark.parametrize("name", SAID)
def test_the_evidence_has_the_number_that_follows_from_the_equations(name: str, shown: dict[str, Evidence]) -> None:
    assert SAID[name] in "\n".join(shown[name].lines)


def test_the_page_is_in_step(shown: dict[str, Evidence]) -> None:
    recorded = recorded_outputs(PAGE.read_text(encoding="utf-8"))
    assert set(recorded) == set(ERRATA)
    # Numbers of the study's own recordings are the next test's.
    outputs = {name: recorded[name] if one.recordings else shown[name].lines for name, one in ERRATA.items()}
    assert PAGE.read_text(encoding="utf-8") == errata_page(list(ERRATA.values()), outputs)


def test_the_page_has_the_numbers_of_the_recordings(wesad: Path, cache: Cache) -> None:
    recorded, source = recorded_outputs(PAGE.read_text(encoding="utf-8")), Source(wesad, cache)
    for name, one in ERRATA.items():
        if one.recordings:
            found = one.show(source)
            assert (found.holds, found.lines) == (True, recorded[name]), name


def test_every_erratum_names_its_place() -> None:
    for one in ERRATA.values():
        assert one.document in DOCUMENTS
        assert all((one.where, one.says, one.finding, one.correction, one.changes))


def test_an_unknown_name_is_told() -> None:
    with pytest.raises(ConfigError, match="no erratum nonsense; expected some of chest-or-wrist"):
        errata(["nonsense"])


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run_here("errata", *arguments)


def test_the_command_lists_all() -> None:
    listed = run()
    assert listed.returncode == 0, listed.stderr
    assert all(name in listed.stdout for name in ERRATA)


def test_the_commands_of_the_page_print_what_it_says(tmp_path: Path) -> None:
    recorded = recorded_outputs(PAGE.read_text(encoding="utf-8"))
    shown = run("-q", "last-neuron", "--cache", tmp_path)
    assert shown.stdout == "\n".join((*recorded["last-neuron"], ""))
    told = run("chest-or-wrist", "valid-clients", "--cache", tmp_path).stdout
    for name in ("chest-or-wrist", "valid-clients"):
        assert name in told and "\n".join(recorded[name]) in told
    assert "Correction: " in told


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("nonsense",), "no erratum nonsense"),
        (("--page", "page.md"), "--page without --data"),
        (("log-softmax", "--all"), "log-softmax with --all"),
        (("log-softmax", "--data", "nowhere"), "which no recording is needed for"),
        (("majority-class", "--data", "nowhere"), "nowhere: no such folder"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], expected: str) -> None:
    refused = run(*arguments)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
    assert expected in refused.stderr
