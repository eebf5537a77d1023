"""Subjects as federated clients: one file a client, read inside TensorFlow's graph."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tff_esn.datasets.tables import Task
from tff_esn.errors import ConfigError, DataError
from tff_esn.features.windows import Sequences
from tff_esn.runtime.context import load_tff
from tff_esn.seeds import generator_for, seed_for
from tff_esn.store.files import atomic_write

if TYPE_CHECKING:
    import tensorflow as tf
    import tensorflow_federated as tff


@dataclass(frozen=True)
class InputNoise:
    """Gaussian noise added to the inputs of chosen clients.

    Attributes:
        standard_deviation: In units of the (normalised) input.
        clients: Who gets it.
        seed: Each client's noise comes from this seed and its name.
    """

    standard_deviation: float
    clients: tuple[str, ...]
    seed: int = 0

    def added_to(self, client: str, values: NDArray) -> NDArray:
        """A client's inputs, with noise if it is one of the chosen."""
        if client not in self.clients:
            return values
        generator = generator_for(self.seed, "input noise", client)
        return values + generator.normal(0.0, self.standard_deviation, values.shape)

    def check(self, clients: Iterable[str]) -> None:
        """Refuses noise for somebody who is not one of the clients."""
        known = list(clients)
        unknown = [client for client in self.clients if client not in known]
        if unknown:
            raise ConfigError(f"input noise for {', '.join(unknown)}; expected clients out of {', '.join(known)}")


def write_clients(
    folder: Path, sequences: Mapping[str, Sequences], task: Task, noise: InputNoise | None = None
) -> None:
    """Writes one file a client, as `write_examples` does."""
    if noise is not None:
        noise.check(sequences)
    for subject, own in sequences.items():
        labels = task.labels(own.codes)
        values = own.values if noise is None else noise.added_to(subject, own.values)
        kept = labels >= 0
        if not kept.any():
            raise DataError(subject, f"no example of the task {task.name!r}", f"classes {', '.join(task.classes)}")
        write_examples(folder / f"{subject}.f32", values[kept], labels[kept])


def write_examples(file: Path, values: NDArray, labels: NDArray, rows: int | None = None) -> None:
    """Writes examples as float32: all values, then all labels.

    Args:
        file: Where to.
        values: `(examples, ...)`.
        labels: `(examples,)`.
        rows: Number of examples to fill up to, with zeros of label `FILLING`, so that files have one shape.
    """
    rows = len(values) if rows is None else rows
    filled = np.zeros((rows, math.prod(values.shape[1:])), np.float32)
    filled[: len(values)] = values.reshape(len(values), filled.shape[1])
    filled_labels = np.full(rows, FILLING, np.float32)
    filled_labels[: len(labels)] = labels
    # Written anew by every run, so that no disk need be waited for.
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


def client_data(folder: Path, clients: Sequence[str], steps: int, columns: int) -> tff.simulation.datasets.ClientData:
    """The files of `write_clients` as `(input, label)` examples in time order.

    Args:
        folder: Where the files are.
        clients: The clients to take.
        steps: Steps of each input sequence.
        columns: Features of each step.

    Returns:
        Client data whose elements are `(float32 (steps, columns), int32 ())`.
    """
    import tensorflow as tf

    width = steps * columns + 1
    files = {client: folder / f"{client}.f32" for client in clients}
    for client, file in files.items():
        size = file.stat().st_size if file.is_file() else 0
        if size == 0 or size % (4 * width):
            raise DataError(file, f"{size} bytes for client {client}", f"rows of {width} float32 values")

    def examples(path: tf.Tensor) -> tf.data.Dataset:
        values, labels = read_examples(path, width - 1)
        return tf.data.Dataset.from_tensor_slices((tf.reshape(values, (-1, steps, columns)), labels))

    paths = {client: str(file) for client, file in files.items()}
    return load_tff().simulation.datasets.FilePerUserClientData(paths, examples)


def batched(
    clients: tff.simulation.datasets.ClientData, batch_size: int, shuffle_seed: int | None = None
) -> tff.simulation.datasets.ClientData:
    """Batches of each client's examples, in time order or shuffled as a whole by a seed.

    The last batch may be smaller. A shuffled client comes in a new order every epoch,
    in the same orders for the same seed.
    """

    def prepare(dataset: tf.data.Dataset) -> tf.data.Dataset:
        if shuffle_seed is not None:
            seed = seed_for(shuffle_seed, "shuffle")
            dataset = dataset.shuffle(_SHUFFLE_BUFFER, seed=seed, reshuffle_each_iteration=True)
        return dataset.batch(batch_size)

    return clients.preprocess(prepare)


#: Label of what only fills up a file.
FILLING = -1
#: More than any subject's examples, so that a shuffle is a whole one.
_SHUFFLE_BUFFER = 100_000
