"""From a study on disk to prepared subjects: in parallel, each kept as soon as it is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from tff_esn.config import ChannelConfig, ExtractionConfig, HharConfig
from tff_esn.datasets.recording import Recording
from tff_esn.datasets.study import Study, chosen_subjects
from tff_esn.datasets.tables import FeatureTable
from tff_esn.errors import TffEsnError
from tff_esn.features.extraction import SubjectFeatures, extract
from tff_esn.parallel import map_unordered
from tff_esn.store.cache import Cache
from tff_esn.store.json_values import fingerprint
from tff_esn.versions import version_of

#: Part of every key: raise it when a recipe's result changes.
RECIPE_VERSION = 1


class BadSubjectsError(TffEsnError):
    """Some subjects could not be prepared; one line each."""

    def __init__(self, errors: Mapping[str, TffEsnError]) -> None:
        super().__init__("\n".join(str(error) for error in errors.values()))
        self.errors = dict(errors)


def _table_arrays(table: FeatureTable) -> dict[str, NDArray]:
    return {"names": np.array(table.names), "values": table.values, "codes": table.codes, "breaks": table.breaks}


def _table(subject: str, arrays: Mapping[str, NDArray]) -> FeatureTable:
    names = tuple(arrays["names"].tolist())
    return FeatureTable(subject, names, arrays["values"], arrays["codes"], arrays["breaks"])


@dataclass(frozen=True)
class FeatureRecipe:
    """The features of thesis chapter 5."""

    config: ExtractionConfig
    kind = "features"

    def make(self, recording: Recording) -> dict[str, NDArray]:
        """Computes a subject's features, as arrays to keep."""
        features = extract(recording, self.config)
        extracted = {f"extracted {name}": values for name, values in features.extracted.items()}
        return {**extracted, "code_counts": features.code_counts, **_table_arrays(features.table)}

    def restore(self, subject: str, arrays: Mapping[str, NDArray]) -> SubjectFeatures:
        """A subject's features from the arrays kept."""
        table = _table(subject, arrays)
        extracted = {name: arrays[f"extracted {name}"] for name in table.names}
        return SubjectFeatures(extracted, arrays["code_counts"], table)


@dataclass(frozen=True)
class ChannelRecipe:
    """The raw channels of the other papers."""

    config: ChannelConfig
    kind = "channels"

    def make(self, recording: Recording) -> dict[str, NDArray]:
        """Computes a subject's channels, as arrays to keep."""
        from tff_esn.features.channels import channel_table

        return _table_arrays(channel_table(recording, self.config))

    def restore(self, subject: str, arrays: Mapping[str, NDArray]) -> FeatureTable:
        """A subject's channels from the arrays kept."""
        return _table(subject, arrays)


@dataclass(frozen=True)
class HharRecipe:
    """Accelerometer and gyroscope of HHAR's users."""

    config: HharConfig
    kind = "hhar"

    def restore(self, subject: str, arrays: Mapping[str, NDArray]) -> FeatureTable:
        """A user's channels from the arrays kept."""
        return _table(subject, arrays)


Recipe = Union[FeatureRecipe, ChannelRecipe]


@dataclass(frozen=True)
class Preparation:
    """Subjects that are ready, loaded one at a time.

    Attributes:
        keys: Where each subject's result is kept, in the study's order.
        remake: Makes a subject's entry again, should it be damaged.
        errors: What was wrong with subjects that were left out.
        cached: Subjects that were ready before.
    """

    recipe: Recipe | HharRecipe
    cache: Cache
    keys: Mapping[str, str]
    remake: Callable[[str], Mapping[str, NDArray]]
    errors: Mapping[str, TffEsnError] = field(default_factory=dict)
    cached: tuple[str, ...] = ()

    @property
    def subjects(self) -> tuple[str, ...]:
        """The subjects that are ready."""
        return tuple(self.keys)

    def load(self, subject: str) -> Any:
        """What the recipe makes of a subject."""
        arrays = self.cache.load(self.recipe.kind, self.keys[subject])
        return self.recipe.restore(subject, self.remake(subject) if arrays is None else arrays)

    def load_all(self) -> dict[str, Any]:
        """Every subject's result."""
        return {subject: self.load(subject) for subject in self.subjects}


