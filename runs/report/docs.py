"""`docs/reproduction.md`, made from results only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tff_esn.runs.report.summary import (
    DOCUMENTS,
    PRESETS,
    comparison,
    errata_of,
    headlines,
    in_order,
    notes_of,
    seconds_text,
)
from tff_esn.runs.reported import reported
from tff_esn.runs.result import RunResult
from tff_esn.tables import DEVIATIONS, SINGLE_CLASS, text_cells, text_table, to_markdown

#: Tables with more cells than this are left to the report.
_LARGEST = 400
_HEAD = f"""# Claimed vs reproduced

Written by `tff-esn report runs/results --docs docs/reproduction.md` from the results in `runs/results/`; a test keeps
the two in step. `tff-esn report` makes the page with all tables and figures of the same results.

Each number is the mean over seeds with its standard deviation, under `thesis` (as published) and `corrected` (with
errors fixed). `=`: the same in all printed digits, rounded or cut. `≈`: the printed number is within
{DEVIATIONS:g} standard deviations of our mean. `▲`, `▼`: ours is above or below it, beyond that spread. No sign:
nothing is printed, or one seed has no spread. †: {SINGLE_CLASS} in some seed. The errata are in
[errata.md](errata.md).

`tff-esn reproduce --list` names the run of each table and figure that has results. Left out are drawings (thesis
Figures 1.1, 2.1 to 2.3, 3.1, 6.1 and 6.2, the IncFed paper's Figures 1 to 3, the slides' diagrams) and, as a search,
the IncFed paper's Table II: it is a space to tune in (`tff-esn tune DIR --space incfed-table-2`). Runs on HHAR need its
recordings.
"""


def reproduction_page(results: Sequence[RunResult]) -> str:
    """For each document: what was claimed, what was reproduced, and why they differ."""
    blocks = [_HEAD, _summary(results)]
    for name, title in DOCUMENTS.items():
        own = [result for result in in_order(results) if result.about.document == name]
        if own:
            source = reported()["source"].get(name)
            blocks += [f"## {title}\n", *([f"{source}\n"] if source else [])]
            blocks += [block for result in own for block in _run(result)]
    return "\n".join(blocks)


def _summary(results: Sequence[RunResult]) -> str:
    headings = ["where", "number", "printed", *(f"`{preset}`" for preset in PRESETS)]
    rows = [
        [f"[{', '.join(result.about.covers)}](#{result.name})", *line.texts]
        for result in in_order(results)
        for line in headlines(result)
    ]
    return to_markdown(text_table("", headings, rows, numeric=headings[2:]))


def _run(result: RunResult) -> Iterator[str]:
    about, made = result.about, result.provenance
    yield f'<a id="{result.name}"></a>\n\n### {result.title}\n'
    if about.covers:
        yield (
            f"{', '.join(about.covers)}. `{made.command}`: {made.study}, {made.seeds} seed{'s' * (made.seeds != 1)}, "
            + (f"{seconds_text(made.seconds)} of computing added up.\n")
        )
    if about.claimed:
        yield f"**Claimed.** {about.claimed}\n"
    yield f"**Reproduced.** {comparison([result])}\n"
    if about.why:
        yield f"**Why.** {about.why}\n"
    if about.notes or about.errata:
        linked = [f"[`{one.name}`](errata.md#{one.name}): {one.finding}" for one in errata_of(result)]
        yield "\n".join(f"- {note}" for note in (*about.notes, *linked)) + "\n"
    for table in result.tables:
        lines = text_cells(table)
        if len(lines) * len(lines[0]) > _LARGEST:
            yield f"{table.title}: {len(table.rows)} rows, in the report.\n"
            continue
        yield f"{table.title}:\n\n{to_markdown(table)}"
        notes = notes_of(result, table)
        if notes:
            yield "\n".join(f"- {note}" for note in notes) + "\n"
