"""`thesis`: everything as printed. `corrected`: everything as meant."""

from __future__ import annotations

from dataclasses import dataclass

from tff_esn.config import ExtractionConfig, WindowConfig


@dataclass(frozen=True)
class Preset:
    """One value for each switch."""

    name: str
    extraction: ExtractionConfig
    windows: WindowConfig


THESIS = Preset(
    "thesis",
    ExtractionConfig(
        eda_rate="neurokit_default", hrv_window_unit="64_beats", hrv_unit="samples", beats="all", alignment="stretch"
    ),
    WindowConfig(normalization="divide_by_mean", scope="study"),
)
CORRECTED = Preset(
    "corrected",
    ExtractionConfig(
        eda_rate="true",
        hrv_window_unit="seconds",
        hrv_unit="milliseconds",
        beats="plausible",
        alignment="clock",
        max_gap=10.0,
    ),
    WindowConfig(normalization="zscore", scope="subject"),
)
PRESETS = {preset.name: preset for preset in (THESIS, CORRECTED)}