def prepare(
    study: Study,
    recipe: Recipe,
    *,
    subjects: Sequence[str] | None = None,
    cache: Cache | None = None,
    jobs: int | None = 1,
    skip_bad: bool = False,
) -> Preparation:
    """Prepares a study's subjects, those that are not in the cache yet.

    A subject with a defect never costs the work on the others: they are finished and
    kept before `BadSubjectsError` is raised, or, with `skip_bad`, returned without it.
    """
    cache = cache or Cache()
    chosen = chosen_subjects(study, subjects)
    errors: dict[str, TffEsnError] = {}
    keys: dict[str, str] = {}
    for subject in chosen:
        try:
            keys[subject] = _key(study, recipe, cache, subject)
        except TffEsnError as error:
            errors[subject] = error
    cached = tuple(subject for subject, key in keys.items() if cache.path(recipe.kind, key).is_file())
    missing = [subject for subject in keys if subject not in cached]
    remake = partial(_prepare_subject, study, recipe, cache, keys)
    work = partial(_prepare_and_keep, study, recipe, cache, keys)
    for subject, outcome in map_unordered(work, missing, jobs=jobs, description="Preparing"):
        if isinstance(outcome, TffEsnError):
            errors[subject] = outcome
    ready = {subject: key for subject, key in keys.items() if subject not in errors}
    if errors and not (skip_bad and ready):
        raise BadSubjectsError({subject: errors[subject] for subject in chosen if subject in errors})
    return Preparation(recipe, cache, ready, remake, errors, cached)


def subject_keys(study: Study, recipe: Recipe, cache: Cache) -> dict[str, str]:
    """Where each subject's result is, or will be, kept."""
    return {subject: _key(study, recipe, cache, subject) for subject in study.subjects}


def _key(study: Study, recipe: Recipe, cache: Cache, subject: str) -> str:
    return _fingerprint(recipe, cache.content_digest(study.files(subject)), subject)


def _fingerprint(recipe: Recipe | HharRecipe, content: str, subject: str) -> str:
    versions = [version_of(name) for name in ("neurokit2", "numpy", "scipy")]
    return fingerprint([recipe.kind, RECIPE_VERSION, asdict(recipe.config), content, subject, versions])


def _prepare_subject(
    study: Study, recipe: Recipe, cache: Cache, keys: Mapping[str, str], subject: str
) -> dict[str, NDArray]:
    arrays = recipe.make(study.read(subject))
    cache.store(recipe.kind, keys[subject], arrays)
    return arrays


def _prepare_and_keep(study: Study, recipe: Recipe, cache: Cache, keys: Mapping[str, str], subject: str) -> None:
    # Nothing is returned: a chest subject's arrays would travel from process to process for nothing.
    _prepare_subject(study, recipe, cache, keys, subject)


def prepare_hhar(root: Path, config: HharConfig, cache: Cache | None = None) -> Preparation:
    """Prepares HHAR's users, all in one pass over the files, unless they are in the cache."""
    from tff_esn.datasets.hhar import SENSORS, read_hhar, sensor_file

    cache = cache or Cache()
    recipe = HharRecipe(config)
    content = cache.content_digest([root / sensor_file(config.kind, sensor) for sensor in SENSORS])

    def make() -> dict[str, dict[str, NDArray]]:
        made = {user: _table_arrays(table) for user, table in read_hhar(root, **asdict(config)).items()}
        for user, arrays in made.items():
            cache.store(recipe.kind, _fingerprint(recipe, content, user), arrays)
        # Last, so that an index means that everyone in it is there.
        cache.store(recipe.kind, _fingerprint(recipe, content, ""), {"users": np.array(list(made))})
        return made

    index = cache.load(recipe.kind, _fingerprint(recipe, content, ""))
    users = tuple(make()) if index is None else tuple(index["users"].tolist())
    keys = {user: _fingerprint(recipe, content, user) for user in users}
    return Preparation(recipe, cache, keys, lambda user: make()[user], cached=() if index is None else users)
