"""A study and its data sets."""

from __future__ import annotations

from dataclasses import dataclass as plain_dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Optional, Union

from pydantic.dataclasses import dataclass

from tff_esn.datasets.federated import FederatedDataset
from tff_esn.datasets.splits import ClientSplit, resolve_split
from tff_esn.datasets.study import StudyFolder, open_study
from tff_esn.datasets.tables import Task
from tff_esn.errors import ConfigError
from tff_esn.features.preparation import Preparation, check_recipe, content_key, prepare
from tff_esn.features.recipe import FEATURE_RECIPES, FeatureRecipe, FeatureRecipeChoice
from tff_esn.features.thesis import ThesisFeatures
from tff_esn.parameters import STRICT, Parameters, from_mapping
from tff_esn.registry import expected
from tff_esn.store.cache import Cache


@dataclass(frozen=True, repr=False, config=STRICT)
class DataSettings(Parameters):
    """How a data set is made of a study: features, task and split.

    Attributes:
        features: Feature recipe: its name, or a table with its name and settings.
        task: Prediction task, such as stress; None for the study's usual task.
        split: Train/validation/test split: its name, or its lists of subjects; None for all subjects to train.
    """

    features: FeatureRecipeChoice = ThesisFeatures()
    task: Optional[str] = None
    split: Union[str, ClientSplit, None] = None


@plain_dataclass(frozen=True)
class Study:
    """A study on disk with a cache of its prepared data.

    Attributes:
        root: The study's folder.
        cache: Folder of the cache; None for the user's.
        labels: CSV of labelled intervals, of E4 folders.
    """

    root: Path
    cache: Path | None = None
    labels: Path | None = None

    @property
    def folder(self) -> StudyFolder:
        """The study's folder, by its kind."""
        return open_study(self.root, self.labels)

    @property
    def subjects(self) -> tuple[str, ...]:
        """Names of its subjects."""
        return self.folder.subjects

    def clients(
        self,
        features: str | FeatureRecipe | None = None,
        task: str | None = None,
        split: str | ClientSplit | None = None,
        jobs: int | None = 1,
        **options: Any,
    ) -> FederatedDataset:
        """The subjects as clients.

        Args:
            features: Feature recipe or its name; None for the study's usual one.
            task: What is predicted; None for the study's usual task.
            split: Train/validation/test split by name or by lists of subjects; None for all to train.
            jobs: Processes that prepare subjects; None for one per processor.
            **options: Parameters of the recipe.
        """
        folder = self.folder
        chosen = folder.features[0] if features is None else features
        if isinstance(chosen, str):
            kind = FEATURE_RECIPES[chosen]
            if "device" in getattr(kind, "__dataclass_fields__", {}):
                options.setdefault("device", folder.devices[0])
            chosen = from_mapping(kind, options, chosen)
        elif options:
            chosen = chosen.replaced(options)
        return self.dataset(DataSettings(chosen, task, split), jobs)

    def dataset(self, settings: DataSettings, jobs: int | None = 1, skip_bad: bool = False) -> FederatedDataset:
        """The data set of some settings, prepared where it is not in the cache yet."""
        folder, recipe = self.folder, settings.features
        check_recipe(folder, recipe)
        task = task_of(folder, settings.task)
        self.partition(settings)  # Before hours of work, not after.
        preparation = prepare(folder, recipe, cache=Cache(self.cache), jobs=jobs, skip_bad=skip_bad)
        partition = _partition(settings, preparation.subjects)
        tables = [preparation.table(subject) for subject in partition.subjects]
        return recipe.dataset(tables, task, partition)

    def prepare(self, settings: DataSettings, jobs: int | None = 1) -> Preparation:
        """Computes and keeps what a data set is made of."""
        self.partition(settings)
        return prepare(self.folder, settings.features, cache=Cache(self.cache), jobs=jobs)

    def partition(self, settings: DataSettings) -> ClientSplit:
        """Train, validation and test subjects."""
        return _partition(settings, self.folder.subjects)

    def key(self, settings: DataSettings) -> str:
        """A key for the study's contents with some features, known before any of it is prepared."""
        return content_key(self.folder, settings.features, Cache(self.cache))

    def __repr__(self) -> str:
        return f"Study({str(self.root)!r}, {len(self.subjects)} subjects)"


def load_study(
    path: str | PathLike[str], labels: str | PathLike[str] | None = None, cache: str | PathLike[str] | None = None
) -> Study:
    """A study on disk: WESAD, HHAR or E4 folders, recognised by what the folder holds.

    Args:
        path: The study's folder.
        labels: CSV of labelled intervals of E4 folders; None for `labels.csv` in the folder.
        cache: Folder for what is computed once; None for `$TFF_ESN_CACHE` or the user's cache folder.
    """
    study = Study(Path(path), None if cache is None else Path(cache), None if labels is None else Path(labels))
    open_study(study.root, study.labels)
    return study


def task_of(folder: StudyFolder, name: str | None) -> Task:
    """A task of a study by name, or its usual one."""
    tasks = {task.name: task for task in folder.tasks}
    if name is not None and name not in tasks:
        raise ConfigError(f"no task {name!r} of a study of kind {folder.name}; {expected(name, tasks)}")
    return folder.tasks[0] if name is None else tasks[name]


def _partition(settings: DataSettings, subjects: tuple[str, ...]) -> ClientSplit:
    return ClientSplit(subjects) if settings.split is None else resolve_split(settings.split, subjects)
