"""Matthews' correlation coefficient; 0 where every prediction is the same, NaN where the labels hold one class."""

from __future__ import annotations

import math

import numpy as np

from tff_esn.metrics.metric import METRICS, Metric, Predictions


@METRICS.register_instance
class MCC(Metric):
    """Matthews' correlation coefficient; 0 where every prediction is the same, NaN where the labels hold one class."""

    name = "mcc"
    heading = "MCC"
    order = 5

    def __call__(self, predictions: Predictions) -> float:
        """The number."""
        confusion = predictions.confusion
        # Python's integers: with many examples the products are larger than NumPy's.
        right, n = int(np.trace(confusion)), int(confusion.sum())
        held, given = confusion.sum(axis=1).tolist(), confusion.sum(axis=0).tolist()
        of_labels, of_answers = (n * n - sum(count * count for count in counts) for counts in (held, given))
        if not of_labels:
            return math.nan
        if not of_answers:
            return 0.0
        return (right * n - sum(a * b for a, b in zip(held, given))) / math.sqrt(of_labels * of_answers)
