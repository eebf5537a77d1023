"""Reconstruction of a client's input from its message.

The IncFed paper says the data cannot be recovered from (A_c, B_c). A client with a single state x sends
A = y x^T and B = x x^T: the only non-zero row of A reveals the label and is the state, and the input follows
from x = a tanh(g (W_in u) + b), x(0) = 0, by solving for u. With more states the server looks for inputs whose
statistics are those sent; it knows their number and the reservoir.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from tff_esn.closed_form.messages import Message
from tff_esn.errors import ConfigError
from tff_esn.reservoir.step import step
from tff_esn.reservoir.weights import ReservoirWeights
from tff_esn.seeds import generator_for

#: Closer to +-1, a float32 state cannot be distinguished from it.
_SATURATED = 1 - 1e-7
Objective = Callable[[NDArray], tuple[float, NDArray]]


@dataclass(frozen=True)
class Reconstruction:
    """A reconstructed sequence.

    Attributes:
        label: The class of the sequence.
        inputs: `(steps, inputs)`.
        misfit: Relative distance of the statistics of these inputs from those sent; None of a single state,
            which nothing is fitted to.
    """

    label: int
    inputs: NDArray[np.float64]
    misfit: float | None = None


def reconstruct_state(message: Message) -> tuple[int, NDArray[np.float64]]:
    """Label and state of a client that contributed one: the row of A that stands out, its size from B.

    A alone would do; the leading eigenvector of B says how sure it is, being +- the state.
    """
    a, b = message.rebuilt()
    label = int(np.abs(a).sum(axis=1).argmax())
    values, vectors = np.linalg.eigh(b)
    state = np.sqrt(max(values[-1], 0)) * vectors[:, -1]
    return label, state if state @ a[label] >= 0 else -state


def reconstruct_input(state: NDArray, weights: ReservoirWeights) -> NDArray[np.float64]:
    """U of x = a tanh(g (W_in u) + b): the input of a first step, by least squares over the units."""
    if weights.units < weights.inputs:
        raise ConfigError(
            f"{weights.units} units of {weights.inputs} inputs; expected as many units, to solve for them"
        )
    activation = np.clip(state / weights.leaking_rate, -_SATURATED, _SATURATED)
    drive = (np.arctanh(activation) - weights.bias) / weights.gain
    # Near +-1 the arctanh magnifies every error: such a unit says little about its drive.
    trust = 1 - activation**2
    solution = np.linalg.lstsq(weights.input_kernel.T * trust[:, None], drive * trust, rcond=None)[0]
    return np.asarray(solution, np.float64)


def reconstruct(message: Message, weights: ReservoirWeights, seed: int = 0, starts: int = 4) -> Reconstruction:
    """The inputs of a client whose message holds one sequence.

    Of a single step in closed form; of more by L-BFGS from `starts` random points, on
    |A(u) - A|^2 / |A|^2 + |B(u) - B|^2 / |B|^2, the best of them.
    """
    label, state = reconstruct_state(message)
    steps = message.samples
    if steps == 1:
        return Reconstruction(label, reconstruct_input(state, weights)[None])
    a, b = message.rebuilt()
    objective = _objective(a[label], b, weights, steps)
    random = generator_for(seed, "reconstruction")
    size = steps * weights.inputs
    found = [
        scipy.optimize.minimize(
            objective, random.normal(size=size), jac=True, method="L-BFGS-B", options={"maxiter": 2000, "maxfun": 4000}
        )
        for _ in range(starts)
    ]
    best = min(found, key=lambda result: result.fun)
    return Reconstruction(label, best.x.reshape(steps, weights.inputs), float(np.sqrt(best.fun)))


def _objective(row: NDArray, b: NDArray, weights: ReservoirWeights, steps: int) -> Objective:
    """Misfit and gradient, by back-propagation through the reservoir, in float64."""
    weights = weights.astype(np.float64)
    rate, units = weights.leaking_rate, weights.units
    row_scale, b_scale = row @ row, float((b * b).sum())

    def objective(flat: NDArray) -> tuple[float, NDArray]:
        inputs = flat.reshape(steps, -1)
        states, activations = np.zeros((steps + 1, units)), np.zeros((steps, units))
        for t in range(steps):
            _, activations[t], states[t + 1] = step(states[t], inputs[t], weights)
        own = states[1:]
        row_error, b_error = own.sum(axis=0) - row, own.T @ own - b
        value = row_error @ row_error / row_scale + float((b_error * b_error).sum()) / b_scale
        direct = 2 * row_error / row_scale + 4 * own @ b_error / b_scale
        gradient, later = np.empty_like(inputs), np.zeros(units)
        for t in reversed(range(steps)):
            of_state = direct[t] + later
            of_net = of_state * rate * (1 - activations[t] ** 2) * weights.gain
            gradient[t] = weights.input_kernel @ of_net
            later = (1 - rate) * of_state + weights.recurrent_kernel @ of_net
        return value, gradient.reshape(-1)

    return objective


def recovery_error(found: NDArray, true: NDArray) -> float:
    """|found - true| / |true|: 0 is a perfect reconstruction; 1 is the error of guessing 0."""
    return float(np.linalg.norm(found - true) / np.linalg.norm(true))
