"""A network that detects updates of clients with noisy inputs (thesis chapter 4, section 6.1)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Optional

from pydantic import Field
from pydantic.dataclasses import dataclass

from tff_esn.datasets.federated import FederatedDataset
from tff_esn.federated.defences.defence import DEFENCES, Defence
from tff_esn.parameters import STRICT, Parameters, PositiveFloat, PositiveInt
from tff_esn.readout.parameters import GradientTraining

if TYPE_CHECKING:
    from tff_esn.federated.algorithm import GradientAlgorithm


@dataclass(frozen=True, repr=False, config=STRICT)
class DiscriminatorParameters(Parameters):
    """The network: two dense layers, each followed by dropout, and a sigmoid (thesis Figure 6.2).

    Attributes:
        units: Units of the two dense layers.
        dropout: Dropout after each of them.
        learning_rate: Adam's learning rate.
        epochs: Passes over the examples.
        batch_size: Examples per step.
        noise: Standard deviation of the input noise of the clients that it learns to reject.
        readout: The training whose steps it learns from: the centralised model's, as in the thesis.
    """

    units: tuple[PositiveInt, PositiveInt] = (64, 32)
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.3
    learning_rate: PositiveFloat = 0.001
    epochs: PositiveInt = 5
    batch_size: PositiveInt = 64
    noise: PositiveFloat = 1.0
    readout: GradientTraining = GradientTraining(learning_rate=0.1, class_weight=(12.0, 88.0), order="time")


@DEFENCES.register
@dataclass(frozen=True, repr=False, config=STRICT)
class DiscriminatorDefence(Defence):
    """Accepts the updates that a network classifies as those of honest clients (thesis Algorithms 3 and 4).

    Attributes:
        treatment: Treatment of rejected clients: `replaced`: a zero update that still counts in the mean (thesis
            Algorithms 3 and 4); `left_out`: they do not count.
        trained_on: Training data of the network: the `steps` of a training (the thesis), or updates of whole `rounds`,
            which are what it classifies later.
        file: File of a trained discriminator; None to train one on the split's discriminator subjects.
        network: The network and its training.
    """

    treatment: Literal["replaced", "left_out"] = "left_out"
    trained_on: Literal["steps", "rounds"] = "rounds"
    file: Optional[str] = None
    network: DiscriminatorParameters = DiscriminatorParameters()

    name = "discriminator"

    def prepared(
        self, data: FederatedDataset, algorithm: GradientAlgorithm, training: GradientTraining, scratch: Path
    ) -> Defence:
        """The defence with a trained network."""
        from tff_esn.federated.training.discriminator import discriminator_for

        return discriminator_for(self, data, algorithm, training, scratch).defence(self.treatment)
