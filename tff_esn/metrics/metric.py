"""Metrics by name: each is an object in its own file."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tff_esn.registry import Registry


@dataclass(frozen=True)
class Predictions:
    """A model's predictions with the labels; intermediate results of several metrics are computed once.

    Attributes:
        labels: `(n,)`, the class of each sample.
        scores: `(n,)` of class 1, or `(n, classes)`.
        confusion: Number of samples by label (row) and prediction (column).
    """

    labels: NDArray
    scores: NDArray
    confusion: NDArray

    @cached_property
    def areas(self) -> tuple[float, float]:
        """AUROC and average precision; with more than two classes their means over those that the labels hold."""
        truth, scores = self.labels, self.scores
        if truth.min() == truth.max():
            return math.nan, math.nan
        if scores.ndim == 1:
            return _areas(scores[truth == 1], scores[truth == 0])
        each = [_areas(scores[truth == held, held], scores[truth != held, held]) for held in np.unique(truth)]
        auroc, average_precision = np.mean(each, axis=0).tolist()
        return auroc, average_precision


class Metric:
    """A number that says how well predictions fit labels; registered with `METRICS.register(Kind())`.

    Attributes:
        name: Name by which it is chosen, and its attribute of `Scores`.
        heading: Heading in tables; None to leave it out of them.
        heading_of_many: Heading for more than two classes.
        order: Its position; those of this package come first.
    """

    name: ClassVar[str]
    heading: ClassVar[str | None]
    heading_of_many: ClassVar[str | None] = None
    order: ClassVar[int] = 100

    @abstractmethod
    def __call__(self, predictions: Predictions) -> float:
        """The number; NaN where it is undefined."""


METRICS: Registry[Metric] = Registry("metrics", ["tff_esn.metrics"])


def metric_names() -> tuple[str, ...]:
    """The names of all metrics, in the order tables show them."""
    return tuple(sorted(METRICS.names(), key=lambda name: (METRICS[name].order, name)))


def _areas(ones: NDArray, zeros: NDArray) -> tuple[float, float]:
    # Sorting the two classes apart takes half the time of ordering them together (sorting values is faster than
    # sorting places), and what is tied is counted, not grouped.
    ones, zeros = np.sort(ones), np.sort(zeros)
    below, not_above = np.searchsorted(zeros, ones, "left"), np.searchsorted(zeros, ones, "right")
    auroc = (below.sum() + not_above.sum()) / (2 * len(ones) * len(zeros))
    true, false = len(ones) - np.searchsorted(ones, ones, "left"), len(zeros) - below
    return float(auroc), float(np.mean(true / (true + false)))
