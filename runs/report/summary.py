"""Summaries of results: how our numbers compare with the printed ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tff_esn.datasets.synthetic import GENERATED
from tff_esn.runs.result import RunResult
from tff_esn.tables import (
    DEVIATIONS,
    PRINTED,
    SINGLE_CLASS,
    Agreement,
    Column,
    Number,
    Table,
    number_text,
    signed_text,
    text_table,
)

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
#: What the signs beside our numbers mean.
SIGN_NOTE = f"=: as printed. ≈: within {DEVIATIONS:g} standard deviations. ▲, ▼: above or below them."
_SINGLE_CLASS_NOTE = f"† {SINGLE_CLASS} in some seed."
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

    @property
    def texts(self) -> list[str]:
        """The claim, the printed number, and ours with signs."""
        ours = (signed_text(self.ours[preset], self.printed, self.column) for preset in PRESETS)
        return [self.claim, number_text(self.printed, self.column), *ours]


def headlines(result: RunResult) -> list[HeadlineNumber]:
    """The headline numbers of a run, those that it has."""
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
    """The errata that concern a run."""
    from tff_esn.runs.errata.catalogue import errata

    return errata(result.about.errata) if result.about.errata else []


def summary_table(results: Sequence[RunResult]) -> Table:
    """The headlines of some runs, for the terminal."""
    rows = []
    for result in results:
        lines = [line.texts for line in headlines(result)] or [[comparison([result]), "", "", ""]]
        covers = ", ".join(result.about.covers) or result.title
        rows += [[where, *line] for where, line in zip([covers, *[""] * len(lines)], lines)]
    headings = ["Where", "Number", "Printed", *PRESETS]
    notes = [SIGN_NOTE, *([_SINGLE_CLASS_NOTE] if any("†" in cell for row in rows for cell in row) else [])]
    return text_table("Claimed vs reproduced", headings, rows, notes, headings[2:])


def notes_of(result: RunResult, table: Table) -> list[str]:
    """Notes below a table of a report."""
    notes = [*([GENERATED] if result.provenance.generated else []), *table.notes]
    return [*notes, _SINGLE_CLASS_NOTE] if table.has_single_class else notes


def comparison(results: Sequence[RunResult]) -> str:
    """In a sentence, how our numbers compare with the printed ones."""
    found = [one for result in results for one in result.agreements()]
    known = [one for one in found if one != "unknown"]
    if not known:
        return (
            "One seed, so no spread to hold the printed numbers against." if found else "The paper reports no number."
        )
    counts = {verdict: sum(one in kinds for one in known) for verdict, kinds in _VERDICTS.items()}
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    more = f"; {len(found) - len(known)} more have no spread to compare with" if len(found) > len(known) else ""
    return f"Of {len(known)} printed number{'s' * (len(known) > 1)}: {verdicts}{more}."


def seconds_text(seconds: float) -> str:
    """A duration as text.

    >>> seconds_text(90), seconds_text(7260), seconds_text(4.2)
    ('2 min', '2.0 h', '4 s')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
