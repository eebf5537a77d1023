"""The states of samples, each by a plain loop over the steps before it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tff_esn.datasets.federated import FederatedDataset, LabelledSequences
from tff_esn.reservoir.esn import ESN
from tff_esn.reservoir.samples import Samples, sample_features, sample_states
from tff_esn.reservoir.weights import draw_weights

WEIGHTS = draw_weights(ESN(units=9, leaking_rate=0.5, bias_scaling=0.2), 2, seed=0)
RANDOM = np.random.default_rng(0)


def loop(sequence: np.ndarray) -> np.ndarray:
    """The state after each step."""
    state, states = np.zeros(WEIGHTS.units), []
    for step in sequence:
        net = WEIGHTS.gain * (step @ WEIGHTS.input_kernel + state @ WEIGHTS.recurrent_kernel) + WEIGHTS.bias
        state = 0.5 * state + 0.5 * np.tanh(net)
        states.append(state)
    return np.array(states)


def by_hand(own: LabelledSequences) -> Samples:
    states, labels = [], []
    for sequence, label in zip(own.values, own.labels):
        after = loop(sequence)
        for state, each in zip(after if own.per_step else after[-1:], np.atleast_1d(label)):
            if each >= 0:
                states.append(state)
                labels.append(each)
    return Samples(np.array(states).reshape(-1, WEIGHTS.units), np.array(labels, np.int64))


def client(lengths: list[int], per_step: bool) -> tuple[Any, Any]:
    """Labels from -1, which do not count."""
    x = [RANDOM.normal(size=(length, 2)) for length in lengths]
    return x, [RANDOM.integers(-1, 3, length) if per_step else RANDOM.integers(-1, 3) for length in lengths]


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize(
    "clients",
    [
        [[6] * 5, [6] * 3],
        [[6, 3, 7], [2, 8, 5, 4]],
        [[6, 3], [4, 4]],
        [[5, 5], [], [9]],
        [[30], [20, 10, 3], [25]],
    ],
)
def test_states_are_a_plain_loop_over_the_steps(clients: list[list[int]], per_step: bool) -> None:
    arrays = {f"S{i}": client(lengths, per_step) for i, lengths in enumerate(clients)}
    data = FederatedDataset.from_arrays(arrays, classes=["u", "v", "w"])
    found = sample_states(data, WEIGHTS)
    assert tuple(found) == data.clients
    for name, own in found.items():
        expected = by_hand(data[name])
        np.testing.assert_allclose(own.values, expected.values, atol=1e-5)
        np.testing.assert_array_equal(own.labels, expected.labels)
        assert own.labels.dtype == np.int64


def test_models_without_a_reservoir_see_the_samples_steps() -> None:
    data = FederatedDataset.from_arrays(
        {"S2": client([6, 3, 7], True), "S3": client([4], True)}, classes=["u", "v", "w"]
    )
    for name, own in sample_features(data).items():
        steps = [step for x, y in zip(data[name].values, data[name].labels) for step, each in zip(x, y) if each >= 0]
        np.testing.assert_array_equal(own.values, steps)


def test_what_models_without_a_reservoir_see_may_be_given() -> None:
    static = RANDOM.normal(size=(3, 2))
    own = LabelledSequences(RANDOM.normal(size=(3, 4, 2)), np.array([1, -1, 0]), static)
    np.testing.assert_array_equal(own.sample_features, static[[0, 2]])


def test_a_client_without_recordings_has_no_samples() -> None:
    data = FederatedDataset.from_arrays(
        {"S2": client([6, 3], True), "S3": client([4, 5], True)}, classes=["u", "v", "w"]
    )
    sequences = {"S2": data["S2"], "S9": LabelledSequences((), ()), "S3": data["S3"]}
    found = sample_states(replace(data, sequences=sequences), WEIGHTS)
    assert found["S9"].values.shape == (0, WEIGHTS.units)
    np.testing.assert_allclose(found["S3"].values, by_hand(data["S3"]).values, atol=1e-5)


def test_samples_of_several_clients_stand_one_after_another() -> None:
    first, second = Samples(np.eye(2), np.array([0, 1])), Samples(np.ones((1, 2)), np.array([2]))
    whole = Samples.concatenate([first, second])
    np.testing.assert_array_equal(whole.values, [[1, 0], [0, 1], [1, 1]])
    np.testing.assert_array_equal(whole.labels, [0, 1, 2])
