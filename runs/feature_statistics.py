"""Statistics of a data set at each stage of its preparation: thesis Tables 5.1, 5.2 and 5.3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tff_esn.datasets.recording import STRESS_CODE
from tff_esn.datasets.splits import ClientSplit
from tff_esn.datasets.tables import STRESS
from tff_esn.errors import ConfigError
from tff_esn.features.extraction import FEATURES, SubjectFeatures, standardize
from tff_esn.features.physiology import PhysiologicalFeatures
from tff_esn.features.recipe import FeatureRecipe
from tff_esn.features.windows import normalized_windows

STAGES = ("extracted", "standardized", "normalized")


@dataclass(frozen=True)
class FeatureStatistics:
    """A row of the tables; the variance is the population's."""

    min: float
    max: float
    mean: float
    var: float

    @classmethod
    def of(cls, values: NDArray) -> FeatureStatistics:
        """The statistics of all values of an array."""
        return cls(float(values.min()), float(values.max()), float(values.mean()), float(values.var()))


@dataclass(frozen=True)
class StageStatistics:
    """A whole table.

    Attributes:
        samples: What is counted: samples of HRV, steps, or windows.
        label_1_percent: Share of label 1, in percent.
    """

    stage: str
    subjects: tuple[str, ...]
    samples: int
    features: Mapping[str, FeatureStatistics]
    label_1_percent: float


def stage_statistics(
    stage: str, features: Mapping[str, SubjectFeatures], split: ClientSplit, recipe: FeatureRecipe
) -> StageStatistics:
    """Computes one of the tables.

    `extracted` counts every subject, each feature at its own rate, and the labels as
    recorded. `standardized` and `normalized` count the design set: the thesis's
    tables leave the test subject out.
    """
    if stage == "extracted":
        return _extracted(features)
    tables = [standardize(features[subject].table) for subject in split.design]
    if stage == "standardized":
        values = np.concatenate([table.values for table in tables])
        codes = np.concatenate([table.codes for table in tables])
    else:
        if not isinstance(recipe, PhysiologicalFeatures):
            raise ConfigError(f"Table 5.3 of features {recipe.name!r}; expected thesis or corrected")
        windows = normalized_windows(tables, recipe.windows).values()
        values = np.concatenate([part.values for part in windows])
        codes = np.concatenate([part.codes for part in windows])
    rows = {name: FeatureStatistics.of(values[..., column]) for column, name in enumerate(FEATURES)}
    return StageStatistics(stage, split.design, len(values), rows, 100 * float(STRESS.labels(codes).mean()))


def _extracted(features: Mapping[str, SubjectFeatures]) -> StageStatistics:
    rows = {
        name: FeatureStatistics.of(np.concatenate([own.extracted[name] for own in features.values()]))
        for name in FEATURES
    }
    counts = np.sum([own.code_counts for own in features.values()], axis=0)
    samples = sum(len(own.extracted["HRV"]) for own in features.values())
    return StageStatistics("extracted", tuple(features), samples, rows, 100 * counts[STRESS_CODE] / counts.sum())
