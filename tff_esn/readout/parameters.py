"""The parameters of a readout's training by gradients."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal, Union

from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from tff_esn.datasets.federated import balanced_weights
from tff_esn.errors import ConfigError
from tff_esn.parameters import STRICT, Parameters, PositiveFloat, PositiveInt

#: Weight of each class: `balanced`, one weight per class, or None for equal ones.
ClassWeight = Union[Literal["balanced"], tuple[PositiveFloat, ...], None]


@dataclass(frozen=True, repr=False, config=STRICT)
class GradientTraining(Parameters):
    """A dense readout learned by gradients on the cross-entropy.

    Attributes:
        optimizer: Optimizer of the readout: `adam` or `sgd`.
        learning_rate: Learning rate of the optimizer (eta).
        batch_size: Examples per step.
        epochs: Passes over the data.
        class_weight: Weight of each class in the loss: `balanced`, one weight per class, or none.
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


def class_weights(wanted: Any, labels: NDArray, classes: int) -> tuple[float, ...] | None:
    """The weight of each class that `ClassWeight` asks for, given the labels of the training examples."""
    if wanted is None or wanted == "balanced":
        return None if wanted is None else balanced_weights(labels, classes)
    if len(wanted) != classes:
        raise ConfigError(f"class_weight has {len(wanted)} values; expected one for each of {classes} classes")
    return tuple(wanted)
