"""The features of thesis chapter 5 as a data set: the base of the recipes `thesis` and `corrected`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator
from pydantic.dataclasses import dataclass

from tff_esn.datasets.federated import FederatedDataset, LabelledSequences
from tff_esn.datasets.recording import BASELINE, Recording, Signal
from tff_esn.datasets.splits import ClientSplit
from tff_esn.datasets.tables import STRESS, FeatureTable, Task
from tff_esn.errors import ConfigError, DataError
from tff_esn.features.extraction import ExtractionConfig, Feature, SubjectFeatures, extract, standardize
from tff_esn.features.recipe import FeatureRecipe, RecordingInputs, table_arrays, table_from
from tff_esn.features.windows import WindowConfig, normalized_windows
from tff_esn.parameters import STRICT, PositiveFloat, PositiveInt, split_names

#: Names of features, or the same joined by `+` or `,`.
FeatureColumns = Annotated[tuple[Feature, ...], BeforeValidator(split_names)]


@dataclass(frozen=True, repr=False, config=STRICT)
class PhysiologicalFeatures(FeatureRecipe):
    """Phasic and tonic EDA, heart rate and its variability of the wrist, standardised on the subject's baseline.

    Attributes:
        columns: The features, out of pEDA, tEDA, HR and HRV.
        hrv_window: Sliding window of HRV: x 64 heart beats under `thesis`, seconds under `corrected`.
        reading: When the state is reset. `window`: for each window, whose last step is a sample. `carried`: never
            within a recording, each step of which is a sample.
        steps: Length of a window; stride 1.
    """

    columns: FeatureColumns = ("pEDA",)
    hrv_window: PositiveFloat = 25.0
    reading: Literal["window", "carried"] = "window"
    steps: PositiveInt = 20

    signals: ClassVar[tuple[str, ...]] = ("wrist/EDA", "wrist/BVP")
    switches: ClassVar[ExtractionConfig]
    normalization: ClassVar[Literal["divide_by_mean", "zscore", "none"]]
    scope: ClassVar[Literal["study", "subject"]]

    @property
    def extraction(self) -> ExtractionConfig:
        """From recordings to tables."""
        return replace(self.switches, hrv_window=self.hrv_window)

    @property
    def windows(self) -> WindowConfig:
        """From tables to windows."""
        return WindowConfig(self.normalization, self.scope, self.steps)

    @property
    def table_key(self) -> Any:
        """The extraction's settings."""
        return self.extraction

    def make(self, recording: Recording) -> dict[str, NDArray]:
        """Computes a subject's features, as arrays to keep."""
        features = extract(recording, self.extraction)
        extracted = {f"extracted {name}": values for name, values in features.extracted.items()}
        return {**extracted, "code_counts": features.code_counts, **table_arrays(features.table)}

    def restore(self, subject: str, arrays: Mapping[str, NDArray]) -> SubjectFeatures:
        """A subject's features of the arrays kept."""
        table = table_from(subject, arrays)
        extracted = {name: arrays[f"extracted {name}"] for name in table.names}
        return SubjectFeatures(extracted, arrays["code_counts"], table)

    def table(self, prepared: SubjectFeatures) -> FeatureTable:
        """The features, standardised on the subject's baseline."""
        return standardize(prepared.table)

    def dataset(self, tables: Sequence[FeatureTable], task: Task, partition: ClientSplit) -> FederatedDataset:
        """Windows of normalised features, or whole recordings."""
        return windowed_dataset(tables, task, partition, self.windows, self.columns, self.reading, self)

    def inputs_of(self, recording: Recording, baseline: tuple[float, float] | None = None) -> RecordingInputs:
        """Windows, or the steps of the recording. Of its labels only the baseline is used, to standardise on.

        The running normalisation starts with the recording, even if in training it runs through a study.
        """
        marked = _marked_baseline(recording, baseline)
        table = standardize(extract(marked, self.extraction, required=(BASELINE,)).table)
        data = self.dataset([table], STRESS, ClientSplit((table.subject,)))
        values = data[table.subject].values
        times = _step_times(len(table), marked.codes, self.extraction)[self.steps - 1 :]
        if isinstance(values, tuple):
            return RecordingInputs(data.features, times, np.concatenate(values))
        note = (
            f"Features {self.name} are normalised by statistics that run through a study; "
            "here they start with this recording."
        )
        return RecordingInputs(data.features, times, values, note if self.scope == "study" else None)


def windowed_dataset(
    tables: Sequence[FeatureTable],
    task: Task,
    partition: ClientSplit,
    windows: WindowConfig,
    columns: Sequence[str] | None = None,
    reading: str = "window",
    recipe: FeatureRecipe | None = None,
) -> FederatedDataset:
    """A data set of any tables.

    When the state is carried, the input at a step is what the last step of its window is if the running normalisation
    stays inside the subject; if it runs through the windows of the whole study, it is the table's own value.

    Args:
        tables: One for each subject, in the order in which normalisation may run through them.
        task: The class of each code.
        partition: Train, validation and test subjects.
        windows: Their length and normalisation.
        columns: Features; None for all.
        reading: As in `PhysiologicalFeatures`.
        recipe: How the tables were made.
    """
    if reading not in ("window", "carried"):
        raise ConfigError(f"reading = {reading!r}; expected window or carried")
    names = tuple(columns or tables[0].names)
    sequences = {}
    for subject, own in normalized_windows(tables, windows).items():
        table = next(one for one in tables if one.subject == subject)
        chosen, labels = own.select(names), task.labels(own.codes)
        static = table.values[own.last_steps][:, [table.names.index(name) for name in names]]
        if reading == "window":
            sequences[subject] = LabelledSequences(chosen.values, labels, static)
            continue
        series = chosen.values[:, -1] if windows.scope == "subject" else static
        stretches = np.searchsorted(table.breaks, own.last_steps, side="right")
        cuts = np.flatnonzero(np.diff(stretches)) + 1
        sequences[subject] = LabelledSequences(tuple(np.split(series, cuts)), tuple(np.split(labels, cuts)), static)
    return FederatedDataset(sequences, task, names, partition, recipe)


def _marked_baseline(recording: Recording, baseline: tuple[float, float] | None) -> Recording:
    """The recording with no labels but its baseline."""
    source, codes = recording.source, recording.codes
    inside = codes.values == BASELINE
    if baseline is not None:
        start, end = baseline
        if not 0 <= start < end <= codes.duration:
            found = f"a baseline from {start:g} s to {end:g} s"
            raise DataError(source, found, f"a stretch of its {codes.duration:g} s")
        inside = np.zeros(len(inside), bool)
        inside[round(start * codes.rate) : round(end * codes.rate)] = True
    if not inside.any():
        raise DataError(source, "no labelled baseline", "--baseline START-END in seconds, or labels with a baseline")
    if inside.all():
        raise DataError(source, "a baseline that is all of the recording", "a part to predict beside it")
    return replace(recording, codes=Signal(np.where(inside, BASELINE, 0).astype(np.int8), codes.rate))


def _step_times(steps: int, codes: Signal, extraction: ExtractionConfig) -> NDArray[np.float64]:
    """When each step of a feature table is, in seconds."""
    if extraction.alignment == "stretch":
        return np.linspace(0, (len(codes.values) - 1) / codes.rate, steps)
    # The clock ends with the recording; where it begins depends on the features.
    end = math.ceil(codes.duration * extraction.step_rate)
    return np.arange(end - steps, end) / extraction.step_rate
