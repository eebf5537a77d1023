"""Sweeps: grids of runs, kept as they finish, and the tables made of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.federated.small import small_config, small_inputs
from tff_esn.config import AttackConfig, SweepConfig, from_mapping
from tff_esn.datasets.synthetic.wesad import write_wesad
from tff_esn.errors import ConfigError
from tff_esn.features.source import Source
from tff_esn.federated import sweep as module
from tff_esn.federated.report import model_name, printed_scores
from tff_esn.federated.study import FederatedStudy
from tff_esn.federated.sweep import Cell, CellResult, cells_of, detection, restored, run_cell, tasks_of
from tff_esn.store.cache import Cache
from tff_esn.store.tasks import run_tasks

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


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    folder = tmp_path_factory.mktemp("fifteen")
    write_wesad(folder, minutes=5.0)
    return Source(folder, tmp_path_factory.mktemp("cache"))


def run_cells(cells: list[Cell], source: Source) -> dict[Cell, CellResult]:
    for config in {cell.config.inputs for cell in cells}:
        source.prepare(config, 1)
    tasks = tasks_of(cells, source)
    results = run_tasks(tasks, Cache(source.cache), 1, "")
    return {cell: restored(results[task.key]) for cell, task in zip(cells, tasks)}


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


def test_printed_numbers_stand_beside_what_they_are_about() -> None:
    config = small_config(rounds=78, server_learning_rate=0.1, algorithm="fedcurv")
    assert model_name(config) == "FedCurv-0.1"
    assert printed_scores(config) == {"validation.accuracy": 0.8878, "test.accuracy": 0.8693}
    assert printed_scores(replace(config, reservoirs="different"))["validation.accuracy"] == 0.8603
    assert printed_scores(replace(config, rounds=3)) == {}
