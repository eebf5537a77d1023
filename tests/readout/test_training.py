from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tff_esn.errors import ConfigError
from tff_esn.readout.parameters import GradientTraining, class_weights
from tff_esn.readout.readout import initial_readout
from tff_esn.readout.training import OPTIMIZERS, batches_of, fit_readout, run_epoch, started, with_ones


def data(classes: int, examples: int = 103) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return random.normal(size=(examples, 12)).astype(np.float32), random.integers(0, classes, examples)


@pytest.mark.parametrize(("classes", "class_weight"), [(2, (12.0, 88.0)), (2, None), (4, None), (3, (1.0, 2.0, 3.0))])
def test_the_compiled_loop_is_keras_fit(classes: int, class_weight: tuple[float, ...] | None) -> None:
    states, labels = data(classes)
    config = GradientTraining(learning_rate=0.01, batch_size=20, epochs=3, class_weight=class_weight, order="time")
    start = initial_readout(12, classes, seed=1)
    fitted = fit_readout(states, labels, classes, config, seed=1)

    outputs = 1 if classes == 2 else classes
    layer = tf.keras.layers.Dense(outputs, activation="sigmoid" if outputs == 1 else "softmax")
    model = tf.keras.Sequential([tf.keras.Input((12,)), layer])
    layer.set_weights([start.kernel, start.bias])
    loss = "binary_crossentropy" if outputs == 1 else "sparse_categorical_crossentropy"
    model.compile(tf.keras.optimizers.Adam(0.01), loss)
    weights = None if class_weight is None else dict(enumerate(class_weight))
    model.fit(states, labels, batch_size=20, epochs=3, shuffle=False, class_weight=weights, verbose=0)

    np.testing.assert_allclose(fitted.kernel, layer.get_weights()[0], atol=2e-5)
    np.testing.assert_allclose(fitted.bias, layer.get_weights()[1], atol=2e-5)
    answers = model.predict(states, verbose=0)
    expected = answers[:, 0] if outputs == 1 else answers
    np.testing.assert_allclose(fitted.outputs(states), expected, atol=2e-5)


@pytest.mark.parametrize("examples", [3, 40, 41, 57])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_several_steps_in_a_turn_of_the_loop_are_the_same_steps(examples: int, optimizer: str) -> None:
    random = np.random.default_rng(examples)
    states = with_ones(tf.constant(random.normal(size=(60, 7)).astype(np.float32)))
    labels = tf.constant(np.where(np.arange(60) < examples, random.integers(0, 2, 60), -1).astype(np.int32))
    batches, count = batches_of(states, labels, 5, 2)
    start = started(tf.zeros((8, 1)), OPTIMIZERS[optimizer])
    one, several = (
        run_epoch(OPTIMIZERS[optimizer], None, batches, count, start, tf.constant(0), tf.constant(0.1), together)
        for together in (1, 4)
    )
    assert np.abs(one.weights).max() > 0.01
    np.testing.assert_array_equal(one.weights, several.weights)
    assert float(one.objective) == float(several.objective) > 0


def test_shuffled_is_another_order_from_the_seed() -> None:
    states, labels = data(2)
    config = GradientTraining(order="shuffled", class_weight=None)
    first, again = (fit_readout(states, labels, 2, config, seed=1) for _ in range(2))
    np.testing.assert_array_equal(first.kernel, again.kernel)
    ordered = fit_readout(states, labels, 2, GradientTraining(order="time", class_weight=None), seed=1)
    assert not np.allclose(first.kernel, ordered.kernel)


@pytest.mark.parametrize("classes", [2, 4])
def test_a_class_without_examples_is_never_predicted(classes: int) -> None:
    states, labels = data(classes)
    only = fit_readout(states, np.zeros_like(labels), classes, GradientTraining(learning_rate=0.1, epochs=20), seed=0)
    outputs = only.outputs(states)
    assert (outputs < 0.5 if classes == 2 else outputs.argmax(axis=1) == 0).all()


def test_a_missing_weight_is_refused() -> None:
    states, labels = data(2)
    with pytest.raises(ConfigError, match="class_weight has 2 values; expected one for each of 4"):
        fit_readout(states, labels, 4, GradientTraining(class_weight=(12.0, 88.0)), seed=0)


def test_balanced_weights_make_each_class_count_alike() -> None:
    labels = np.repeat([0, 1, 3], [6, 3, 1])
    weights = class_weights("balanced", labels, 4)
    assert weights is not None
    np.testing.assert_allclose(np.bincount(labels, minlength=4) * weights, [10 / 3, 10 / 3, 0, 10 / 3])
    assert weights[2] == 1
    assert class_weights(None, labels, 4) is None
    assert class_weights((1.0, 2.0), labels, 2) == (1.0, 2.0)
