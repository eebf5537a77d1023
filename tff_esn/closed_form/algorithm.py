"""Base of the algorithms in closed form: clients send ridge statistics or parts of them, the server solves."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import field
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Literal

import numpy as np
from pydantic.dataclasses import dataclass

from tff_esn.algorithm import Algorithm
from tff_esn.closed_form.server import FederatedReadout, Regularization, Statistics
from tff_esn.closed_form.statistics import dataset_statistics
from tff_esn.datasets.federated import FederatedDataset
from tff_esn.errors import ConfigError
from tff_esn.parameters import STRICT, NonNegativeFloat
from tff_esn.readout.model import TrainedESN
from tff_esn.readout.parameters import ClassWeight, class_weights
from tff_esn.reservoir.weights import ReservoirWeights, draw_weights

if TYPE_CHECKING:
    from tff_esn.closed_form.computations import Shapes

Precision = Literal["float32", "float64"]


@plain_dataclass(frozen=True)
class AdaptedReservoir:
    """A reservoir, and the bytes that rounds of adapting it took.

    Attributes:
        weights: The reservoir.
        bytes_up: Bytes from each client, over all rounds.
        bytes_down: Bytes to each client, over all rounds.
    """

    weights: ReservoirWeights
    bytes_up: Mapping[str, int] = field(default_factory=dict)
    bytes_down: int = 0


@dataclass(frozen=True, repr=False, config=STRICT)
class ClosedForm(Algorithm):
    """A readout solved from the clients' statistics A = Y S^T and B = S S^T.

    Attributes:
        ridge: Regularisation lambda.
        bias: Whether the readout has a bias, which is not penalised; those of the papers have none.
        class_weight: Weight of a sample of each class: `balanced`, one weight per class, or none.
        regularization: Where lambda is added: `once` at the server, or `per_client` in every B (IncFed paper, eq. 7, as
            printed).
        precision: Precision of states and their products; sums and solutions are in float64.
        wire: Type of the values in messages.
    """

    ridge: NonNegativeFloat = 1e-3
    bias: bool = False
    class_weight: ClassWeight = None
    regularization: Regularization = "once"
    precision: Precision = "float32"
    wire: Precision = "float64"

    family: ClassVar[str] = "closed-form"

    @abstractmethod
    def solve(self, statistics: Statistics) -> FederatedReadout:
        """The readout from the clients' statistics, and the bytes sent."""

    def adapted(self, data: FederatedDataset, weights: ReservoirWeights) -> AdaptedReservoir:
        """The reservoir adapted to the training clients; as it was drawn, unless the algorithm adapts it."""
        return AdaptedReservoir(weights)

    def build(self, shapes: Shapes, clients: int) -> Callable[[Any, Sequence[Any]], Any]:
        """Solves on TensorFlow Federated: from a reservoir and clients (see `computations`) to the readout W."""
        raise ConfigError(f"{self.name} by TensorFlow Federated, which has no such computation; expected engine numpy")

    def statistics(self, data: FederatedDataset, weights: ReservoirWeights) -> dict[str, Any]:
        """The statistics of each client of a data set."""
        return dataset_statistics(
            data,
            weights,
            bias=self.bias,
            class_weight=class_weights(self.class_weight, data.labels(), len(data.classes)),
            dtype=np.dtype(self.precision).type,
        )

    def drawn(self, data: FederatedDataset) -> ReservoirWeights:
        """The reservoir for a data set's inputs, as it is drawn."""
        return draw_weights(self.esn, data.inputs, self.esn.seed)

    def fit(self, data: FederatedDataset) -> TrainedESN:
        """Solves for the readout of the training clients."""
        train = data.part("train")
        adapted = self.adapted(train, self.drawn(data))
        solved = self.solve(self.statistics(train, adapted.weights))
        return TrainedESN.of(self, data, adapted.weights, solved.readout)

    @property
    def wire_type(self) -> type[np.floating]:
        """NumPy's type of the values in messages."""
        return np.dtype(self.wire).type

    def ridge_of_all(self, clients: int) -> float:
        """Lambda as it stands in the sum over clients."""
        return self.ridge * clients if self.regularization == "per_client" else self.ridge
