"""The features of thesis chapter 5 as published."""

from __future__ import annotations

from pydantic.dataclasses import dataclass

from tff_esn.features.extraction import ExtractionConfig
from tff_esn.features.physiology import PhysiologicalFeatures
from tff_esn.features.recipe import FEATURE_RECIPES
from tff_esn.parameters import STRICT


@FEATURE_RECIPES.register
@dataclass(frozen=True, repr=False, config=STRICT)
class ThesisFeatures(PhysiologicalFeatures):
    """As published: NeuroKit's default rate for EDA, windows of heart beats, a running mean through the whole study."""

    name = "thesis"
    label = "chapter 5 as published"
    switches = ExtractionConfig(
        eda_rate="neurokit_default", hrv_window_unit="64_beats", hrv_unit="samples", beats="all", alignment="stretch"
    )
    normalization = "divide_by_mean"
    scope = "study"
