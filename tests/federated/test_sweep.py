"""Sweeps: grids of runs, kept as they finish, and the tables made of them."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.federated.small import small_config, small_inputs
from tff_esn.config import AttackConfig, SweepConfig, SweepPivot, SweepTable, from_mapping
from tff_esn.data.synthetic.wesad import write_wesad
from tff_esn.errors import ConfigError
from tff_esn.federated import sweep as module
from tff_esn.federated.report import model_name, printed_scores
from tff_esn.federated.results import SweepResults, setting
from tff_esn.federated.study import FederatedStudy
from tff_esn.federated.sweep import Cell, CellResult, Source, cells_of, detection, run_cell, run_cells
from tff_esn.runs.named import load_run, run_names

SWEEP: dict[str, Any] = {
    "kind": "federated",
    "title": "small",
    "seeds": 2,
    "settings": {"rounds": 2, "reservoir.units": 10, "reservoir.kind": "esn", "inputs.preset": "corrected"},
    "grid": {
        "preset": ["thesis", "corrected"],
        "algorithm": ["fedavg", "fedcurv"],
        "server_learning_rate": [1.0, 0.5],
    },
    "presets": {"corrected": {"inputs.features": "tEDA+HR"}},
    "tables": [{"name": "t", "title": "T", "rows": ["algorithm", "server_learning_rate"]}],
}


def test_a_grid_is_every_combination_with_what_presets_change() -> None:
    sweep = from_mapping(SweepConfig, SWEEP, "small")
    cells = cells_of(sweep, range(3), "small")
    assert len(cells) == len(set(cells)) == 2 * 2 * 2 * 3
    for cell in cells:
        expected = ("tEDA", "HR") if cell.config.preset == "corrected" else ("pEDA",)
        assert cell.config.inputs.features == expected
        assert cell.config.readout is not None and cell.config.fedcurv is not None
    # Neighbours share inputs and reservoirs: those change as seldom as they can.
    shared = [(cell.config.inputs.features, cell.seed) for cell in cells]
    assert sum(a != b for a, b in zip(shared, shared[1:])) == 5
    with pytest.raises(ConfigError, match="small: server_learning_rate = 0"):
        cells_of(replace(sweep, grid={"server_learning_rate": [0.0]}), range(1), "small")
    with pytest.raises(ConfigError, match="small: roundz = 3: Unexpected keyword argument"):
        cells_of(replace(sweep, settings={"roundz": 3}), range(1), "small")


def test_every_named_run_is_well_formed() -> None:
    for name in run_names():
        description = load_run(name)
        if description["kind"] == "federated":
            sweep = from_mapping(SweepConfig, description, name)
            assert cells_of(sweep, [0], name)
            known = set(sweep.grid)
            for table in sweep.tables:
                assert set(table.rows) | set(table.where) <= known, table.name
            for figure in sweep.figures:
                assert {figure.columns, *figure.lines, *figure.each, *figure.where} <= known, figure.name
    with pytest.raises(ConfigError, match="no run 'nothing'; expected appendix-a"):
        load_run("nothing")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    folder = tmp_path_factory.mktemp("fifteen")
    write_wesad(folder, minutes=5.0)
    return Source(folder, tmp_path_factory.mktemp("cache"))


def test_finished_runs_are_kept_and_equal_ones_run_once(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Cell] = []
    plain = module.run_cell
    monkeypatch.setattr(module, "run_cell", lambda study, cell: (ran.append(cell), plain(study, cell))[1])
    sweep = from_mapping(SweepConfig, {**SWEEP, "grid": {"algorithm": ["fedavg", "fedcurv"]}}, "small")
    cells = cells_of(sweep, [0], "small")
    idle = [replace(cell, config=replace(cell.config, attack=AttackConfig(share=0.0))) for cell in cells]
    first = run_cells([*cells, *idle], source)
    assert len(ran) == 2
    again = run_cells([*cells, *idle], source)
    assert len(ran) == 2
    for cell, result in first.items():
        np.testing.assert_array_equal(again[cell].curves, result.curves)
        assert again[cell].scores == result.scores
        assert result.rounds.tolist() == [0, 1, 2]
    for cell, same in zip(cells, idle):
        assert first[cell].scores == first[same].scores
    run_cells(cells_of(sweep, [0, 1], "small"), source)
    assert len(ran) == 4


def test_a_run_in_a_sweep_is_the_run_alone(tmp_path: Path) -> None:
    study = FederatedStudy(small_inputs(), tmp_path)
    cell = Cell(small_config(rounds=3), 5)
    result = run_cell(study, cell)
    readout, records = study.program(cell.config, 5).run()
    scores = study.program(cell.config, 5).evaluator(readout)
    assert result.scores == scores
    for part in ("train", "validation", "test"):
        assert result.curve(part, "accuracy").tolist() == [record.scores[part].accuracy for record in records]


def test_detection_is_counted_over_all_rounds() -> None:
    def judged(*rows: tuple[int, int, int, int]) -> CellResult:
        empty = np.zeros((0, 3, 7))
        return CellResult(np.zeros(0, int), empty, {}, np.zeros((0, 3), bool), np.array(rows), 0.1)

    # Drawn, fakes, rejected, fakes rejected.
    found = detection([judged((5, 2, 1, 1), (5, 3, 2, 0)), judged((5, 1, 1, 1))])
    assert found == {"precision": 2 / 4, "recall": 2 / 6, "error": pytest.approx((1 + 1 + 0) / 3)}
    assert np.isnan(detection([judged((5, 0, 0, 0))])["precision"])


def test_tables_pivots_and_curves_hold_what_ran(tmp_path: Path) -> None:
    study = FederatedStudy(small_inputs(), tmp_path)
    grid = {"algorithm": ["fedavg", "fedcurv"], "server_learning_rate": [1.0, 0.1]}
    sweep = from_mapping(SweepConfig, {**SWEEP, "grid": grid}, "small")
    cells = [
        Cell(small_config(algorithm=algorithm, server_learning_rate=rate, rounds=2), seed)
        for algorithm in grid["algorithm"]
        for rate in grid["server_learning_rate"]
        for seed in (0, 1)
    ]
    results = {cell: run_cell(study, cell) for cell in cells}
    majority = results[cells[0]].scores
    sweep_results = SweepResults(sweep, results, {"thesis": majority})
    rows = sweep_results.table(SweepTable("t", "T", ["algorithm", "server_learning_rate"]), "thesis")
    assert [row.model for row in rows if row.part == "test"] == [
        "majority class",
        "FedAvg-1.0",
        "FedAvg-0.1",
        "FedCurv-1.0",
        "FedCurv-0.1",
    ]
    assert all(len(row.scores) == 2 for row in rows if row.model != "majority class")
    pivot = SweepPivot("p", "P", "algorithm", ["server_learning_rate"], ["balanced_accuracy"])
    lines = sweep_results.pivot(pivot, "thesis", "balanced_accuracy")
    assert lines[0] == ["algorithm", "1.0", "0.1"]
    own = [results[cell].scores["test"].balanced_accuracy for cell in cells[:2]]
    assert lines[1][1].startswith(f"{np.mean(own):.3f}")
    curves = list(csv.DictReader(io.StringIO(sweep_results.curves_csv())))
    assert len(curves) == len(cells) * 3 * 3
    assert {row["part"] for row in curves} == {"train", "validation", "test"}
    assert setting(cells[0].config, "attack.kind") is None


def test_printed_numbers_stand_beside_what_they_are_about() -> None:
    config = small_config(rounds=78, server_learning_rate=0.1, algorithm="fedcurv")
    assert model_name(config) == "FedCurv-0.1"
    assert printed_scores(config, "test") == {"accuracy": 0.8693, "f1_micro": 0.8693}
    assert printed_scores(config, "validation") == {"accuracy": 0.8878, "f1_micro": 0.8878}
    assert printed_scores(replace(config, reservoirs="different"), "validation")["accuracy"] == 0.8603
    assert printed_scores(config, "train") == printed_scores(replace(config, rounds=3), "test") == {}


def test_reproduce_as_a_user_runs_it(source: Source, tmp_path: Path) -> None:
    toml = tmp_path / "small.toml"
    toml.write_text(
        'kind = "federated"\ntitle = "small"\nseeds = 1\n[settings]\nrounds = 2\n"reservoir.units" = 10\n'
        '"reservoir.kind" = "esn"\n"inputs.preset" = "corrected"\n'
        '[grid]\nalgorithm = ["fedavg", "fedcurv"]\nreservoirs = ["same"]\n'
        '[[tables]]\nname = "t"\ntitle = "Mine"\nrows = ["algorithm"]\n'
        '[[figures]]\nname = "f"\ntitle = "F"\ncolumns = "reservoirs"\nlines = ["algorithm"]\n'
    )
    environment = {**os.environ, "TFF_ESN_CACHE": str(source.cache), "TFF_ESN_RUNS": str(tmp_path / "runs")}

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tff_esn", "reproduce", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL)

    listed = run("--list")
    assert "primal-phase" in listed.stdout and "discriminative-phase" in listed.stdout
    result = run(toml, "--data", source.study, "--jobs", 1)
    assert result.returncode == 0, result.stderr
    for text in ("Mine, preset thesis, 1 seeds", "majority", "FedCurv", "not the study's numbers"):
        assert text in result.stdout
    (folder,) = (tmp_path / "runs").iterdir()
    for name in ("curves.csv", "t-thesis.csv", "t-thesis.md", "f-thesis.png"):
        assert (folder / name).stat().st_size > 0, name
    assert json.loads((folder / "run.json").read_text())["status"] == "complete"
    for arguments, complaint in (
        (("nothing",), "no run 'nothing'; expected"),
        ((), "no run named; expected some of"),
        ((toml, "--data", "/nowhere"), "/nowhere: no such folder"),
    ):
        refused = run(*arguments)
        assert refused.returncode == 2
        assert complaint in refused.stderr and len(refused.stderr.strip().splitlines()) == 1
