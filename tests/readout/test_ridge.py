from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from tff_esn.closed_form.statistics import RidgeStatistics, client_statistics, confusions
from tff_esn.datasets.federated import LabelledSequences
from tff_esn.errors import ConfigError
from tff_esn.readout.ridge import CentredMoments
from tff_esn.reservoir.esn import ESN
from tff_esn.reservoir.weights import ReservoirWeights, draw_weights


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("regularization", [1e-6, 1.0, 1e4])
def test_moments_solve_scikit_learns_ridge(classes: int, regularization: float) -> None:
    random = np.random.default_rng(0)
    states, labels = random.normal(3, 1, (200, 10)), random.integers(0, classes, 200)
    targets = labels if classes == 2 else np.eye(classes)[labels]
    expected = Ridge(regularization).fit(states, targets)
    solved = CentredMoments.of(states, labels, classes).solve(regularization)
    np.testing.assert_allclose(solved.outputs(states), expected.predict(states), atol=1e-9)

    class_weight = np.arange(1.0, classes + 1)
    weight = class_weight[labels] / class_weight[labels].mean()
    expected = Ridge(regularization).fit(states, targets, sample_weight=weight)
    solved = CentredMoments.of(states, labels, classes, class_weight).solve(regularization)
    np.testing.assert_allclose(solved.outputs(states), expected.predict(states), atol=1e-9)


def chunked(values: np.ndarray, labels: np.ndarray) -> LabelledSequences:
    """Sequences whose steps all have the sequence's label."""
    return LabelledSequences(values, np.broadcast_to(labels[:, None], values.shape[:2]))


def statistics_of(sequences: LabelledSequences, weights: ReservoirWeights, **options: Any) -> RidgeStatistics:
    return next(client_statistics([sequences], 4, weights, **options))


def by_hand(sequences: LabelledSequences, weights: ReservoirWeights) -> tuple[np.ndarray, np.ndarray]:
    """States step by step in float64, and the label of each."""
    states, labels = [], []
    for values, own in zip(sequences.values, sequences.labels):
        state = np.zeros(weights.units)
        for step in values:
            new = np.tanh(
                weights.gain * (step @ weights.input_kernel + state @ weights.recurrent_kernel) + weights.bias
            )
            state = (1 - weights.leaking_rate) * state + weights.leaking_rate * new
            states.append(state)
        labels.extend(own)
    return np.array(states), np.array(labels)


def test_statistics_of_sequences_are_those_of_their_steps_and_add_up() -> None:
    random = np.random.default_rng(0)
    values, codes = random.normal(size=(70, 6, 2)), random.integers(0, 4, 70)
    sequences = chunked(values, codes)
    weights = draw_weights(ESN(units=8, leaking_rate=0.5), 2, seed=0)
    states, labels = by_hand(sequences, weights)
    whole = statistics_of(sequences, weights)
    np.testing.assert_allclose(whole.b, states.T @ states, rtol=1e-4)
    np.testing.assert_allclose(whole.a, np.eye(4)[labels].T @ states, rtol=1e-4, atol=1e-4)
    assert whole.samples == 420

    first, second = (chunked(values[part], codes[part]) for part in (slice(0, 33), slice(33, 70)))
    summed = statistics_of(first, weights) + statistics_of(second, weights)
    np.testing.assert_allclose(summed.b, whole.b, rtol=1e-5)

    readout = whole.solve(1e-3)
    expected = Ridge(1e-3, fit_intercept=False).fit(states, np.eye(4)[labels])
    np.testing.assert_allclose(readout.kernel, expected.coef_.T, rtol=1e-2, atol=1e-3)
    right = (expected.predict(states).argmax(axis=1) == labels).sum()
    (confusion,) = confusions(sequences, 4, weights, [readout])
    np.testing.assert_array_equal(confusion.sum(axis=1), np.bincount(labels))
    assert np.trace(confusion) == pytest.approx(right, abs=4)


def test_a_singular_matrix_is_refused() -> None:
    weights = draw_weights(ESN(units=4), 1, seed=0)
    statistics = statistics_of(chunked(np.zeros((2, 3, 1)), np.array([0, 1])), weights)
    with pytest.raises(ConfigError, match="B is singular with lambda = 0"):
        statistics.solve(0.0)
