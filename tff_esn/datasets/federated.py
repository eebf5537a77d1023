"""The one data set that all algorithms take: clients with labelled sequences of feature values.

A client is a subject of a study, or any other owner of private data. A reservoir reads each of its sequences from a
zero state. Labels define the samples: with one label per sequence, its last state is a sample; with a label per step,
all its states are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tff_esn.datasets.splits import ClientSplit, checked
from tff_esn.datasets.tables import Task
from tff_esn.errors import ConfigError, DataError
from tff_esn.registry import expected

if TYPE_CHECKING:
    import tensorflow_federated as tff

#: Label of a step or sequence that does not count, as a number and as NumPy makes a name of it beside names.
_UNLABELLED = (-1, "-1")
#: Parts of a partition.
PARTS = ("train", "validation", "test", "design", "discriminator")
Arrays = Union[NDArray, tuple[NDArray, ...]]


@dataclass(frozen=True)
class LabelledSequences:
    """A client's sequences.

    Attributes:
        values: `(n, steps, features)`, or an array `(steps_i, features)` for each sequence if their lengths differ. May
            be a strided view, such as overlapping windows.
        labels: `(n,)`, the class of each sequence; or the class of each step, `(n, steps)` or an array `(steps_i,)`
            for each sequence. Negative where a sequence or step does not count.
        static: `(samples, features)`, input of models without a reservoir; None for the values of each sample's step.
    """

    values: Arrays
    labels: Arrays
    static: NDArray | None = None

    @property
    def per_step(self) -> bool:
        """Whether each step has a label."""
        return isinstance(self.labels, tuple) or self.labels.ndim == 2

    def __len__(self) -> int:
        return len(self.values)

    @property
    def steps(self) -> int | None:
        """Steps of every sequence; None if they differ."""
        return None if isinstance(self.values, tuple) else self.values.shape[1]

    @cached_property
    def counted(self) -> NDArray[np.bool_]:
        """Which labels, in order, are those of samples."""
        return self._flat_labels >= 0

    @cached_property
    def sample_labels(self) -> NDArray[np.int64]:
        """`(samples,)`, the class of each sample."""
        return self._flat_labels[self.counted]

    @cached_property
    def sample_features(self) -> NDArray:
        """`(samples, features)`, the input of models without a reservoir."""
        if self.static is not None:
            return self.static[self.counted]
        if not self.per_step:
            last = [own[-1] for own in self.values] if isinstance(self.values, tuple) else self.values[:, -1]
            return np.asarray(last)[self.counted]
        steps = self.values if isinstance(self.values, tuple) else [self.values.reshape(-1, self.values.shape[-1])]
        return np.concatenate(steps)[self.counted]

    @cached_property
    def _flat_labels(self) -> NDArray[np.int64]:
        parts = self.labels if isinstance(self.labels, tuple) else (self.labels.reshape(-1),)
        return np.concatenate(parts).astype(np.int64) if len(parts) else np.empty(0, np.int64)


@dataclass(frozen=True)
class FederatedDataset:
    """Clients with their task and train/validation/test split.

    Attributes:
        sequences: By client.
        task: What is predicted: its classes.
        features: Names of the feature values.
        partition: Train, validation and test clients.
        recipe: Feature recipe with which the recordings were processed, kept for prediction; None for arrays.
    """

    sequences: Mapping[str, LabelledSequences]
    task: Task
    features: tuple[str, ...]
    partition: ClientSplit
    recipe: Any = None

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, tuple[Any, Any]],
        *,
        classes: Sequence[str] | None = None,
        features: Sequence[str] | None = None,
        partition: ClientSplit | None = None,
    ) -> FederatedDataset:
        """A data set of plain arrays.

        >>> data = FederatedDataset.from_arrays({"a": (np.zeros((3, 20, 4)), ["calm", "stressed", "calm"])})
        >>> data.classes, data.inputs
        (('calm', 'stressed'), 4)

        Args:
            arrays: By client, values and labels. Values: one sequence `(steps, features)`, equal ones
                `(n, steps, features)`, or a list of sequences of any lengths. Labels: one for each sequence, or one for
                each step; numbers or names, -1 for what does not count.
            classes: Names of the classes; None for the labels that occur, in their order.
            features: Names of the feature values.
            partition: Train, validation and test clients; None for all to train.
        """
        if not arrays:
            raise ConfigError("no client; expected at least one")
        parsed = {str(client): _parsed(str(client), *pair) for client, pair in arrays.items()}
        found = {label for _, labels in parsed.values() for own in labels for label in np.unique(own).tolist()}
        found -= set(_UNLABELLED)
        if classes is None:
            occurring = sorted(found, key=lambda label: (isinstance(label, str), label))
            names, index = tuple(map(str, occurring)), {label: i for i, label in enumerate(occurring)}
        else:
            names = tuple(classes)
            index = {label: names.index(label) if label in names else label for label in found}
            unknown = [label for label, place in index.items() if place not in range(len(names))]
            if unknown:
                raise ConfigError(f"label {unknown[0]!r}; expected one of {', '.join(names)}, its number from 0, or -1")
        if len(set(names)) < max(2, len(names)):
            raise ConfigError(f"classes {', '.join(names) or 'none'}; expected at least two, with different names")
        width = next((own.shape[-1] for values, _ in parsed.values() for own in values), 0)
        for client, (values, _) in parsed.items():
            for number, own in enumerate(values):
                if own.shape[-1] != width:
                    described = f"sequence {number} has {own.shape[-1]} feature values per step"
                    raise DataError(client, described, f"{width}, as the others have")
        columns = tuple(features or (f"x{i}" for i in range(width)))
        if len(columns) != width:
            raise ConfigError(f"features {', '.join(columns)}; expected names for {width}")
        per_step = any(label.ndim for _, labels in parsed.values() for label in labels)
        sequences = {
            str(client): _labelled(values, *parsed[str(client)], index, per_step, width)
            for client, (values, _) in arrays.items()
        }
        task = Task("labels", names, {i: i for i in range(len(names))})
        everyone = (
            ClientSplit(tuple(sequences)) if partition is None else checked(partition, tuple(sequences), "partition")
        )
        return cls(sequences, task, columns, everyone)

    @classmethod
    def from_client_data(
        cls, clients: tff.simulation.datasets.ClientData, *, classes: Sequence[str] | None = None
    ) -> FederatedDataset:
        """A data set of TFF's client data, whose elements are pairs of a sequence (or a vector) and its label."""
        arrays = {}
        for client in clients.client_ids:
            pairs = list(clients.create_tf_dataset_for_client(client).as_numpy_iterator())
            if pairs and not (isinstance(pairs[0], tuple) and len(pairs[0]) == 2):
                raise DataError(
                    client, f"elements of type {type(pairs[0]).__name__}", "pairs of a sequence and its label"
                )
            values = [np.atleast_2d(values) for values, _ in pairs]
            arrays[client] = (
                values,
                [np.ravel(label) if np.size(label) > 1 else np.ravel(label)[0] for _, label in pairs],
            )
        return cls.from_arrays(arrays, classes=classes)

    def to_client_data(self) -> tff.simulation.datasets.ClientData:
        """TFF's client data: each element a sequence `(steps, features)` and its label or its steps' labels."""
        import tensorflow as tf
        import tensorflow_federated as tff

        def examples(client: str) -> tf.data.Dataset:
            own = self.sequences[client]
            spec = (
                tf.TensorSpec((own.steps, self.inputs), tf.float32),
                tf.TensorSpec((own.steps,) if own.per_step else (), tf.int32),
            )
            pairs = [(np.asarray(x, np.float32), np.asarray(y, np.int32)) for x, y in zip(own.values, own.labels)]
            return tf.data.Dataset.from_generator(lambda: iter(pairs), output_signature=spec)

        return tff.simulation.datasets.ClientData.from_clients_and_tf_fn(list(self.sequences), examples)

    @property
    def clients(self) -> tuple[str, ...]:
        """Names of the clients."""
        return tuple(self.sequences)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes."""
        return self.task.classes

    @property
    def inputs(self) -> int:
        """Number of feature values per step."""
        return len(self.features)

    def __len__(self) -> int:
        return len(self.sequences)

    def __iter__(self) -> Iterator[str]:
        return iter(self.sequences)

    def __getitem__(self, client: str) -> LabelledSequences:
        if client not in self.sequences:
            raise ConfigError(f"no client {client!r}; {expected(client, self.sequences)}")
        return self.sequences[client]

    def split(
        self, test: Sequence[str], validation: Sequence[str] = (), train: Sequence[str] | None = None
    ) -> tuple[FederatedDataset, ...]:
        """The training clients and the test clients as data sets, with validation clients between them if named.

        Args:
            test: Test clients.
            validation: Validation clients.
            train: Training clients; None for all others.
        """
        others = tuple(client for client in self.sequences if client not in (*test, *validation))
        parts = ClientSplit(others if train is None else tuple(train), tuple(validation), tuple(test))
        checked(parts, self.clients, "the split")
        if not parts.train:
            raise ConfigError("no client is left to train; expected at least one")
        named = (parts.train, parts.validation, parts.test) if validation else (parts.train, parts.test)
        return tuple(replace(self.of(clients), partition=ClientSplit(tuple(clients))) for clients in named)

    def partitioned(self, partition: ClientSplit) -> FederatedDataset:
        """A copy with another partition."""
        return replace(self, partition=checked(partition, self.clients, "the split"))

    def of(self, clients: Sequence[str]) -> FederatedDataset:
        """Some of the clients; the partition stays whole."""
        return replace(self, sequences={client: self[client] for client in clients})

    def part(self, name: str) -> FederatedDataset:
        """The clients of a part of the partition: `train`, `validation`, `test`, `design` or `discriminator`."""
        if name not in PARTS:
            raise ConfigError(f"no part {name!r} of a data set; {expected(name, PARTS)}")
        return self.of(getattr(self.partition, name))

    def labels(self) -> NDArray[np.int64]:
        """The classes of all samples, client after client."""
        return np.concatenate([np.empty(0, np.int64), *(own.sample_labels for own in self.sequences.values())])

    def __repr__(self) -> str:
        counts = np.bincount(self.labels(), minlength=len(self.classes))
        held = ", ".join(f"{name} {count}" for name, count in zip(self.classes, counts))
        return f"FederatedDataset({len(self)} clients, {self.inputs} features, {counts.sum()} samples: {held})"


def _parsed(client: str, values: Any, labels: Any) -> tuple[list[NDArray], list[NDArray]]:
    """Sequences `(steps, features)`, and for each its label or those of its steps as an array."""
    if isinstance(values, (list, tuple)):
        sequences, per_sequence = [np.asarray(own) for own in values], list(labels)
    else:
        array = np.asarray(values)
        if array.ndim not in (2, 3):
            raise DataError(client, f"values of shape {array.shape}", "(steps, features) or (n, steps, features)")
        sequences, per_sequence = ([array], [labels]) if array.ndim == 2 else (list(array), list(labels))
    if len(per_sequence) != len(sequences):
        raise DataError(client, f"{len(per_sequence)} labels of {len(sequences)} sequences", "labels for each")
    arrays = [_label_array(label) for label in per_sequence]
    for number, (own, label) in enumerate(zip(sequences, arrays)):
        if own.ndim != 2 or not own.size or own.dtype.kind not in "biuf":
            raise DataError(
                client, f"sequence {number} is {own.dtype} {own.shape}", "numbers of shape (steps, features)"
            )
        if not np.isfinite(own).all():
            raise DataError(client, f"values of sequence {number} are not finite", "finite numbers")
        if label.ndim and label.shape != (len(own),):
            raise DataError(client, f"labels of shape {label.shape} for sequence {number}", f"one, or {len(own)}")
        if label.dtype.kind not in "biufU" or (label.dtype.kind == "f" and not np.isfinite(label).all()):
            raise DataError(client, f"labels {label.tolist()!r} of sequence {number}", "numbers or names")
    return sequences, arrays


def _label_array(label: Any) -> NDArray:
    """A label or the labels of steps; TensorFlow has names as bytes."""
    array = np.asarray(label)
    of_bytes = array.dtype.kind in "SO" and all(isinstance(own, bytes) for own in array.reshape(-1).tolist())
    return np.char.decode(array.astype(np.bytes_)) if of_bytes else array


def _labelled(
    given: Any,
    values: Sequence[NDArray],
    labels: Sequence[NDArray],
    index: Mapping[Any, int],
    per_step: bool,
    width: int,
) -> LabelledSequences:
    """A client's sequences as one array if they are equally long, and its labels for each sequence or each step."""
    sequences: Arrays = tuple(values)
    if isinstance(given, np.ndarray) and given.ndim == 3:
        sequences = given  # which may be a view of overlapping windows
    elif len({len(own) for own in values}) == 1:
        sequences = np.stack(values)
    elif not values:
        sequences = np.empty((0, 1, width))
    numbers = [np.array([index.get(own, -1) for own in label.reshape(-1).tolist()], np.int64) for label in labels]
    if not per_step:
        return LabelledSequences(sequences, np.concatenate([np.empty(0, np.int64), *numbers]))
    steps = tuple(np.broadcast_to(number, (len(own),)) for own, number in zip(values, numbers))
    if isinstance(sequences, tuple):
        return LabelledSequences(sequences, steps)
    return LabelledSequences(sequences, np.stack(steps) if steps else np.empty(sequences.shape[:2], np.int64))


def balanced_weights(labels: ArrayLike, classes: int) -> tuple[float, ...]:
    """Weights that give each class equal influence, n / (classes * n_class); 1 if absent."""
    counts = np.bincount(np.asarray(labels), minlength=classes)
    present = np.count_nonzero(counts)
    return tuple(float(counts.sum() / (present * count)) if count else 1.0 for count in counts)
