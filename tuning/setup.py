"""Hypermodels for a study on disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tff_esn.config import ChannelConfig, HharConfig, from_mapping
from tff_esn.datasets.hhar import is_hhar
from tff_esn.datasets.study import open_study
from tff_esn.datasets.tables import ACTIVITY, AFFECT
from tff_esn.features.preparation import ChannelRecipe, prepare, prepare_hhar
from tff_esn.store.cache import Cache
from tff_esn.tuning.hypermodels import GradientHyperModel, RidgeHyperModel
from tff_esn.tuning.space import SearchSpace


def gradient_hypermodel(
    space: SearchSpace,
    base: Mapping[str, Any],
    root: Path,
    labels: Path | None,
    cache: Cache,
    seed: int,
    jobs: int | None,
) -> GradientHyperModel:
    """A hypermodel of chapter 5's features, with all that the space asks for prepared beforehand."""
    hypermodel = GradientHyperModel(space, base, open_study(root, labels), cache, seed)
    hypermodel.prepare(jobs)
    return hypermodel


def ridge_hypermodel(
    space: SearchSpace,
    base: Mapping[str, Any],
    root: Path,
    labels: Path | None,
    cache: Cache,
    seed: int,
    rate: float | None,
    jobs: int | None,
) -> RidgeHyperModel:
    """A hypermodel of raw channels: HHAR's six activities, or WESAD's four affective states."""
    if is_hhar(root):
        preparation = prepare_hhar(root, from_mapping(HharConfig, {"rate": rate}, "options"), cache)
        return RidgeHyperModel(space, base, preparation, ACTIVITY, seed)
    config = from_mapping(ChannelConfig, base["channels"], "options")
    preparation = prepare(open_study(root, labels), ChannelRecipe(config), cache=cache, jobs=jobs)
    return RidgeHyperModel(space, base, preparation, AFFECT, seed)
