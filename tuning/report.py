"""A search's trials as a table."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table

from tff_esn.tuning.search import SearchResult
from tff_esn.tuning.space import as_text

_SCORES = ("auroc",)


def _heading(name: str) -> str:
    """Words below each other, so that all columns fit a terminal."""
    return name.replace("_", "\n")


def search_table(found: SearchResult, document: str, top: int = 10) -> Table:
    """The best trials: their settings and validation scores."""
    shown = found.trials[:top]
    table = Table(
        title=f"{document}: best {len(shown)} of {len(found.trials)} trials", title_justify="left", box=SIMPLE_HEAD
    )
    settings = list(shown[0].settings)
    scores = [name for name in dict.fromkeys((found.objective, *_SCORES)) if name in shown[0].scores]
    table.add_column("trial")
    for name in settings:
        table.add_column(_heading(name.split(".")[-1]))
    for name in scores:
        table.add_column(_heading(name), justify="right")
    for trial in shown:
        values = [as_text(trial.settings[name]) for name in settings]
        table.add_row(trial.trial, *values, *(f"{trial.scores[name]:.4f}" for name in scores))
    timed = [trial.seconds for trial in found.trials if trial.seconds is not None]
    table.caption = (
        f"{found.new} trials in {found.seconds:.0f} s now, {sum(timed) / len(timed):.2f} s each"
        if timed
        else "nothing left to run"
    )
    return table
