from __future__ import annotations

import math
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from sklearn import metrics as sklearn

from tff_esn.errors import ConfigError, DataError
from tff_esn.metrics import (
    METRICS,
    Metric,
    Predictions,
    Scores,
    best_threshold,
    majority,
    metric_names,
    per_subject,
    score,
    spread,
)
from tff_esn.tables import metric_headings

EXACT = 1e-12


@pytest.fixture(autouse=True)
def _no_warning() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@st.composite
def binary(draw: st.DrawFn, both: bool = False) -> tuple[NDArray, NDArray]:
    """Labels and probabilities; on a grid, so that many are tied, or anywhere, neighbouring numbers included."""
    n = draw(st.integers(2 if both else 1, 40))
    anywhere = st.floats(0, 1) | st.sampled_from([0.5, np.nextafter(0.5, 0), np.nextafter(0.5, 1), 5e-324, 1.0])
    element = draw(st.sampled_from([anywhere, st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), st.just(0.7)]))
    labels = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    if both:
        labels[:2] = 0, 1
    return np.array(labels), np.array(draw(st.lists(element, min_size=n, max_size=n)))


@st.composite
def several_classes(draw: st.DrawFn) -> tuple[NDArray, NDArray]:
    n, classes = draw(st.integers(1, 40)), draw(st.integers(3, 5))
    labels = draw(st.lists(st.integers(0, classes - 1), min_size=n, max_size=n))
    weights = draw(st.lists(st.integers(1, 9), min_size=n * classes, max_size=n * classes))
    counts = np.array(weights, float).reshape(n, classes)
    return np.array(labels), counts / counts.sum(axis=1, keepdims=True)


