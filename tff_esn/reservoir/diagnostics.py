"""Memory and stability of a reservoir: whether it forgets its initial state, and what it remembers of its input.

Two conditions on the weights bound the echo state property, and a run shows where between
them a reservoir lies on a given input; memory capacity and the dimension of the states
say what a readout can find in it.

References:
    Jaeger (2001a), The "echo state" approach to analysing and training recurrent neural
        networks, GMD Report 148: both conditions.
    Jaeger (2001b), Short term memory in echo state networks, GMD Report 152: memory capacity.
    Jaeger, Lukosevicius, Popovici, Siewert (2007), Optimization and applications of echo state
        networks with leaky-integrator neurons, Neural Networks 20: both conditions with leaks.
    Dambre, Verstraeten, Schrauwen, Massar (2012), Information processing capacity of dynamical
        systems, Scientific Reports 2: the bound of the capacity for several inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from tff_esn.errors import ConfigError
from tff_esn.reservoir.states import carried_states
from tff_esn.reservoir.step import step
from tff_esn.reservoir.weights import ReservoirWeights, spectral_radius
from tff_esn.seeds import generator_for

#: Two runs nearer than this have forgotten where they started.
FORGOTTEN = 1e-6
#: Distances below this are rounding.
ROUNDING = 1e-12
#: Longest delay that is asked of a memory.
MAX_DELAY = 200
#: Squared correlation from which a delayed input counts as remembered.
REMEMBERED = 0.5
#: Directions of the states with a smaller share of the largest variance are rounding, in float32.
NEGLIGIBLE_VARIANCE = 1e-13
#: Independent runs of noise that a readout is fitted on, and held out.
FITTED_RUNS, HELD_OUT_RUNS = 10, 5
#: Steps of a run before its states count, in which it forgets that it started from 0.
WASHOUT = 200


@dataclass(frozen=True)
class NecessaryCondition:
    """For echo states the linearised reservoir must not amplify: rho((1 - a) I + a diag(g) W) < 1.

    The matrix is the reservoir's derivative at x = 0 without input and bias. With a radius above
    1 the state 0 is unstable: a reservoir without bias then has no echo states for any set of
    inputs that contains 0 (Jaeger 2001a, proposition 3b; with leaks Jaeger et al. 2007). Other
    inputs may still drive it into echo states.

    Attributes:
        radius: That spectral radius.
        exact: Whether b = 0; otherwise the state 0 is no fixed point and the radius only a hint.
    """

    radius: float
    exact: bool

    @property
    def holds(self) -> bool:
        """Whether the radius is below 1."""
        return self.radius < 1


@dataclass(frozen=True)
class SufficientCondition:
    """If every step brings any two states nearer, there are echo states, whatever the input.

    tanh has slope 1 at most, so that one step multiplies distances by at most

        L = (1 - a) + a sigma_max(diag(g) W),

    below 1 exactly if the largest singular value is (Jaeger 2001a, proposition 3a; with leaks
    Jaeger et al. 2007). Many reservoirs that work do not fulfil it.

    Attributes:
        singular_value: sigma_max(diag(g) W).
        lipschitz: L.
    """

    singular_value: float
    lipschitz: float

    @property
    def holds(self) -> bool:
        """Whether distances shrink at every step."""
        return self.lipschitz < 1


@dataclass(frozen=True)
class Convergence:
    """Two runs from different random states on the same input.

    Attributes:
        distances: Euclidean distance of the two states before the first step and after each, up to
            the step at which only rounding is left.
        rate: r of the fit distance(t) = c r^t; below 1 the runs approach each other.
        forgotten_after: Steps after which the distance stays below 1e-6; None if it does not.
    """

    distances: NDArray[np.float64]
    rate: float
    forgotten_after: int | None


@dataclass(frozen=True)
class Memory:
    """How much of its past input a linear readout finds in the state (Jaeger 2001b).

        MC = sum_i sum_k r^2(u_i(t - k), w_ik x(t)),   k = 1, 2, ...

    on inputs u_i that are independent in time and of each other, with the best w_ik, on runs held
    out from their fit. At most the number of units (for several inputs, Dambre et al. 2012).

    Attributes:
        curve: r^2 at the delays 1, 2, ..., the mean over the inputs.
        capacity: MC, up to the delays in `curve`.
        horizon: The first delay at which `curve` is below 0.5; None if it is nowhere.
    """

    curve: NDArray[np.float64]
    capacity: float
    horizon: int | None


@dataclass(frozen=True)
class StateDimension:
    """How many directions the states use.

    Attributes:
        rank: Numerical rank in float32, by the rule of `numpy.linalg.matrix_rank`.
        effective: (sum_i lambda_i)^2 / sum_i lambda_i^2 of the eigenvalues of the states' covariance:
            the number of directions if all were used alike.
    """

    rank: int
    effective: float


@dataclass(frozen=True)
class Diagnosis:
    """All of the above for one reservoir."""

    necessary: NecessaryCondition
    sufficient: SufficientCondition
    convergence: Convergence
    memory: Memory
    dimension: StateDimension


def diagnose(
    weights: ReservoirWeights, series: NDArray, seed: int = 0, memory_values: NDArray | None = None
) -> Diagnosis:
    """Examines a reservoir.

    Args:
        weights: The reservoir.
        series: `(steps, inputs)`, the input that convergence and dimension are measured on.
        seed: Seed of initial states and noise.
        memory_values: As `values` of `memory_capacity`.
    """
    return Diagnosis(
        necessary_condition(weights),
        sufficient_condition(weights),
        convergence(weights, series, seed),
        memory_capacity(weights, seed, memory_values),
        state_dimension(weights, series),
    )


def linearized(weights: ReservoirWeights) -> NDArray[np.float64]:
    """The reservoir's derivative at x = 0 without input and bias, (1 - a) I + a diag(g) W."""
    rate = weights.leaking_rate
    return (1 - rate) * np.eye(weights.units) + rate * _effective_recurrent(weights)


