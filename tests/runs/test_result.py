"""Results and the documentation that is made of them."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest

from tff_esn.errors import DataError
from tff_esn.runs.named import load_run
from tff_esn.runs.report.docs import reproduction_page
from tff_esn.runs.result import read_result, read_results, write_result

ROOT = Path(__file__).parents[2]


def test_a_result_survives_its_file_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    (path,) = (ROOT / "runs" / "results").glob("feature-statistics.json")
    result = read_result(path)
    write_result(tmp_path / "again.json", result)
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()
    (tmp_path / "again.json").write_text(path.read_text().replace('"corner"', '"border"', 1))
    with pytest.raises(DataError, match=r"again\.json: tables\.0"):
        read_result(tmp_path / "again.json")
    with pytest.raises(DataError, match="no results"):
        read_results(tmp_path / "nowhere")


def test_the_committed_statistics_are_the_printed_ones() -> None:
    result = read_result(ROOT / "runs" / "results" / "feature-statistics.json")
    assert not result.provenance.generated and not result.provenance.quick
    found = result.agreements()
    assert found.count("same") >= len(found) - 3


def test_documentation_and_results_are_in_step() -> None:
    with resources.as_file(resources.files("tff_esn.runs") / "results") as folder:
        page = reproduction_page(read_results(folder))
    assert (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8") == page, (
        "run: tff-esn report runs/results --docs docs/reproduction.md"
    )


def test_what_is_said_about_a_run_comes_from_its_file(tmp_path: Path) -> None:
    result = read_result(ROOT / "runs" / "results" / "feature-statistics.json")
    write_result(tmp_path / "a.json", replace(result, about=replace(result.about, claimed="old")))
    (read,) = read_results(tmp_path)
    assert read.about == load_run("feature-statistics").about