def by_sklearn(labels: NDArray, probabilities: NDArray, answers: NDArray, classes: int) -> dict[str, float]:
    """The same scores by scikit-learn where it defines them; its stand-ins for what is undefined are left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = {"accuracy": sklearn.accuracy_score(labels, answers)}
        scores["f1_micro"] = sklearn.f1_score(labels, answers, average="micro")
        if classes > 2:
            scores["f1_stress"] = sklearn.f1_score(labels, answers, average="macro")
        elif 1 in labels or 1 in answers:
            scores["f1_stress"] = sklearn.f1_score(labels, answers)
        held = np.unique(labels)
        if len(held) > 1:
            columns = probabilities[:, None][:, [0, 0]] if classes == 2 else probabilities
            rest = [1] if classes == 2 else held
            scores["balanced_accuracy"] = sklearn.balanced_accuracy_score(labels, answers)
            scores["mcc"] = sklearn.matthews_corrcoef(labels, answers)
            scores["auroc"] = np.mean([sklearn.roc_auc_score(labels == k, columns[:, k]) for k in rest])
            scores["average_precision"] = np.mean(
                [sklearn.average_precision_score(labels == k, columns[:, k]) for k in rest]
            )
        return scores


def agrees(found: Scores, labels: NDArray, probabilities: NDArray, answers: NDArray, classes: int) -> None:
    expected = by_sklearn(labels, probabilities, answers, classes)
    for metric in metric_names():
        assert getattr(found, metric) == pytest.approx(expected.get(metric, math.nan), abs=EXACT, nan_ok=True), metric
    confusion = sklearn.confusion_matrix(labels, answers, labels=range(classes))
    assert found.confusion == tuple(map(tuple, confusion.tolist()))
    assert found.examples == len(labels)
    assert found.single_class == (answers[0] if len(set(answers)) == 1 else None)


@settings(max_examples=150, deadline=None)
@given(binary(), st.sampled_from([0.5, 0.25, 0.7, -1.0, 2.0]))
def test_two_classes_agree_with_scikit_learn(example: tuple[NDArray, NDArray], threshold: float) -> None:
    labels, probabilities = example
    answers = (probabilities > threshold).astype(int)
    agrees(score(labels, probabilities, threshold), labels, probabilities, answers, 2)


@settings(max_examples=150, deadline=None)
@given(several_classes())
def test_more_classes_agree_with_scikit_learn(example: tuple[NDArray, NDArray]) -> None:
    labels, probabilities = example
    found = score(labels, probabilities)
    agrees(found, labels, probabilities, probabilities.argmax(axis=1), probabilities.shape[1])
    if len(np.unique(labels)) == probabilities.shape[1]:
        auroc = sklearn.roc_auc_score(labels, probabilities, multi_class="ovr", average="macro")
        assert found.auroc == pytest.approx(auroc, abs=EXACT)


@pytest.mark.parametrize("decimals", [1, 3, 16])
def test_many_examples_agree_with_scikit_learn(decimals: int) -> None:
    generator = np.random.default_rng(decimals)
    labels = (generator.random(20_000) < 0.11).astype(int)
    probabilities = np.clip(generator.normal(0.3 + 0.2 * labels, 0.2), 0, 1).round(decimals)
    agrees(score(labels, probabilities), labels, probabilities, (probabilities > 0.5).astype(int), 2)


def test_the_shapes_that_models_give() -> None:
    labels, probabilities = np.array([0, 1, 1, 0, 1]), np.array([0.1, 0.8, 0.4, 0.6, 0.9])
    expected = score(labels, probabilities)
    assert expected.confusion == ((1, 1), (1, 2))
    assert score(labels[:, None], probabilities[:, None]) == expected
    assert score(labels.astype(np.float32), np.stack([1 - probabilities, probabilities], axis=1)) == expected
    assert score(labels.astype(bool).tolist(), probabilities.tolist()) == expected


def test_at_the_threshold_the_answer_is_not_stressed() -> None:
    assert score([0, 1], [0.5, 0.6]).confusion == ((1, 0), (0, 1))
    assert score([0, 1], [[0.5, 0.5], [0.4, 0.6]]).confusion == ((1, 0), (0, 1))


def test_one_class_in_the_labels_leaves_the_comparing_scores_undefined() -> None:
    found = score([0, 0, 0], [0.1, 0.2, 0.3]).values
    assert found["accuracy"] == found["f1_micro"] == 1
    assert [metric for metric in metric_names() if math.isnan(found[metric])] == list(metric_names()[2:])
    assert score([1, 1], [0.4, 0.6]).f1_stress == pytest.approx(2 / 3)
    assert score([0, 0], [0.4, 0.6]).f1_stress == 0


@pytest.mark.parametrize(
    ("labels", "probabilities", "complaint"),
    [
        ([], [], "labels: none; expected at least one example"),
        ([0, 1, 1], [0.5, 0.5], "probabilities: 2 of them; expected one for each of the 3 labels"),
        ([0, 1], [0.5, math.nan], "1 of 2 are not finite, first nan at example 1; expected finite numbers"),
        ([0, 1, 0], np.full((3, 3), math.inf), r"3 of 3 are not finite, first \[inf inf inf\] at example 0"),
        ([0, 2], [0.5, 0.5], "labels: 1 of 2 are no class, first 2 at example 1; expected whole numbers from 0 to 1"),
        ([0.5, math.nan], [0.5, 0.5], "labels: 2 of 2 are no class, first 0.5 at example 0"),
        ([-1, 3], np.ones((2, 3)), "labels: 2 of 2 are no class, first -1 at example 0; expected .* 0 to 2"),
        ([[1, 0], [0, 1]], [0.5, 0.5], r"labels: shape \(2, 2\) of type int64"),
        ([0, 1], [[0.2, 0.3], [0.5, 0.5]], "two columns that sum to 0.5 at example 0; expected 1"),
        ([0, 1], np.ones((2, 2, 2)), r"probabilities: shape \(2, 2, 2\)"),
        ([0, 1], ["0.1", "0.9"], "probabilities: type <U3; expected numbers"),
    ],
)
def test_what_cannot_be_scored_is_named(labels: object, probabilities: object, complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        score(labels, probabilities)  # type: ignore[arg-type]


def test_two_columns_may_be_rounded() -> None:
    assert score([0, 1], [[0.8, 0.20009], [0.1, 0.9]]).accuracy == 1
    with pytest.raises(DataError, match=r"two columns that sum to 1\.00011 at example 0"):
        score([0, 1], [[0.8, 0.20011], [0.1, 0.9]])


def test_a_threshold_that_is_no_number_is_an_error() -> None:
    with pytest.raises(ConfigError, match="threshold is nan"):
        score([0, 1], [0.2, 0.3], math.nan)


@settings(max_examples=100, deadline=None)
@given(binary(both=True), st.sampled_from(["balanced_accuracy", "accuracy", "f1_micro", "f1_stress", "mcc"]))
def test_no_threshold_is_better_than_the_best(example: tuple[NDArray, NDArray], metric: str) -> None:
    labels, probabilities = example
    best = best_threshold(labels, probabilities, metric)
    found = getattr(score(labels, probabilities, best), metric)
    every_cut = [-1.0, *np.unique(probabilities)]
    assert found == pytest.approx(max(getattr(score(labels, probabilities, cut), metric) for cut in every_cut))


def test_the_threshold_lies_midway() -> None:
    assert best_threshold([0, 0, 1, 1], [0.1, 0.2, 0.4, 0.9]) == pytest.approx(0.3)
    assert best_threshold([0, 1, 0, 1], [0.1, 0.3, 0.4, 0.9], "accuracy") == pytest.approx(0.65)  # 0.2 is as good
    assert best_threshold([1, 0], [0.2, 0.4], "accuracy") == 0.4
    # F1 is 2/3 above 0.8, 3/4 above 0.5 and 8/11 above 0.2.
    labels, probabilities = [1, 1, 0, 1, 0, 0, 1, 0], [0.9, 0.85, 0.8, 0.7, 0.4, 0.35, 0.32, 0.1]
    assert best_threshold(labels, probabilities, "f1_stress") == pytest.approx(0.55)
    between = np.nextafter(0.5, 1)
    assert best_threshold([0, 1], [0.5, between]) == 0.5


def test_a_threshold_needs_two_classes_and_a_metric_that_has_one() -> None:
    with pytest.raises(DataError, match="labels: class 1 only; expected both classes"):
        best_threshold([1, 1], [0.2, 0.3])
    with pytest.raises(DataError, match="probabilities: 3 classes"):
        best_threshold([0, 1], np.eye(3)[:2])
    with pytest.raises(ConfigError, match="metric is 'auroc'; expected one that has a threshold: accuracy"):
        best_threshold([0, 1], [0.2, 0.3], "auroc")


def test_subjects_and_all_of_them_together() -> None:
    labels = {"S2": [0, 1], "S3": [0, 0, 1]}
    probabilities = {"S3": [[0.1], [0.7], [0.6]], "S2": [0.1, 0.9]}
    found = per_subject(labels, probabilities, 0.65)  # type: ignore[arg-type]
    assert list(found) == ["S2", "S3", "all"]
    assert found["S3"] == score([0, 0, 1], [0.1, 0.7, 0.6], 0.65)
    assert found["all"] == score([0, 1, 0, 0, 1], [0.1, 0.9, 0.1, 0.7, 0.6], 0.65)


def test_subjects_that_do_not_fit_are_named() -> None:
    with pytest.raises(DataError, match="probabilities: subjects S2; expected the labels' S2, S3"):
        per_subject({"S2": [0], "S3": [1]}, {"S2": [0.5]})
    with pytest.raises(DataError, match="labels: no subject"):
        per_subject({}, {})
    with pytest.raises(DataError, match="probabilities of S3: 1 of them; expected one for each of the 2 labels"):
        per_subject({"S2": [0], "S3": [1, 0]}, {"S2": [0.5], "S3": [0.5]})
    with pytest.raises(DataError, match=r"numbers of classes \{'S2': 2, 'S3': 3\}"):
        per_subject({"S2": [0], "S3": [1]}, {"S2": [0.5], "S3": [[0.1, 0.2, 0.7]]})
    with pytest.raises(ConfigError, match="a subject is named 'all'"):
        per_subject({"all": [0]}, {"all": [0.5]})


def test_the_majority_model_of_the_thesis() -> None:
    # S15's windows: 0.8693 on test is what "not stressed" always scores.
    labels = np.repeat([0, 1], [8693, 1307])
    found = majority(labels)
    assert (found.accuracy, found.balanced_accuracy, found.auroc) == (0.8693, 0.5, 0.5)
    assert (found.mcc, found.f1_stress, found.single_class) == (0, 0, 0)
    assert found.average_precision == pytest.approx(0.1307)
    assert majority(labels, [1, 1, 0]).accuracy == pytest.approx(0.1307)
    assert majority(labels, [0, 1]).single_class == 0


def test_the_majority_of_more_classes() -> None:
    found = majority([0, 1, 2, 2], [1, 1, 2], classes=4)
    assert (found.accuracy, found.single_class, len(found.confusion)) == (0.25, 1, 4)
    with pytest.raises(DataError, match="training labels: 1 of 2 are no class, first 2"):
        majority([0, 1], [0, 2])
    with pytest.raises(ConfigError, match="classes is 1"):
        majority([0], classes=1)


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=12))
def test_the_spread_is_the_textbooks(values: list[float]) -> None:
    found = spread(values)
    assert (found.mean, found.std) == (np.mean(values), np.std(values, ddof=1))
    margin = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    assert (found.low, found.high) == pytest.approx((found.mean - margin, found.mean + margin), abs=1e-9)
    assert found.n == len(values)


def test_the_spread_of_little() -> None:
    assert repr(spread([0.5])) == "Spread(mean=0.5, std=nan, low=nan, high=nan, n=1)"
    assert repr(spread([0.5, math.nan])) == "Spread(mean=nan, std=nan, low=nan, high=nan, n=2)"
    with pytest.raises(DataError, match="values: none"):
        spread([])


def test_a_metric_of_ones_own_is_part_of_all_scores() -> None:
    class Specificity(Metric):
        """Recall of class 0."""

        name = "specificity"
        heading = "spec."

        def __call__(self, predictions: Predictions) -> float:
            return float(predictions.confusion[0, 0] / predictions.confusion[0].sum())

    METRICS.register(Specificity())
    try:
        found = score([0, 0, 1, 1], [0.1, 0.9, 0.8, 0.7])
        assert metric_names()[-1] == "specificity"
        assert found.specificity == 0.5
        assert metric_headings()["specificity"] == "spec."
    finally:
        del METRICS._found["specificity"]


def test_an_unknown_metric_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no metric 'precison'"):
        _ = score([0, 1], [0.1, 0.9]).precison
