"""What one step adds to the statistics at most, and the noise that hides it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.readout.test_ridge import by_hand, chunked
from tff_esn.closed_form.statistics import RidgeStatistics, client_statistics
from tff_esn.datasets.federated import LabelledSequences
from tff_esn.errors import ConfigError
from tff_esn.privacy.accounting import PrivacyBudget, clip_norm, noise_deviation, sensitivity, spent_epsilon
from tff_esn.reservoir.esn import ESN
from tff_esn.reservoir.weights import draw_weights

WEIGHTS = draw_weights(ESN(units=40, leaking_rate=0.5, bias_scaling=0.2, input_scaling=0.5), 6, seed=0)


def client(n: int, steps: int, seed: int = 0) -> LabelledSequences:
    return chunked(np.random.default_rng(seed).normal(size=(n, steps, 6)), np.full(n, 2))


def test_states_are_clipped_and_targets_are_not() -> None:
    own = client(3, 5)
    clip = 0.8
    (found,) = client_statistics([own], 4, WEIGHTS, clip=clip, dtype=np.float64)
    states, labels = by_hand(own, WEIGHTS)
    norms = np.linalg.norm(states, axis=1, keepdims=True)
    assert (norms > clip).any()
    expected = RidgeStatistics.of(states * np.minimum(1, clip / norms), np.eye(4)[labels])
    np.testing.assert_allclose(found.half_b, expected.half_b, atol=1e-9)
    np.testing.assert_allclose(found.a, expected.a, atol=1e-9)


def test_one_unit_moves_the_statistics_by_no_more_than_the_sensitivity() -> None:
    clip, steps = clip_norm(40, 0.2), 5
    for seed in range(20):
        (own,) = client_statistics([client(1, steps, seed=seed)], 4, WEIGHTS, clip=clip, dtype=np.float64)
        moved = math.hypot(np.linalg.norm(own.a), np.linalg.norm(own.half_b))
        assert moved <= sensitivity(clip, PrivacyBudget(1.0, unit_steps=steps)) * (1 + 1e-9)
    assert sensitivity(2.0, PrivacyBudget(1.0)) == pytest.approx(math.sqrt(20))
    assert noise_deviation(2.0, PrivacyBudget(1.0)) == PrivacyBudget(1.0).noise_multiplier * math.sqrt(20)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_the_noise_has_the_epsilon_asked_for(epsilon: float) -> None:
    multiplier = PrivacyBudget(epsilon).noise_multiplier
    assert spent_epsilon(multiplier, 1e-5) == pytest.approx(epsilon, rel=1e-2)
    # The analytic Gaussian mechanism (Balle and Wang 2018): delta of this z and epsilon.
    from scipy.stats import norm

    below = norm.cdf(1 / (2 * multiplier) - epsilon * multiplier)
    delta = below - math.exp(epsilon) * norm.cdf(-1 / (2 * multiplier) - epsilon * multiplier)
    assert delta == pytest.approx(1e-5, rel=0.1)


def test_states_are_clipped_at_a_share_of_the_longest_there_can_be() -> None:
    assert clip_norm(16) == 2.0
    assert clip_norm(16, 0.25) == 1.0


def test_promises_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match="0 steps; expected"):
        PrivacyBudget(1.0, unit_steps=0)
    with pytest.raises(ConfigError, match="epsilon = 0,"):
        PrivacyBudget(0.0)
    with pytest.raises(ConfigError, match="delta = 1,"):
        PrivacyBudget(1.0, delta=1.0)
    with pytest.raises(ConfigError, match="clip = 0; expected a positive norm"):
        noise_deviation(0.0, PrivacyBudget(1.0))
