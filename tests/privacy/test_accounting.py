"""What a message gives away, and what the two remedies leave of it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.readout.test_ridge import by_hand, chunked, statistics_of
from tff_esn.closed_form.messages import Message, full_message
from tff_esn.closed_form.statistics import RidgeStatistics, client_statistics
from tff_esn.datasets.federated import LabelledSequences
from tff_esn.errors import ConfigError
from tff_esn.privacy.accounting import (
    PrivacyBudget,
    clip_norm,
    noisy,
    private_readout,
    sensitivity,
    spent_epsilon,
)
from tff_esn.privacy.reconstruction import _objective, reconstruct, reconstruct_state, recovery_error
from tff_esn.privacy.secure_aggregation import secure_sum
from tff_esn.reservoir.esn import ESN
from tff_esn.reservoir.weights import draw_weights

WEIGHTS = draw_weights(ESN(units=40, leaking_rate=0.5, bias_scaling=0.2, input_scaling=0.5), 6, seed=0)


def client(n: int, steps: int, seed: int = 0) -> LabelledSequences:
    return chunked(np.random.default_rng(seed).normal(size=(n, steps, 6)), np.full(n, 2))


def message(own: RidgeStatistics) -> Message:
    return Message.decode(full_message(own).encode(np.float32))


def test_a_client_with_one_state_is_an_open_book() -> None:
    own = client(1, 1)
    sent = message(statistics_of(own, WEIGHTS))
    label, state = reconstruct_state(sent)
    assert label == 2
    np.testing.assert_allclose(state, by_hand(own, WEIGHTS)[0][0], atol=1e-5)
    found = reconstruct(sent, WEIGHTS)
    assert recovery_error(found.inputs, own.values[0]) < 1e-4


def test_a_few_states_can_be_found_too() -> None:
    own = client(1, 3)
    found = reconstruct(message(statistics_of(own, WEIGHTS, dtype=np.float64)), WEIGHTS)
    assert found.misfit is not None
    assert found.misfit < 1e-3
    assert recovery_error(found.inputs, own.values[0]) < 0.05


def test_the_gradient_of_the_search_is_that_of_its_value() -> None:
    own = statistics_of(client(1, 3), WEIGHTS, dtype=np.float64)
    objective = _objective(own.a[2], own.b, WEIGHTS, 3)
    point = np.random.default_rng(5).normal(size=18)
    _, gradient = objective(point)
    for i in range(18):
        step = 1e-6 * np.eye(18)[i]
        slope = (objective(point + step)[0] - objective(point - step)[0]) / 2e-6
        assert gradient[i] == pytest.approx(slope, rel=1e-5, abs=1e-8)


def test_secure_aggregation_leaves_the_attack_nothing() -> None:
    everyone = [client(1, 1, seed=i) for i in range(4)]
    statistics = list(client_statistics(everyone, 4, WEIGHTS))
    flat = {f"S{i}": own.vector for i, own in enumerate(statistics)}
    errors = []
    # The masks are secret, so not seeded. A single guess comes near by chance (below 1 in a fifth of the cases); the
    # median of 51 does not.
    for _ in range(51):
        found = secure_sum(flat, bound=1e4)
        masked = found.sent["S0"].view(np.int64).astype(np.float64)
        masked /= np.abs(masked).max()
        stolen = reconstruct(message(statistics[0].of_vector(masked, 1)), WEIGHTS)
        errors.append(recovery_error(stolen.inputs, everyone[0].values[0]))
    assert np.median(errors) > 1
    np.testing.assert_allclose(found.total, sum(flat.values()), atol=found.error * 2)


def test_differential_privacy_leaves_the_attack_nothing() -> None:
    own = client(1, 1)
    clip = clip_norm(40)
    (exact,) = client_statistics([own], 4, WEIGHTS, clip=clip)
    budget = PrivacyBudget(epsilon=8.0)
    deviation = budget.noise_multiplier * sensitivity(clip, budget)
    errors = []
    for seed in range(5):
        stolen = reconstruct(message(noisy(exact, deviation, 1, seed, "S2")), WEIGHTS)
        errors.append(recovery_error(stolen.inputs, own.values[0]))
    assert np.median(errors) > 0.9
    # Without noise the same message, clipped or not, is enough.
    assert recovery_error(reconstruct(message(exact), WEIGHTS).inputs, own.values[0]) < 0.5


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


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_the_noise_has_the_epsilon_asked_for(epsilon: float) -> None:
    multiplier = PrivacyBudget(epsilon).noise_multiplier
    assert spent_epsilon(multiplier, 1e-5) == pytest.approx(epsilon, rel=1e-2)
    # The analytic Gaussian mechanism (Balle and Wang 2018): delta of this z and epsilon.
    from scipy.stats import norm

    below = norm.cdf(1 / (2 * multiplier) - epsilon * multiplier)
    delta = below - math.exp(epsilon) * norm.cdf(-1 / (2 * multiplier) - epsilon * multiplier)
    assert delta == pytest.approx(1e-5, rel=0.1)


def test_shares_of_noise_add_up_and_more_noise_is_less_accurate() -> None:
    nothing = RidgeStatistics(np.zeros((4, 40)), np.zeros(820), 0)
    summed = [noisy(nothing, 3.0, 9, 0, f"S{i}") for i in range(9)]
    total = sum(summed[1:], summed[0])
    assert np.std(total.half_b) == pytest.approx(3.0, rel=0.1)
    assert np.std(total.a) == pytest.approx(3.0, rel=0.2)
    random = np.random.default_rng(0)
    states, labels = random.normal(size=(4000, 40)) / 8, random.integers(0, 4, 4000)
    states[:, :4] += np.eye(4)[labels]
    exact, right = RidgeStatistics.of(states, np.eye(4)[labels]), []
    for deviation in (0.0, 30.0, 3000.0):
        readout = private_readout(noisy(exact, deviation, 1, 0, "S2"), 1.0, deviation)
        right.append((readout.outputs(states).argmax(axis=1) == labels).mean())
    assert right[0] > 0.95
    assert right[0] >= right[1] > right[2]
    assert right[2] < 0.5


def test_what_does_not_look_at_the_data_is_a_formula_of_the_units() -> None:
    assert clip_norm(16) == 2.0
    states = np.random.default_rng(0).normal(size=(50, 9))
    summed = RidgeStatistics.of(states, np.eye(2)[np.arange(50) % 2])
    found, expected = private_readout(summed, 0.1, 0.5), summed.solve(0.1 + 2 * 0.5 * 3)
    np.testing.assert_array_equal(found.kernel, expected.kernel)


def test_promises_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match="0 steps; expected"):
        PrivacyBudget(1.0, unit_steps=0)
    with pytest.raises(ConfigError, match="epsilon = 0,"):
        PrivacyBudget(0.0)
    with pytest.raises(ConfigError, match="delta = 1,"):
        PrivacyBudget(1.0, delta=1.0)
    with pytest.raises(ConfigError, match="clip = 0; expected a positive norm"):
        sensitivity(0.0, PrivacyBudget(1.0))
    with pytest.raises(ConfigError, match="a readout bias with differential privacy"):
        noisy(statistics_of(client(1, 1), WEIGHTS, bias=True), 1.0, 1, 0, "S2")
    few = draw_weights(ESN(units=3), 6, seed=0)
    with pytest.raises(ConfigError, match="3 units of 6 inputs"):
        reconstruct(message(statistics_of(client(1, 1), few)), few)
