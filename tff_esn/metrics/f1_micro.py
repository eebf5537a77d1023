"""F1 over the counts of all classes together: the accuracy, since each sample has one label."""

from __future__ import annotations

import numpy as np

from tff_esn.metrics.metric import METRICS, Metric, Predictions


@METRICS.register_instance
class MicroF1(Metric):
    """F1 over the counts of all classes together: the accuracy, since each sample has one label."""

    name = "f1_micro"
    heading = None
    order = 1

    def __call__(self, predictions: Predictions) -> float:
        """The number."""
        return float(np.trace(predictions.confusion) / len(predictions.labels))
