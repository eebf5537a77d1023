"""Results, how they stand to printed numbers, and what is made of them."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest

from tests.federated.small import small_config, small_inputs
from tff_esn.config import SweepConfig, SweepFigure, SweepPivot, SweepTable, from_mapping
from tff_esn.errors import ConfigError, DataError
from tff_esn.federated.study import FederatedStudy
from tff_esn.federated.sweep import Cell, cells_of, run_cell
from tff_esn.runs.errata.catalogue import errata
from tff_esn.runs.kinds.federated import SweepResults, setting
from tff_esn.runs.named import load_run, run_names
from tff_esn.runs.plan import CONFIGS
from tff_esn.runs.report.docs import reproduction_page
from tff_esn.runs.result import read_result, read_results, write_result
from tff_esn.tables import PRINTED

ROOT = Path(__file__).parents[2]


def test_every_named_run_is_well_formed() -> None:
    covered = set()
    for name in run_names():
        for quick in (False, True):
            run = load_run(name, quick)
            config = from_mapping(CONFIGS[run.settings["kind"]], run.settings, name)
            assert run.about.covers and run.about.claimed and run.about.takes, name
            assert set(run.about.errata) <= {one.name for one in errata()}, name
            if isinstance(config, SweepConfig):
                assert cells_of(config, [0], name)
                known = set(config.grid)
                for table in config.tables:
                    assert set(table.rows) | set(table.where) <= known, table.name
                for figure in config.figures:
                    assert {figure.columns, *figure.lines, *figure.each, *figure.where} <= known, figure.name
        covered.add(run.about.document)
    assert covered == {"thesis", "incfed", "fedip", "pfedrr", "beyond"}
    with pytest.raises(ConfigError, match="no run 'nothing'; expected appendix-a"):
        load_run("nothing")


def test_tables_pivots_and_figures_of_a_sweep_hold_what_ran(tmp_path: Path) -> None:
    study = FederatedStudy(small_inputs(), tmp_path)
    grid = {"algorithm": ["fedavg", "fedcurv"], "server_learning_rate": [1.0, 0.1], "reservoirs": ["same"]}
    config = from_mapping(SweepConfig, {"kind": "federated", "title": "s", "settings": {}, "grid": grid}, "s")
    cells = [
        Cell(small_config(algorithm=algorithm, server_learning_rate=rate, rounds=2), seed)
        for algorithm in grid["algorithm"]
        for rate in grid["server_learning_rate"]
        for seed in (0, 1)
    ]
    results = {cell: run_cell(study, cell) for cell in cells}
    shown = SweepResults(config, results, {"thesis": results[cells[0]].scores}, quick=True)
    table = shown.table(SweepTable("t", "T", ["algorithm", "server_learning_rate"]))
    assert [row.label for row in table.rows] == [
        "majority class",
        "FedAvg-1.0",
        "FedAvg-0.1",
        "FedCurv-1.0",
        "FedCurv-0.1",
    ]
    own = [results[cell].scores["test"].accuracy for cell in cells[:2]]
    cell = table.cell("FedAvg-1.0", "thesis", "test.accuracy")
    assert cell is not None and cell.mean == pytest.approx(sum(own) / 2) and cell.n == 2
    printed = table.cell("FedAvg-1.0", PRINTED, "test.accuracy")
    assert printed is not None and printed.mean == 0.8693
    pivot = SweepPivot("p", "P", "algorithm", ["server_learning_rate"], ["accuracy"])
    assert shown.pivot(pivot, "accuracy").cell("fedavg", "thesis", "1.0") == cell
    figure = shown.figure(SweepFigure("f", "F", "reservoirs", ["algorithm"], where={"server_learning_rate": 1.0}))
    assert figure.panels == ["validation, same reservoirs", "test, same reservoirs"]
    line = next(one for one in figure.series if one.name == "FedAvg" and one.panel.startswith("test"))
    assert line.x == [0, 1, 2] and line.y[-1] == pytest.approx(cell.mean, abs=1e-4)
    assert line.low[-1] == pytest.approx(min(own), abs=1e-4)
    assert setting(cells[0].config, "attack.kind") is None


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
