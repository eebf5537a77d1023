"""One table, by hand, for each target."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from tff_esn.metrics import majority, score
from tff_esn.tables import (
    PRINTED,
    Column,
    Number,
    Row,
    Table,
    agreement,
    html_cell,
    least_width,
    number_text,
    score_table,
    text_table,
    to_csv,
    to_latex,
    to_markdown,
    to_terminal,
)

LABELS = np.repeat([0, 1], [8, 2])
GOOD = score(LABELS, [0.1] * 7 + [0.6, 0.4, 0.9])
SINGLE = score(LABELS, [0.1] * 8 + [0.2, 0.3])
SCORES = score_table(
    "scores",
    "Table 6.4 [test]",
    {
        "majority": {"thesis": {"test": [majority(LABELS)]}},
        "fedavg [x]": {"thesis": {"test": [GOOD, SINGLE]}},
        "one | class": {"thesis": {"test": [score([0, 0], [0.1, 0.9])] * 2}},
    },
    {"fedavg [x]": {"test.accuracy": 0.87}},
    {"majority"},
)
#: A line of each kind, by hand.
SMALL = Table(
    "small",
    "Small",
    "model",
    [Column("a", "accuracy", "test"), Column("b", "up", digits=0, kind="bytes")],
    [
        Row(
            "FedAvg_1 | x",
            {PRINTED: [Number(0.9, n=0), None], "thesis": [Number(0.5, 0.1, 3, 2), Number(43_600, n=0)]},
        )
    ],
    ["A note."],
)
PLAIN_TABLE = text_table("Plain", ["Name", "Text", "Size"], [["a|b\nc", "words < more", 3]], ["Below."], ["Size"])


def shown(table: Table, width: int = 80, styles: dict[str, str] | None = None, color: bool = False) -> str:
    console = Console(width=width, color_system="standard" if color else None, force_terminal=color)
    with console.capture() as capture:
        console.print(to_terminal(table, styles or {}))
    return capture.get()


def words_of(text: str, start: str) -> list[list[str]]:
    """The words of the line that starts so, and of the next two."""
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if line.strip().startswith(start))
    return [line.split() for line in lines[first : first + 3]]


@pytest.mark.parametrize(
    ("ours", "printed", "expected"),
    [
        (Number(0.90184, 0.1, 3), Number(0.9018, n=0), "same"),
        (Number(0.86939, 0.0, 3), Number(0.8693, n=0), "same"),  # cut, not rounded
        (Number(-0.86939, 0.0, 3), Number(-0.8695, n=0), "above"),
        (Number(0.85, 0.03, 3), Number(0.9018, n=0), "within"),
        (Number(0.85, 0.02, 3), Number(0.9018, n=0), "below"),
        (Number(0.95, 0.02, 3), Number(0.9018, n=0), "above"),
        # The document's own deviation counts too: hypot(0.02, 0.02) * 2 > 0.05.
        (Number(0.85, 0.02, 3), Number(0.9018, 0.02, 0), "within"),
        (Number(0.85), Number(0.9018, n=0), "unknown"),
        (Number(0.85, n=0), Number(0.9018, n=0), "below"),
        (Number(text="pEDA", n=0), Number(text="pEDA", n=0), "same"),
        (Number(text="HR", n=0), Number(text="pEDA", n=0), "other"),
    ],
)
def test_how_a_number_stands_to_the_printed_one(ours: Number, printed: Number, expected: str) -> None:
    assert agreement(ours, printed, 4) == expected


def test_markdown() -> None:
    assert to_markdown(SMALL).splitlines() == [
        "| model |  | test: accuracy | up |",
        "| --- | --- | ---: | ---: |",
        r"| FedAvg_1 \| x | printed | 0.9000 |  |",
        r"| FedAvg_1 \| x | thesis | 0.5000 ± 0.1000 † ▼ | 43.6 kB |",
    ]
    assert to_markdown(PLAIN_TABLE).splitlines() == [
        "| Name | Text | Size |",
        "| --- | --- | ---: |",
        r"| a\|b<br>c | words < more | 3 |",
    ]


def test_latex() -> None:
    assert to_latex(SMALL).splitlines() == [
        r"\begin{tabular}{llrr}",
        r"\toprule",
        r"model &  & test: accuracy & up \\",
        r"\midrule",
        r"FedAvg\_1 | x & printed & 0.9000 &  \\",
        r"FedAvg\_1 | x & thesis & 0.5000 $\pm$ 0.1000 \dag{} $\blacktriangledown$ & 43.6 kB \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]
    assert to_latex(PLAIN_TABLE).startswith("\\begin{tabular}{llr}\n")


def test_csv_has_all_digits() -> None:
    assert to_csv(SMALL).splitlines() == [
        "row,source,column,mean,std,seeds,single_class_seeds,text",
        "FedAvg_1 | x,printed,a,0.9,,0,0,",
        "FedAvg_1 | x,thesis,a,0.5,0.1,3,2,",
        "FedAvg_1 | x,thesis,b,43600.0,,0,0,",
    ]
    read = {(one["row"], one["source"], one["column"]): one for one in csv.DictReader(to_csv(SCORES).splitlines())}
    cell = read["fedavg [x]", "thesis", "test.auroc"]
    assert float(cell["mean"]) == np.mean([GOOD.auroc, SINGLE.auroc])
    assert (cell["seeds"], cell["single_class_seeds"]) == ("2", "1")
    assert read["fedavg [x]", PRINTED, "test.accuracy"]["mean"] == "0.87"
    assert read["one | class", "thesis", "test.auroc"]["mean"] == ""


def test_html_cells() -> None:
    lines, column = SMALL.rows[0].lines, SMALL.columns[0]
    assert html_cell(lines["thesis"][0], lines[PRINTED][0], column, first=True) == (
        '<td class="below first">0.5000 <span title="predicts one class only in 2 of 3 seeds">†</span> '
        '<span class="sr">predicts one class only</span> <span class="sign" aria-hidden="true">▼</span> '
        '<span class="std">± 0.1000</span> <span class="sr">below the printed number, beyond the spread</span></td>'
    )
    assert "in 1 of 1 seeds" in html_cell(Number(0.5, n=0, single_class=1), None, column)
    assert html_cell(None, None, column) == "<td></td>"
    assert html_cell(Number(text="<b>", n=0), None, column) == "<td>&lt;b&gt;</td>"


def test_the_terminal_shows_what_is_printed_below_ours() -> None:
    assert shown(SMALL).splitlines() == [
        "Small",
        "                          test         ",
        "model                 accuracy       up",
        "───────────────────────────────────────",
        "FedAvg_1 | x †  0.5000 ±0.1000  43.6 kB",
        "printed                 0.9000         ",
        "A note.",
        "† FedAvg_1 | x, test: predicts one class only in 2 of 3 seeds",
    ]


def test_scores_fit_80_columns_with_deviations_below_the_means() -> None:
    text = shown(SCORES)
    assert max(map(len, text.splitlines())) <= 80
    mean, deviation, reference = words_of(text, "fedavg")
    assert mean == ["fedavg", "[x]", "†", "0.8000", "0.5938", "0.9688", "0.9167", "0.1875", "0.2500"]
    assert deviation == ["±0.0000", "±0.1326", "±0.0442", "±0.1179", "±0.2652", "±0.3536"]
    assert reference == ["printed", "0.8700"]
    assert words_of(text, "one")[0][-6:] == ["0.5000", "n/a", "n/a", "n/a", "n/a", "0.0000"]
    # Where there is room, they stand beside them.
    assert words_of(shown(SCORES, 120), "fedavg")[0][3:5] == ["0.8000", "±0.0000"]


def test_models_that_predict_one_class_only_are_marked_and_counted() -> None:
    text = shown(SCORES)
    assert "† majority, test: predicts one class only\n" in text  # no seed changes it
    assert "† fedavg [x], test: predicts one class only in 1 of 2 seeds\n" in text
    assert text.count("†") == 4


def test_parts_go_below_each_other_where_they_do_not_fit() -> None:
    long = "federated_averaging_with_a_long_name"
    both = {"validation": [GOOD, SINGLE], "test": [GOOD, GOOD]}
    table = score_table("t", "T", {long: {"thesis": both, "corrected": both}})
    assert least_width(table) > 80
    lines = shown(table).splitlines()
    assert max(map(len, lines)) <= 80 and "…" not in "".join(lines)
    assert [line for line in lines if line in ("validation", "test")] == ["validation", "test"]
    assert sum("AUROC" in line for line in lines) == 2
    assert long in "".join(line.split("  ")[0].strip() for line in lines)
    # A long label is folded rather than the metrics of a part torn apart.
    folded = shown(score_table("t", "T", {long: {"thesis": both}})).splitlines()
    assert sum(line.startswith("model") for line in folded) == 2
    wide = shown(table, 200).splitlines()
    assert sum("AUROC" in line for line in wide) == 1 and any(f"{long}, corrected" in line for line in wide)


def test_columns_without_a_group_go_below_each_other_too() -> None:
    columns = [Column(str(number), f"c{number}") for number in range(20)]
    table = Table("t", "T", "row", columns, [Row("x", {"thesis": [Number(float(number)) for number in range(20)]})])
    text = shown(table)
    assert max(map(len, text.splitlines())) <= 80
    assert all(f"{number}.0000" in text for number in range(20))


def test_texts_are_wrapped_and_words_kept_whole() -> None:
    names = [f"name-{'x' * 30}-{number}" for number in range(2)]
    table = text_table(
        "T", ["Name", "Words", "Size"], [[name, "some words " * 20, "12 s"] for name in names], (), ["Size"]
    )
    lines = shown(table).splitlines()
    assert max(map(len, lines)) <= 80
    assert all(any(name in line for line in lines) for name in names)
    assert sum("12 s" in line for line in lines) == 2
    assert sum(line.count("some") for line in lines) == 40
    # An empty line parts rows of several lines, but not a row from what belongs to it, nor settings.
    rows = [["a", "words " * 30], ["", "more"], ["b", "last"]]
    labels = [line.split()[:1] for line in shown(text_table("", ["Name", "Words"], rows)).splitlines()]
    assert labels[2:] == [["a"], ["words"], ["words"], ["more"], [], ["b"]]
    assert [] not in [line.split() for line in shown(text_table("", ["", ""], rows)).splitlines()]
    # Only what fits no line is broken.
    path = "/".join(["folder"] * 30)
    folded = shown(text_table("", ["", ""], [["Folder", path]])).splitlines()
    assert "".join(line.removeprefix("Folder").strip() for line in folded) == path


def test_colours_tell_what_is_the_same_and_what_is_printed() -> None:
    lines = {PRINTED: [Number(0.5, n=0)], "thesis": [Number(0.5, n=0)]}
    table = Table("t", "T", "row", [Column("a", "a")], [Row("x", lines)])
    text = shown(table, color=True)
    assert "\x1b[32m0.5000" in text and "\x1b[2mprinted" in text
    assert "\x1b[31mwords < more" in shown(PLAIN_TABLE, styles={"words < more": "red"}, color=True)


def test_the_f1_of_more_classes_is_a_mean() -> None:
    table = score_table("t", "T", {"esn": {"thesis": {"test": [score([0, 1, 2], np.eye(3))]}}})
    assert [column.heading for column in table.columns][-1] == "F1 macro"
    assert [column.heading for column in SCORES.columns][-1] == "F1 stress"


def test_cells_are_found_by_name_and_numbers_compared() -> None:
    assert SMALL.cell("FedAvg_1 | x", "thesis", "b") == Number(43_600, n=0)
    assert SMALL.cell("FedAvg_1 | x", "corrected", "b") is SMALL.cell("x", "thesis", "b") is None
    assert SMALL.agreements() == ["below"]
    row = replace(SMALL.rows[0], lines={"other": [], "corrected": [], "thesis": [], PRINTED: []})
    assert replace(SMALL, rows=[row]).sources == [PRINTED, "thesis", "corrected", "other"]
    assert number_text(Number(0.5, 0.1, 3, 2), SMALL.columns[0]) == "0.5000 ± 0.1000 †"
