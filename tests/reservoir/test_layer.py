from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tff_esn.errors import ConfigError
from tff_esn.reservoir.esn import ESN
from tff_esn.reservoir.layer import Reservoir, addons_layer, reservoir_layer, tfa, weights_of
from tff_esn.reservoir.weights import ReservoirWeights, draw_weights

CONFIG = ESN(
    units=30,
    spectral_radius=0.9,
    leaking_rate=0.4,
    input_scaling=0.7,
    input_connectivity=2,
    recurrent_connectivity=0.3,
    bias_scaling=0.2,
    radius_of="leaky",
)
ADDONS = ESN(kind="tfa", units=30, spectral_radius=0.9, leaking_rate=0.4, recurrent_connectivity=0.3)
INPUT = np.random.default_rng(0).normal(size=(5, 12, 3)).astype(np.float32)


def by_the_equation(sequences: np.ndarray, weights: ReservoirWeights) -> np.ndarray:
    """x(t) = (1 - a) x(t-1) + a tanh(g * (W_in u(t) + W x(t-1)) + b), one vector at a time."""
    w_in, w = weights.input_kernel.T.astype(float), weights.recurrent_kernel.T.astype(float)
    a, g, b = weights.leaking_rate, weights.gain.astype(float), weights.bias.astype(float)
    states = np.zeros((*sequences.shape[:2], weights.units))
    for sequence, own in zip(sequences, states):
        x = np.zeros(weights.units)
        for t, u in enumerate(sequence):
            x = (1 - a) * x + a * np.tanh(g * (w_in @ u + w @ x) + b)
            own[t] = x
    return states


def same_weights(first: ReservoirWeights, second: ReservoirWeights) -> None:
    for name in ("input_kernel", "recurrent_kernel", "bias", "gain", "leaking_rate"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)


def test_the_layer_computes_the_equation() -> None:
    drawn = draw_weights(CONFIG, 3, 5)
    gain = np.random.default_rng(1).uniform(0.5, 1.5, 30).astype(np.float32)
    weights = replace(drawn, gain=gain)
    states = Reservoir.from_weights(weights, return_sequences=True)(INPUT)
    np.testing.assert_allclose(states, by_the_equation(INPUT, weights), atol=1e-6)


def test_the_layer_has_the_weights_of_its_configuration_and_seed() -> None:
    layer = Reservoir.from_config_and_seed(CONFIG, 5)
    layer(INPUT)
    same_weights(layer.reservoir_weights(), draw_weights(CONFIG, 3, 5))
    assert layer.config == CONFIG
    assert not layer.trainable_weights
    assert len(layer.non_trainable_weights) == 4


def test_gain_and_bias_can_be_assigned() -> None:
    layer = Reservoir.from_config_and_seed(CONFIG, 0)
    layer.build((None, None, 3))
    layer.cell.gain.assign(tf.fill([30], 2.0))
    layer.cell.bias.assign(tf.fill([30], -0.5))
    weights = layer.reservoir_weights()
    np.testing.assert_array_equal(weights.gain, 2.0)
    np.testing.assert_allclose(layer(INPUT), by_the_equation(INPUT, weights)[:, -1], atol=1e-6)


@pytest.mark.parametrize("connectivity", [0.2, 1.0])
@pytest.mark.parametrize("leaky", [0.3, 1.0])
@pytest.mark.parametrize("use_norm2", [False, True])
@pytest.mark.parametrize("use_bias", [False, True])
def test_the_layer_equals_that_of_addons(connectivity: float, leaky: float, use_norm2: bool, use_bias: bool) -> None:
    theirs = tfa.layers.ESN(
        40,
        connectivity=connectivity,
        leaky=leaky,
        spectral_radius=0.95,
        use_norm2=use_norm2,
        use_bias=use_bias,
        bias_initializer="random_normal",
    )
    expected = theirs(INPUT)
    np.testing.assert_allclose(Reservoir.from_weights(weights_of(theirs))(INPUT), expected, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"return_sequences": True},
        {"return_state": True},
        {"return_sequences": True, "return_state": True},
        {"go_backwards": True, "return_sequences": True},
        {"unroll": True},
        {"activation": "relu"},
        {"activation": None},
        {"dtype": "float64"},
        {"time_major": True, "return_sequences": True},
    ],
    ids=str,
)
def test_every_option_of_addons_does_the_same(options: dict) -> None:
    theirs = addons_layer(ADDONS, 3, **options)
    expected = theirs(INPUT)
    ours = Reservoir.from_weights(weights_of(theirs), **options)(INPUT)
    for one, other in zip(tf.nest.flatten(ours), tf.nest.flatten(expected)):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_masked_steps_and_initial_states_do_the_same() -> None:
    theirs = addons_layer(ADDONS, 3, return_sequences=True)
    theirs.build((None, None, 3))
    ours = Reservoir.from_weights(weights_of(theirs), return_sequences=True)
    mask = np.random.default_rng(2).random(INPUT.shape[:2]) < 0.6
    initial = tf.constant(np.random.default_rng(3).uniform(-1, 1, (5, 30)), tf.float32)
    np.testing.assert_allclose(
        ours(INPUT, mask=mask, initial_state=initial), theirs(INPUT, mask=mask, initial_state=initial), atol=1e-6
    )


