"""Scores of a classifier, and their spread over seeds: one file per metric."""

from tff_esn.metrics.metric import METRICS, Metric, Predictions, metric_names
from tff_esn.metrics.scores import POOLED, Scores, best_threshold, majority, per_subject, score, scores_from
from tff_esn.metrics.spread import Spread, spread

__all__ = [
    "METRICS",
    "POOLED",
    "Metric",
    "Predictions",
    "Scores",
    "Spread",
    "best_threshold",
    "majority",
    "metric_names",
    "per_subject",
    "score",
    "scores_from",
    "spread",
]
