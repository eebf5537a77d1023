"""A table's methods by TensorFlow Federated, with all training clients, beside the same without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tff_esn.closed_form import computations as tff_side
from tff_esn.closed_form.experiments import Clients
from tff_esn.closed_form.pfedrr import rank_of_same_size
from tff_esn.closed_form.selection import partial_count, random_order
from tff_esn.closed_form.statistics import ridge_confusions
from tff_esn.config import ClosedFormConfig, MethodConfig
from tff_esn.console import progress
from tff_esn.errors import ConfigError
from tff_esn.presets import CLOSED_FORMS, settled_method
from tff_esn.readout.readout import Readout
from tff_esn.reservoir.weights import ReservoirWeights, draw_weights
from tff_esn.store.client_files import write_examples
from tff_esn.store.json_values import fingerprint


def write_sequences(folder: Path, clients: Clients, config: ClosedFormConfig) -> Path:
    """Writes a file for each training client, in a folder of their own below this one, which it returns."""
    own = folder / fingerprint([config.channels, config.hhar, clients.task.name])
    for name in clients.part(max(config.percent)).train:
        sequences = clients.sequences[name]
        write_examples(own / f"{name}.f32", sequences.values, clients.task.labels(sequences.codes))
    return own


def solve_with_tff(clients: Clients, config: ClosedFormConfig, seed: int, folder: Path) -> Iterator[str]:
    """Runs each method on the largest share of the clients, one reservoir, and tells its test accuracy.

    Args:
        clients: The study's.
        config: The methods.
        seed: Of the reservoir.
        folder: Where those who compute for the clients have what `write_sequences` wrote.
    """
    percent = max(config.percent)
    with progress("TensorFlow Federated", len(config.methods)) as bar:
        for method in config.methods:
            weights, readout = tff_readout(clients, config, method, percent, seed, folder)
            parts = clients.part(percent).test
            counts = [ridge_confusions(clients.sequences[name], clients.task, weights, [readout])[0] for name in parts]
            confusion = np.sum(counts, axis=0)
            bar.advance()
            yield f"{method.name}: test accuracy {np.trace(confusion) / confusion.sum():.4f} at {percent} % by TFF"


def tff_readout(
    clients: Clients, config: ClosedFormConfig, method: MethodConfig, percent: int, seed: int, folder: Path
) -> tuple[ReservoirWeights, Readout]:
    """The reservoir and the readout of a method, computed by TFF."""
    train, task, method = clients.part(percent).train, clients.task, settled_method(method, config.preset)
    weights = draw_weights(method.reservoir, clients.inputs, seed)
    shapes = tff_side.Shapes(
        weights.units, clients.inputs, config.channels.steps, len(task.classes), weights.leaking_rate
    )
    reservoir: Any = tff_side.reservoir_struct(weights)
    data = [tff_side.client_struct(folder / f"{name}.f32", random_order(weights.units, seed, name)) for name in train]
    if method.plasticity is not None:
        process = tff_side.build_fedip(shapes, method.plasticity)
        for _ in range(method.plasticity.rounds):
            reservoir = process.next(reservoir, data)
        adapted = {name: np.asarray(reservoir[name], np.float32) for name in ("gain", "bias")}
        weights = ReservoirWeights(
            weights.input_kernel, weights.recurrent_kernel, adapted["bias"], adapted["gain"], weights.leaking_rate
        )
    kernel = np.asarray(_solved(shapes, config, method, reservoir, data), np.float64)
    return weights, Readout(kernel.T, np.zeros(len(kernel)), "linear")


def _solved(
    shapes: tff_side.Shapes, config: ClosedFormConfig, method: MethodConfig, reservoir: Any, data: list[Any]
) -> NDArray:
    algorithm, ridge, switches = method.algorithm, method.ridge, CLOSED_FORMS[config.preset]
    if switches.regularization == "per_client":
        ridge *= len(data)
    if algorithm == "secure-incfed":
        raise ConfigError("secure-incfed by TFF, whose secure sum hides nothing; expected --engine numpy")
    if algorithm in ("central", "incfed"):
        process = tff_side.build_incfed(shapes, ridge)
        return process.next(process.initialize(), reservoir, data)[1]
    if algorithm == "averaging":
        computation = tff_side.build_averaging(shapes, method.ridge, switches)
    elif algorithm in ("partial", "random"):
        alpha = method.alpha if algorithm == "partial" else 0.0
        computation = tff_side.build_partial(shapes, ridge, alpha, partial_count(len(data), shapes.units))
    elif algorithm == "low-rank":
        selected = tff_side.build_mean_selected(shapes, method.tau[0], switches)(reservoir, data)
        computation = tff_side.build_low_rank(shapes, ridge, rank_of_same_size(shapes.units, int(selected)))
    else:
        policy = {"pfedrr": "importance", "r-pfedrr": "random", "hybrid": "hybrid"}[algorithm]
        computation = tff_side.build_pfedrr(shapes, ridge, method.tau[0], policy, method.alpha, switches)
    return computation(reservoir, data)
