"""A subject's time series on one clock, and the label a task gives each step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


def _no_breaks() -> NDArray[np.int64]:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class FeatureTable:
    """Features (or raw channels) of one subject, step by step.

    Attributes:
        subject: The subject's name.
        names: One name per column.
        values: `(steps, columns)`.
        codes: `(steps,)`, the protocol or activity code of each step.
        breaks: Steps at which the series starts anew (another device, a gap): no
            sequence may run across them.
    """

    subject: str
    names: tuple[str, ...]
    values: NDArray
    codes: NDArray
    breaks: NDArray[np.int64] = field(default_factory=_no_breaks)

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Task:
    """What is to be predicted: the class of each protocol code.

    Attributes:
        classes: Names of the classes; a label is an index into them.
        class_of_code: Label by protocol code.
        other: Label of codes that are not listed; None leaves such steps out.
    """

    name: str
    classes: tuple[str, ...]
    class_of_code: Mapping[int, int]
    other: int | None = None

    def labels(self, codes: NDArray) -> NDArray[np.int64]:
        """The label of each code; -1 where the task leaves the step out."""
        labels = np.full(len(codes), -1 if self.other is None else self.other, np.int64)
        for code, label in self.class_of_code.items():
            labels[codes == code] = label
        return labels


STRESS = Task("stress", ("not stressed", "stressed"), {2: 1}, other=0)
AFFECT = Task("affect", ("baseline", "stress", "amusement", "meditation"), {1: 0, 2: 1, 3: 2, 4: 3})
ACTIVITY = Task(
    "activity",
    ("bike", "sit", "stand", "walk", "stairsup", "stairsdown"),
    {1: 0, 2: 1, 3: 2, 4: 3, 5: 4, 6: 5},
)
TASKS = {task.name: task for task in (STRESS, AFFECT, ACTIVITY)}
