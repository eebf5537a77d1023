"""A reservoir's weights, drawn once from a seed and rescaled to a spectral radius.

    x(t) = (1 - a) x(t-1) + a tanh(g * (W_in u(t) + W x(t-1)) + b)      (Jaeger et al. 2007; thesis definition 2.1.4)

has echo states only if rho((1 - a) I + a W) < 1, and on any input if the largest singular value of W is below 1
(Jaeger 2001); `tff_esn.reservoir.diagnostics` checks both. Gains g and biases b are those of intrinsic plasticity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Union

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, spmatrix
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackError, eigs

from tff_esn.console import log
from tff_esn.errors import ConfigError
from tff_esn.reservoir.esn import ESN
from tff_esn.seeds import generator_for

#: Up to this many units, computing all eigenvalues is as fast as computing the largest.
DENSE_UNITS = 500
#: Eigenvalues asked of ARPACK and its basis. A random matrix has many eigenvalues of nearly
#: the largest modulus; with a small basis ARPACK needs many restarts, or settles on the wrong ones.
RITZ_VALUES, RITZ_VECTORS = 6, 120
#: Below this share of connections a product with a sparse matrix is the faster one.
SPARSE_SHARE = 0.25
#: `tfa.layers.ESN` finds eigenvalues in float32; a radius further from the wanted one was none.
ADDONS_TOLERANCE = 1e-3


@dataclass(frozen=True)
class ReservoirWeights:
    """The weights of a reservoir.

    Attributes:
        input_kernel: `(inputs, units)`, the transpose of W_in.
        recurrent_kernel: `(units, units)`, the transpose of W.
        bias: `(units,)`, b.
        gain: `(units,)`, g.
        leaking_rate: a.
    """

    input_kernel: NDArray[np.float32]
    recurrent_kernel: NDArray[np.float32]
    bias: NDArray[np.float32]
    gain: NDArray[np.float32]
    leaking_rate: float

    @property
    def inputs(self) -> int:
        """Number of inputs, N_u."""
        return len(self.input_kernel)

    @property
    def units(self) -> int:
        """Number of units, N_x."""
        return len(self.recurrent_kernel)

    @cached_property
    def stacked_kernel(self) -> NDArray[np.float32]:
        """`(units + inputs, units)`, recurrent above input kernel: one product is W x + W_in u. Not to be changed."""
        return np.concatenate((self.recurrent_kernel, self.input_kernel))

    def astype(self, dtype: type[np.floating]) -> ReservoirWeights:
        """The reservoir with arrays of another precision."""
        names = ("input_kernel", "recurrent_kernel", "bias", "gain")
        return replace(self, **{name: getattr(self, name).astype(dtype) for name in names})


def draw_weights(config: ESN, inputs: int, seed: int) -> ReservoirWeights:
    """Draws a reservoir: the same configuration, inputs and seed give the same weights.

    Kind `esn`: W_in is uniform in ± input_scaling, W uniform in ± 1, both masked by their
    connectivity, b uniform in ± bias_scaling and g = 1. W is then rescaled to rho:

        W <- W rho / rho(W)                                         radius_of = recurrent
        W <- (M rho / rho(M) - (1 - a) I) / a, M = (1 - a) I + a W  radius_of = leaky

    so that under `leaky` every unit has a connection to itself besides those drawn.
    Kind `tfa`: what `tfa.layers.ESN` draws, under this seed.

    Args:
        config: The reservoir. An input connectivity of more than `inputs` connections means
            all inputs, because the IncFed paper's search spaces go to 60 with 8 inputs.
        inputs: Number of inputs.
        seed: Seed of every random choice; input, recurrent and bias weights have streams of their own.

    Raises:
        ConfigError: More recurrent connections per unit than there are units; connections so few
            that no unit is part of a cycle, which leaves W no eigenvalue but 0; or a
            setting that `tfa.layers.ESN` does not have.
    """
    if inputs < 1:
        raise ConfigError(f"a reservoir of {inputs} inputs; expected at least 1")
    if config.spectral_radius >= 1:
        log.warning(
            "spectral radius %g: the echo state property is not guaranteed from 1 upwards", config.spectral_radius
        )
    return _draw_like_addons(config, inputs, seed) if config.kind == "tfa" else _draw_uniform(config, inputs, seed)


def spectral_radius(matrix: Union[NDArray, spmatrix]) -> float:
    """The largest absolute eigenvalue, rho(W) = max_i |lambda_i(W)|, to 1e-6 relative or better.

    The eigenvalues are those of the strongly connected parts of the matrix's graph. Taken
    apart, a matrix without cycles has exactly radius 0, where rounding would turn an
    eigenvalue of multiplicity m into ones of size eps^(1/m).
    """
    rows, columns = matrix.shape
    if rows != columns:
        raise ValueError(f"a matrix of shape ({rows}, {columns}); expected a square one")
    graph = csr_matrix(matrix, dtype=np.float64, copy=True)
    graph.eliminate_zeros()
    parts, part_of_unit = connected_components(graph, directed=True, connection="strong")
    if parts == 1:
        return _connected_radius(graph)
    sizes = np.bincount(part_of_unit)
    alone = sizes[part_of_unit] == 1
    radius = float(np.abs(graph.diagonal()[alone]).max(initial=0.0))
    for part in np.flatnonzero(sizes > 1):
        units = np.flatnonzero(part_of_unit == part)
        radius = max(radius, _connected_radius(graph[units][:, units]))
    return radius


def _connected_radius(matrix: csr_matrix) -> float:
    units = matrix.shape[0]
    if units > DENSE_UNITS:
        operator = matrix if matrix.nnz < SPARSE_SHARE * units**2 else matrix.toarray()
        # ARPACK's own start is random, and with it the last digits.
        start = np.random.default_rng(0).uniform(-1, 1, units)
        try:
            values = eigs(operator, RITZ_VALUES, ncv=RITZ_VECTORS, v0=start, return_eigenvectors=False)
            return float(np.abs(values).max())
        except ArpackError:
            log.debug("ARPACK did not converge on %d units; computing all eigenvalues", units)
    return float(np.abs(np.linalg.eigvals(matrix.toarray())).max())


def _draw_uniform(config: ESN, inputs: int, seed: int) -> ReservoirWeights:
    units = config.units
    if isinstance(config.recurrent_connectivity, int) and config.recurrent_connectivity > units:
        raise ConfigError(
            f"recurrent_connectivity = {config.recurrent_connectivity} connections per unit; "
            f"expected at most {units}, the number of units"
        )
    random = generator_for(seed, "reservoir", "input")
    kernel = config.input_scaling * random.uniform(-1, 1, (inputs, units))
    connected = config.input_connectivity
    kernel *= _connections(min(connected, inputs) if isinstance(connected, int) else connected, kernel.shape, random)
    random = generator_for(seed, "reservoir", "recurrent")
    recurrent = random.uniform(-1, 1, (units, units))
    recurrent *= _connections(config.recurrent_connectivity, recurrent.shape, random)
    random = generator_for(seed, "reservoir", "bias")
    bias = config.bias_scaling * random.uniform(-1, 1, units)
    return ReservoirWeights(
        kernel.astype(np.float32),
        _rescaled(recurrent, config).astype(np.float32),
        bias.astype(np.float32),
        np.ones(units, np.float32),
        config.leaking_rate,
    )


def _connections(connectivity: Union[int, float], shape: tuple[int, ...], random: np.random.Generator) -> NDArray:
    """Which of the sources (rows) reach which units (columns)."""
    chance = random.random(shape)
    if isinstance(connectivity, float):
        return chance < connectivity
    connected = np.zeros(shape, bool)
    chosen = np.argpartition(chance, connectivity - 1, axis=0)[:connectivity]
    np.put_along_axis(connected, chosen, True, axis=0)
    return connected


def _rescaled(recurrent: NDArray, config: ESN) -> NDArray:
    rate = config.leaking_rate if config.radius_of == "leaky" else 1.0
    retained = (1 - rate) * np.eye(len(recurrent))
    matrix = retained + rate * recurrent
    radius = spectral_radius(matrix)
    if not radius > 0:
        raise _no_cycle(config)
    # An eigenvalue's last digits depend on the number of BLAS threads; the weights must not.
    scale = float(f"{config.spectral_radius / radius:.10e}")
    return (scale * matrix - retained) / rate


def _no_cycle(config: ESN) -> ConfigError:
    return ConfigError(
        f"recurrent_connectivity = {config.recurrent_connectivity} left {config.units} units without a cycle, "
        f"and no scaling gives them spectral radius {config.spectral_radius:g}; expected more connections"
    )


def _draw_like_addons(config: ESN, inputs: int, seed: int) -> ReservoirWeights:
    # TensorFlow is loaded for this kind only.
    import tensorflow as tf

    from tff_esn.reservoir.layer import addons_initializers

    # Eagerly, although the asking layer may be built inside a graph, as in a TFF computation. A
    # `tfa.layers.ESN` cannot be made here then: Keras's classes are of one mode at a time.
    with tf.__internal__.eager_context.eager_mode():
        input_initializer, recurrent_initializer = addons_initializers(config, seed)
        kernel = input_initializer((inputs, config.units))
        recurrent = recurrent_initializer((config.units, config.units))
        # In float32 and by these operations, as `tfa.rnn.ESNCell` rescales.
        radius = tf.reduce_max(tf.abs(tf.linalg.eig(recurrent)[0]))
        recurrent = (recurrent * tf.math.divide_no_nan(config.spectral_radius, radius)).numpy()
    # Of a matrix that has no radius but 0, a rounding error was taken for it.
    if abs(spectral_radius(recurrent) / config.spectral_radius - 1) > ADDONS_TOLERANCE:
        raise _no_cycle(config)
    units = config.units
    return ReservoirWeights(
        kernel.numpy(), recurrent, np.zeros(units, np.float32), np.ones(units, np.float32), config.leaking_rate
    )
