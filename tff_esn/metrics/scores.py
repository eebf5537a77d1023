"""Scores of a classifier, and their spread over seeds.

The thesis prints only micro-averaged F1, which equals accuracy for a task with one label per example: a model that
always predicts "not stressed" looks good. The other scores here do not reward it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tff_esn.errors import ConfigError, DataError
from tff_esn.metrics.metric import METRICS, Predictions, metric_names

#: Name of the pooled examples among the subjects.
POOLED = "all"
#: How far 32-bit probabilities of two classes may be from summing to 1.
_ROUNDING = 1e-4


@dataclass(frozen=True)
class Scores:
    """How well predictions fit labels.

    Each metric is an attribute too: `scores.accuracy`.

    Attributes:
        examples: Number of samples.
        values: By metric; those that compare classes are NaN where the labels hold a single class, and with more than
            two classes the mean over the classes that the labels hold, each against the rest.
        confusion: Number of samples by label (row) and prediction (column).
        single_class: The class, if every prediction is the same.
    """

    examples: int
    values: Mapping[str, float]
    confusion: tuple[tuple[int, ...], ...]
    single_class: int | None

    def __getattr__(self, name: str) -> float:
        try:
            return self.__dict__["values"][name]
        except KeyError:
            raise AttributeError(f"no metric {name!r}") from None


def score(labels: ArrayLike, probabilities: ArrayLike, threshold: float = 0.5) -> Scores:
    """Scores the probabilities that a model gives.

    Args:
        labels: Class of each example, `(n,)`.
        probabilities: Of class 1, `(n,)`, or of each class, `(n, classes)`. Two columns are one probability said
            twice and must sum to 1; more may be any scores, such as a ridge readout's.
        threshold: Above it (not at it, as in Keras) class 1 is predicted. With more than two classes the most
            probable one is predicted.
    """
    return _score(*_checked(labels, probabilities), threshold)


def per_subject(
    labels_by_subject: Mapping[str, ArrayLike],
    probabilities_by_subject: Mapping[str, ArrayLike],
    threshold: float = 0.5,
) -> dict[str, Scores]:
    """Scores of each subject, and under "all" those of all their examples together."""
    subjects, others = tuple(labels_by_subject), tuple(probabilities_by_subject)
    if not subjects:
        raise DataError("labels", "no subject", "at least one")
    if set(subjects) != set(others):
        raise DataError("probabilities", f"subjects {', '.join(others)}", f"the labels' {', '.join(subjects)}")
    if POOLED in subjects:
        raise ConfigError(f"a subject is named {POOLED!r}; expected another name, this is that of all together")
    parts = {one: _checked(labels_by_subject[one], probabilities_by_subject[one], f" of {one}") for one in subjects}
    classes = {one: _count(scores) for one, (_, scores) in parts.items()}
    if len(set(classes.values())) > 1:
        raise DataError("probabilities", f"numbers of classes {classes}", "the same for each subject")
    truth, scores = (np.concatenate(arrays) for arrays in zip(*parts.values()))
    return {one: _score(*part, threshold) for one, part in {**parts, POOLED: (truth, scores)}.items()}


def majority(labels: ArrayLike, training_labels: ArrayLike | None = None, classes: int = 2) -> Scores:
    """Scores of the model that always predicts the most frequent class.

    Args:
        labels: Labels to score on.
        training_labels: Labels that define the most frequent class (the lowest of several); None for `labels`.
        classes: Number of classes.
    """
    if classes < 2:
        raise ConfigError(f"classes is {classes}; expected at least 2")
    truth = _classes(labels, classes, "labels")
    known = truth if training_labels is None else _classes(training_labels, classes, "training labels")
    answer = int(np.bincount(known).argmax())
    return score(truth, np.tile(np.eye(classes)[answer], (len(truth), 1)))


def best_threshold(labels: ArrayLike, probabilities: ArrayLike, metric: str = "balanced_accuracy") -> float:
    """The threshold with the highest score, for choosing on validation examples.

    Every way to cut the examples in two is tried. The threshold lies midway between the neighbours of the cut;
    of several best cuts the one nearest to 0.5 is taken. Where it is best to always predict one class, the
    threshold is the highest probability, or lies right below the lowest.

    Args:
        labels: 0 or 1 for each example.
        probabilities: Of class 1, as in `score`.
        metric: `accuracy`, `f1_micro`, `f1_stress`, `balanced_accuracy` or `mcc`; the others have no threshold.
    """
    if metric not in _GAIN:
        raise ConfigError(f"metric is {metric!r}; expected one that has a threshold: {', '.join(_GAIN)}")
    truth, scores = _checked(labels, probabilities)
    if scores.ndim > 1:
        raise DataError("probabilities", f"{scores.shape[1]} classes", "two, for a threshold")
    positive = truth == 1
    if positive.all() or not positive.any():
        raise DataError("labels", f"class {truth[0]} only", "both classes, to choose a threshold")
    ones, zeros = np.sort(scores[positive]), np.sort(scores[~positive])
    cuts = _cuts(scores)
    true, false = (len(part) - np.searchsorted(part, cuts, "right") for part in (ones, zeros))
    gains = _GAIN[metric](true, false, len(ones), len(zeros))
    best = cuts[gains == gains.max()]
    return float(best[np.abs(best - 0.5).argmin()])


def _count(scores: NDArray) -> int:
    return 2 if scores.ndim == 1 else scores.shape[1]


def _score(truth: NDArray, scores: NDArray, threshold: float) -> Scores:
    if math.isnan(threshold):
        raise ConfigError("threshold is nan; expected a number")
    classes = _count(scores)
    answers = scores > threshold if scores.ndim == 1 else scores.argmax(axis=1)
    confusion = np.bincount(truth * classes + answers, minlength=classes**2).reshape(classes, classes)
    given = np.flatnonzero(confusion.sum(axis=0))
    predictions = Predictions(truth, scores, confusion)
    return Scores(
        examples=len(truth),
        values={name: METRICS[name](predictions) for name in metric_names()},
        confusion=tuple(tuple(row) for row in confusion.tolist()),
        single_class=int(given[0]) if len(given) == 1 else None,
    )


def _cuts(scores: NDArray) -> NDArray:
    """Thresholds that cut the scores in every possible way."""
    values = np.unique(scores)
    lower, upper = values[:-1], values[1:]
    middle = lower / 2 + upper / 2
    # Between neighbouring floating-point numbers there is none: the lower one itself makes the same cut.
    middle = np.where((lower <= middle) & (middle < upper), middle, lower)
    return np.concatenate(([np.nextafter(values[0], -np.inf)], middle, values[-1:]))


def _mcc_gain(true: NDArray, false: NDArray, ones: int, zeros: int) -> NDArray:
    answered = true + false
    spread_of_answers = answered * (ones + zeros - answered)
    return (true * zeros - false * ones) / np.sqrt(np.maximum(spread_of_answers, 1))


#: What grows and falls with a score, given the true and false positives at each cut and the sizes of the classes.
#: In whole numbers where it can be, so that equally good cuts are equal.
_GAIN: dict[str, Callable[[NDArray, NDArray, int, int], NDArray]] = {
    "accuracy": lambda true, false, ones, zeros: true - false,
    "f1_micro": lambda true, false, ones, zeros: true - false,
    "f1_stress": lambda true, false, ones, zeros: true / (true + false + ones),
    "balanced_accuracy": lambda true, false, ones, zeros: true * zeros - false * ones,
    "mcc": _mcc_gain,
}


def _checked(labels: ArrayLike, probabilities: ArrayLike, of: str = "") -> tuple[NDArray, NDArray]:
    """Labels and scores as arrays: those of two classes in one dimension, of more in two."""
    scores, source = np.asarray(probabilities), f"probabilities{of}"
    if scores.dtype.kind not in "biuf":
        raise DataError(source, f"type {scores.dtype}", "numbers")
    scores = scores.astype(np.float64, copy=False)
    if scores.ndim not in (1, 2) or 0 in scores.shape[1:]:
        raise DataError(source, f"shape {scores.shape}", "(examples,) or (examples, classes)")
    truth = _classes(labels, max((2, *scores.shape[1:])), f"labels{of}")
    if len(scores) != len(truth):
        raise DataError(source, f"{len(scores)} of them", f"one for each of the {len(truth)} labels")
    wrong = np.flatnonzero(~np.isfinite(scores).reshape(len(scores), -1).all(axis=1))
    if len(wrong):
        found = f"{len(wrong)} of {len(scores)} are not finite, first {scores[wrong[0]]} at example {wrong[0]}"
        raise DataError(source, found, "finite numbers")
    return truth, scores if scores.shape[1:] > (2,) else _of_class_1(scores, source)


def _of_class_1(scores: NDArray, source: str) -> NDArray:
    if scores.ndim == 1 or scores.shape[1] == 1:
        return scores.reshape(-1)
    sums = scores.sum(axis=1)
    worst = np.abs(sums - 1).argmax()
    if abs(sums[worst] - 1) > _ROUNDING:
        found = f"two columns that sum to {sums[worst]:g} at example {worst}"
        raise DataError(source, found, "1, or the score of class 1 alone")
    return scores[:, 1]


def _classes(labels: ArrayLike, classes: int, source: str) -> NDArray[np.intp]:
    array = np.asarray(labels)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise DataError(source, f"shape {array.shape} of type {array.dtype}", "the class of each example")
    if not len(array):
        raise DataError(source, "none", "at least one example")
    with np.errstate(invalid="ignore"):
        whole = array.astype(np.intp)
    wrong = np.flatnonzero((whole != array) | (whole < 0) | (whole >= classes))
    if len(wrong):
        found = f"{len(wrong)} of {len(array)} are no class, first {array[wrong[0]]} at example {wrong[0]}"
        raise DataError(source, found, f"whole numbers from 0 to {classes - 1}")
    return whole


def scores_from(values: Mapping[str, Any]) -> Scores:
    """Scores from their JSON."""
    numbers = {name: math.nan if value is None else value for name, value in values["values"].items()}
    confusion = tuple(map(tuple, values["confusion"]))
    return Scores(values["examples"], numbers, confusion, values["single_class"])
