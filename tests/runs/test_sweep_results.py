from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.federated.small import small, small_experiment
from tff_esn.features.study import DataSettings
from tff_esn.metrics import majority, metric_names
from tff_esn.parameters import from_mapping
from tff_esn.runs.kinds.federated import (
    PARTS,
    Cell,
    CellResult,
    SweepConfig,
    SweepFigure,
    SweepPivot,
    SweepTable,
    cells_of,
    run_cell,
)
from tff_esn.runs.named import load_run, run_names
from tff_esn.runs.result import read_result
from tff_esn.runs.sweep_results import SweepResults, model_name, printed_scores
from tff_esn.tables import PRINTED

RESULTS = Path(__file__).parents[2] / "runs" / "results"
SWEEPS = [name for name in run_names() if load_run(name).settings["kind"] == "federated"]


def test_tables_pivots_and_figures_of_a_sweep_hold_what_ran(tmp_path: Path) -> None:
    experiment = small_experiment(tmp_path)
    grid = {"algorithm": ["fedavg", "fedcurv"], "server_learning_rate": [1.0, 0.1], "reservoirs": ["same"]}
    config = from_mapping(SweepConfig, {"kind": "federated", "title": "s", "settings": {}, "grid": grid}, "s")
    cells = [
        Cell(DataSettings(), small(name, server_learning_rate=rate, rounds=2).with_seed(seed), "thesis")
        for name in ("fedavg", "fedcurv")
        for rate in (1.0, 0.1)
        for seed in (0, 1)
    ]
    results = {cell: run_cell(experiment, cell) for cell in cells}
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


def test_printed_numbers_stand_beside_what_they_are_about() -> None:
    algorithm = small("fedcurv", rounds=78, server_learning_rate=0.1)
    assert model_name(algorithm) == "FedCurv-0.1"
    assert model_name(small("fedavg", defence="discriminator")) == "FedAvg-1.0+Disc"
    assert model_name(small("fedavg", defence="median")) == "FedAvg-1.0+median"
    assert printed_scores(algorithm) == {"validation.accuracy": 0.8878, "test.accuracy": 0.8693}
    assert printed_scores(algorithm.replaced({"reservoirs": "different"}))["validation.accuracy"] == 0.8603
    assert printed_scores(algorithm.replaced({"rounds": 3})) == {}


@pytest.mark.parametrize("name", SWEEPS)
def test_committed_results_are_what_the_run_shows(name: str) -> None:
    """Tables and figures of a run that was not run have the labels and printed numbers of its results."""
    committed = read_result(RESULTS / f"{name}.json")
    config = from_mapping(SweepConfig, load_run(name).settings, name)
    cells = cells_of(config, range(committed.provenance.seeds), name)
    answers = majority(np.array([0, 1, 0]), np.array([0, 1, 0]), 2)
    scores = dict.fromkeys(PARTS, answers)
    results = {
        cell: CellResult(
            np.arange(2),
            np.zeros((2, len(PARTS), len(metric_names()))),
            scores,
            np.ones((2, len(PARTS)), bool),
            np.array([[5, 2, 1, 1]]) * (cell.algorithm.attack is not None),
            0.1,
        )
        for cell in cells
    }
    tables, figures = SweepResults(config, results, {cell.preset: scores for cell in cells}).shown()
    assert [table.columns for table in tables] == [table.columns for table in committed.tables]
    for ours, theirs in zip(tables, committed.tables):
        assert (ours.name, ours.title, ours.corner) == (theirs.name, theirs.title, theirs.corner)
        assert [row.label for row in ours.rows] == [row.label for row in theirs.rows]
        for one, other in zip(ours.rows, theirs.rows):
            assert sorted(one.lines) == sorted(other.lines)
            assert one.lines.get(PRINTED) == other.lines.get(PRINTED)
    assert [(figure.name, figure.title, figure.panels) for figure in figures] == [
        (figure.name, figure.title, figure.panels) for figure in committed.figures
    ]
    assert [figure.names for figure in figures] == [figure.names for figure in committed.figures]
