"""Closed forms computed by TensorFlow Federated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tff_esn.closed_form import computations
from tff_esn.closed_form.algorithm import ClosedForm
from tff_esn.closed_form.fedip import FedIP
from tff_esn.closed_form.selection import random_order
from tff_esn.datasets.federated import FederatedDataset
from tff_esn.errors import ConfigError
from tff_esn.readout.model import TrainedESN
from tff_esn.readout.readout import Readout
from tff_esn.store.client_files import write_examples
from tff_esn.store.json_values import fingerprint


def write_sequences(folder: Path, data: FederatedDataset) -> Path:
    """Writes a file for each training client to a new subfolder, which it returns."""
    own = folder / fingerprint([data.recipe, data.task.name])
    for client in data.partition.train:
        sequences = data.sequences[client]
        labels = sequences.labels
        if isinstance(labels, tuple) or labels.ndim != 2 or not (labels == labels[:, :1]).all():
            raise ConfigError(
                f"{client}: other than one label for all steps of a chunk; expected chunks with engine tff"
            )
        counted = labels[:, 0] >= 0
        write_examples(own / f"{client}.f32", np.asarray(sequences.values)[counted], labels[counted, 0])
    return own


def fit_with_tff(algorithm: ClosedForm, data: FederatedDataset, folder: Path) -> TrainedESN:
    """An algorithm on all training clients, computed by TFF.

    Args:
        algorithm: What is solved.
        data: The clients, in chunks.
        folder: Folder of the files of `write_sequences`, as seen where the clients' work is done.
    """
    train, weights = data.partition.train, algorithm.drawn(data)
    steps = data.sequences[train[0]].steps
    if steps is None:
        raise ConfigError("sequences of different lengths; expected chunks of one length with engine tff")
    shapes = computations.Shapes(weights.units, data.inputs, steps, len(data.classes), weights.leaking_rate)
    reservoir: Any = computations.reservoir_struct(weights)
    seed = algorithm.esn.seed
    clients = [
        computations.client_struct(folder / f"{name}.f32", random_order(weights.units, seed, name)) for name in train
    ]
    if isinstance(algorithm, FedIP):
        process = computations.build_fedip(shapes, algorithm.plasticity)
        for _ in range(algorithm.plasticity.rounds):
            reservoir = process.next(reservoir, clients)
        weights = computations.adapted_weights(weights, reservoir)
    kernel = np.asarray(algorithm.build(shapes, len(train))(reservoir, clients), np.float64)
    return TrainedESN.of(algorithm, data, weights, Readout(kernel.T, np.zeros(len(kernel)), "linear"))
