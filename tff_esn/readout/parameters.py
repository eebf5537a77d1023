"""The parameters of a readout's training by gradients."""

from __future__ import annotations

from dataclasses import fields
from typing import Literal

from pydantic.dataclasses import dataclass

from tff_esn.algorithm import ClassWeight
from tff_esn.parameters import STRICT, Parameters, PositiveFloat, PositiveInt


@dataclass(frozen=True, repr=False, config=STRICT)
class GradientTraining(Parameters):
    """A dense readout learned by gradients on the cross-entropy.

    Attributes:
        optimizer: `adam` or `sgd`.
        learning_rate: Its step, eta.
        batch_size: Examples per step.
        epochs: Passes over the data.
        class_weight: Weight of each class in the loss: `balanced`, a weight each, or none.
        order: Examples in `time` order, subject after subject, or `shuffled` anew every epoch.
    """

    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: PositiveFloat = 0.01
    batch_size: PositiveInt = 20
    epochs: PositiveInt = 1
    class_weight: ClassWeight = "balanced"
    order: Literal["time", "shuffled"] = "shuffled"

    @property
    def training(self) -> GradientTraining:
        """These parameters alone."""
        return GradientTraining(**{field.name: getattr(self, field.name) for field in fields(GradientTraining)})