def necessary_condition(weights: ReservoirWeights) -> NecessaryCondition:
    """Computes rho((1 - a) I + a diag(g) W)."""
    return NecessaryCondition(spectral_radius(linearized(weights)), exact=not weights.bias.any())


def sufficient_condition(weights: ReservoirWeights) -> SufficientCondition:
    """Computes sigma_max(diag(g) W) and L."""
    singular_value = float(np.linalg.norm(_effective_recurrent(weights), ord=2))
    return SufficientCondition(singular_value, 1 - weights.leaking_rate * (1 - singular_value))


def convergence(weights: ReservoirWeights, series: NDArray, seed: int = 0) -> Convergence:
    """Runs the reservoir on `series` `(steps, inputs)` from two random states, in float64."""
    _check_series(series, weights)
    precise = weights.astype(np.float64)
    states = generator_for(seed, "diagnostics", "states").uniform(-1, 1, (2, weights.units))
    distances = [float(np.linalg.norm(states[0] - states[1]))]
    for inputs in series.astype(np.float64):
        # One vector at a time: for two, a product of matrices first makes a copy of the larger one.
        states = np.stack([step(state, inputs, precise).state for state in states])
        distances.append(float(np.linalg.norm(states[0] - states[1])))
        if distances[-1] < ROUNDING:
            break
    return _summarized(np.array(distances))


def memory_capacity(weights: ReservoirWeights, seed: int = 0, values: NDArray | None = None) -> Memory:
    """Measures the memory of a reservoir, up to 2 N_x delays or 200.

    Args:
        weights: The reservoir.
        seed: Seed of the noise.
        values: `(steps, inputs)`: the noise of an input is drawn from the values in its column, so
            that it drives the reservoir as far from linearity as they do. Uniform in ± 1 by default.
    """
    delays = min(2 * weights.units, MAX_DELAY)
    # At least ten equations for each weight of a readout.
    counted = max(600, weights.units)
    random = generator_for(seed, "diagnostics", "noise")
    runs = [_noise(random, delays + WASHOUT + counted, weights, values) for _ in range(FITTED_RUNS + HELD_OUT_RUNS)]
    states = [run_states[-counted:].astype(np.float64) for run_states in carried_states(runs, weights)]
    # Row t of an input's windows: u(t - delays), ..., u(t - 1).
    delayed = [sliding_window_view(run[-counted - delays : -1], delays, axis=0) for run in runs]
    fitted, held_out = np.concatenate(states[:FITTED_RUNS]), np.concatenate(states[FITTED_RUNS:])
    centre = fitted.mean(axis=0)
    solve = _least_squares(fitted - centre)
    curves = []
    for i in range(weights.inputs):
        targets = np.concatenate([windows[:, i, ::-1] for windows in delayed]).astype(np.float64)
        readouts = solve(targets[: len(fitted)] - targets[: len(fitted)].mean(axis=0))
        curves.append(_squared_correlation((held_out - centre) @ readouts, targets[len(fitted) :]))
    curve = np.mean(curves, axis=0)
    lost = np.flatnonzero(curve < REMEMBERED)
    return Memory(curve, float(np.sum(curves)), int(lost[0]) + 1 if len(lost) else None)


