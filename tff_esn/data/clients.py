"""Subjects as federated clients: one file a client, read inside TensorFlow's graph."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tff_esn.data.tables import Task
from tff_esn.data.windows import Sequences
from tff_esn.errors import ConfigError, DataError
from tff_esn.files import atomic_write
from tff_esn.runtime import load_tff
from tff_esn.seeds import generator_for, seed_for

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


def write_examples(file: Path, values: NDArray, labels: NDArray) -> None:
    """Writes examples as rows of float32, the label in the last column."""
    rows = np.empty((len(values), math.prod(values.shape[1:]) + 1), np.float32)
    rows[:, :-1] = values.reshape(len(values), -1)
    rows[:, -1] = labels
    with atomic_write(file) as out:
        out.write(rows.tobytes())


def read_examples(path: tf.Tensor, columns: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The `(examples, columns)` values and the `(examples,)` labels of a file, read inside a graph."""
    import tensorflow as tf

    rows = tf.reshape(tf.io.decode_raw(tf.io.read_file(path), tf.float32), (-1, columns + 1))
    return rows[:, :-1], tf.cast(rows[:, -1], tf.int32)


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


#: More than any subject's examples, so that a shuffle is a whole one.
_SHUFFLE_BUFFER = 100_000
