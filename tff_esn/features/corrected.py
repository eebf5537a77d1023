"""The features of thesis chapter 5 with their errors fixed."""

from __future__ import annotations

from pydantic.dataclasses import dataclass

from tff_esn.features.extraction import FEATURES, ExtractionConfig
from tff_esn.features.physiology import FeatureColumns, PhysiologicalFeatures
from tff_esn.features.recipe import FEATURE_RECIPES
from tff_esn.parameters import STRICT


@FEATURE_RECIPES.register
@dataclass(frozen=True, repr=False, config=STRICT)
class CorrectedFeatures(PhysiologicalFeatures):
    """With errors fixed: true rates, plausible beats, windows in seconds, a z-score that stays inside the subject.

    All four features by default: at the true rate, pEDA is only the fast response and predicts stress poorly.
    """

    columns: FeatureColumns = FEATURES

    name = "corrected"
    label = "chapter 5 with errors fixed"
    switches = ExtractionConfig(
        eda_rate="true",
        hrv_window_unit="seconds",
        hrv_unit="milliseconds",
        beats="plausible",
        alignment="clock",
        max_gap=10.0,
    )
    normalization = "zscore"
    scope = "subject"
