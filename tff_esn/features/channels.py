"""Raw channels on one rate, as the IncFed, FedIP and pFedRR papers feed them to the reservoir."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.signal import resample_poly

from tff_esn.config import ChannelConfig
from tff_esn.datasets.recording import Recording, Signal
from tff_esn.datasets.study import find_defects
from tff_esn.datasets.tables import AFFECT, FeatureTable

#: Sensors of each device in the order of the authors' public code.
CHANNELS = {
    "chest": ("ACC", "Resp", "EDA", "ECG", "EMG", "Temp"),
    "wrist": ("ACC", "BVP", "EDA", "TEMP"),
}


def channel_table(recording: Recording, config: ChannelConfig) -> FeatureTable:
    """The device's channels at `config.rate`, z-scored over the subject's codes 1 to 4."""
    sensors = [f"{config.device}/{sensor}" for sensor in CHANNELS[config.device]]
    for defect in find_defects(recording, sensors):
        raise defect
    steps = int(recording.codes.duration * config.rate)
    codes = recording.codes.values[(np.arange(steps) * (recording.codes.rate / config.rate)).astype(int)]
    counted = AFFECT.labels(codes) >= 0
    names: list[str] = []
    columns: list[NDArray[np.float32]] = []
    for sensor in sensors:
        axes = np.atleast_2d(recording.signal(sensor).values.T)
        for axis, values in zip("xyz" if len(axes) == 3 else ("",), axes):
            names.append(f"{sensor.split('/')[1]}{axis}")
            column = resample(Signal(values, recording.signal(sensor).rate), config.rate, steps)
            labelled = column[counted]
            columns.append(((column - labelled.mean()) / labelled.std()).astype(np.float32))
    return FeatureTable(recording.subject, tuple(names), np.stack(columns, axis=1), codes)


def resample(signal: Signal, rate: float, steps: int) -> NDArray:
    """`steps` values of a signal at another rate: low-passed when slower, straight lines when faster."""
    values, own = signal.values, signal.rate
    if rate < own:
        ratio = Fraction(rate / own).limit_denominator(10_000)
        values = resample_poly(values, ratio.numerator, ratio.denominator, padtype="line")
        own = rate
    if rate == own and len(values) >= steps:
        return values[:steps]
    return np.interp(np.arange(steps) / rate, np.arange(len(values)) / own, values)
