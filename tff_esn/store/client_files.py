"""The examples of a client on disk: one file per client, read inside TensorFlow's graph."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tff_esn.store.files import atomic_write

if TYPE_CHECKING:
    import tensorflow as tf

#: Label of rows that only fill up a file.
_FILLING = -1


def write_examples(file: Path, values: NDArray, labels: NDArray, rows: int | None = None) -> None:
    """Writes examples as float32: all values, then all labels.

    Args:
        file: File to write.
        values: `(examples, ...)`.
        labels: `(examples,)`.
        rows: Number of examples to fill up to, with zeros of label -1, so that files have one shape.
    """
    rows = len(values) if rows is None else rows
    filled = np.zeros((rows, math.prod(values.shape[1:])), np.float32)
    filled[: len(values)] = values.reshape(len(values), filled.shape[1])
    filled_labels = np.full(rows, _FILLING, np.float32)
    filled_labels[: len(labels)] = labels
    # Written by every run, so that there is no need to wait for the disk.
    with atomic_write(file, durable=False) as out:
        out.write(filled.tobytes())
        out.write(filled_labels.tobytes())


def read_examples(path: tf.Tensor, columns: int, rows: int | None = None) -> tuple[tf.Tensor, tf.Tensor]:
    """The `(rows, columns)` values and the `(rows,)` labels of a file, read inside a graph.

    With the number of rows given the shapes are known before the file is.
    """
    import tensorflow as tf

    content = tf.io.decode_raw(tf.io.read_file(path), tf.float32)
    count = tf.size(content) // (columns + 1) if rows is None else rows
    # Both parts are runs of the file, which TensorFlow takes without a copy.
    values, labels = tf.reshape(content[: count * columns], (count, columns)), content[count * columns :]
    return values, tf.reshape(tf.cast(labels, tf.int32), (count,))
