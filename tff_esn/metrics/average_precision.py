"""Mean precision at the scores of the positive samples; NaN where the labels hold a single class."""

from __future__ import annotations

from tff_esn.metrics.metric import METRICS, Metric, Predictions


@METRICS.register_instance
class AveragePrecision(Metric):
    """Mean precision at the scores of the positive samples; NaN where the labels hold a single class."""

    name = "average_precision"
    heading = "avg. prec."
    order = 4

    def __call__(self, predictions: Predictions) -> float:
        """The number."""
        return predictions.areas[1]
