from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from rich.table import Table

from tff_esn.errors import ConfigError
from tff_esn.evaluation.score_tables import ScoreRow, score_table, to_csv, to_markdown, to_records
from tff_esn.metrics import METRICS, majority, score

LABELS = np.repeat([0, 1], [8, 2])
GOOD = score(LABELS, [0.1] * 7 + [0.6, 0.4, 0.9])
SINGLE = score(LABELS, [0.1] * 8 + [0.2, 0.3])
ROWS = [
    ScoreRow("majority", "test", [majority(LABELS)]),
    ScoreRow("fedavg [x]", "test", [GOOD, SINGLE], {"f1_micro": 0.8693, "accuracy": 0.87}),
    ScoreRow("one | class", "S2", [score([0, 0], [0.1, 0.9]), score([0, 0], [0.1, 0.9])]),
]


def printed(table: Table, width: int = 200) -> str:
    console = Console(width=width, file=None)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def lines_of(text: str, start: str) -> list[list[str]]:
    """The words of the line that starts so, and of the next two."""
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if line.strip().startswith(start))
    return [line.split() for line in lines[first : first + 3]]


def test_mean_and_deviation_with_the_printed_number_below() -> None:
    text = printed(score_table("Table 6.4 [test]", ROWS))
    assert "Table 6.4 [test]" in text
    mean, deviation, reference = lines_of(text, "fedavg")
    assert mean == ["fedavg", "[x]", "†", "test", "0.8000", "0.8000", "0.5938", "0.9688", "0.9167", "0.1875", "0.2500"]
    assert deviation == ["±0.0000", "±0.0000", "±0.1326", "±0.0442", "±0.1179", "±0.2652", "±0.3536"]
    assert reference == ["printed", "0.8700", "0.8693"]
    mean, below, _ = lines_of(text, "majority")
    assert mean[3:6] == ["0.8000", "0.8000", "0.5000"]
    assert below == []


def test_single_class_models_are_marked_and_counted() -> None:
    text = printed(score_table("Scores", ROWS))
    assert "† majority, test: answers with a single class in 1 of 1 seeds" in text
    assert "† fedavg [x], test: answers with a single class in 1 of 2 seeds" in text
    assert text.count("†") == 4
    assert "†" not in printed(score_table("Scores", [ScoreRow("fedavg", "test", [GOOD])]))


def test_what_is_undefined_is_said() -> None:
    mean = lines_of(printed(score_table("Scores", ROWS)), "one")[0]
    assert mean[-5:] == ["n/a", "n/a", "n/a", "n/a", "0.0000"]


def test_it_can_be_read_on_a_narrow_terminal() -> None:
    rows = [*ROWS, ScoreRow("federated_averaging_with_a_long_name", "validation", [GOOD, SINGLE])]
    text = printed(score_table("Scores", rows), width=80)
    assert "…" not in text
    assert text.count("±0.0000") == 7
    assert max(map(len, text.splitlines())) <= 80


def test_markdown() -> None:
    lines = to_markdown(ROWS, ("accuracy", "auroc")).splitlines()
    assert lines[:5] == [
        "| Model | Part | Acc. | AUROC |",
        "| --- | --- | ---: | ---: |",
        "| majority † | test | 0.8000 | 0.5000 |",
        f"| fedavg [x] † | test | 0.8000 ± 0.0000 | {np.mean([GOOD.auroc, SINGLE.auroc]):.4f} ± 0.0442 |",
        "| printed |  | 0.8700 |  |",
    ]
    assert lines[5] == r"| one \| class | S2 | 0.5000 ± 0.0000 | n/a |"
    assert lines[6:] == [
        "",
        "- † majority, test: answers with a single class in 1 of 1 seeds",
        "- † fedavg [x], test: answers with a single class in 1 of 2 seeds",
    ]


def test_the_f1_of_more_classes_is_a_mean() -> None:
    assert "F1 macro" in to_markdown([ScoreRow("esn", "test", [score([0, 1, 2], np.eye(3))])]).splitlines()[0]


def test_records_and_csv_hold_all_digits(tmp_path: Path) -> None:
    records = to_records(ROWS)
    assert len(records) == len(ROWS) * len(METRICS)
    by_key = {(record["model"], record["metric"]): record for record in records}
    row = by_key["fedavg [x]", "auroc"]
    assert row["mean"] == np.mean([GOOD.auroc, SINGLE.auroc])
    assert (row["n"], row["printed"], row["single_class_seeds"]) == (2, None, 1)
    assert by_key["fedavg [x]", "f1_micro"]["printed"] == 0.8693
    assert by_key["one | class", "auroc"]["mean"] is None
    assert json.loads(json.dumps(records, allow_nan=False)) == records
    path = tmp_path / "scores.csv"
    to_csv(ROWS, path)
    with path.open(newline="") as file:
        read = list(csv.DictReader(file))
    assert [float(one["mean"]) if one["mean"] else None for one in read] == [record["mean"] for record in records]


def test_what_makes_no_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="esn, test: no scores"):
        ScoreRow("esn", "test", [])
    with pytest.raises(ConfigError, match="esn, test, printed: f1; expected some of accuracy"):
        ScoreRow("esn", "test", [GOOD], {"f1": 0.5})
    with pytest.raises(ConfigError, match="metrics: loss; expected some of accuracy"):
        score_table("Scores", ROWS, ("loss",))
    with pytest.raises(ConfigError, match="no rows to write"):
        to_csv([], tmp_path / "scores.csv")
