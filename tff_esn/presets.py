"""`thesis`: everything as printed. `corrected`: everything as meant."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from tff_esn.config import (
    ClosedFormSwitches,
    ExtractionConfig,
    FedCurvConfig,
    FederatedConfig,
    MethodConfig,
    ReadoutConfig,
    WindowConfig,
)


@dataclass(frozen=True)
class Preset:
    """One value for each switch.

    Attributes:
        extraction: From recordings to features.
        windows: From features to a model's inputs.
        local: A federated client's training. The thesis weights classes where Keras trains the centralised model;
            in TFF's loop nothing does.
        fedcurv: FedCurv.
        treatment: Of clients that the discriminator rejects; see `DefenceConfig`.
        trained_on: What it learns from.
    """

    name: str
    extraction: ExtractionConfig
    windows: WindowConfig
    local: ReadoutConfig
    fedcurv: FedCurvConfig
    treatment: Literal["replaced", "left_out"]
    trained_on: Literal["steps", "rounds"]


THESIS = Preset(
    "thesis",
    ExtractionConfig(
        eda_rate="neurokit_default", hrv_window_unit="64_beats", hrv_unit="samples", beats="all", alignment="stretch"
    ),
    WindowConfig(normalization="divide_by_mean", scope="study"),
    ReadoutConfig(class_weight=None, order="time"),
    FedCurvConfig(
        fisher="listing",
        divisor="tensors",
        fisher_of="last_batch",
        anchor="behind",
        own_share="batch",
        penalty="outside",
        send="diagonal",
        weighting="uniform",
    ),
    treatment="replaced",
    trained_on="steps",
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
    ReadoutConfig(learning_rate=0.001, class_weight=(12.0, 88.0), order="shuffled"),
    FedCurvConfig(
        fisher="true",
        divisor="examples",
        fisher_of="all",
        anchor="same",
        own_share="previous",
        penalty="inside",
        send="diagonal",
        weighting="examples",
        factor=0.1,  # The best on the validation subjects: `tff-esn reproduce fedcurv-factor`.
    ),
    treatment="left_out",
    trained_on="rounds",
)
PRESETS = {preset.name: preset for preset in (THESIS, CORRECTED)}
#: The same for readouts solved in closed form and reservoirs that adapt.
CLOSED_FORMS = {
    "thesis": ClosedFormSwitches(
        averaging="1/N_c", regularization="per_client", last_unit="dropped", plasticity="printed"
    ),
    "corrected": ClosedFormSwitches(averaging="N_c/N", regularization="once", last_unit="kept", plasticity="schrauwen"),
}


def settled(config: FederatedConfig) -> FederatedConfig:
    """A configuration with what it leaves open as its preset has it."""
    preset = PRESETS[config.preset]
    defence = config.defence
    if defence is not None:
        defence = replace(
            defence,
            treatment=defence.treatment or preset.treatment,
            trained_on=defence.trained_on or preset.trained_on,
        )
    return replace(
        config, readout=config.readout or preset.local, fedcurv=config.fedcurv or preset.fedcurv, defence=defence
    )


def settled_method(method: MethodConfig, preset: str) -> MethodConfig:
    """A method in closed form with the rule of plasticity that it leaves open as a preset has it."""
    if method.plasticity is None or method.plasticity.rule != "preset":
        return method
    return replace(method, plasticity=replace(method.plasticity, rule=CLOSED_FORMS[preset].plasticity))