def test_a_stateful_layer_carries_its_state() -> None:
    options = {"return_sequences": True, "batch_input_shape": (5, None, 3)}
    layer = Reservoir.from_config_and_seed(CONFIG, 0, stateful=True, **options)
    parts = np.concatenate([layer(INPUT[:, :4]), layer(INPUT[:, 4:])], axis=1)
    np.testing.assert_allclose(parts, by_the_equation(INPUT, layer.reservoir_weights()), atol=1e-6)


def test_kind_tfa_is_the_layer_of_addons_with_the_weights_drawn() -> None:
    layer = reservoir_layer(ADDONS, 4)
    assert type(layer) is tfa.layers.ESN
    layer.build((None, None, 3))
    same_weights(weights_of(layer), draw_weights(ADDONS, 3, 4))
    assert type(reservoir_layer(CONFIG, 4)) is Reservoir
    # Glorot's limit before the mask and the rescaling; the input weights are not rescaled.
    limit = np.sqrt(6 / (3 + 30))
    assert 0.95 * limit < np.abs(weights_of(layer).input_kernel).max() <= limit


@pytest.mark.parametrize("config", [CONFIG, ADDONS], ids=["esn", "tfa"])
def test_weights_are_the_same_inside_a_graph(config: ESN) -> None:
    """As when TensorFlow Federated traces a model."""
    expected = draw_weights(config, 3, 4)
    with tf.Graph().as_default():
        for layer in (reservoir_layer(config, 4), Reservoir.from_config_and_seed(config, 4)):
            layer(tf.zeros((1, 2, 3)))
            with tf.compat.v1.Session() as session:
                session.run(tf.compat.v1.global_variables_initializer())
                kernel, recurrent = session.run((layer.cell.kernel, layer.cell.recurrent_kernel))
            np.testing.assert_array_equal(kernel, expected.input_kernel)
            np.testing.assert_array_equal(recurrent, expected.recurrent_kernel)


def model_of(layer: tf.keras.layers.Layer) -> tf.keras.Model:
    return tf.keras.Sequential([tf.keras.Input((None, 3)), layer, tf.keras.layers.Dense(2)])


LAYERS = {
    "drawn": lambda: Reservoir.from_config_and_seed(CONFIG, 5, return_sequences=True, activation="tanh"),
    "given": lambda: Reservoir.from_weights(draw_weights(CONFIG, 3, 6)),
    "addons": lambda: reservoir_layer(ADDONS, 5),
}


@pytest.mark.parametrize("suffix", ["keras", "h5"])
@pytest.mark.parametrize("layer", LAYERS)
def test_a_saved_model_loads_again(layer: str, suffix: str, tmp_path: Path) -> None:
    model = model_of(LAYERS[layer]())
    # Plasticity may have changed what was drawn.
    model.layers[0].cell.bias.assign_add(tf.fill([30], 0.1))
    path = tmp_path / f"model.{suffix}"
    model.save(path)
    loaded = tf.keras.models.load_model(path)
    np.testing.assert_array_equal(loaded(INPUT), model(INPUT))
    same_weights(weights_of(loaded.layers[0]), weights_of(model.layers[0]))


@pytest.mark.parametrize("name", ["model.weights.h5", "model.h5"])
def test_weights_alone_load_again(name: str, tmp_path: Path) -> None:
    model = model_of(Reservoir.from_config_and_seed(CONFIG, 5))
    model.save_weights(tmp_path / name)
    other = model_of(Reservoir.from_config_and_seed(CONFIG, 6))
    assert not np.allclose(other(INPUT), model(INPUT))
    other.load_weights(tmp_path / name)
    np.testing.assert_array_equal(other(INPUT), model(INPUT))


def test_a_model_of_addons_loads_in_a_new_process_and_nothing_is_announced(tmp_path: Path) -> None:
    model_of(reservoir_layer(ADDONS, 5)).save(tmp_path / "model.keras")
    program = f"""
import tensorflow as tf
import tff_esn.reservoir.layer
tf.keras.models.load_model({str(tmp_path / "model.keras")!r})
"""
    result = subprocess.run(
        [sys.executable, "-W", "always::UserWarning", "-c", program], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert "TensorFlow Addons" not in result.stderr


def test_a_configuration_makes_the_same_layer_again() -> None:
    layer = Reservoir.from_config_and_seed(CONFIG, 5, return_sequences=True, go_backwards=True, activation="relu")
    again = Reservoir.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    np.testing.assert_array_equal(again(INPUT), layer(INPUT))


def test_without_a_seed_nothing_is_drawn() -> None:
    layer = Reservoir.from_config_and_seed(CONFIG, None)
    np.testing.assert_array_equal(layer(INPUT), 0)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"units": 0}, "Reservoir: units = 0"),
        ({"leaking_rate": 1.1}, r"Reservoir: leaking_rate = 1\.1"),
        ({"kind": "gru"}, "Reservoir: kind = 'gru'"),
    ],
)
def test_a_wrong_setting_is_one_line(settings: dict, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Reservoir(**settings)


def test_given_weights_must_fit_the_input() -> None:
    layer = Reservoir.from_weights(draw_weights(CONFIG, 2, 0))
    with pytest.raises(ConfigError, match="a reservoir of 2 inputs was given 3"):
        layer(INPUT)
