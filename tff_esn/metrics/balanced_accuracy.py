"""Mean of the classes' recalls; NaN where the labels hold a single class."""

from __future__ import annotations

import math

import numpy as np

from tff_esn.metrics.metric import METRICS, Metric, Predictions


@METRICS.register_instance
class BalancedAccuracy(Metric):
    """Mean of the classes' recalls; NaN where the labels hold a single class."""

    name = "balanced_accuracy"
    heading = "bal. acc."
    order = 2

    def __call__(self, predictions: Predictions) -> float:
        """The number."""
        confusion = predictions.confusion
        held = confusion.sum(axis=1)
        if np.count_nonzero(held) < 2:
            return math.nan
        return float(np.mean(np.diag(confusion)[held > 0] / held[held > 0]))
