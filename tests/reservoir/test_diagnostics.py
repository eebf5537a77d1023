from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tff_esn.errors import ConfigError
from tff_esn.reservoir.diagnostics import (
    convergence,
    diagnose,
    linearized,
    memory_capacity,
    necessary_condition,
    state_dimension,
    sufficient_condition,
)
from tff_esn.reservoir.esn import ESN
from tff_esn.reservoir.weights import ReservoirWeights, draw_weights


def made(recurrent: np.ndarray, inputs: np.ndarray, leaking_rate: float = 1.0) -> ReservoirWeights:
    """A reservoir of W and W_in without bias."""
    units = len(recurrent)
    return ReservoirWeights(
        np.asarray(inputs, np.float32).T,
        np.asarray(recurrent, np.float32).T,
        np.zeros(units, np.float32),
        np.ones(units, np.float32),
        leaking_rate,
    )


def delay_line(units: int, inputs: int = 1) -> ReservoirWeights:
    """Unit i hands its state on to unit i + `inputs`; small enough for tanh to be the identity."""
    first = np.zeros((units, inputs))
    first[np.arange(inputs), np.arange(inputs)] = 0.01
    return made(np.eye(units, k=-inputs), first)


def drawn(inputs: int = 1, **settings: object) -> ReservoirWeights:
    return draw_weights(ESN(**settings), inputs, 0)  # type: ignore[arg-type]


NOISE = np.random.default_rng(0).uniform(-1, 1, (2000, 1))


@pytest.mark.parametrize("units", [2, 7, 25])
def test_a_delay_line_remembers_each_step_it_holds_and_no_other(units: int) -> None:
    # The first unit holds the present input, which is no memory.
    memory = memory_capacity(delay_line(units))
    np.testing.assert_allclose(memory.curve[: units - 1], 1.0, atol=1e-3)
    np.testing.assert_allclose(memory.curve[units:], 0.0, atol=0.01)
    assert memory.capacity == pytest.approx(units - 1, abs=0.05)
    assert memory.horizon == units


def test_two_inputs_share_the_capacity_of_a_delay_line() -> None:
    memory = memory_capacity(delay_line(12, inputs=2))
    assert memory.capacity == pytest.approx(10, abs=0.1)
    assert memory.horizon == 6


@pytest.mark.parametrize("settings", [{}, {"input_scaling": 0.01}, {"leaking_rate": 0.2}])
@pytest.mark.parametrize("units", [5, 50])
def test_no_reservoir_remembers_more_than_its_units(units: int, settings: dict) -> None:
    memory = memory_capacity(drawn(units=units, **settings))
    assert 0 < memory.capacity <= units
    assert len(memory.curve) == 2 * units
    assert np.all((memory.curve >= 0) & (memory.curve <= 1))


def test_a_reservoir_near_linearity_remembers_more() -> None:
    weak, strong = (memory_capacity(drawn(units=50, input_scaling=scaling)) for scaling in (0.05, 2.0))
    assert weak.capacity > 1.5 * strong.capacity
    # The same, told by the values of the input instead of by their scaling.
    as_weak = memory_capacity(drawn(units=50), values=0.05 * NOISE)
    assert as_weak.capacity == pytest.approx(weak.capacity, rel=0.1)


def test_delays_end_at_200_and_the_horizon_with_them() -> None:
    memory = memory_capacity(delay_line(220))
    assert len(memory.curve) == 200
    assert memory.horizon is None
    assert memory.capacity == pytest.approx(200, abs=0.1)


def test_a_reservoir_that_no_input_reaches_remembers_nothing() -> None:
    memory = memory_capacity(made(0.5 * np.eye(4), np.zeros((4, 1))))
    assert memory.capacity == 0
    assert memory.horizon == 1


