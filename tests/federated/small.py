"""A small study for tests of federations: five subjects of random windows, with something to learn in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tff_esn.config import FederatedConfig, ReadoutConfig, ReservoirConfig
from tff_esn.datasets.splits import ClientSplit
from tff_esn.datasets.tables import TASKS
from tff_esn.features.inputs import ModelInputs
from tff_esn.features.windows import Sequences
from tff_esn.federated.federation import Federation, RoundReport
from tff_esn.federated.study import FederatedStudy
from tff_esn.presets import settled

STEPS, COLUMNS, UNITS = 4, 2, 8
#: Training subjects with examples in one batch, in two and in several; one more of each for validation and test.
EXAMPLES = {"S2": 17, "S3": 34, "S4": 25, "S5": 30, "S6": 28}
TRAIN = ("S2", "S3", "S4")


def small_inputs(task: str = "stress", reading: str = "window", broken: Sequence[str] = ()) -> ModelInputs:
    """Inputs of the small study.

    Args:
        task: `stress`, of two classes, or `affect`, of four.
        reading: As in `InputConfig`.
        broken: Subjects with a NaN among their values.
    """
    windows = {}
    for subject, examples in EXAMPLES.items():
        random = np.random.default_rng(int(subject[1:]))
        values = random.normal(size=(examples, STEPS, COLUMNS))
        # Codes 1 to 4 by the signs of the last step's two values, some of them at random.
        codes = 1 + (values[:, -1] > 0) @ (1, 2)
        codes = np.where(random.random(examples) < 0.2, random.integers(1, 5, examples), codes)
        if subject in broken:
            values[examples // 2, -1, 0] = np.nan
        windows[subject] = Sequences(subject, ("a", "b"), values, codes)
    series = {subject: own.values[:, -1] for subject, own in windows.items()}
    split = ClientSplit(TRAIN, ("S5",), ("S6",))
    return ModelInputs(windows, series, series, split, reading, TASKS[task])


def small_study(folder: Path, **options: Any) -> FederatedStudy:
    """The small study, its clients' files in a folder."""
    return FederatedStudy(small_inputs(**options), folder)


def small_config(readout: Mapping[str, Any] | None = None, **changes: Any) -> FederatedConfig:
    """Two local epochs of shuffled SGD; what is given is changed."""
    local = ReadoutConfig(optimizer="sgd", learning_rate=0.2, batch_size=10, epochs=2, class_weight=None)
    config = FederatedConfig(
        reservoir=ReservoirConfig(units=UNITS),
        readout=replace(local, **{"order": "shuffled", **(readout or {})}),
        clients_per_round=2,
        rounds=4,
    )
    return settled(replace(config, **changes))


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
