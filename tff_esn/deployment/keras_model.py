"""A trained ESN as a Keras model, and what must be known to feed it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tff_esn.config import InputConfig
from tff_esn.presets import PRESETS
from tff_esn.readout.readout import Readout
from tff_esn.reservoir.weights import ReservoirWeights

if TYPE_CHECKING:
    import tensorflow as tf


@dataclass(frozen=True)
class TrainedEsn:
    """A reservoir with its readout."""

    weights: ReservoirWeights
    readout: Readout


@dataclass(frozen=True)
class ModelCard:
    """What a model's input is made of.

    Attributes:
        inputs: Preset, features and reading.
        steps: Length of a window.
        classes: Names of the classes.
        threshold: Probability above which the answer is class 1.
        trained_on: The subjects it was trained on.
    """

    inputs: InputConfig
    steps: int
    classes: tuple[str, ...]
    threshold: float
    trained_on: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """For `model.json` beside the model."""
        return asdict(self)


def keras_model(trained: TrainedEsn, steps: int | None) -> tf.keras.Model:
    """`Reservoir + Dense`: `(batch, steps, features)` to the answer at the last step."""
    import tensorflow as tf

    from tff_esn.reservoir.layer import Reservoir

    readout = trained.readout
    inputs = trained.weights.input_kernel.shape[0]
    model = tf.keras.Sequential(
        [
            tf.keras.Input((steps, inputs)),
            Reservoir.from_weights(trained.weights, name="reservoir"),
            tf.keras.layers.Dense(len(readout.bias), activation=readout.activation, name="readout"),
        ]
    )
    model.get_layer("readout").set_weights([readout.kernel.astype(np.float32), readout.bias.astype(np.float32)])
    return model


def model_card(
    inputs: InputConfig, classes: tuple[str, ...], threshold: float, trained_on: tuple[str, ...]
) -> ModelCard:
    """The card of a model trained under a configuration."""
    return ModelCard(inputs, PRESETS[inputs.preset].windows.steps, classes, threshold, trained_on)
