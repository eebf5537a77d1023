from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from tff_esn.reservoir.esn import ESN
from tff_esn.reservoir.step import Step, step, tf_step
from tff_esn.reservoir.weights import ReservoirWeights, draw_weights

#: Two units and one input. From x = (1, -2) and u = 3 the net input is
#: W_in u + W x = (3 * 1 + 1 * 0 - 2 * 0.5, 3 * -1 + 1 * 2 - 2 * 0) = (2, -1).
WEIGHTS = ReservoirWeights(
    input_kernel=np.array([[1.0, -1.0]]),
    recurrent_kernel=np.array([[0.0, 2.0], [0.5, 0.0]]),
    bias=np.array([-1.0, 0.5]),
    gain=np.array([0.5, 2.0]),
    leaking_rate=0.25,
)
STATE, INPUTS = np.array([[1.0, -2.0]]), np.array([[3.0]])
NET = [[2.0, -1.0]]
#: g * net + b = (0.5 * 2 - 1, 2 * -1 + 0.5) = (0, -1.5), and tanh(-1.5) = -0.905148253644866...
ACTIVATION = [[0.0, -0.9051482536448664]]
#: 0.75 x + 0.25 h.
NEXT = [[0.75, -1.5 - 0.25 * 0.9051482536448664]]


@pytest.mark.parametrize("backend", [step, tf_step])
def test_a_step_is_the_equation_worked_by_hand(backend: Callable[..., Step]) -> None:
    net, activation, state = (np.asarray(part) for part in backend(STATE, INPUTS, WEIGHTS))
    np.testing.assert_array_equal(net, NET)
    np.testing.assert_allclose(activation, ACTIVATION, rtol=1e-15)
    np.testing.assert_allclose(state, NEXT, rtol=1e-15)


def test_a_single_state_is_a_row_of_several() -> None:
    for found, expected in zip(step(STATE[0], INPUTS[0], WEIGHTS), step(STATE, INPUTS, WEIGHTS)):
        np.testing.assert_array_equal(found, expected[0])


def test_another_activation_takes_the_place_of_tanh() -> None:
    found = tf_step(STATE, INPUTS, WEIGHTS, tf.nn.relu)
    np.testing.assert_array_equal(found.activation, [[0.0, 0.0]])
    np.testing.assert_array_equal(found.state, [[0.75, -1.5]])


def test_both_backends_agree_and_keep_float32() -> None:
    random = np.random.default_rng(0)
    weights = draw_weights(ESN(units=30, leaking_rate=0.3, bias_scaling=0.2), 4, seed=0)
    weights = replace(weights, gain=random.uniform(0.5, 1.5, 30).astype(np.float32))
    state, inputs = (random.uniform(-1, 1, (7, size)).astype(np.float32) for size in (30, 4))
    for found, expected in zip(tf_step(state, inputs, weights), step(state, inputs, weights)):
        assert expected.dtype == np.float32
        np.testing.assert_allclose(found, expected, atol=1e-6)
    # In float64 the same step has more digits.
    precise = step(state.astype(np.float64), inputs, weights.astype(np.float64))
    assert precise.state.dtype == np.float64
    np.testing.assert_allclose(precise.state, step(state, inputs, weights).state, atol=1e-6)
