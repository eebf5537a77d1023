from __future__ import annotations

import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from threadpoolctl import threadpool_limits

from tff_esn.errors import ConfigError
from tff_esn.parameters import from_mapping
from tff_esn.reservoir import weights as module
from tff_esn.reservoir.esn import ESN
from tff_esn.reservoir.weights import ReservoirWeights, draw_weights, spectral_radius


def drawn(inputs: int = 3, seed: int = 0, **settings: object) -> ReservoirWeights:
    return draw_weights(from_mapping(ESN, settings, "test"), inputs, seed)


def largest_eigenvalue(matrix: np.ndarray) -> float:
    return float(np.abs(np.linalg.eigvals(matrix.astype(np.float64))).max())


def test_fifty_random_reservoirs_have_the_radius_asked_for() -> None:
    random = np.random.default_rng(0)
    # Two are large, since numpy's eigenvalues of those take the time of all others.
    sizes = [*np.geomspace(10, 450, 44).astype(int), 501, 520, 550, 600, 700, 1000]
    assert len(sizes) == 50
    for seed, units in enumerate(sizes):
        connectivity = [1.0, 0.2, 10][seed % 3]
        radius = random.uniform(0.1, 1.0)
        weights = drawn(units=int(units), recurrent_connectivity=connectivity, spectral_radius=radius, seed=seed)
        assert largest_eigenvalue(weights.recurrent_kernel) == pytest.approx(radius, rel=1e-6), (seed, units)


