"""The report: one self-contained page, made from results only."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from tff_esn.datasets.synthetic import GENERATED
from tff_esn.runs.report.charts import chart, styles, write_figure
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
from tff_esn.runs.result import ResultFigure, RunResult, write_result
from tff_esn.store.files import atomic_write
from tff_esn.tables import (
    DEVIATIONS,
    SINGLE_CLASS,
    Column,
    Table,
    html_cell,
    number_text,
    to_csv,
    to_latex,
    to_markdown,
)

TITLE = "Federated Echo State Networks: claimed vs reproduced"
_BEYOND = "What the documents do not have, and what it takes to read them."


def write_report(folder: Path, results: Sequence[RunResult]) -> tuple[Path, list[RunResult]]:
    """Writes the page, and each result, table and figure as a file.

    Returns:
        The page, and the new results.
    """
    changed = [result for result in results if not _is_there(folder, result)]
    for result in changed:
        for table in result.tables:
            for ending, text in (("csv", to_csv(table)), ("md", to_markdown(table)), ("tex", to_latex(table))):
                with atomic_write(folder / "tables" / f"{table.name}.{ending}") as file:
                    file.write(text.encode())
        for figure in result.figures:
            write_figure(figure, folder / "figures")
        # Last, so that a result that is there has its files.
        write_result(result_path(folder, result), result)
    page = folder / "report.html"
    # Of the same results another version may make another page.
    content = render(results).encode()
    if not page.is_file() or page.read_bytes() != content:
        with atomic_write(page) as file:
            file.write(content)
    return page, changed


def result_path(folder: Path, result: RunResult) -> Path:
    """The file of a result in a report's folder."""
    return folder / "results" / f"{result.name}.json"


def _is_there(folder: Path, result: RunResult) -> bool:
    path = result_path(folder, result)
    return path.is_file() and path.read_text(encoding="utf-8") == result.to_json()


