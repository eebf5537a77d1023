"""`thesis`: everything as printed. `corrected`: everything as meant."""

from __future__ import annotations

from dataclasses import dataclass

from tff_esn.config import ClosedFormSwitches, ExtractionConfig, WindowConfig


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
#: The same for readouts solved in closed form and reservoirs that adapt.
CLOSED_FORMS = {
    "thesis": ClosedFormSwitches(
        averaging="1/N_c", regularization="per_client", last_unit="dropped", plasticity="printed"
    ),
    "corrected": ClosedFormSwitches(averaging="N_c/N", regularization="once", last_unit="kept", plasticity="schrauwen"),
}
