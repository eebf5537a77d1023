"""Feature recipes by name: from a subject's recording to a table, and from tables to a data set."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, InstanceOf

from tff_esn.datasets.federated import FederatedDataset
from tff_esn.datasets.recording import Recording
from tff_esn.datasets.splits import ClientSplit
from tff_esn.datasets.tables import FeatureTable, Task
from tff_esn.errors import ConfigError
from tff_esn.parameters import Parameters
from tff_esn.registry import Registry


@dataclass(frozen=True)
class RecordingInputs:
    """A model's inputs for a recording to be predicted.

    Attributes:
        features: Names of the inputs.
        times: `(n,)`, each sample's step in seconds from the start of the recording.
        values: `(n, steps, features)`, a window for each sample; or `(n, features)`, a step for each.
        note: What differs from training; None if nothing does.
    """

    features: tuple[str, ...]
    times: NDArray[np.float64]
    values: NDArray
    note: str | None = None


class FeatureRecipe(Parameters):
    """A feature recipe.

    Attributes:
        name: Name by which it is chosen.
        label: Name in tables.
        signals: Signals that recordings must have.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    signals: ClassVar[tuple[str, ...]] = ()

    @property
    @abstractmethod
    def table_key(self) -> Any:
        """The settings that a subject's table depends on, for the cache."""

    @abstractmethod
    def make(self, recording: Recording) -> dict[str, NDArray]:
        """Computes a subject's table, as arrays to keep."""

    def restore(self, subject: str, arrays: Mapping[str, NDArray]) -> Any:
        """What is kept of a subject: its table, with more beside it under some recipes."""
        return table_from(subject, arrays)

    def table(self, prepared: Any) -> FeatureTable:
        """The table of what is kept of a subject."""
        return prepared

    @abstractmethod
    def dataset(self, tables: Sequence[FeatureTable], task: Task, partition: ClientSplit) -> FederatedDataset:
        """The data set of subjects' tables.

        Args:
            tables: In the order in which subjects are read, should that matter.
            task: The class of each code.
            partition: Train, validation and test subjects.
        """

    def inputs_of(self, recording: Recording, baseline: tuple[float, float] | None = None) -> RecordingInputs:
        """A model's inputs of one recording, labelled or not.

        Args:
            recording: The recording.
            baseline: Start and end of the baseline in seconds; None for where the labels have it.
        """
        raise ConfigError(f"features {self.name!r} of a single recording; expected a stream of the model's inputs")


FEATURE_RECIPES: Registry[type[FeatureRecipe]] = Registry("features", ["tff_esn.features"])
#: A recipe as a parameter: itself, its name, or a table with its name and settings.
FeatureRecipeChoice = Annotated[
    InstanceOf[FeatureRecipe], BeforeValidator(lambda given: FEATURE_RECIPES.create(given, "features"))
]


def table_arrays(table: FeatureTable) -> dict[str, NDArray]:
    """A table as arrays to keep."""
    return {"names": np.array(table.names), "values": table.values, "codes": table.codes, "breaks": table.breaks}


def table_from(subject: str, arrays: Mapping[str, NDArray]) -> FeatureTable:
    """A table of the arrays kept."""
    names = tuple(arrays["names"].tolist())
    return FeatureTable(subject, names, arrays["values"], arrays["codes"], arrays["breaks"])
