"""A study on disk under many configurations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tff_esn.config import InputConfig
from tff_esn.datasets.splits import ClientSplit, resolve_split
from tff_esn.datasets.study import open_study
from tff_esn.features.inputs import ModelInputs, feature_recipe, model_inputs, prepared_features
from tff_esn.features.preparation import Preparation, subject_keys
from tff_esn.store.cache import Cache
from tff_esn.store.json_values import fingerprint


@dataclass(frozen=True)
class Source:
    """Where subjects are, and where finished work is kept."""

    study: Path
    cache: Path
    labels: Path | None = None

    def prepare(self, config: InputConfig, jobs: int | None = 1) -> Preparation:
        """The study's features, from the cache where they are there."""
        return prepared_features(open_study(self.study, self.labels), config, Cache(self.cache), jobs)

    def content(self, config: InputConfig) -> str:
        """A name for what a model sees of the study, known before any of it is prepared."""
        keys = subject_keys(open_study(self.study, self.labels), feature_recipe(config), Cache(self.cache))
        return fingerprint(sorted(keys.items()))

    def split(self, config: InputConfig) -> ClientSplit:
        """Who trains, validates and tests."""
        return resolve_split(config.split, open_study(self.study, self.labels).subjects)

    def inputs(self, config: InputConfig, jobs: int | None = 1) -> ModelInputs:
        """What a model sees of the study."""
        return model_inputs(self.prepare(config, jobs), config)
