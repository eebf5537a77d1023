from __future__ import annotations

import pytest

from tff_esn.parameters import from_mapping
from tff_esn.runs.closed_form_table import ClosedFormConfig, ClosedFormResults, Outcome
from tff_esn.runs.kinds.closed_form import closed_form_table, printed_numbers, threshold_table
from tff_esn.runs.named import load_run, run_names
from tff_esn.tables import PRINTED, Number

METHODS = [
    {"name": "IncFed", "algorithm": "incfed"},
    {"name": "pFedRR", "algorithm": "pfedrr", "candidates": {"tau": [0.3, 0.8]}},
]
#: Of four test samples, those that are right, by seed; with tau 0.8 one more than with 0.3 on the validation subjects.
RIGHT = {0: 1, 1: 3}


def outcome(method: str, percent: int, seed: int, tau: float | None = None) -> Outcome:
    parts = {"train": 4, "validation": 2 + (tau == 0.8), "test": RIGHT[seed]}
    confusions = {part: ((right, 4 - right), (0, 0)) for part, right in parts.items()}
    return Outcome(method, "corrected", percent, seed, tau, confusions, 100 * (tau or 1.0), 1000.0, 10, 3)


def results(**more: object) -> ClosedFormResults:
    values = {"title": "T", "methods": METHODS, "percent": [25, 100], **more}
    config = from_mapping(ClosedFormConfig, values, "test")
    outcomes = [
        outcome(method, percent, seed, tau)
        for percent in (25, 100)
        for seed in (0, 1)
        for method, tau in (("IncFed", None), ("pFedRR", 0.3), ("pFedRR", 0.8))
    ]
    return ClosedFormResults(config, tuple(outcomes), {25: 0.4, 100: 0.5}, 4)


def test_ours_stand_beside_what_is_printed() -> None:
    table = closed_form_table("t", {"corrected": results(printed="thesis.table_b_3")})
    # The thesis prints shares of 1.
    printed = table.cell("100 %", PRINTED, "IncFed.test")
    assert printed is not None and (printed.mean, printed.std, printed.n) == (pytest.approx(78.01), 0.77, 0)
    assert table.cell("100 %", PRINTED, "pFedRR.test") is None
    assert table.cell("100 %", "corrected", "majority") == Number(50.0, n=0)
    # One seed answers with both classes, in one of four and in three of four cases rightly.
    assert table.cell("100 %", "corrected", "IncFed.test") == Number.of([25.0, 75.0])
    assert table.cell("25 %", "corrected", "IncFed.bytes") == Number(1000.0, n=0)
    assert table.cell("25 %", "corrected", "pFedRR.tau") == Number(0.8, n=0)
    assert table.cell("25 %", "corrected", "pFedRR.units") == Number.of([80.0, 80.0])
    assert table.cell("25 %", "corrected", "IncFed.units") is None
    assert "guessing is right in 25.00 %" in table.notes[0]


def test_training_scores_and_those_of_the_validation_subjects_are_shown_if_asked_for() -> None:
    table = closed_form_table("t", {"corrected": results(scored="validation", train_scores=True)})
    # All four samples of one class, which is all that is answered.
    assert table.cell("100 %", "corrected", "IncFed.train") == Number.of([100.0, 100.0], 2)
    assert table.cell("100 %", "corrected", "IncFed.validation") == Number.of([50.0, 50.0])


def test_accuracy_and_units_against_the_threshold() -> None:
    table = threshold_table(results(), "pFedRR", "corrected")
    assert [row.label for row in table.rows] == ["0.3", "0.8"]
    assert table.cell("0.3", "corrected", "100.units") == Number(30.0, n=0)
    assert table.cell("0.8", "corrected", "25.test") == Number.of([25.0, 75.0])


def test_printed_numbers_are_found_by_table_and_study() -> None:
    def printed(where: str, task: str = "affect") -> dict[str, dict[str, list[float]]]:
        features = {"name": "channels", "device": "phones" if task == "activity" else "wrist"}
        return printed_numbers(results(printed=where, data={"task": task, "features": features}).config)

    assert printed("pfedrr.table_1")["25"]["I-pFedRR"] == [80.71, 0.37, 49.72, 1.71]
    assert printed("fedip.table_2", "activity")["100"]["FedIP"] == [82.09, 0.29]
    assert printed("incfed.table_3_wesad_selected") == {"100": {"FedAvg": [75.5, 84.03], "IncFed": [85.08, 83.63]}}


def test_every_run_has_methods_that_its_document_prints() -> None:
    checked = 0
    for name in run_names():
        run = load_run(name)
        if run.settings["kind"] != "closed-form" or "printed" not in run.settings:
            continue
        table = from_mapping(ClosedFormConfig, run.settings, name)
        names = {method for row in printed_numbers(table).values() for method in row}
        assert {method["name"] for method in table.methods} & names, name
        checked += 1
    assert checked >= 10
