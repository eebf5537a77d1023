"""Share of right predictions."""

from __future__ import annotations

import numpy as np

from tff_esn.metrics.metric import METRICS, Metric, Predictions


@METRICS.register_instance
class Accuracy(Metric):
    """Share of right predictions."""

    name = "accuracy"
    heading = "accuracy"
    order = 0

    def __call__(self, predictions: Predictions) -> float:
        """The number."""
        return float(np.trace(predictions.confusion) / len(predictions.labels))
