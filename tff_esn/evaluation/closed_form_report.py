"""Tables of closed forms as the documents print them, the printed numbers below ours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from tff_esn.closed_form.experiments import THRESHOLDED, MethodOutcome, TableResult
from tff_esn.config import ClosedFormConfig
from tff_esn.console import size_text
from tff_esn.metrics import spread
from tff_esn.runs.reported import reported


def result_table(result: TableResult, study: str) -> Table:
    """Rows: shares of the training clients. Columns: each method's accuracy, % of units and bytes.

    Args:
        result: What came out.
        study: `wesad` or `hhar`, to find the printed numbers of tables that have both.
    """
    config, printed = result.config, printed_numbers(result, study)
    table = Table(
        title=escape(config.title), title_justify="left", caption_justify="left", box=SIMPLE_HEAD, padding=(0, 1)
    )
    table.add_column("Training\nusers")
    table.add_column("Majority\nclass", justify="right")
    for method in config.methods:
        for heading in _headings(method.algorithm in THRESHOLDED, config):
            table.add_column(f"{escape(method.name)}\n{heading}", justify="right")
    for percent in config.percent:
        cells = [f"{percent} %", f"{100 * result.majority[percent]:.2f}"]
        below = ["[dim]printed", ""]
        for method in config.methods:
            own = result.chosen(method.name, percent)
            thresholded = method.algorithm in THRESHOLDED
            cells += _cells(own, thresholded, config)
            below += _printed_cells(printed.get(str(percent), {}).get(method.name), thresholded, config.train_scores)
        table.add_row(*cells, end_section=not printed)
        if printed:
            table.add_row(*below, end_section=True)
    table.caption = escape("\n".join(_notes(result)))
    return table


def threshold_table(result: TableResult, method: str) -> Table:
    """Figure 1 of the pFedRR paper as numbers: test accuracy and share of units against tau."""
    table = Table(
        title=escape(f"{method}: test accuracy (and % of units) against tau"), title_justify="left", box=SIMPLE_HEAD
    )
    table.add_column("tau")
    for percent in result.config.percent:
        table.add_column(f"{percent} % of users", justify="right")
    for tau in sorted({one.tau for one in result.outcomes if one.method == method and one.tau is not None}):
        cells = []
        for percent in result.config.percent:
            own = result.of(method, percent, tau)
            units = spread([one.units_percent for one in own]).mean
            cells.append(f"{_mean_std([100 * one.accuracy('test') for one in own])} ({units:.1f})")
        table.add_row(f"{tau:g}", *cells)
    return table


def printed_numbers(result: TableResult, study: str) -> dict[str, Any]:
    """By share and method, what the document prints; accuracies in percent."""
    if result.config.printed is None:
        return {}
    table = reduce(lambda found, key: found[key], result.config.printed.split("."), reported())
    if any("train_acc" in row for row in table.values()):  # of Tables III and IV: selected settings
        return {"100": {name: [row["train_acc"], row["val_acc"]] for name, row in table.items()}}
    table = table.get(study, table)
    # The thesis prints shares of 1 where the papers print percent.
    scale = 100 if result.config.printed == "thesis.table_b_3" else 1
    return {
        percent: {name: [scale * values[0], *values[1:]] for name, values in row.items()}
        for percent, row in table.items()
        if percent.isdigit()
    }


def headline(result: TableResult) -> dict[str, float]:
    """Mean test accuracy of each method with all clients, for the list of runs."""
    percent = max(result.config.percent)
    return {
        method.name: spread([one.accuracy("test") for one in result.chosen(method.name, percent)]).mean
        for method in result.config.methods
    }


def _headings(thresholded: bool, config: ClosedFormConfig) -> list[str]:
    return [
        *(["train %"] if config.train_scores else []),
        f"{config.scored} %",
        *(["units %", "tau"] if thresholded else []),
        "up",
    ]


def _cells(own: Sequence[MethodOutcome], thresholded: bool, config: ClosedFormConfig) -> list[str]:
    parts = (["train"] if config.train_scores else []) + [config.scored]
    cells = [_mean_std([100 * one.accuracy(part) for one in own]) for part in parts]
    if thresholded:
        cells += [_mean_std([one.units_percent for one in own]), f"{own[0].tau:g}"]
    return [*cells, size_text(spread([one.bytes_up for one in own]).mean)]


def _printed_cells(values: Sequence[float] | None, thresholded: bool, train: bool) -> list[str]:
    numbers = list(values or [])
    if train:
        texts = [f"{number:.2f}" for number in numbers[:2]] or ["", ""]
    else:
        texts = [f"{numbers[0]:.2f} ±{numbers[1]:.2f}" if numbers else ""]
        if thresholded:
            texts += [f"{numbers[2]:.2f} ±{numbers[3]:.2f}" if len(numbers) > 3 else "", ""]
    return [f"[dim]{text}" for text in (*texts, "")]


def _mean_std(values: Sequence[float]) -> str:
    own = spread(values)
    return f"{own.mean:.2f}" + ("" if math.isnan(own.std) else f" ±{own.std:.2f}")


def _notes(result: TableResult) -> list[str]:
    config, top = result.config, max(result.config.percent)
    totals = []
    for method in config.methods:
        own = result.chosen(method.name, top)[0]
        totals.append(f"{method.name} {size_text((own.bytes_up + own.bytes_down) * own.clients)}")
    return [
        f"{config.repetitions} reservoirs; guessing is right in {100 / result.classes:.2f} % of cases.",
        f"up: bytes from a client (values {config.wire}, indices and header).",
        f"All clients, up and down, at {top} %: {', '.join(totals)}.",
    ]
