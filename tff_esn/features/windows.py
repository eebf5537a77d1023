"""Sequences for a model: windows of normalised features, or chunks of raw channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from tff_esn.datasets.tables import FeatureTable, Task
from tff_esn.errors import ConfigError
from tff_esn.parameters import STRICT, PositiveInt


@dataclass(frozen=True, config=STRICT)
class WindowConfig:
    """How the standardised features become the model's input windows.

    Attributes:
        normalization: `divide_by_mean` divides a window by the running mean of all
            windows so far (the thesis's "online moving average"); `zscore` subtracts
            that mean and divides by the running standard deviation; `none`.
        scope: Whether the running statistics and the windows run through the
            `study`, from one subject into the next and over breaks (the thesis), or start anew with
            each `subject`, so that nothing of one client reaches another, and stay between breaks.
        steps: Length of a window; stride 1.
    """

    normalization: Literal["divide_by_mean", "zscore", "none"]
    scope: Literal["study", "subject"]
    steps: PositiveInt = 20


@plain_dataclass(frozen=True)
class Sequences:
    """A subject's examples.

    Attributes:
        values: `(examples, steps, columns)`.
        codes: `(examples,)`, the protocol code of the last step.
        last_steps: `(examples,)`, which step of the subject's table that is.
    """

    subject: str
    names: tuple[str, ...]
    values: NDArray
    codes: NDArray
    last_steps: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.values)

    def select(self, names: Sequence[str]) -> Sequences:
        """A copy with only the columns `names`."""
        unknown = [name for name in names if name not in self.names]
        if unknown:
            raise ConfigError(f"no feature {', '.join(unknown)}; expected some of {', '.join(self.names)}")
        columns = [self.names.index(name) for name in names]
        return replace(self, names=tuple(names), values=self.values[:, :, columns])


def normalized_windows(tables: Sequence[FeatureTable], config: WindowConfig) -> dict[str, Sequences]:
    """Windows of `config.steps` steps, stride 1, by subject, under a running normalisation.

    With scope `study` the windows run from one table into the next in the order given,
    and so do their statistics; a window belongs to the subject of its last step.
    """
    groups = [list(tables)] if config.scope == "study" else [[table] for table in tables]
    return {subject: sequences for group in groups for subject, sequences in _normalize(group, config).items()}


def _normalize(tables: Sequence[FeatureTable], config: WindowConfig) -> dict[str, Sequences]:
    steps = config.steps
    values = np.concatenate([table.values for table in tables])
    if len(values) < steps:
        raise ConfigError(f"a window of {steps} steps; {tables[0].subject} has only {len(values)}")
    windows = np.moveaxis(sliding_window_view(values, steps, axis=0), -1, 1)
    if config.scope == "subject" and len(tables[0].breaks):
        kept = _unbroken(np.arange(steps - 1, len(values)), tables[0].breaks, steps)
        if not len(kept):
            raise ConfigError(f"a window of {steps} steps; {tables[0].subject} has no stretch as long without a break")
        windows = _running_normalization(windows[kept - steps + 1], config)
        (table,) = tables
        return {table.subject: Sequences(table.subject, table.names, windows, table.codes[kept], kept)}
    windows = _running_normalization(windows, config)
    ends = np.cumsum([len(table) for table in tables])
    sequences = {}
    for table, end in zip(tables, ends):
        start = max(end - len(table), steps - 1)
        last = np.arange(start, end) - (end - len(table))
        own = windows[start - steps + 1 : end - steps + 1]
        sequences[table.subject] = Sequences(table.subject, table.names, own, table.codes[last], last)
    return sequences


def _unbroken(last_steps: NDArray, breaks: NDArray, steps: int) -> NDArray:
    """Those last steps whose windows have no break inside."""
    before = np.searchsorted(breaks, last_steps - steps + 1, side="right")
    return last_steps[before == np.searchsorted(breaks, last_steps, side="right")]


def _running_normalization(windows: NDArray, config: WindowConfig) -> NDArray:
    """Normalises window j by the mean (and deviation) of the windows 1 to j, per feature."""
    if config.normalization == "none":
        return windows
    so_far = np.arange(1, len(windows) + 1)[:, None]
    mean = np.cumsum(windows.mean(axis=1), axis=0) / so_far
    if config.normalization == "divide_by_mean":
        return windows / mean[:, None]
    variance = np.cumsum((windows**2).mean(axis=1), axis=0) / so_far - mean**2
    # At the start of a recording the deviation is that of a few seconds. The features are
    # standardised on the baseline, whose deviation of 1 is the least that is divided by.
    return (windows - mean[:, None]) / np.sqrt(np.maximum(variance, 1.0))[:, None]


def chunks(table: FeatureTable, task: Task, steps: int) -> Sequences:
    """Cuts non-overlapping chunks of `steps` steps inside each labelled stretch.

    A stretch ends where the label changes or the series breaks; what is left at its
    end is shorter than a chunk and dropped.
    """
    labels = task.labels(table.codes)
    changes = np.flatnonzero(np.diff(labels)) + 1
    edges = np.unique(np.concatenate(([0], changes, table.breaks, [len(labels)])))
    starts = [
        np.arange(start, end - steps + 1, steps) for start, end in zip(edges[:-1], edges[1:]) if labels[start] >= 0
    ]
    first = np.concatenate(starts) if starts else np.empty(0, np.int64)
    index = first[:, None] + np.arange(steps)
    return Sequences(table.subject, table.names, table.values[index], table.codes[first], first + steps - 1)
