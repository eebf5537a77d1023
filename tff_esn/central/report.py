"""Outcomes as rows of a table, beside what the thesis prints."""

from __future__ import annotations

from collections.abc import Sequence

from tff_esn.central.assess import PARTS, Outcome
from tff_esn.evaluation.score_tables import ScoreRow
from tff_esn.metrics import spread_of
from tff_esn.runs.reported import reported

PRINTED_MODEL = "ESN, time order"


def score_rows(outcomes: Sequence[Outcome], printed: bool = True) -> list[ScoreRow]:
    """One row a model and part, all its seeds in it.

    Args:
        outcomes: What was trained.
        printed: Whether Table 6.3's numbers stand beside the model they are about.
    """
    names = list(dict.fromkeys(outcome.model for outcome in outcomes))
    rows = []
    for part in PARTS:
        for name in names:
            scores = [outcome.parts[part] for outcome in outcomes if outcome.model == name]
            rows.append(
                ScoreRow(name, part, scores, printed_assessment(part) if printed and name == PRINTED_MODEL else {})
            )
    return rows


def printed_assessment(part: str) -> dict[str, float]:
    """Table 6.3's numbers of a part, by metric."""
    table, column = reported()["thesis"]["table_6_3"], {"design": "DS", "test": "TS"}[part]
    names = {"accuracy": "accuracy", "f1_micro": "f1_micro", "auroc": "auc"}
    return {metric: table[key][column] for metric, key in names.items()}


def headline(rows: Sequence[ScoreRow]) -> dict[str, dict[str, float]]:
    """Mean accuracy and AUROC of the ESNs on the test set, for the list of runs."""
    return {
        row.model: {metric: spread_of(row.scores)[metric].mean for metric in ("accuracy", "auroc")}
        for row in rows
        if row.part == "test" and row.model.startswith("ESN")
    }
