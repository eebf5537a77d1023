from __future__ import annotations

from tff_esn.runs.kinds.statistics import statistics_table
from tff_esn.tables import PRINTED, Number

FOUND = {
    "features": {name: {"min": 1.0, "max": 4.0, "mean": 2.0, "var": 0.5} for name in ("pEDA", "tEDA", "HR", "HRV")},
    "label_1_percent": 12.345,
    "subjects": ["S2", "S3"],
    "samples": 12345,
}


def test_a_table_of_a_stage_stands_beside_the_printed_one() -> None:
    table = statistics_table("extracted", {"thesis": FOUND})
    assert (table.name, [row.label for row in table.rows][-1]) == ("table-5-1", "label 1, %")
    assert table.cell("HR", "thesis", "var") == Number(0.5, n=0)
    assert table.cell("label 1, %", "thesis", "mean") == Number(12.35, n=0)
    assert table.cell("label 1, %", PRINTED, "mean") == Number(11.47, n=0)
    assert table.notes == ["thesis: 2 subjects, 12,345 samples."]


def test_rows_that_table_5_3_exchanges_stand_under_their_own_names() -> None:
    table = statistics_table("normalized", {"thesis": FOUND})
    assert table.cell("pEDA", PRINTED, "min") == Number(-20053.9745, n=0)
    assert table.cell("tEDA", PRINTED, "min") == Number(-2.9826, n=0)
    assert statistics_table("standardized", {}).cell("pEDA", PRINTED, "min") == Number(-46.4578, n=0)
