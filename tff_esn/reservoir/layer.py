"""The reservoir as a Keras layer, equal to `tfa.layers.ESN` given the same weights.

x(t) = (1 - a) x(t-1) + a tanh(g * (W_in u(t) + W x(t-1)) + b),   x(0) = 0      (Jaeger 2001; thesis def. 2.1.4)
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Union

import numpy as np
import tensorflow as tf

from tff_esn.errors import ConfigError
from tff_esn.parameters import from_mapping
from tff_esn.reservoir.esn import ESN
from tff_esn.reservoir.step import tf_step
from tff_esn.reservoir.weights import ReservoirWeights, draw_weights
from tff_esn.seeds import seed_for

# Imported here, so that a saved model with its layer loads again; its announcement of the end of its life is known.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tensorflow_addons as tfa

PACKAGE = "tff_esn"


def _build_from_config(layer: tf.keras.layers.RNN, config: Mapping[str, Any]) -> None:
    # Of the list that a `.keras` file holds, Keras 2.14 would take the first element for the shape.
    layer.build(tuple(config["input_shape"]))


tfa.layers.ESN.build_from_config = _build_from_config


@tf.keras.utils.register_keras_serializable(package=PACKAGE)
class ReservoirCell(tf.keras.layers.AbstractRNNCell):
    """One step of a reservoir: x(t) = (1 - a) x(t-1) + a f(g * (W_in u(t) + W x(t-1)) + b).

    Args:
        config: The reservoir, or its fields.
        seed: Seed of its weights. None leaves them 0 (and g = 1) until they are set or loaded.
        activation: f.
        given: Weights to take instead of drawing them.
        **options: Those of a Keras layer.
    """

    def __init__(
        self,
        config: Union[ESN, Mapping[str, Any]],
        seed: int | None = 0,
        activation: Any = "tanh",
        given: ReservoirWeights | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        settings = asdict(config) if isinstance(config, ESN) else dict(config)
        self.reservoir_config = from_mapping(ESN, settings, "Reservoir")
        self.seed = seed
        self.activation = tf.keras.activations.get(activation)
        self.given = given

    @property
    def state_size(self) -> int:
        """Number of units."""
        return self.reservoir_config.units

    @property
    def output_size(self) -> int:
        """Number of units."""
        return self.reservoir_config.units

    def build(self, input_shape: Any) -> None:
        """Draws the weights, none of them trainable."""
        weights = self._starting_weights(int(tf.TensorShape(input_shape)[-1]))
        self.kernel = self._fixed("kernel", weights.input_kernel)
        self.recurrent_kernel = self._fixed("recurrent_kernel", weights.recurrent_kernel)
        self.bias = self._fixed("bias", weights.bias)
        self.gain = self._fixed("gain", weights.gain)
        self.built = True

    def call(self, inputs: tf.Tensor, states: tuple[tf.Tensor]) -> tuple[tf.Tensor, tuple[tf.Tensor]]:
        """The state after one step, as output and as state."""
        rate = self.reservoir_config.leaking_rate
        weights = ReservoirWeights(self.kernel, self.recurrent_kernel, self.bias, self.gain, rate)
        state = tf_step(states[0], inputs, weights, self.activation).state
        return state, (state,)

    def get_config(self) -> dict[str, Any]:
        """The cell's configuration, for Keras; weights that were given are saved with the model's weights."""
        return {
            **super().get_config(),
            "config": asdict(self.reservoir_config),
            "seed": self.seed,
            "activation": tf.keras.activations.serialize(self.activation),
        }

    def _starting_weights(self, inputs: int) -> ReservoirWeights:
        config = self.reservoir_config
        if self.given is not None:
            if self.given.inputs != inputs:
                raise ConfigError(f"a reservoir of {self.given.inputs} inputs was given {inputs}")
            return self.given
        if self.seed is not None:
            return draw_weights(config, inputs, self.seed)
        return ReservoirWeights(
            np.zeros((inputs, config.units), np.float32),
            np.zeros((config.units, config.units), np.float32),
            np.zeros(config.units, np.float32),
            np.ones(config.units, np.float32),
            config.leaking_rate,
        )

    def _fixed(self, name: str, value: np.ndarray) -> tf.Variable:
        # A constant, not an assignment: it holds wherever the layer is built, in a TFF computation's graph too.
        return self.add_weight(
            name,
            value.shape,
            initializer=lambda shape, dtype=None, **_: tf.constant(value, dtype),
            trainable=False,
        )


@tf.keras.utils.register_keras_serializable(package=PACKAGE)
class Reservoir(tf.keras.layers.RNN):
    """A layer of units with random, fixed connections and leaky integration.

        x(t) = (1 - a) x(t-1) + a f(g * (W_in u(t) + W x(t-1)) + b),   x(0) = 0

    The weights `kernel`, `recurrent_kernel`, `bias` and `gain` of its cell are drawn when it is
    built (`tff_esn.reservoir.weights.draw_weights`) and are not trainable; intrinsic plasticity
    assigns the last two.

    >>> states = Reservoir(units=10, spectral_radius=0.9, seed=1)(tf.zeros((2, 5, 3)))
    >>> states.shape
    TensorShape([2, 10])

    Args:
        units: N_x.
        spectral_radius: rho.
        leaking_rate: a, in (0, 1].
        input_scaling: Largest absolute weight of W_in.
        input_connectivity: Which inputs reach a unit: a probability (float) or a number of them (int).
        recurrent_connectivity: Which units reach a unit: a probability (float) or a number of them (int).
        bias_scaling: Largest absolute value of b.
        radius_of: `recurrent`: rho is that of W; `leaky`: of (1 - a) I + a W.
        kind: `esn`, or `tfa` for weights as `tfa.layers.ESN` draws them.
        seed: Seed of the weights. None leaves them 0 (and g = 1) until they are set or loaded.
        activation: f.
        dtype: As for any Keras layer.
        **options: Those of `tf.keras.layers.RNN`: `return_sequences`, `return_state`,
            `go_backwards`, `stateful`, `unroll` and so on.
    """

    def __init__(
        self,
        units: int = ESN.units,
        spectral_radius: float = ESN.spectral_radius,
        leaking_rate: float = ESN.leaking_rate,
        input_scaling: float = ESN.input_scaling,
        input_connectivity: Union[int, float] = ESN.input_connectivity,
        recurrent_connectivity: Union[int, float] = ESN.recurrent_connectivity,
        bias_scaling: float = ESN.bias_scaling,
        radius_of: str = ESN.radius_of,
        kind: str = ESN.kind,
        seed: int | None = 0,
        activation: Any = "tanh",
        dtype: Any = None,
        **options: Any,
    ) -> None:
        settings = {
            "kind": kind,
            "units": units,
            "spectral_radius": spectral_radius,
            "leaking_rate": leaking_rate,
            "input_scaling": input_scaling,
            "input_connectivity": input_connectivity,
            "recurrent_connectivity": recurrent_connectivity,
            "bias_scaling": bias_scaling,
            "radius_of": radius_of,
        }
        super().__init__(ReservoirCell(settings, seed, activation, dtype=dtype), dtype=dtype, **options)

    @classmethod
    def from_config_and_seed(cls, config: ESN, seed: int | None, **options: Any) -> Reservoir:
        """The reservoir that `config` describes."""
        return cls(**{**asdict(config), "seed": seed}, **options)

    @classmethod
    def from_weights(cls, weights: ReservoirWeights, **options: Any) -> Reservoir:
        """A reservoir of given weights.

        Its configuration knows their number and the leaking rate only, and stays at its
        defaults otherwise. A copy made of the configuration alone has weights of 0.
        """
        layer = cls(units=weights.units, leaking_rate=weights.leaking_rate, seed=None, **options)
        layer.cell.given = weights
        return layer

    build_from_config = _build_from_config

    @property
    def config(self) -> ESN:
        """The reservoir's settings."""
        return self.cell.reservoir_config

    def reservoir_weights(self) -> ReservoirWeights:
        """The weights as they are now. Not among them: the activation, which elsewhere is tanh."""
        return weights_of(self)

    def get_config(self) -> dict[str, Any]:
        """The layer's configuration, for Keras, with the settings of its cell."""
        inherited = super().get_config()
        del inherited["cell"]
        cell = self.cell.get_config()
        return {**inherited, **cell["config"], "seed": cell["seed"], "activation": cell["activation"]}

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Any = None) -> Reservoir:
        """The layer that `get_config` describes."""
        return cls(**config)