def state_dimension(weights: ReservoirWeights, series: NDArray) -> StateDimension:
    """Runs the reservoir on `series` `(steps, inputs)` and decomposes the covariance of its states."""
    _check_series(series, weights)
    (states,) = carried_states([series], weights)
    # The way from 0 to where the input keeps it is no part of what it does.
    states = states[min(WASHOUT, len(states) // 2) :].astype(np.float64)
    variances = np.linalg.eigvalsh(np.cov(states, rowvar=False).reshape(weights.units, weights.units))
    if not variances[-1] > 0:
        return StateDimension(0, 0.0)
    tolerance = max(states.shape) * np.finfo(np.float32).eps
    rank = np.count_nonzero(variances > tolerance**2 * variances[-1])
    return StateDimension(int(rank), float(variances.sum() ** 2 / (variances**2).sum()))


def _effective_recurrent(weights: ReservoirWeights) -> NDArray[np.float64]:
    """diag(g) W, in float64."""
    return weights.gain[:, None].astype(np.float64) * weights.recurrent_kernel.T


def _check_series(series: NDArray, weights: ReservoirWeights) -> None:
    if series.ndim != 2 or len(series) < 2 or series.shape[1] != weights.inputs:
        raise ConfigError(f"input of shape {series.shape}; expected (at least 2 steps, {weights.inputs})")


def _summarized(distances: NDArray[np.float64]) -> Convergence:
    far = np.flatnonzero(distances >= FORGOTTEN)
    forgotten_after = int(far[-1]) + 1 if len(far) and far[-1] + 1 < len(distances) else None
    steps = np.flatnonzero(distances >= ROUNDING)
    # A reservoir without recurrent weights and leaks forgets in its first step.
    rate = float(np.exp(np.polyfit(steps, np.log(distances[steps]), 1)[0])) if len(steps) > 1 else 0.0
    return Convergence(distances, rate, forgotten_after)


def _noise(
    random: np.random.Generator, steps: int, weights: ReservoirWeights, values: NDArray | None
) -> NDArray[np.float32]:
    shape = (steps, weights.inputs)
    if values is None:
        return random.uniform(-1, 1, shape).astype(np.float32)
    _check_series(values, weights)
    rows = random.integers(0, len(values), shape)
    return np.take_along_axis(values, rows, axis=0).astype(np.float32)


def _least_squares(states: NDArray[np.float64]) -> Callable[[NDArray], NDArray]:
    """Solves for the readouts of any targets, within the directions in which `states` vary."""
    variances, directions = np.linalg.eigh(states.T @ states)
    used = variances > NEGLIGIBLE_VARIANCE * variances[-1]
    basis = directions[:, used] / np.sqrt(variances[used])
    return lambda targets: basis @ (basis.T @ (states.T @ targets))


def _squared_correlation(outputs: NDArray, targets: NDArray) -> NDArray[np.float64]:
    """Column by column; 0 where there is none or it has the wrong sign."""
    outputs, targets = outputs - outputs.mean(axis=0), targets - targets.mean(axis=0)
    covariance = (outputs * targets).sum(axis=0)
    scale = np.sqrt((outputs**2).sum(axis=0) * (targets**2).sum(axis=0))
    correlation = np.divide(covariance, scale, out=np.zeros_like(scale), where=scale > 0)
    return np.maximum(correlation, 0.0) ** 2
