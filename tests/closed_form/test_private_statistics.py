"""Noise on ridge statistics."""

from __future__ import annotations

import numpy as np
import pytest

from tff_esn.closed_form.private_statistics import noisy, private_readout
from tff_esn.closed_form.statistics import RidgeStatistics
from tff_esn.errors import ConfigError


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


def test_the_noise_in_b_is_regularised_by_a_formula_of_the_units() -> None:
    states = np.random.default_rng(0).normal(size=(50, 9))
    summed = RidgeStatistics.of(states, np.eye(2)[np.arange(50) % 2])
    found, expected = private_readout(summed, 0.1, 0.5), summed.solve(0.1 + 2 * 0.5 * 3)
    np.testing.assert_array_equal(found.kernel, expected.kernel)


def test_a_bias_is_refused() -> None:
    with pytest.raises(ConfigError, match="a readout bias with differential privacy"):
        noisy(RidgeStatistics.of(np.eye(3), np.eye(3), bias=True), 1.0, 1, 0, "S2")
