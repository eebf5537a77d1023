from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tff_esn.readout.likelihood import gradient_by_logits, losses_of, probabilities_of, targets_of
from tff_esn.readout.readout import Readout, class_targets, initial_readout, nearest_probabilities, output_layer

STATES = np.array([[1.0, 0.0], [0.0, 2.0]])


def test_one_linear_output_is_a_vector_of_products_and_bias() -> None:
    readout = Readout(np.array([[3.0], [0.5]]), np.array([-1.0]), "linear")
    np.testing.assert_array_equal(readout.outputs(STATES), [2.0, 0.0])
    np.testing.assert_array_equal(readout.activate(np.array([[10.0]])), [9.0])


def test_several_linear_outputs_are_columns() -> None:
    readout = Readout(np.array([[3.0, 1.0], [0.5, 2.0]]), np.array([-1.0, 0.0]), "linear")
    np.testing.assert_array_equal(readout.outputs(STATES), [[2.0, 1.0], [0.0, 4.0]])


def test_one_output_is_a_sigmoid() -> None:
    readout = Readout(np.log([[3.0], [2.0]]), np.zeros(1), "sigmoid")
    np.testing.assert_allclose(readout.outputs(STATES), [3 / 4, 4 / 5], rtol=1e-15)


def test_several_outputs_are_a_softmax() -> None:
    readout = Readout(np.log([[1.0, 2.0, 5.0], [1.0, 1.0, 1.0]]), np.log([1.0, 1.0, 2.0]), "softmax")
    np.testing.assert_allclose(readout.outputs(STATES), [[1 / 13, 2 / 13, 10 / 13], [1 / 4, 1 / 4, 1 / 2]], rtol=1e-15)


def test_extreme_states_give_probabilities() -> None:
    states = np.array([[-1.0], [0.0], [1.0]])
    single = Readout(np.full((1, 1), 1e6, np.float32), np.zeros(1, np.float32), "sigmoid")
    with np.errstate(over="raise"):
        np.testing.assert_allclose(single.outputs(states), [0, 0.5, 1], atol=1e-30)
    several = Readout(np.array([[1e6, 0.0]], np.float32), np.zeros(2, np.float32), "softmax")
    with np.errstate(over="raise"):
        np.testing.assert_allclose(several.outputs(states), [[0, 1], [0.5, 0.5], [1, 0]], atol=1e-30)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_hold_kernel_and_bias_in_their_type(dtype: type[np.floating]) -> None:
    readout = Readout(np.array([[1, 2], [3, 4]], dtype), np.array([5, 6], dtype), "softmax")
    np.testing.assert_array_equal(readout.weights, [[1, 2], [3, 4], [5, 6]])
    again = Readout.from_weights(readout.weights, "softmax")
    np.testing.assert_array_equal(again.kernel, readout.kernel)
    np.testing.assert_array_equal(again.bias, readout.bias)
    assert again.kernel.dtype == again.bias.dtype == dtype


@pytest.mark.parametrize(
    ("outputs", "activation", "expected"),
    [(1, "softmax", "'sigmoid' or 'linear'"), (3, "sigmoid", "'softmax' or 'linear'"), (3, "relu", "'softmax'")],
)
def test_an_activation_that_gives_no_probabilities_of_so_many_outputs_is_refused(
    outputs: int, activation: str, expected: str
) -> None:
    with pytest.raises(ValueError, match=f"activation '{activation}'; expected {expected}"):
        Readout(np.zeros((2, outputs)), np.zeros(outputs), activation)  # type: ignore[arg-type]


@pytest.mark.parametrize(("classes", "outputs", "activation"), [(2, 1, "sigmoid"), (3, 3, "softmax")])
def test_two_classes_have_one_output_and_more_have_one_each(classes: int, outputs: int, activation: str) -> None:
    assert output_layer(classes) == (outputs, activation)
    start = initial_readout(5, classes, seed=0)
    assert (start.kernel.shape, start.activation) == ((5, outputs), activation)
    assert np.abs(start.kernel).max() <= np.sqrt(6 / (5 + outputs))
    assert not start.bias.any()


@pytest.mark.parametrize(("classes", "expected"), [(2, [[1], [0]]), (3, [[0, 1, 0], [1, 0, 0]])])
def test_targets_are_1_for_the_output_of_a_label(classes: int, expected: list[list[int]]) -> None:
    labels = np.array([1, 0])
    np.testing.assert_array_equal(class_targets(labels, classes), expected)
    np.testing.assert_array_equal(targets_of(tf.constant([1, 0, -1]), classes)[:2], expected)
    assert not targets_of(tf.constant([-1]), classes).numpy().any()


@pytest.mark.parametrize("classes", [2, 3])
def test_tensorflow_has_the_same_probabilities_and_their_cross_entropy(classes: int) -> None:
    random = np.random.default_rng(0)
    logits, labels = random.normal(size=(6, output_layer(classes)[0])), random.integers(0, classes, 6)
    outputs, activation = output_layer(classes)
    expected = Readout(np.eye(outputs), np.zeros(outputs), activation).outputs(logits)
    found = probabilities_of(tf.constant(logits)).numpy()
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-12)

    by_class = np.stack([1 - expected, expected], axis=1) if classes == 2 else expected
    losses = losses_of(tf.constant(class_targets(labels, classes)), tf.constant(logits)).numpy()
    np.testing.assert_allclose(losses, -np.log(by_class[np.arange(6), labels])[:, None], rtol=1e-12)


@pytest.mark.parametrize("outputs", [1, 3])
def test_gradients_by_logits_are_those_of_automatic_differentiation(outputs: int) -> None:
    random = np.random.default_rng(1)
    logits, factors = (tf.constant(random.normal(size=(4, outputs))) for _ in range(2))
    with tf.GradientTape() as tape:
        tape.watch(logits)
        probabilities = probabilities_of(logits)
        value = tf.reduce_sum(factors * probabilities)
    expected = tape.gradient(value, logits)
    np.testing.assert_allclose(gradient_by_logits(probabilities, factors), expected, rtol=1e-12)


def test_the_nearest_probabilities_are_nearer_than_any_other() -> None:
    random = np.random.default_rng(0)
    outputs = random.normal(0.3, 1, (50, 4))
    found = nearest_probabilities(outputs)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert (found >= 0).all()
    np.testing.assert_array_equal(found.argmax(axis=1), outputs.argmax(axis=1))
    others = random.dirichlet(np.full(4, 0.5), (500, 50))
    assert (((others - outputs) ** 2).sum(axis=2) >= ((found - outputs) ** 2).sum(axis=1)).all()
    np.testing.assert_allclose(nearest_probabilities(others[0]), others[0], atol=1e-12)
