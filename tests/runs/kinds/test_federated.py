"""Sweeps: grids of trainings, kept as they finish."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.federated.small import small, small_data, small_experiment
from tff_esn.errors import ConfigError
from tff_esn.features.study import DataSettings, Study
from tff_esn.federated.attacks.noise import InputNoiseAttack
from tff_esn.parameters import from_mapping
from tff_esn.runs.kinds import federated as module
from tff_esn.runs.kinds.federated import (
    Cell,
    CellResult,
    SweepConfig,
    cells_of,
    detection,
    majority_scores,
    restored,
    run_cell,
    tasks_of,
)
from tff_esn.store.cache import Cache
from tff_esn.store.tasks import run_tasks

SWEEP: dict[str, Any] = {
    "kind": "federated",
    "title": "small",
    "seeds": 2,
    "settings": {
        "rounds": 2,
        "esn.units": 10,
        "esn.recurrent_connectivity": 1.0,
        "data.features.name": "corrected",
    },
    "grid": {
        "preset": ["thesis", "corrected"],
        "algorithm": ["fedavg", "fedcurv"],
        "server_learning_rate": [1.0, 0.5],
    },
    "presets": {"corrected": {"data.features.columns": "tEDA+HR"}},
    "tables": [{"name": "t", "title": "T", "rows": ["algorithm", "server_learning_rate"]}],
}


def test_a_grid_is_every_combination_with_what_presets_change() -> None:
    sweep = from_mapping(SweepConfig, SWEEP, "small")
    cells = cells_of(sweep, range(3), "small")
    assert len(cells) == len(set(cells)) == 2 * 2 * 2 * 3
    for cell in cells:
        expected = ("tEDA", "HR") if cell.preset == "corrected" else ("pEDA", "tEDA", "HR", "HRV")
        assert cell.setting("data.features.columns") == expected
        assert cell.setting("learning_rate") == {"thesis": 0.1, "corrected": 0.001}[cell.preset]
        assert (cell.setting("fisher") is None) == (cell.setting("algorithm") == "fedavg")
        assert (cell.setting("attack.name"), cell.setting("attack.share")) == ("none", None)
    # Neighbours share inputs and reservoirs: those change as seldom as they can.
    shared = [(cell.setting("data.features.columns"), cell.seed) for cell in cells]
    assert sum(a != b for a, b in zip(shared, shared[1:])) == 5


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"grid": {"server_learning_rate": [0.0]}}, "small: server_learning_rate = 0"),
        ({"settings": {"roundz": 3}}, "small: no setting 'roundz'; did you mean 'rounds'"),
        ({"settings": {"preset": "thesys"}, "grid": {}}, "no preset 'thesys'; did you mean 'thesis'"),
        ({"grid": {"algorithm": ["incfed"]}}, "small: algorithm = 'incfed'; expected one of fedavg, "),
        ({"settings": {"data.features.name": "channel"}}, "no feature 'channel'; did you mean 'channels'"),
        ({"tables": [{"name": "t", "title": "T", "rows": ["rouns"]}]}, "t: rows 'rouns' not in the grid; "),
        ({"figures": [{"name": "f", "title": "F", "columns": "x", "lines": []}]}, "f: columns 'x' not in the grid; "),
    ],
)
def test_a_sweep_that_makes_no_sense_is_refused(changed: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        cells_of(from_mapping(SweepConfig, {**SWEEP, "tables": [], **changed}, "small"), range(1), "small")


def run_cells(cells: list[Cell], study: Study) -> dict[Cell, CellResult]:
    tasks = tasks_of(cells, study)
    results = run_tasks(tasks, Cache(study.cache), 1, "")
    return {cell: restored(results[task.key]) for cell, task in zip(cells, tasks)}


def test_finished_runs_are_kept_and_equal_ones_run_once(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Cell] = []
    plain = module.run_cell
    monkeypatch.setattr(module, "run_cell", lambda experiment, cell: (ran.append(cell), plain(experiment, cell))[1])
    sweep = from_mapping(SweepConfig, {**SWEEP, "tables": [], "grid": {"algorithm": ["fedavg", "fedcurv"]}}, "small")
    cells = cells_of(sweep, [0], "small")
    idle = [replace(cell, algorithm=replace(cell.algorithm, attack=InputNoiseAttack(share=0.0))) for cell in cells]
    first = run_cells([*cells, *idle], study)
    assert len(ran) == 2
    again = run_cells([*cells, *idle], study)
    assert len(ran) == 2
    for cell, result in first.items():
        np.testing.assert_array_equal(again[cell].curves, result.curves)
        assert again[cell].scores == result.scores
        assert result.rounds.tolist() == [0, 1, 2]
    for cell, same in zip(cells, idle):
        assert first[cell].scores == first[same].scores
    run_cells(cells_of(sweep, [0, 1], "small"), study)
    assert len(ran) == 4


def test_a_run_in_a_sweep_is_the_run_alone(tmp_path: Path) -> None:
    experiment = small_experiment(tmp_path)
    cell = Cell(DataSettings(), small(rounds=3).with_seed(5), "thesis")
    result = run_cell(experiment, cell)
    program = experiment.program(cell.algorithm)
    readout, records = program.run()
    assert result.scores == program.evaluator(readout)
    for part in ("train", "validation", "test"):
        assert result.curve(part, "accuracy").tolist() == [record.scores[part].accuracy for record in records]


def test_the_majority_class_is_that_of_the_training_clients() -> None:
    data = small_data()
    scores = majority_scores(data)
    train, test = (data.part(part).labels() for part in ("train", "test"))
    assert scores["test"].accuracy == np.mean(test == np.bincount(train).argmax())
    assert set(scores) == {"train", "validation", "test"}


def test_detection_is_counted_over_all_rounds() -> None:
    def judged(*rows: tuple[int, int, int, int]) -> CellResult:
        empty = np.zeros((0, 3, 7))
        return CellResult(np.zeros(0, int), empty, {}, np.zeros((0, 3), bool), np.array(rows), 0.1)

    # Drawn, fakes, rejected, fakes rejected.
    found = detection([judged((5, 2, 1, 1), (5, 3, 2, 0)), judged((5, 1, 1, 1))])
    assert found == {"precision": 2 / 4, "recall": 2 / 6, "error": pytest.approx((1 + 1 + 0) / 3)}
    assert np.isnan(detection([judged((5, 0, 0, 0))])["precision"])
