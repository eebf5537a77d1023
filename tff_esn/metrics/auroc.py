"""Area under the receiver operating characteristic; tied scores count half. NaN where the labels hold one class."""

from __future__ import annotations

from tff_esn.metrics.metric import METRICS, Metric, Predictions


@METRICS.register_instance
class AUROC(Metric):
    """Area under the receiver operating characteristic; tied scores count half. NaN where the labels hold one class."""

    name = "auroc"
    heading = "AUROC"
    order = 3

    def __call__(self, predictions: Predictions) -> float:
        """The number."""
        return predictions.areas[0]
