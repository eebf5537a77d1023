"""A small data set for tests of federations: five clients of random windows, with something to learn in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tff_esn.algorithm import ALGORITHMS
from tff_esn.datasets.federated import FederatedDataset, LabelledSequences
from tff_esn.datasets.splits import ClientSplit
from tff_esn.datasets.tables import TASKS
from tff_esn.federated.algorithm import GradientAlgorithm
from tff_esn.federated.training.experiment import FederatedExperiment
from tff_esn.federated.training.federation import Federation, RoundReport
from tff_esn.reservoir.esn import ESN

STEPS, COLUMNS, UNITS, SEED = 4, 2, 8, 3
#: Training subjects with examples in one batch, in two and in several; one more of each for validation and test.
EXAMPLES = {"S2": 17, "S3": 34, "S4": 25, "S5": 30, "S6": 28}
TRAIN = ("S2", "S3", "S4")


def small_data(task: str = "stress", reading: str = "window", broken: Sequence[str] = ()) -> FederatedDataset:
    """The small data set.

    Args:
        task: `stress`, of two classes, or `affect`, of four.
        reading: `window`: each window has a label. `carried`: each window's last step is a step of one recording.
        broken: Subjects with a NaN among their values.
    """
    sequences = {}
    for subject, examples in EXAMPLES.items():
        random = np.random.default_rng(int(subject[1:]))
        values = random.normal(size=(examples, STEPS, COLUMNS))
        # Codes 1 to 4 by the signs of the last step's two values, some of them at random.
        codes = 1 + (values[:, -1] > 0) @ (1, 2)
        codes = np.where(random.random(examples) < 0.2, random.integers(1, 5, examples), codes)
        if subject in broken:
            values[examples // 2, -1, 0] = np.nan
        labels = TASKS[task].labels(codes)
        sequences[subject] = LabelledSequences(values, labels)
        if reading == "carried":
            sequences[subject] = LabelledSequences((values[:, -1],), (labels,))
    return FederatedDataset(sequences, TASKS[task], ("a", "b"), ClientSplit(TRAIN, ("S5",), ("S6",)))


def small_experiment(folder: Path, **options: Any) -> FederatedExperiment:
    """The small data set, its clients' files in a folder."""
    return FederatedExperiment(small_data(**options), folder)


def small(name: str = "fedavg", **changes: Any) -> GradientAlgorithm:
    """An algorithm with two local epochs of shuffled SGD; what is given is changed."""
    algorithm: Any = ALGORITHMS[name](
        **{
            "esn": ESN(units=UNITS, seed=SEED),
            "optimizer": "sgd",
            "learning_rate": 0.2,
            "batch_size": 10,
            "epochs": 2,
            "class_weight": None,
            "clients_per_round": 2,
            "rounds": 4,
            **changes,
        }
    )
    return algorithm


def play(
    federation: Federation, rounds: int, drawn: Sequence[str] = TRAIN, state: Any = None
) -> tuple[Any, list[RoundReport]]:
    """Rounds of the same clients, from the initial state if none is given."""
    state = federation.initial_state() if state is None else state
    reports = []
    for number in range(1, rounds + 1):
        state, report = federation.next(state, drawn, number)
        reports.append(report)
    return state, reports