@tf.keras.utils.register_keras_serializable(package=PACKAGE)
class MaskedGlorotUniform(tf.keras.initializers.Initializer):
    """Glorot-uniform weights of which each is kept with a probability.

    `tfa.layers.ESN` draws the same, but its mask takes no seed.
    """

    def __init__(self, connectivity: float, seed: int, mask_seed: int) -> None:
        self.connectivity, self.seed, self.mask_seed = connectivity, seed, mask_seed

    def __call__(self, shape: Any, dtype: Any = None, **options: Any) -> tf.Tensor:
        """Draws the weights; the same ones at every call."""
        weights = tf.keras.initializers.GlorotUniform(self.seed)(shape, dtype)
        chance = tf.random.stateless_uniform(shape, (self.mask_seed, 0))
        return weights * tf.cast(chance <= self.connectivity, weights.dtype)

    def get_config(self) -> dict[str, Any]:
        """The initializer's configuration, for Keras."""
        return {"connectivity": self.connectivity, "seed": self.seed, "mask_seed": self.mask_seed}


# A model saved as HDF5 knows an initializer by the name of its class only.
tf.keras.utils.get_custom_objects()[MaskedGlorotUniform.__name__] = MaskedGlorotUniform


def addons_initializers(
    config: ESN, seed: int
) -> tuple[tf.keras.initializers.Initializer, tf.keras.initializers.Initializer]:
    """Initializers of the input and of the recurrent weights of `tfa.layers.ESN`, before it rescales the latter."""
    if isinstance(config.recurrent_connectivity, int):
        raise ConfigError(
            f"recurrent_connectivity = {config.recurrent_connectivity} connections per unit with kind = 'tfa'; "
            "expected a probability, such as 0.1"
        )
    for name in ("input_scaling", "input_connectivity", "bias_scaling", "radius_of"):
        value = getattr(config, name)
        if value != getattr(ESN, name):
            raise ConfigError(f"{name} = {value!r} with kind = 'tfa', which has no such setting")
    recurrent = MaskedGlorotUniform(
        config.recurrent_connectivity,
        seed_for(seed, "reservoir", "recurrent"),
        seed_for(seed, "reservoir", "mask"),
    )
    return tf.keras.initializers.GlorotUniform(seed_for(seed, "reservoir", "input")), recurrent


