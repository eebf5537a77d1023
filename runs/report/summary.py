"""Results in few words: how our numbers stand to the printed ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tff_esn.runs.result import PRINTED, Agreement, Column, Number, RunResult, agreement, number_text

if TYPE_CHECKING:
    # Its evidence takes TensorFlow, which takes seconds to come.
    from tff_esn.runs.errata.catalogue import Erratum

DOCUMENTS = {
    "thesis": "The thesis",
    "incfed": "The IncFed paper",
    "fedip": "The FedIP paper",
    "pfedrr": "The pFedRR paper",
    "beyond": "Beyond the documents",
}
PRESETS = ("thesis", "corrected")
#: How a number of ours stands to the printed one, as a sign and in words.
SIGNS: dict[Agreement, str] = {"same": "=", "within": "≈", "above": "▲", "below": "▼", "other": "≠", "unknown": ""}
WORDS: dict[Agreement, str] = {
    "same": "as printed",
    "within": "within the spread",
    "above": "above the printed number, beyond the spread",
    "below": "below the printed number, beyond the spread",
    "other": "other than printed",
    "unknown": "spread not known",
}
_VERDICTS: dict[str, tuple[Agreement, ...]] = {
    "the same in all digits": ("same",),
    "within the spread": ("within",),
    "beyond the spread": ("above", "below", "other"),
}


@dataclass(frozen=True)
class HeadlineNumber:
    """A number of the summary: what it is, the printed one, and ours by preset."""

    claim: str
    column: Column
    printed: Number | None
    ours: Mapping[str, Number | None]


def headlines(result: RunResult) -> list[HeadlineNumber]:
    """The numbers that stand for a run, those of them that it has."""
    tables = {table.name: table for table in result.tables}
    lines = []
    for wanted in result.about.headlines:
        table = tables.get(wanted.table)
        column = next((one for one in table.columns if one.name == wanted.column), None) if table else None
        if table is not None and column is not None:
            ours = {preset: table.cell(wanted.row, preset, wanted.column) for preset in PRESETS}
            printed = table.cell(wanted.row, PRINTED, wanted.column)
            lines.append(HeadlineNumber(wanted.claim, column, printed, ours))
    return lines


def in_order(results: Sequence[RunResult]) -> list[RunResult]:
    """Document by document, each in its own order."""
    return sorted(results, key=lambda one: (list(DOCUMENTS).index(one.about.document), one.about.order, one.name))


def errata_of(result: RunResult) -> list[Erratum]:
    """What is printed wrongly and bears on a run."""
    from tff_esn.runs.errata.catalogue import errata

    return errata(result.about.errata) if result.about.errata else []


def beside(own: Number | None, printed: Number | None, column: Column) -> str:
    """Our number as text, with a sign where one is printed."""
    sign = SIGNS[agreement(own, printed, column.digits)] if own is not None and printed is not None else ""
    return f"{number_text(own, column)} {sign}".strip()


def came_out(results: Sequence[RunResult]) -> str:
    """In a sentence, how the printed numbers stand to ours."""
    found = [one for result in results for one in result.agreements()]
    known = [one for one in found if one != "unknown"]
    if not known:
        return "One seed, so no spread to hold the printed numbers against." if found else "No number is printed."
    counts = {verdict: sum(one in kinds for one in known) for verdict, kinds in _VERDICTS.items()}
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    more = f"; {len(found) - len(known)} more have no spread to compare with" if len(found) > len(known) else ""
    return f"Of {len(known)} printed number{'s' * (len(known) > 1)}: {told}{more}."


def seconds_text(seconds: float) -> str:
    """A duration to read.

    >>> seconds_text(90), seconds_text(7260), seconds_text(4.2)
    ('2 min', '2.0 h', '4 s')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
