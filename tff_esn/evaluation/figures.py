"""Figures as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tff_esn.files import atomic_write


@dataclass(frozen=True)
class Line:
    """A quantity over rounds.

    Attributes:
        rounds: `(n,)`.
        values: `(seeds, n)`; the line is their mean, the band around it reaches from the least to the largest.
    """

    rounds: NDArray
    values: NDArray


@dataclass(frozen=True)
class Panel:
    """Lines by name on the same axes, with constant ones to compare them with."""

    title: str
    lines: Mapping[str, Line]
    levels: Mapping[str, float]


def draw_panels(path: Path, title: str, panels: Sequence[Sequence[Panel]], quantity: str) -> None:
    """Draws rows of panels with one legend, as a PNG or whatever the path's ending says."""
    from matplotlib.figure import Figure

    rows, columns = len(panels), len(panels[0])
    figure = Figure(figsize=(5.2 * columns, 3.2 * rows + 0.9), layout="constrained")
    axes = np.atleast_2d(figure.subplots(rows, columns, sharex=True, sharey=True))
    for row, own in zip(axes, panels):
        for axis, panel in zip(row, own):
            for (name, line), color in zip(panel.lines.items(), _colors()):
                axis.plot(line.rounds, line.values.mean(axis=0), label=name, color=color, linewidth=1.4)
                axis.fill_between(
                    line.rounds, line.values.min(axis=0), line.values.max(axis=0), color=color, alpha=0.12
                )
            for (name, level), style in zip(panel.levels.items(), (":", "--", "-.")):
                axis.axhline(level, label=name, color="black", linewidth=1, linestyle=style)
            axis.set_title(panel.title, fontsize=10)
            axis.set_ylim(0, 1)
            axis.grid(alpha=0.25)
    for axis in axes[-1]:
        axis.set_xlabel("round")
    for axis in axes[:, 0]:
        axis.set_ylabel(quantity)
    figure.suptitle(title)
    named: dict[str, Any] = {}
    for axis in axes.flat:
        handles, labels = axis.get_legend_handles_labels()
        named.update(zip(labels, handles))
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    with atomic_write(path) as file:
        figure.savefig(file, format=path.suffix[1:], dpi=110)


def draw_judged(path: Path, title: str, rounds: NDArray, accuracy: NDArray, accepted: NDArray, valid: NDArray) -> None:
    """Draws accuracy over rounds, and below it the clients that were accepted and those that should have been.

    Args:
        path: Where to; its ending says the format.
        title: Of the figure.
        rounds: Rounds that were evaluated.
        accuracy: At these.
        accepted: Clients accepted in each round, from the first on.
        valid: Clients that are no fakes, likewise.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    above.plot(rounds, accuracy, color=_colors()[0])
    above.set_ylim(0, 1)
    above.set_ylabel("accuracy")
    above.grid(alpha=0.25)
    numbers = np.arange(1, len(accepted) + 1)
    below.bar(numbers, valid, color=_colors()[2], label="really valid", width=0.9)
    below.step(numbers, accepted, color="black", where="mid", label="accepted")
    below.set_xlabel("round")
    below.set_ylabel("clients")
    below.legend(loc="upper right", frameon=False)
    error = np.abs(accepted - valid).mean()
    figure.suptitle(f"{title}\nmean absolute error {error:.4f} (printed 1.1410)")
    with atomic_write(path) as file:
        figure.savefig(file, format=path.suffix[1:], dpi=110)


def _colors() -> list[str]:
    # Okabe and Ito's, told apart by colour-blind readers too.
    return ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#999933", "#882255"]
