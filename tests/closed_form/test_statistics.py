"""The statistics kernel against plain loops, and IncFed against one solution of all the data."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from tests.readout.test_ridge import by_hand, chunked, statistics_of
from tff_esn.closed_form.central_ridge import CentralRidge
from tff_esn.closed_form.incfed import IncFed
from tff_esn.closed_form.solver import solve_general, solve_symmetric
from tff_esn.closed_form.statistics import (
    RidgeStatistics,
    client_statistics,
    confusions,
    pack,
    unpack,
)
from tff_esn.console import tally
from tff_esn.datasets.federated import LabelledSequences
from tff_esn.errors import ConfigError
from tff_esn.reservoir import moments
from tff_esn.reservoir.esn import ESN
from tff_esn.reservoir.moments import TargetSequences, second_moments
from tff_esn.reservoir.weights import draw_weights

WEIGHTS = draw_weights(ESN(units=12, leaking_rate=0.6, bias_scaling=0.3), 3, seed=1)


def sequences(n: int, steps: int = 7, seed: int = 0) -> LabelledSequences:
    random = np.random.default_rng(seed)
    return chunked(random.normal(size=(n, steps, 3)), random.integers(0, 4, n))


def part(whole: LabelledSequences, rows: np.ndarray) -> LabelledSequences:
    return LabelledSequences(whole.values[rows], whole.labels[rows])


@settings(deadline=None, max_examples=40)
@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    steps=st.integers(1, 12),
    block=st.integers(1, 8),
    history=st.integers(1, 5000),
    weighted=st.booleans(),
)
def test_moments_are_sums_of_outer_products(
    sizes: list[int], steps: int, block: int, history: int, weighted: bool
) -> None:
    random = np.random.default_rng(steps)
    clients = [
        TargetSequences(
            random.normal(size=(n, steps, 3)), random.normal(size=(n, 2)), random.uniform(0, 2, n) if weighted else None
        )
        for n in sizes
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moments, "BLOCK_ROWS", block)
        patch.setattr(moments, "HISTORY_BYTES", history)
        patch.setattr(moments, "MIN_HISTORY_STEPS", 1)
        found = list(second_moments(clients, WEIGHTS, np.float64))
    assert len(found) == len(sizes)
    for client, own in zip(clients, found):
        expected = np.zeros((15, 15))
        for i in range(len(client)):
            for state in by_hand(chunked(client.values[i : i + 1], np.zeros(1, int)), WEIGHTS)[0]:
                row = np.concatenate(([1.0], state, client.targets[i]))
                expected += (client.weights[i] if client.weights is not None else 1.0) * np.outer(row, row)
        np.testing.assert_allclose(own, expected, rtol=1e-9, atol=1e-9)


def test_clients_whose_sequences_have_other_lengths_go_on_one_stream() -> None:
    clients = [sequences(5, 4), sequences(3, 9), sequences(0, 4), sequences(6, 4)]
    together = list(client_statistics(clients, 4, WEIGHTS))
    for own, alone in zip(together, clients):
        expected = statistics_of(alone, WEIGHTS)
        np.testing.assert_allclose(own.a, expected.a, atol=1e-4)
        np.testing.assert_allclose(own.half_b, expected.half_b, atol=1e-4)
        assert own.samples == len(alone) * alone.values.shape[1]
    assert not together[2].a.any()
    assert not together[2].half_b.any()


def test_the_fast_kernel_is_as_exact_as_its_precision() -> None:
    whole = sequences(200, 50)
    plain, _ = by_hand(whole, WEIGHTS)
    fast = statistics_of(whole, WEIGHTS).b
    scale = np.abs(plain.T @ plain).max()
    assert np.abs(fast - plain.T @ plain).max() / scale < 2e-6


@settings(deadline=None, max_examples=60)
@given(data=st.data(), bias=st.booleans(), classes_weigh=st.booleans(), ridge=st.sampled_from([1e-3, 1.0, 100.0]))
def test_incfed_is_the_centralised_ridge_for_any_partition(
    data: st.DataObject, bias: bool, classes_weigh: bool, ridge: float
) -> None:
    """In any order, over any clients, in one piece or as the data come: to 1e-9 in W S."""
    whole = sequences(24)
    order = data.draw(st.permutations(range(24)))
    edges = sorted(data.draw(st.lists(st.integers(0, 24), max_size=6)))
    pieces = [part(whole, rows) for rows in np.split(np.array(order), edges)]
    options = {"bias": bias, "class_weight": (1.0, 2.0, 0.5, 3.0) if classes_weigh else None, "dtype": np.float64}
    parts = list(client_statistics(pieces, 4, WEIGHTS, **options))
    # Some pieces are what a client recorded later (eqs. 11-12).
    clients: dict[str, list[RidgeStatistics]] = {}
    for own in parts:
        clients.setdefault(data.draw(st.sampled_from("abc")), []).append(own)
    federated = IncFed(ridge=ridge).solve({name: reduce(add, own) for name, own in clients.items()}).readout
    states, labels = by_hand(whole, WEIGHTS)
    sample_weight = np.array([1.0, 2.0, 0.5, 3.0])[labels] if classes_weigh else None
    expected = Ridge(ridge, fit_intercept=bias, solver="cholesky").fit(
        states, np.eye(4)[labels], sample_weight=sample_weight
    )
    answers, wanted = federated.outputs(states), expected.predict(states)
    assert np.abs(answers - wanted).max() <= 1e-9 * np.abs(wanted).max()
    alone = CentralRidge(ridge=ridge).solve({"all": statistics_of(whole, WEIGHTS, **options)}).readout.outputs(states)
    assert np.abs(answers - alone).max() <= 1e-9 * np.abs(alone).max()


def test_half_a_matrix_is_the_matrix() -> None:
    matrix = np.array([[1.0, 2.0, 4.0], [2.0, 3.0, 5.0], [4.0, 5.0, 6.0]])
    np.testing.assert_array_equal(pack(matrix), [1, 2, 3, 4, 5, 6])
    np.testing.assert_array_equal(unpack(pack(matrix)), matrix)


def test_classes_that_a_client_lacks_have_zeros() -> None:
    whole = sequences(6)
    own = statistics_of(chunked(whole.values, np.ones(6, int)), WEIGHTS)
    assert not own.a[[0, 2, 3]].any()
    assert own.a[1].any()


def test_sequences_without_a_label_do_not_count() -> None:
    whole = sequences(6)
    some = chunked(whole.values, np.array([0, -1, 1, -1, 2, 3]))
    own = statistics_of(some, WEIGHTS, dtype=np.float64)
    kept = statistics_of(part(some, np.array([0, 2, 4, 5])), WEIGHTS, dtype=np.float64)
    np.testing.assert_allclose(own.half_b, kept.half_b)
    assert own.samples == 28


def test_the_confusions_count_every_step_for_every_readout() -> None:
    whole = sequences(40)
    own = statistics_of(whole, WEIGHTS, bias=True)
    readouts = [own.solve(1e-2), own.solve(100.0)]
    states, labels = by_hand(whole, WEIGHTS)
    for readout, found in zip(readouts, confusions(whole, 4, WEIGHTS, readouts)):
        expected = np.zeros((4, 4), int)
        np.add.at(expected, (labels, readout.outputs(states).argmax(axis=1)), 1)
        assert found.sum() == 280
        assert np.abs(found - expected).sum() <= 2  # steps on the edge between two answers


def test_statistics_of_other_reservoirs_or_shapes_do_not_add_up() -> None:
    own = statistics_of(sequences(3), WEIGHTS)
    other = draw_weights(ESN(units=12, leaking_rate=0.6, bias_scaling=0.3), 3, seed=2)
    with pytest.raises(ConfigError, match="unit i of one is not unit i of the other"):
        own + statistics_of(sequences(3), other)
    with pytest.raises(ConfigError, match=r"shape \(4, 13\) beside \(4, 12\)"):
        own + statistics_of(sequences(3), WEIGHTS, bias=True)
    with pytest.raises(ConfigError, match="2 class weights; expected one for each of 4"):
        statistics_of(sequences(3), WEIGHTS, class_weight=(1, 2))
    with pytest.raises(ConfigError, match=r"half of \(2, 2\)"):
        RidgeStatistics(np.zeros((1, 2)), np.zeros(4), 0)


def test_an_ill_conditioned_system_is_solved_by_its_eigenvalues_and_said_so(caplog: pytest.LogCaptureFixture) -> None:
    random = np.random.default_rng(0)
    states = random.normal(size=(50, 3)) @ random.normal(size=(3, 6))
    b, a = states.T @ states, random.normal(size=(2, 50)) @ states
    tally.take()
    answers = solve_symmetric(a, b, 1e-12) @ states.T
    solve_symmetric(a, b, 1e-12)
    assert caplog.text.count("ill-conditioned") == 1
    # The solution of least norm, which the limit of lambda towards 0 is.
    expected = a @ np.linalg.pinv(b, rcond=1e-10) @ states.T
    np.testing.assert_allclose(answers, expected, rtol=1e-3)
    for solve in (solve_symmetric, solve_general):
        with pytest.raises(ConfigError, match="B is singular with lambda = 0"):
            solve(np.zeros((1, 2)), np.zeros((2, 2)), 0.0)
        with pytest.raises(ConfigError, match="lambda = -1; expected 0 or more"):
            solve(a, b, -1.0)
        with pytest.raises(ConfigError, match="not finite"):
            solve(a, b * np.nan, 1.0)


def test_a_matrix_that_is_not_symmetric_is_solved_as_it_is() -> None:
    random = np.random.default_rng(0)
    a, b = random.normal(size=(2, 5)), random.normal(size=(5, 5))
    np.testing.assert_allclose(solve_general(a, b, 0.1) @ (b + 0.1 * np.eye(5)), a, atol=1e-12)


def test_a_readout_bias_needs_samples() -> None:
    nothing = statistics_of(sequences(0), WEIGHTS, bias=True)
    with pytest.raises(ConfigError, match="no sample"):
        nothing.solve(1.0)


@pytest.mark.parametrize(
    ("values", "targets", "weights", "complaint"),
    [
        ((3, 5), (3, 2), None, "expected \\(n, steps, inputs\\)"),
        ((3, 5, 3), (2, 2), None, "expected \\(n, steps, inputs\\)"),
        ((3, 5, 3), (3, 2), np.ones(2), r"weights of shape \(2,\); expected \(3,\)"),
        ((3, 5, 3), (3, 2), -np.ones(3), "expected finite numbers of 0 or more"),
    ],
)
def test_sequences_that_do_not_fit_are_refused(
    values: tuple[int, ...], targets: tuple[int, ...], weights: np.ndarray | None, complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        TargetSequences(np.zeros(values), np.zeros(targets), weights)


def test_clients_with_other_inputs_are_refused() -> None:
    with pytest.raises(ConfigError, match="a client with 2 inputs and 1 outputs; expected 3 and 1"):
        list(second_moments([TargetSequences(np.zeros((1, 2, 2)), np.zeros((1, 1)))], WEIGHTS))
