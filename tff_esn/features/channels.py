"""Raw channels on one rate, as the IncFed, FedIP and pFedRR papers feed them to the reservoir."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal, Optional

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from tff_esn.datasets.federated import FederatedDataset, LabelledSequences
from tff_esn.datasets.recording import BASELINE, STRESS_CODE, Recording, Signal
from tff_esn.datasets.splits import ClientSplit
from tff_esn.datasets.study import find_defects
from tff_esn.datasets.tables import AFFECT, FeatureTable, Task
from tff_esn.errors import ConfigError, DataError
from tff_esn.features.recipe import FEATURE_RECIPES, FeatureRecipe, RecordingInputs, table_arrays
from tff_esn.features.windows import chunks
from tff_esn.lazy import LazyModule
from tff_esn.parameters import STRICT, Names, PositiveFloat, PositiveInt

filters = LazyModule("scipy.signal")

Device = Literal["chest", "wrist", "phones", "watches"]
#: Sensors of each device in the order of the authors' public code.
CHANNELS = {
    "chest": ("ACC", "Resp", "EDA", "ECG", "EMG", "Temp"),
    "wrist": ("ACC", "BVP", "EDA", "TEMP"),
}
#: Rates in Hz of a device's fastest sensor; None for samples as they arrive.
RATES: dict[str, Optional[float]] = {"chest": 700.0, "wrist": 64.0, "phones": None, "watches": None}


@FEATURE_RECIPES.register
@dataclass(frozen=True, repr=False, config=STRICT)
class Channels(FeatureRecipe):
    """Raw channels, z-scored over a subject's labelled steps, in chunks that each start from a zero state.

    Attributes:
        device: Device of raw channels: `chest` (ACC x3, Resp, EDA, ECG, EMG, Temp) or `wrist` (ACC x3, BVP, EDA, TEMP)
            of WESAD; `phones` or `watches` (accelerometer and gyroscope) of HHAR.
        rate: Rate of raw channels in Hz; None for that of the device's fastest sensor (chest 700, wrist 64), or the
            samples of HHAR as they arrived.
        steps: Length of a chunk, cut inside each labelled stretch; each step is a sample.
        models: Models of HHAR's devices to keep, None for all. The FedIP and pFedRR papers use the Nexus 4.
        tolerance: Longest time in seconds between joined samples of HHAR's accelerometer and gyroscope.
        max_gap: Longest time in seconds between samples of HHAR that are in the same sequence.
    """

    name = "channels"
    label = "raw channels"

    device: Device = "chest"
    rate: Optional[PositiveFloat] = None
    steps: PositiveInt = 700
    models: Optional[Names] = ("nexus4",)
    tolerance: PositiveFloat = 0.02
    max_gap: PositiveFloat = 1.0

    @property
    def sampling_rate(self) -> float | None:
        """The rate asked for, or the device's."""
        return self.rate if self.rate is not None else RATES[self.device]

    @property
    def table_key(self) -> Any:
        """Device and rate, and how HHAR's sensors are joined."""
        joined = (self.models, self.tolerance, self.max_gap) if self.device in ("phones", "watches") else ()
        return (self.device, self.sampling_rate, *joined)

    def make(self, recording: Recording) -> dict[str, NDArray]:
        """Computes a subject's channels, as arrays to keep."""
        return table_arrays(channel_table(recording, self.device, self.sampling_rate or 1.0))

    def dataset(self, tables: Sequence[FeatureTable], task: Task, partition: ClientSplit) -> FederatedDataset:
        """Chunks, every step of which is a sample."""
        return chunked_dataset(tables, task, partition, self.steps, self)

    def inputs_of(self, recording: Recording, baseline: tuple[float, float] | None = None) -> RecordingInputs:
        """The steps of the recording, z-scored over its labelled ones; over all of them if none is labelled."""
        if baseline is not None:
            raise ConfigError("a baseline for raw channels, which are z-scored over all labelled steps; expected none")
        if self.device not in CHANNELS or self.sampling_rate is None:
            return super().inputs_of(recording)
        table = channel_table(recording, self.device, self.sampling_rate, required=())
        unlabelled = not (AFFECT.labels(table.codes) >= 0).any()
        note = "No step is labelled: channels are z-scored over the whole recording." if unlabelled else None
        return RecordingInputs(table.names, np.arange(len(table)) / self.sampling_rate, table.values, note)


def chunked_dataset(
    tables: Sequence[FeatureTable], task: Task, partition: ClientSplit, steps: int, recipe: FeatureRecipe | None = None
) -> FederatedDataset:
    """A data set of chunks of `steps` steps of any tables, every step a sample."""
    sequences = {}
    for table in tables:
        cut = chunks(table, task, steps)
        labels = np.broadcast_to(task.labels(cut.codes)[:, None], (len(cut), steps))
        sequences[table.subject] = LabelledSequences(cut.values, labels)
    return FederatedDataset(sequences, task, tables[0].names, partition, recipe)


def channel_table(
    recording: Recording, device: str, rate: float, required: Sequence[int] = (BASELINE, STRESS_CODE)
) -> FeatureTable:
    """A device's channels at `rate`, z-scored over the subject's codes 1 to 4.

    Args:
        recording: The recording.
        device: `chest` or `wrist`.
        rate: In Hz.
        required: Protocol codes that must be there; with none of 1 to 4 the z-score is over the whole recording.
    """
    devices = {name.split("/")[0] for name in recording.signals}
    if device not in devices:
        expected = f"a device that was recorded: {', '.join(sorted(devices & CHANNELS.keys())) or 'none'}"
        raise DataError(recording.source, f"no signal of the device {device!r}", expected)
    sensors = [f"{device}/{sensor}" for sensor in CHANNELS[device]]
    for defect in find_defects(recording, sensors, required=required):
        raise defect
    steps = int(recording.codes.duration * rate)
    codes = recording.codes.values[(np.arange(steps) * (recording.codes.rate / rate)).astype(int)]
    counted = AFFECT.labels(codes) >= 0
    if not counted.any():
        counted[:] = True
    names: list[str] = []
    columns: list[NDArray[np.float32]] = []
    for sensor in sensors:
        axes = np.atleast_2d(recording.signal(sensor).values.T)
        for axis, values in zip("xyz" if len(axes) == 3 else ("",), axes):
            names.append(f"{sensor.split('/')[1]}{axis}")
            column = resample(Signal(values, recording.signal(sensor).rate), rate, steps)
            labelled = column[counted]
            columns.append(((column - labelled.mean()) / labelled.std()).astype(np.float32))
    return FeatureTable(recording.subject, tuple(names), np.stack(columns, axis=1), codes)


def resample(signal: Signal, rate: float, steps: int) -> NDArray:
    """`steps` values of a signal at another rate: low-passed when slower, straight lines when faster."""
    values, own = signal.values, signal.rate
    if rate < own:
        ratio = Fraction(rate / own).limit_denominator(10_000)
        values = filters.resample_poly(values, ratio.numerator, ratio.denominator, padtype="line")
        own = rate
    if rate == own and len(values) >= steps:
        return values[:steps]
    return np.interp(np.arange(steps) / rate, np.arange(len(values)) / own, values)
