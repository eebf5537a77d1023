"""The numbers that the documents print."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

TABLE_OF_STAGE = {"extracted": "table_5_1", "standardized": "table_5_2", "normalized": "table_5_3"}


@cache
def reported() -> dict[str, Any]:
    """Every table of the five documents, as printed."""
    return json.loads(resources.files("tff_esn.runs").joinpath("reported.json").read_text(encoding="utf-8"))


def printed_statistics(stage: str) -> dict[str, Any]:
    """Table 5.1, 5.2 or 5.3 under the features' true names.

    Table 5.3 prints the rows of pEDA and tEDA exchanged: what stands under pEDA are
    the statistics of the tonic signal.
    """
    table = dict(reported()["thesis"][TABLE_OF_STAGE[stage]])
    if stage == "normalized":
        table["pEDA"], table["tEDA"] = table["tEDA"], table["pEDA"]
    return table


def printed_assessment() -> dict[str, float]:
    """Table 6.3, by part and metric."""
    table, columns = reported()["thesis"]["table_6_3"], {"design": "DS", "test": "TS"}
    names = {"accuracy": "accuracy", "auroc": "auc"}
    return {f"{part}.{metric}": table[key][own] for part, own in columns.items() for metric, key in names.items()}