@pytest.mark.parametrize("leaking_rate", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("connectivity", [1.0, 5])
def test_the_radius_may_be_that_of_the_leaky_matrix(leaking_rate: float, connectivity: float) -> None:
    weights = drawn(
        units=60,
        leaking_rate=leaking_rate,
        radius_of="leaky",
        spectral_radius=0.8,
        recurrent_connectivity=connectivity,
    )
    leaky = (1 - leaking_rate) * np.eye(60) + leaking_rate * weights.recurrent_kernel
    assert largest_eigenvalue(leaky) == pytest.approx(0.8, rel=1e-6)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("share", [1.0, 0.02])
def test_the_iterative_radius_is_that_of_all_eigenvalues(share: float, sparse: bool) -> None:
    random = np.random.default_rng(1)
    matrix = random.uniform(-1, 1, (600, 600)) * (random.random((600, 600)) < share)
    expected = largest_eigenvalue(matrix)
    assert spectral_radius(csr_matrix(matrix) if sparse else matrix) == pytest.approx(expected, rel=1e-9)


def test_where_the_iteration_does_not_converge_all_eigenvalues_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_convergence(*arguments: object, **options: object) -> None:
        raise module.ArpackError(-1)

    monkeypatch.setattr(module, "eigs", no_convergence)
    matrix = np.random.default_rng(2).uniform(-1, 1, (510, 510))
    assert spectral_radius(matrix) == pytest.approx(largest_eigenvalue(matrix), rel=1e-12)


@given(st.integers(1, 40), st.integers(0, 5))
def test_a_cycle_has_the_geometric_mean_of_its_weights_for_a_radius(length: int, tail: int) -> None:
    random = np.random.default_rng(length)
    values = random.uniform(0.1, 2, length)
    units = length + tail
    matrix = np.zeros((units, units))
    matrix[np.arange(length), (np.arange(length) + 1) % length] = values
    # What hangs on the cycle without leading back to it changes nothing.
    matrix[0, length:] = 100.0
    assert spectral_radius(matrix) == pytest.approx(np.exp(np.log(values).mean()), rel=1e-9)


def test_a_matrix_without_cycles_has_radius_0_exactly() -> None:
    matrix = np.triu(np.random.default_rng(3).uniform(-1, 1, (300, 300)), 1)
    order = np.random.default_rng(4).permutation(300)
    assert spectral_radius(matrix[order][:, order]) == 0.0
    assert spectral_radius(np.array([[-0.5]])) == 0.5


def test_a_matrix_must_be_square() -> None:
    with pytest.raises(ValueError, match=r"shape \(2, 3\); expected a square one"):
        spectral_radius(np.zeros((2, 3)))


@given(units=st.integers(1, 50), inputs=st.integers(1, 9), connections=st.integers(1, 60), seed=st.integers(0, 99))
def test_a_number_of_connections_is_met_exactly(units: int, inputs: int, connections: int, seed: int) -> None:
    recurrent = min(connections, units)
    weights = drawn(inputs, seed, units=units, input_connectivity=connections, recurrent_connectivity=recurrent)
    # More connections than inputs are all inputs.
    np.testing.assert_array_equal(np.count_nonzero(weights.input_kernel, axis=0), min(connections, inputs))
    np.testing.assert_array_equal(np.count_nonzero(weights.recurrent_kernel, axis=0), recurrent)


def test_a_probability_of_connections_is_met_on_average() -> None:
    weights = drawn(inputs=100, units=400, input_connectivity=0.3, recurrent_connectivity=0.05)
    assert np.count_nonzero(weights.input_kernel) / 40_000 == pytest.approx(0.3, abs=0.01)
    assert np.count_nonzero(weights.recurrent_kernel) / 160_000 == pytest.approx(0.05, abs=0.003)
    # An integer 1 is one connection, a float 1.0 is all of them.
    assert np.count_nonzero(drawn(units=20, recurrent_connectivity=1).recurrent_kernel) == 20
    assert np.count_nonzero(drawn(units=20, recurrent_connectivity=1.0).recurrent_kernel) == 400


def test_scalings_bound_the_weights() -> None:
    weights = drawn(inputs=50, units=100, input_scaling=0.3, bias_scaling=0.2, leaking_rate=0.4)
    assert 0.29 < np.abs(weights.input_kernel).max() <= 0.3
    assert 0.19 < np.abs(weights.bias).max() <= 0.2
    np.testing.assert_array_equal(weights.gain, 1)
    assert weights.leaking_rate == 0.4
    assert (weights.inputs, weights.units) == (50, 100)
    arrays = (weights.input_kernel, weights.recurrent_kernel, weights.bias, weights.gain)
    assert {array.dtype for array in arrays} == {np.dtype(np.float32)}
    np.testing.assert_array_equal(drawn().bias, 0)


@pytest.mark.parametrize("settings", [{"recurrent_connectivity": 5}, {"kind": "tfa", "recurrent_connectivity": 0.3}])
def test_the_same_seed_gives_the_same_weights(settings: dict) -> None:
    first, again, other = (drawn(units=40, seed=seed, **settings) for seed in (7, 7, 8))
    for name in ("input_kernel", "recurrent_kernel", "bias", "gain"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    for name in ("input_kernel", "recurrent_kernel"):
        assert not np.array_equal(getattr(first, name), getattr(other, name))


def test_a_stream_depends_on_its_own_settings_only() -> None:
    one, three = drawn(inputs=1, units=30, bias_scaling=0.5), drawn(inputs=3, units=30, bias_scaling=1.0)
    np.testing.assert_array_equal(one.recurrent_kernel, three.recurrent_kernel)
    np.testing.assert_allclose(2 * one.bias, three.bias, rtol=1e-6)


def test_the_weights_do_not_depend_on_the_number_of_threads() -> None:
    kernels = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            kernels.append(drawn(units=600).recurrent_kernel)
    np.testing.assert_array_equal(*kernels)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"units": 0}, r"units = 0: Input should be greater than 0"),
        ({"units": -5}, r"units = -5: Input should be greater than 0"),
        ({"leaking_rate": 0.0}, r"leaking_rate = 0\.0: Input should be greater than 0"),
        ({"leaking_rate": 1.5}, r"leaking_rate = 1\.5: Input should be less than or equal to 1"),
        ({"spectral_radius": 0.0}, r"spectral_radius = 0\.0"),
        ({"recurrent_connectivity": 0}, r"recurrent_connectivity"),
        ({"recurrent_connectivity": 1.5}, r"recurrent_connectivity"),
        ({"input_connectivity": -1}, r"input_connectivity"),
        ({"units": 10, "recurrent_connectivity": 11}, r"recurrent_connectivity = 11 .*at most 10, the number of units"),
        ({"units": 20, "recurrent_connectivity": 0.001}, r"left 20 units without a cycle"),
        ({"units": 20, "recurrent_connectivity": 0.001, "kind": "tfa"}, r"left 20 units without a cycle"),
        ({"units": 20, "recurrent_connectivity": 3, "kind": "tfa"}, r"expected a probability, such as 0\.1"),
        ({"kind": "tfa", "input_scaling": 0.5}, r"input_scaling = 0\.5 with kind = 'tfa', which has no such setting"),
        ({"kind": "tfa", "bias_scaling": 0.5}, r"bias_scaling = 0\.5 with kind = 'tfa'"),
        ({"kind": "tfa", "radius_of": "leaky"}, r"radius_of = 'leaky' with kind = 'tfa'"),
    ],
)
def test_a_reservoir_that_cannot_be_is_one_line(settings: dict, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        drawn(**settings)
    assert "\n" not in str(caught.value)


def test_no_inputs_are_refused() -> None:
    with pytest.raises(ConfigError, match="a reservoir of 0 inputs"):
        drawn(inputs=0)


def test_a_radius_from_1_upwards_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tff_esn"):
        drawn(units=10, spectral_radius=0.99)
        assert not caplog.records
        drawn(units=10, spectral_radius=1.2)
    assert "echo state property is not guaranteed" in caplog.text