def addons_layer(config: ESN, seed: int, **options: Any) -> tfa.layers.ESN:
    """`tfa.layers.ESN` itself, with weights that depend on `seed` only.

    Its recurrent connections are masked by its initializer, and its own `connectivity`
    therefore is 1: the layer's own mask would be another one each time.
    """
    kernel, recurrent = addons_initializers(config, seed)
    return tfa.layers.ESN(
        config.units,
        connectivity=1.0,
        leaky=config.leaking_rate,
        spectral_radius=config.spectral_radius,
        kernel_initializer=kernel,
        recurrent_initializer=recurrent,
        **options,
    )


def reservoir_layer(config: ESN, seed: int, **options: Any) -> tf.keras.layers.Layer:
    """The layer of a configuration: `tfa.layers.ESN` itself for kind `tfa`, else `Reservoir`."""
    if config.kind == "tfa":
        return addons_layer(config, seed, **options)
    return Reservoir.from_config_and_seed(config, seed, **options)


def weights_of(layer: Union[Reservoir, tfa.layers.ESN]) -> ReservoirWeights:
    """The weights of a layer that is built, as they are now."""
    cell = layer.cell
    own = isinstance(layer, Reservoir)
    bias = cell.bias.numpy() if own or cell.use_bias else np.zeros(cell.units)
    return ReservoirWeights(
        cell.kernel.numpy().astype(np.float32),
        cell.recurrent_kernel.numpy().astype(np.float32),
        bias.astype(np.float32),
        cell.gain.numpy().astype(np.float32) if own else np.ones(cell.units, np.float32),
        float(cell.reservoir_config.leaking_rate if own else cell.leaky),
    )
