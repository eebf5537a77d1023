"""What a message gives away, and what the two remedies leave of it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.readout.test_ridge import by_hand, chunked, statistics_of
from tff_esn.closed_form.messages import Message, full_message
from tff_esn.closed_form.private_statistics import noisy
from tff_esn.closed_form.statistics import RidgeStatistics, client_statistics
from tff_esn.datasets.federated import LabelledSequences
from tff_esn.errors import ConfigError
from tff_esn.evaluation.reconstruction import _objective, reconstruct, reconstruct_state, recovery_error
from tff_esn.privacy.accounting import PrivacyBudget, clip_norm, noise_deviation
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
    deviation = noise_deviation(clip, PrivacyBudget(epsilon=8.0))
    errors = []
    for seed in range(5):
        stolen = reconstruct(message(noisy(exact, deviation, 1, seed, "S2")), WEIGHTS)
        errors.append(recovery_error(stolen.inputs, own.values[0]))
    assert np.median(errors) > 0.9
    # Without noise the same message, clipped or not, is enough.
    assert recovery_error(reconstruct(message(exact), WEIGHTS).inputs, own.values[0]) < 0.5


def test_fewer_units_than_inputs_cannot_be_solved_for() -> None:
    few = draw_weights(ESN(units=3), 6, seed=0)
    with pytest.raises(ConfigError, match="3 units of 6 inputs"):
        reconstruct(message(statistics_of(client(1, 1), few)), few)
