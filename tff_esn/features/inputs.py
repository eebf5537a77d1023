"""What the model sees of each subject, and the states a reservoir makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tff_esn.config import InputConfig, WindowConfig
from tff_esn.datasets.splits import ClientSplit, resolve_split
from tff_esn.datasets.study import Study
from tff_esn.datasets.tables import TASKS, FeatureTable, Task
from tff_esn.features.extraction import standardize
from tff_esn.features.preparation import FeatureRecipe, Preparation, prepare
from tff_esn.features.windows import Sequences, normalized_windows
from tff_esn.presets import PRESETS
from tff_esn.reservoir.states import carried_states, last_states
from tff_esn.reservoir.weights import ReservoirWeights
from tff_esn.store.cache import Cache


@dataclass(frozen=True)
class Examples:
    """States (or features) with their labels."""

    values: NDArray
    labels: NDArray[np.int64]

    @classmethod
    def concatenate(cls, parts: Sequence[Examples]) -> Examples:
        """The examples of several subjects, in the order given."""
        return cls(np.concatenate([part.values for part in parts]), np.concatenate([part.labels for part in parts]))


@dataclass(frozen=True)
class ModelInputs:
    """Every subject under a configuration.

    Attributes:
        windows: Windows of normalised features.
        standardized: The standardised features at each window's last step, `(windows, features)`.
        series: The input at each of these steps when the state is carried. Where the running
            normalisation stays inside the subject, what the last step of the window is; where it
            belongs to the windows of the whole study, the standardised features.
    """

    windows: Mapping[str, Sequences]
    standardized: Mapping[str, NDArray]
    series: Mapping[str, NDArray]
    split: ClientSplit
    reading: str
    task: Task

    @property
    def columns(self) -> int:
        """Number of input features."""
        return next(iter(self.windows.values())).values.shape[2]

    def features(self) -> dict[str, Examples]:
        """The standardised features at each example's last step, for models without a reservoir."""
        return {name: self._examples(own, self.standardized[name]) for name, own in self.windows.items()}

    def states(self, weights: ReservoirWeights) -> dict[str, Examples]:
        """The reservoir's state at each example's last step."""
        if self.reading == "window":
            return {name: self._examples(own, last_states(own.values, weights)) for name, own in self.windows.items()}
        states = carried_states([self.series[name] for name in self.windows], weights)
        return {name: self._examples(own, part) for (name, own), part in zip(self.windows.items(), states)}

    def sequences(self) -> dict[str, Examples]:
        """The windows themselves, for a model that holds the reservoir."""
        return {name: self._examples(own, own.values) for name, own in self.windows.items()}

    def of(self, subjects: Sequence[str]) -> ModelInputs:
        """The same for some of the subjects; the split stays whole."""
        return replace(self, windows={subject: self.windows[subject] for subject in subjects})

    def _examples(self, own: Sequences, values: NDArray) -> Examples:
        labels = self.task.labels(own.codes)
        kept = labels >= 0
        return Examples(values, labels) if kept.all() else Examples(values[kept], labels[kept])


def prepared_features(study: Study, config: InputConfig, cache: Cache, jobs: int | None = 1) -> Preparation:
    """The features of a study under a configuration, from the cache where they are there."""
    resolve_split(config.split, study.subjects)  # Before hours of work, not after.
    return prepare(study, feature_recipe(config), cache=cache, jobs=jobs)


def feature_recipe(config: InputConfig) -> FeatureRecipe:
    """How the features of a configuration are made."""
    return FeatureRecipe(replace(PRESETS[config.preset].extraction, hrv_window=config.hrv_window))


def model_inputs(preparation: Preparation, config: InputConfig) -> ModelInputs:
    """Standardised, windowed and normalised features of the split's subjects, in the split's order."""
    split = resolve_split(config.split, preparation.subjects)
    tables = [standardize(preparation.load(subject).table) for subject in split.subjects]
    windows = PRESETS[config.preset].windows
    return table_inputs(tables, split, TASKS[config.task], windows, config.features, config.reading)


def table_inputs(
    tables: Sequence[FeatureTable],
    split: ClientSplit,
    task: Task,
    windows: WindowConfig,
    features: Sequence[str] | None = None,
    reading: str = "window",
) -> ModelInputs:
    """The same of any tables.

    Args:
        tables: One a subject of the split, in its order.
        split: Who trains, validates and tests.
        task: The label of each code.
        windows: Their length and normalisation.
        features: Columns; None for all.
        reading: As in `InputConfig`.
    """
    cut = normalized_windows(tables, windows)
    chosen = {subject: own.select(features or own.names) for subject, own in cut.items()}
    standardized = {table.subject: last_steps(table, chosen[table.subject]) for table in tables}
    series = {table.subject: carried_input(table, chosen[table.subject], windows) for table in tables}
    return ModelInputs(chosen, standardized, series, split, reading, task)


def carried_input(table: FeatureTable, windows: Sequences, config: WindowConfig) -> NDArray:
    """The input at each window's last step when the state is carried: see `ModelInputs.series`."""
    return windows.values[:, -1] if config.scope == "subject" else last_steps(table, windows)


def last_steps(table: FeatureTable, windows: Sequences) -> NDArray:
    """The table's own values at each window's last step, before the windows were normalised."""
    return table.values[-len(windows) :, [table.names.index(name) for name in windows.names]]
