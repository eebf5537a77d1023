from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view
from threadpoolctl import threadpool_info, threadpool_limits

from tests.reservoir.test_layer import by_the_equation
from tff_esn.errors import ConfigError
from tff_esn.reservoir.esn import ESN
from tff_esn.reservoir.layer import Reservoir, tfa, weights_of
from tff_esn.reservoir.states import carried_states, last_states
from tff_esn.reservoir.weights import ReservoirWeights, draw_weights


def reservoir(units: int = 20, inputs: int = 3, leaking_rate: float = 0.5, seed: int = 0) -> ReservoirWeights:
    config = ESN(units=units, leaking_rate=leaking_rate, spectral_radius=0.8, bias_scaling=0.3)
    weights = draw_weights(config, inputs, seed)
    gain = np.random.default_rng(seed).uniform(0.5, 1.5, units).astype(np.float32)
    return replace(weights, gain=gain)


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape)


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(0, 12),
    steps=st.integers(0, 9),
    inputs=st.integers(1, 4),
    units=st.integers(1, 30),
    leaking_rate=st.sampled_from([1.0, 0.3]),
)
def test_last_states_are_those_of_the_equation(
    n: int, steps: int, inputs: int, units: int, leaking_rate: float
) -> None:
    weights, sequences = reservoir(units, inputs, leaking_rate), noise(n, steps, inputs)
    states = last_states(sequences, weights)
    expected = by_the_equation(sequences, weights)[:, -1] if steps else np.zeros((n, units))
    assert states.dtype == np.float32
    np.testing.assert_allclose(states, expected, atol=1e-5)


@settings(deadline=None, max_examples=60)
@given(
    lengths=st.lists(st.integers(0, 15), max_size=6),
    inputs=st.integers(1, 4),
    units=st.integers(1, 30),
    leaking_rate=st.sampled_from([1.0, 0.3]),
)
def test_carried_states_are_those_of_the_equation(
    lengths: list[int], inputs: int, units: int, leaking_rate: float
) -> None:
    weights = reservoir(units, inputs, leaking_rate)
    series = [noise(length, inputs) + i for i, length in enumerate(lengths)]
    states = carried_states(series, weights)
    assert [state.shape for state in states] == [(length, units) for length in lengths]
    for recording, own in zip(series, states):
        assert own.dtype == np.float32
        np.testing.assert_allclose(own, by_the_equation(recording[None], weights)[0], atol=1e-5)


@pytest.fixture
def two_threads() -> Iterator[None]:
    with threadpool_limits(2):
        yield


@pytest.mark.usefixtures("two_threads")
def test_many_blocks_and_threads_change_nothing() -> None:
    weights = reservoir(units=200, inputs=1)
    recording = noise(3000, 1)
    windows = np.moveaxis(sliding_window_view(recording, 20, axis=0), -1, 1)
    assert not windows.flags.owndata
    states = last_states(windows, weights)
    np.testing.assert_allclose(states[::500], last_states(windows[::500].copy(), weights), atol=1e-6)
    np.testing.assert_allclose(states[::500], by_the_equation(windows[::500], weights)[:, -1], atol=1e-5)


@pytest.mark.usefixtures("two_threads")
def test_callers_in_several_threads_leave_the_blas_as_it_was() -> None:
    weights, sequences = reservoir(units=200, inputs=1), noise(2000, 3, 1)
    before = [library["num_threads"] for library in threadpool_info()]
    expected = last_states(sequences, weights)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: last_states(sequences, weights), range(8)))
    for result in results:
        np.testing.assert_array_equal(result, expected)
    assert [library["num_threads"] for library in threadpool_info()] == before


@pytest.mark.parametrize("leaking_rate", [1.0, 0.3])
def test_states_are_those_of_the_layer(leaking_rate: float) -> None:
    weights, sequences = reservoir(leaking_rate=leaking_rate), noise(30, 25, 3).astype(np.float32)
    layer = Reservoir.from_weights(weights, return_sequences=True)
    expected = layer(sequences).numpy()
    np.testing.assert_allclose(last_states(sequences, weights), expected[:, -1], atol=2e-6)
    np.testing.assert_allclose(carried_states(list(sequences), weights), expected, atol=2e-6)


@pytest.mark.parametrize("leaky", [1.0, 0.3])
def test_states_are_those_of_addons(leaky: float) -> None:
    layer = tfa.layers.ESN(50, leaky=leaky, bias_initializer="random_normal")
    sequences = noise(30, 25, 3).astype(np.float32)
    expected = layer(sequences)
    np.testing.assert_allclose(last_states(sequences, weights_of(layer)), expected, atol=2e-6)


def test_a_recording_can_go_on_from_where_it_was() -> None:
    weights, series = reservoir(), [noise(12, 3), noise(40, 3), noise(25, 3)]
    whole = carried_states(series, weights)
    first = carried_states([recording[:10] for recording in series], weights)
    initial = np.stack([states[-1] for states in first])
    rest = carried_states([recording[10:] for recording in series], weights, initial)
    for all_of_it, one, other in zip(whole, first, rest):
        np.testing.assert_allclose(np.concatenate([one, other]), all_of_it, atol=1e-6)


def test_the_initial_states_are_left_alone() -> None:
    initial = np.ones((1, 20), np.float32)
    carried_states([noise(5, 3)], reservoir(), initial)
    np.testing.assert_array_equal(initial, 1)


@pytest.mark.parametrize("shape", [(5, 3), (5, 4, 2)])
def test_input_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match=r"expected \(n, steps, 3\)"):
        last_states(noise(*shape), reservoir())


def test_series_and_initial_states_of_another_shape_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"input of shape \(5, 2\); expected \(steps, 3\)"):
        carried_states([noise(5, 2)], reservoir())
    with pytest.raises(ConfigError, match=r"initial states of shape \(2, 20\); expected \(1, 20\)"):
        carried_states([noise(5, 3)], reservoir(), np.zeros((2, 20)))
