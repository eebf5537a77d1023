"""F1 of class 1, NaN where no label and no prediction is 1; of more classes the mean F1 of those that occur."""

from __future__ import annotations

import math

import numpy as np

from tff_esn.metrics.metric import METRICS, Metric, Predictions


@METRICS.register_instance
class StressF1(Metric):
    """F1 of class 1, NaN where no label and no prediction is 1; of more classes the mean F1 of those that occur."""

    name = "f1_stress"
    heading = "F1 stress"
    heading_of_many = "F1 macro"
    order = 6

    def __call__(self, predictions: Predictions) -> float:
        """The number."""
        confusion = predictions.confusion
        right, size = np.diag(confusion), confusion.sum(axis=0) + confusion.sum(axis=1)
        occurs = size > 0
        if len(confusion) == 2:
            return float(2 * right[1] / size[1]) if occurs[1] else math.nan
        return float(np.mean(2 * right[occurs] / size[occurs]))
