"""The likelihood of a readout of classes in TensorFlow: a sigmoid for one output, a softmax for several.

The last axis of logits, probabilities and targets is that of the outputs; see `tff_esn.readout.readout.output_layer`.
"""

from __future__ import annotations

import tensorflow as tf

from tff_esn.readout.readout import output_layer

#: The loss in Keras, of labels and logits, by the activation of the readout.
KERAS_LOSSES = {
    "sigmoid": tf.keras.losses.binary_crossentropy,
    "softmax": tf.keras.losses.sparse_categorical_crossentropy,
}


def targets_of(labels: tf.Tensor, classes: int) -> tf.Tensor:
    """The outputs `(n, outputs)` that labels `(n,)` ask for, each 0 or 1; a negative label asks for none."""
    outputs, _ = output_layer(classes)
    return tf.cast(tf.equal(labels[:, None], tf.range(classes - outputs, classes)), tf.float32)


def probabilities_of(logits: tf.Tensor) -> tf.Tensor:
    """The probability of each output."""
    return tf.sigmoid(logits) if logits.shape[-1] == 1 else tf.nn.softmax(logits)


def losses_of(targets: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """The cross-entropy of each example, `(..., 1)`."""
    if logits.shape[-1] == 1:
        return tf.nn.sigmoid_cross_entropy_with_logits(targets, logits)
    return tf.nn.softmax_cross_entropy_with_logits(targets, logits)[..., None]


def gradient_by_logits(probabilities: tf.Tensor, by_probabilities: tf.Tensor) -> tf.Tensor:
    """The gradient by the logits of what has a gradient by the probabilities."""
    if probabilities.shape[-1] == 1:
        return by_probabilities * probabilities * (1 - probabilities)
    return probabilities * (by_probabilities - tf.reduce_sum(probabilities * by_probabilities, axis=-1, keepdims=True))
