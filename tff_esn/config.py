"""What can be configured: one frozen dataclass per thing, checked when it is made.

Each deviation from the printed thesis is one field with the printed behaviour as
one of its values; `tff_esn.presets` names the combinations.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, TypeVar

import tomli
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from tff_esn.errors import ConfigError

_strict = ConfigDict(extra="forbid")
_T = TypeVar("_T")

PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
PositiveInt = Annotated[int, Field(gt=0)]
FEATURES = ("pEDA", "tEDA", "HR", "HRV")


@dataclass(frozen=True, config=_strict)
class ExtractionConfig:
    """How EDA and BVP become the four features of thesis chapter 5.

    Attributes:
        eda_rate: Sampling rate NeuroKit is told for the 4 Hz EDA: its default of
            1000 Hz, as the thesis left it, or the true one.
        hrv_window: Length of the sliding window of HRV, in `hrv_window_unit`.
        hrv_window_unit: The thesis multiplies by 64 "to consider a timing of
            seconds" but counts heart beats: 25 stands for 1600 beats. Or seconds.
        hrv_unit: SDSD in samples of the 64 Hz signal (the thesis: NeuroKit's default
            rate makes them look like milliseconds) or in milliseconds.
        beats: `all` intervals between beats count (the thesis), or only `plausible` ones:
            0.3 to 2 s long, within 30 % of the usual interval, with no gap inside.
        alignment: `stretch` resamples each feature to the length of the shortest,
            whatever time it covers (the thesis); `clock` reads each at the same moment.
        step_rate: Steps a second under `clock`.
        max_gap: Longest gap in a signal, in seconds, that is bridged; the beats in it
            do not count. 0 refuses signals with gaps (the thesis).
    """

    eda_rate: Literal["neurokit_default", "true"]
    hrv_window_unit: Literal["64_beats", "seconds"]
    hrv_unit: Literal["samples", "milliseconds"]
    beats: Literal["all", "plausible"]
    alignment: Literal["stretch", "clock"]
    hrv_window: PositiveFloat = 25.0
    step_rate: PositiveFloat = 1.0
    max_gap: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0


@dataclass(frozen=True, config=_strict)
class WindowConfig:
    """How the standardised features become the model's input windows.

    Attributes:
        normalization: `divide_by_mean` divides a window by the running mean of all
            windows so far (the thesis's "online moving average"); `zscore` subtracts
            that mean and divides by the running standard deviation; `none`.
        scope: Whether the running statistics and the windows run through the
            `study`, from one subject into the next (the thesis), or start anew with
            each `subject`, so that nothing of one client reaches another.
        steps: Length of a window; stride 1.
    """

    normalization: Literal["divide_by_mean", "zscore", "none"]
    scope: Literal["study", "subject"]
    steps: PositiveInt = 20


@dataclass(frozen=True, config=_strict)
class ChannelConfig:
    """The raw channels of the IncFed, FedIP and pFedRR papers.

    Attributes:
        device: `chest` (ACC x3, Resp, EDA, ECG, EMG, Temp) or `wrist` (ACC x3, BVP, EDA, TEMP).
        rate: Common rate in Hz; the chest's own is 700.
        steps: Length of a chunk, cut inside each labelled stretch.
    """

    device: Literal["chest", "wrist"] = "chest"
    rate: PositiveFloat = 700.0
    steps: PositiveInt = 700


@dataclass(frozen=True, config=_strict)
class HharConfig:
    """Which of HHAR's devices are read, and how accelerometer and gyroscope are joined.

    Attributes:
        kind: Phones or watches.
        models: Models to keep, None for all. The FedIP and pFedRR papers use the Nexus 4.
        rate: Rate in Hz to resample to; None keeps the samples as they arrived.
        tolerance: Longest time in seconds between joined samples.
        max_gap: Longest time in seconds between samples that is no break.
    """

    kind: Literal["phones", "watches"] = "phones"
    models: Optional[tuple[str, ...]] = ("nexus4",)
    rate: Optional[PositiveFloat] = None
    tolerance: PositiveFloat = 0.02
    max_gap: PositiveFloat = 1.0


@dataclass(frozen=True, config=_strict)
class DemoConfig:
    """What `tff-esn demo` generates and prepares.

    Attributes:
        subjects: Number of generated subjects.
        minutes: Length of each recording.
        preset: `thesis` or `corrected`.
        hrv_window: As in `ExtractionConfig`.
        split: Name of the split into clients.
    """

    subjects: PositiveInt
    minutes: PositiveFloat
    preset: Literal["thesis", "corrected"]
    hrv_window: PositiveFloat
    split: str


def from_mapping(kind: type[_T], values: Mapping[str, Any], source: str) -> _T:
    """Builds a configuration, or says in one line which key has which wrong value."""
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{source}: {key} = {first['input']!r}: {first['msg']}") from None


def read_toml(path: Path) -> dict[str, Any]:
    """Reads a TOML file, or says in one line what keeps it from being read."""
    try:
        return tomli.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; expected a TOML file") from None
    except (OSError, UnicodeDecodeError, tomli.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}; expected a TOML file") from None
