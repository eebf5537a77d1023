"""Structures of tensors as vectors."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def flattened(structure: Any) -> tf.Tensor:
    """All values of a structure of tensors as one `(parameters,)` vector."""
    return tf.concat([tf.reshape(part, (-1,)) for part in tf.nest.flatten(structure)], axis=0)


def unflattened(vector: tf.Tensor, like: Any) -> Any:
    """A vector's values in a structure as of these tensors or `tf.TensorSpec`s."""
    parts = tf.nest.flatten(like)
    pieces = tf.split(vector, [part.shape.num_elements() for part in parts])
    return tf.nest.pack_sequence_as(like, [tf.reshape(piece, part.shape) for piece, part in zip(pieces, parts)])
