"""The base of all algorithms: parameters with a name, and `fit`, which trains a model on a data set."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, TypeVar

from pydantic.dataclasses import dataclass

from tff_esn.datasets.federated import FederatedDataset
from tff_esn.parameters import STRICT, Parameters
from tff_esn.registry import Registry
from tff_esn.reservoir.esn import ESN

if TYPE_CHECKING:
    from tff_esn.readout.model import TrainedESN

_A = TypeVar("_A", bound="Algorithm")


@dataclass(frozen=True, repr=False, config=STRICT)
class Algorithm(Parameters):
    """An algorithm that trains a readout.

    Attributes:
        esn: The reservoir.
    """

    esn: ESN = ESN()

    name: ClassVar[str]
    #: For tables and plots.
    label: ClassVar[str]
    #: What kind of algorithm it is: `central`, `federated` by gradients, or `closed-form`.
    family: ClassVar[str]

    @abstractmethod
    def fit(self, data: FederatedDataset) -> TrainedESN:
        """Trains on the data set's training clients.

        Args:
            data: The clients; those of its partition's `train` train.
        """

    def with_seed(self: _A, seed: int) -> _A:
        """A copy with another seed of every random choice."""
        return self.replaced({"esn.seed": seed})


ALGORITHMS: Registry[type[Algorithm]] = Registry(
    "algorithms", ["tff_esn.central", "tff_esn.federated", "tff_esn.closed_form"]
)
