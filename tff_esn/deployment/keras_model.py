"""A trained ESN as a Keras model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tff_esn.readout.model import TrainedESN

if TYPE_CHECKING:
    import tensorflow as tf


def keras_model(model: TrainedESN) -> tf.keras.Model:
    """`Reservoir + Dense`: `(batch, steps, features)` to the readout's outputs at the last step."""
    import tensorflow as tf

    from tff_esn.reservoir.layer import Reservoir

    readout, steps = model.readout, None if model.card.per_step else model.card.steps
    # With names of their own, where Keras would count its models: the same model makes the same file.
    keras = tf.keras.Sequential(
        [
            tf.keras.Input((steps, model.weights.inputs), name="features"),
            Reservoir.from_weights(model.weights, name="reservoir"),
            tf.keras.layers.Dense(len(readout.bias), activation=readout.activation, name="readout"),
        ],
        name="esn",
    )
    keras.get_layer("readout").set_weights([readout.kernel.astype(np.float32), readout.bias.astype(np.float32)])
    return keras