def test_the_conditions_by_hand() -> None:
    # Eigenvalues of W: 0.5 and -0.8; of 0.5 I + 0.5 W: 0.75 and 0.1. Largest singular value: 0.8.
    weights = made(np.diag([0.5, -0.8]), np.ones((2, 1)), leaking_rate=0.5)
    necessary, sufficient = necessary_condition(weights), sufficient_condition(weights)
    assert necessary.radius == pytest.approx(0.75)
    assert (necessary.holds, necessary.exact) == (True, True)
    assert sufficient.singular_value == pytest.approx(0.8)
    assert sufficient.lipschitz == pytest.approx(0.5 + 0.5 * 0.8)
    assert sufficient.holds
    # The gain multiplies what arrives at a unit: the rows of W.
    doubled = replace(weights, gain=np.array([4, 1], np.float32), bias=np.ones(2, np.float32))
    assert necessary_condition(doubled).radius == pytest.approx(0.5 + 0.5 * 2.0)
    assert not necessary_condition(doubled).holds
    assert not necessary_condition(doubled).exact
    np.testing.assert_allclose(linearized(doubled), np.diag([1.5, 0.1]), rtol=1e-6)


def test_the_sufficient_condition_is_the_stronger_one() -> None:
    for seed in range(10):
        weights = draw_weights(ESN(units=30, spectral_radius=0.4, leaking_rate=0.3), 1, seed)
        assert necessary_condition(weights).radius <= sufficient_condition(weights).lipschitz + 1e-6


def test_two_runs_of_a_contraction_meet_at_its_rate() -> None:
    # Without input the states tend to 0, where tanh is the identity: the distance halves at every step.
    result = convergence(made(0.5 * np.eye(6), np.zeros((6, 1))), NOISE)
    assert result.rate == pytest.approx(0.5, abs=0.005)
    assert result.forgotten_after == int(np.flatnonzero(result.distances >= 1e-6)[-1]) + 1
    assert 15 < result.forgotten_after < 25
    np.testing.assert_array_less(np.diff(result.distances), 0)
    assert result.distances[-1] < 1e-12


def test_an_unstable_reservoir_does_not_forget() -> None:
    result = convergence(drawn(units=50, spectral_radius=3.0, input_scaling=0.01), NOISE)
    assert result.forgotten_after is None
    assert result.rate == pytest.approx(1.0, abs=0.01)
    assert len(result.distances) == len(NOISE) + 1


def test_a_reservoir_without_feedback_forgets_at_once() -> None:
    result = convergence(made(np.zeros((3, 3)), np.ones((3, 1))), NOISE)
    assert (result.rate, result.forgotten_after) == (0.0, 1)


def test_the_contraction_is_at_least_as_fast_as_promised() -> None:
    weights = drawn(units=30, spectral_radius=0.3, leaking_rate=0.5)
    promised = sufficient_condition(weights)
    assert promised.holds
    distances = convergence(weights, NOISE).distances
    assert np.all(distances[1:] <= promised.lipschitz * distances[:-1] + 1e-12)


def test_the_dimension_counts_the_directions_used() -> None:
    # Three pairs of equal units: a delay line of three independent values.
    single = delay_line(3)
    twice = np.repeat(np.arange(3), 2)
    weights = ReservoirWeights(
        single.input_kernel[:, twice],
        single.recurrent_kernel[twice][:, twice] / 2,
        np.zeros(6, np.float32),
        np.ones(6, np.float32),
        1.0,
    )
    dimension = state_dimension(weights, NOISE)
    assert dimension.rank == 3
    assert dimension.effective == pytest.approx(3, abs=0.1)
    assert state_dimension(weights, np.zeros((50, 1))).rank == 0
    assert state_dimension(drawn(units=1), NOISE).rank == 1


def test_all_of_it_is_the_same_for_the_same_seed() -> None:
    weights = drawn(units=20, inputs=2)
    series = np.random.default_rng(1).normal(size=(300, 2))
    first, again, other = (diagnose(weights, series, seed, memory_values=series) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.memory.curve, again.memory.curve)
    np.testing.assert_array_equal(first.convergence.distances, again.convergence.distances)
    assert first.memory.capacity != other.memory.capacity
    assert (first.necessary, first.sufficient, first.dimension) == (other.necessary, other.sufficient, other.dimension)


@pytest.mark.parametrize("series", [np.zeros((5, 2)), np.zeros(5), np.zeros((1, 1))])
def test_input_of_another_shape_is_refused(series: np.ndarray) -> None:
    weights = drawn(units=5)
    for measure in (convergence, state_dimension, lambda w, s: memory_capacity(w, values=s)):
        with pytest.raises(ConfigError, match=r"expected \(at least 2 steps, 1\)"):
            measure(weights, series)