def render(results: Sequence[RunResult]) -> str:
    """The page as text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("tff_esn.runs.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = prose
    template = environment.get_template("report.html.jinja")
    ordered = in_order(results)
    documents = [
        {
            "name": name,
            "short": DOCUMENTS[name],
            "source": reported()["source"].get(name, _BEYOND),
            "runs": [_run(result) for result in own],
        }
        for name, own in groupby(ordered, key=lambda result: result.about.document)
    ]
    charts = {
        f"figure-{figure.name}": chart(figure, next(iter(figure.presets), None), legend=False)
        for result in ordered
        for figure in result.figures
    }
    return template.render(
        title=TITLE,
        lead=_lead(ordered),
        warnings=_warnings(ordered),
        documents=documents,
        errata=_errata(ordered),
        presets=PRESETS,
        summary=[_summary(result) for result in ordered],
        deviations=f"{DEVIATIONS:g}",
        charts=Markup(_in_script(json.dumps(charts, separators=(",", ":"), ensure_ascii=False))),
        bundle=Markup(_in_script(_bundle())),
        single_class=SINGLE_CLASS,
        footer="Made by tff-esn from results/*.json; tables/ and figures/ beside this page hold the same as files.",
    )


def prose(text: str) -> Markup:
    """Text with `code` and *emphasis* in it."""
    code = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text)))
    return Markup(re.sub(r"\*(\w[^*<>]*)\*", r"<em>\1</em>", code))


def _errata(results: Sequence[RunResult]) -> list[dict[str, Any]]:
    """All errata by document, each with the runs that it concerns."""
    from tff_esn.runs.errata.catalogue import DOCUMENTS as PRINTED_IN
    from tff_esn.runs.errata.catalogue import errata

    return [
        {
            "name": document,
            "title": title,
            "errata": [
                {
                    "erratum": one,
                    "command": f"tff-esn errata {one.name}{' --data path/to/WESAD' if one.recordings else ''}",
                    "runs": [result for result in results if one.name in result.about.errata],
                }
                for one in own
            ],
        }
        for document, title in PRINTED_IN.items()
        if (own := [one for one in errata() if one.document == document])
    ]


def _summary(result: RunResult) -> dict[str, Any]:
    lines = [
        {
            "claim": line.claim,
            "printed": number_text(line.printed, line.column),
            "ours": [Markup(html_cell(line.ours[preset], line.printed, line.column)) for preset in PRESETS],
        }
        for line in headlines(result)
    ]
    nothing = [Markup(html_cell(None, None, Column("", "")))] * len(PRESETS)
    covers = "; ".join(result.about.covers) or result.title
    return {
        "name": result.name,
        "covers": covers,
        "claimed": re.sub(r"(?<=\.) .*", "", result.about.claimed),  # its first sentence
        "lines": lines or [{"claim": comparison([result]), "printed": "", "ours": nothing}],
    }


def _run(result: RunResult) -> dict[str, Any]:
    made = result.provenance
    return {
        "name": result.name,
        "title": result.title,
        "contents": ", ".join(result.about.covers) or result.title,
        "covers": ", ".join(result.about.covers),
        "claimed": result.about.claimed,
        "comparison": comparison([result]),
        "why": result.about.why,
        "notes": result.about.notes,
        "errata": errata_of(result),
        "tables": [_table(result, table) for table in result.tables],
        "figures": [_figure(figure) for figure in result.figures],
        "command": made.command,
        "study": made.study + (", quick run" if made.quick else ""),
        "seeds": f"{made.seeds} seed{'s' if made.seeds != 1 else ''}",
        "time": seconds_text(made.seconds),
        "cells": made.cells,
        "versions": ", ".join(f"{name} {version}" for name, version in made.versions.items()) + ".",
    }


def _table(result: RunResult, table: Table) -> dict[str, Any]:
    groups = [{"name": name, "span": len(list(own))} for name, own in groupby(table.columns, key=lambda one: one.group)]
    first = [
        bool(column.group) and (i == 0 or table.columns[i - 1].group != column.group)
        for i, column in enumerate(table.columns)
    ]
    rows = [
        {
            "label": row.label,
            "lines": [
                {"source": source, "cells": [Markup(html_cell(*cell, begins)) for cell, begins in zip(cells, first)]}
                for source, cells in table.compared(row)
            ],
        }
        for row in table.rows
    ]
    return {
        "name": table.name,
        "title": table.title,
        "corner": table.corner,
        "groups": groups if any(group["name"] for group in groups) else [],
        "columns": [{"heading": column.heading, "first": begins} for column, begins in zip(table.columns, first)],
        "rows": rows,
        "notes": notes_of(result, table),
    }


def _figure(figure: ResultFigure) -> dict[str, Any]:
    colours, dashes = styles(figure)
    names = [f"{figure.name}-{preset}" for preset in figure.presets] or [figure.name]
    banded = any(one.low for one in figure.series)
    return {
        "id": f"figure-{figure.name}",
        "title": figure.title,
        "presets": figure.presets,
        "curves": [
            {"name": name, "colour": colours[name], "dash": " ".join(map(str, dashes[name]))} for name in colours
        ],
        "alt": _alternative(figure),
        "files": [f"{name}.{ending}" for name in names for ending in ("png", "svg")],
        "note": "lines are means over seeds, bands reach from the least to the largest" if banded else "",
    }


def _alternative(figure: ResultFigure) -> str:
    """Alternative text of a chart: where the curves of the first preset end."""
    preset = next(iter(figure.presets), None)
    panels = []
    for panel in figure.panels:
        own = [one for one in figure.series if one.panel == panel and one.preset in (None, preset)]
        ends = ", ".join(f"{one.name} {one.y[-1]:g}" for one in own if one.y)
        panels.append(f"{panel}: {ends}")
    whose = f", preset {preset}" if preset else ""
    return f"{figure.title}: {figure.y or 'values'} over {figure.x}{whose}; at the end {'; '.join(panels)}."


def _lead(results: Sequence[RunResult]) -> str:
    tables, figures = (sum(len(getattr(result, name)) for result in results) for name in ("tables", "figures"))
    return f"Tables reproduced: {tables}; figures: {figures}. {comparison(results)}"


def _warnings(results: Sequence[RunResult]) -> list[str]:
    warnings = []
    generated = [result for result in results if result.provenance.generated]
    if generated:
        some = "" if len(generated) == len(results) else f" ({', '.join(result.name for result in generated)})"
        warnings.append(f"{GENERATED}{some}")
    if any(result.provenance.quick for result in results):
        warnings.append("Quick runs: few rounds or trials, one seed. The numbers only show that everything works.")
    return warnings


@lru_cache(maxsize=1)
def _bundle() -> str:
    import vl_convert

    # Its names stay its own; what the page needs of it hangs at `window`.
    return f"(() => {{{vl_convert.javascript_bundle('window.vegaEmbed = vegaEmbed;')}}})();"


def _in_script(text: str) -> str:
    """Text that cannot end the script element it stands in."""
    return re.sub(r"<(?=/script|!--)", r"\\u003c", text, flags=re.IGNORECASE)
