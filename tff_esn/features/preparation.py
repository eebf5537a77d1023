"""Prepares the subjects of a study in parallel; each is stored as soon as it is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tff_esn.datasets.study import StudyFolder, chosen_subjects
from tff_esn.datasets.tables import FeatureTable
from tff_esn.errors import ConfigError, TffEsnError
from tff_esn.features.recipe import FeatureRecipe, table_arrays
from tff_esn.parallel import map_unordered
from tff_esn.store.cache import Cache
from tff_esn.store.json_values import fingerprint, jsonable
from tff_esn.versions import version_of

#: Part of every key: raise it when a recipe's result changes.
RECIPE_VERSION = 2


class BadSubjectsError(TffEsnError):
    """Some subjects could not be prepared; one line each."""

    def __init__(self, errors: Mapping[str, TffEsnError]) -> None:
        super().__init__("\n".join(str(error) for error in errors.values()))
        self.errors = dict(errors)


@dataclass(frozen=True)
class Preparation:
    """Subjects that are ready, loaded one at a time.

    Attributes:
        keys: Where each subject's result is kept, in the study's order.
        remake: Recomputes a subject's entry if it is damaged.
        errors: Defects of the subjects that were left out.
        cached: Subjects that were ready before.
    """

    recipe: FeatureRecipe
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
        """The recipe's result for a subject."""
        arrays = self.cache.load(self.recipe.name, self.keys[subject])
        return self.recipe.restore(subject, self.remake(subject) if arrays is None else arrays)

    def load_all(self) -> dict[str, Any]:
        """Every subject's result."""
        return {subject: self.load(subject) for subject in self.subjects}

    def table(self, subject: str) -> FeatureTable:
        """A subject's table, for a data set."""
        return self.recipe.table(self.load(subject))


def prepare(
    study: StudyFolder,
    recipe: FeatureRecipe,
    *,
    subjects: Sequence[str] | None = None,
    cache: Cache | None = None,
    jobs: int | None = 1,
    skip_bad: bool = False,
) -> Preparation:
    """Prepares a study's subjects, those that are not in the cache yet.

    If a subject has a defect, the others are still finished and stored before
    `BadSubjectsError` is raised or, with `skip_bad`, returned without it.
    """
    check_recipe(study, recipe)
    cache = cache or Cache()
    if type(study).tables is not StudyFolder.tables:
        return _prepare_at_once(study, recipe, cache)
    chosen = chosen_subjects(study, subjects)
    errors: dict[str, TffEsnError] = {}
    keys: dict[str, str] = {}
    for subject in chosen:
        try:
            keys[subject] = _key(study, recipe, cache, subject)
        except TffEsnError as error:
            errors[subject] = error
    cached = tuple(subject for subject, key in keys.items() if cache.path(recipe.name, key).is_file())
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


def check_recipe(study: StudyFolder, recipe: FeatureRecipe) -> None:
    """Refuses a recipe or device that does not fit the study."""
    if recipe.name not in study.features:
        raise ConfigError(
            f"features {recipe.name!r} of a study of kind {study.name}; expected {' or '.join(study.features)}"
        )
    device = getattr(recipe, "device", None)
    if device is not None and device not in study.devices:
        raise ConfigError(f"device {device!r} of a study of kind {study.name}; expected {' or '.join(study.devices)}")


def content_key(study: StudyFolder, recipe: FeatureRecipe, cache: Cache) -> str:
    """A key for a recipe's results on a study, known before any of it is prepared."""
    return fingerprint(sorted((subject, _key(study, recipe, cache, subject)) for subject in study.subjects))


def _key(study: StudyFolder, recipe: FeatureRecipe, cache: Cache, subject: str) -> str:
    versions = [version_of(name) for name in ("neurokit2", "numpy", "scipy")]
    content = cache.content_digest(study.files(subject))
    return fingerprint(jsonable([recipe.name, RECIPE_VERSION, recipe.table_key, content, subject, versions]))


def _prepare_subject(
    study: StudyFolder, recipe: FeatureRecipe, cache: Cache, keys: Mapping[str, str], subject: str
) -> dict[str, NDArray]:
    arrays = recipe.make(study.read(subject))
    cache.store(recipe.name, keys[subject], arrays)
    return arrays


def _prepare_and_keep(
    study: StudyFolder, recipe: FeatureRecipe, cache: Cache, keys: Mapping[str, str], subject: str
) -> None:
    # Nothing is returned: a chest subject's arrays would travel from process to process for nothing.
    _prepare_subject(study, recipe, cache, keys, subject)


def _prepare_at_once(study: StudyFolder, recipe: FeatureRecipe, cache: Cache) -> Preparation:
    """Prepares a study that is read in one pass over its files, unless its subjects are in the cache."""
    index_key = _key(study, recipe, cache, "")

    def make() -> dict[str, dict[str, NDArray]]:
        made = {name: table_arrays(table) for name, table in (study.tables(recipe) or {}).items()}
        for name, arrays in made.items():
            cache.store(recipe.name, _key(study, recipe, cache, name), arrays)
        # Last, so that an index means that everyone in it is there.
        cache.store(recipe.name, index_key, {"subjects": np.array(list(made))})
        return made

    index = cache.load(recipe.name, index_key)
    subjects = tuple(make()) if index is None else tuple(index["subjects"].tolist())
    keys = {name: _key(study, recipe, cache, name) for name in subjects}
    return Preparation(recipe, cache, keys, lambda name: make()[name], cached=() if index is None else subjects)
