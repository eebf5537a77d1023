"""Intrinsic plasticity: gains and biases under which a unit's activation follows a Gaussian.

A unit computes h = tanh(g net + b), net = W_in u(t) + W x(t-1), x leaking from h. The rule descends the
Kullback-Leibler divergence of h from a Gaussian of mean mu and deviation sigma (Schrauwen et al. 2008):

    db = -eta (-mu / sigma^2 + h / sigma^2 (2 sigma^2 + 1 - h^2 + mu h))
    dg = eta / g + db net

FedIP's equation 2 prints the first line as -eta (-mu / sigma^2 + h / sigma^2 + 1 - h^2 + mu h).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass

from tff_esn.errors import ConfigError
from tff_esn.parameters import STRICT, Parameters, PositiveFloat, PositiveInt
from tff_esn.reservoir.step import step
from tff_esn.reservoir.weights import ReservoirWeights

#: Bins of [-1, 1] that the entropy of activations is estimated on.
BINS = 100
#: With gains and biases beyond, a unit is a switch: they grew out of bounds.
BOUND = 1e3


@dataclass(frozen=True, repr=False, config=STRICT)
class Plasticity(Parameters):
    """Intrinsic plasticity of a reservoir's gains and biases (FedIP paper, Table 1).

    Attributes:
        mu: Mean of the Gaussian that a unit's activation should follow.
        sigma: Standard deviation of that Gaussian.
        eta: Learning rate; under `normalized` the length of a step.
        epochs: Passes over a client's data per round, E.
        rounds: Rounds of averaging over the clients.
        batch_size: Sequences that run together; one update is their mean.
        rule: Update rule. `printed`: equation 2 of the FedIP paper as printed; `schrauwen`: gradient descent on the KL
            divergence, step by step; `normalized`: the authors' code, gradients summed over time, averaged over
            sequences and divided by their norm over the units.
    """

    mu: Annotated[float, Field(gt=-1, lt=1)] = 0.0
    sigma: PositiveFloat = 0.1
    eta: PositiveFloat = 0.01
    epochs: PositiveInt = 3
    rounds: PositiveInt = 1
    batch_size: PositiveInt = 100
    rule: Literal["printed", "schrauwen", "normalized"] = "normalized"


def bias_gradient(activation: NDArray, config: Plasticity) -> NDArray:
    """The direction of b's update at each activation h: db / eta."""
    mu, variance, h = np.float32(config.mu), np.float32(config.sigma**2), activation
    if config.rule == "printed":
        return mu / variance - (h / variance + 1 - h * h + mu * h)
    # mu / sigma^2 - h / sigma^2 (2 sigma^2 + 1 + mu h - h^2), in as few passes as it takes.
    result = mu - h
    result *= h
    result += 2 * variance + 1
    result *= h
    result /= -variance
    if mu:
        result += mu / variance
    return result


def adapt(sequences: NDArray, weights: ReservoirWeights, config: Plasticity) -> ReservoirWeights:
    """Runs `config.epochs` passes over sequences `(n, steps, inputs)` and returns the reservoir adapted.

    The sequences of a batch run together. `printed` and `schrauwen` move gain and bias at every step, by the
    mean over the batch; `normalized` once a batch, by the gradients' sum over time and mean over sequences,
    each divided by its norm over the units. Without sequences nothing moves.

    Raises:
        ConfigError: Gains or biases grew out of bounds: the learning rate is too high for sigma.
    """
    gain, bias = weights.gain.astype(np.float32), weights.bias.astype(np.float32)
    update = _normalized if config.rule == "normalized" else _step_by_step
    # An overflow is reported below, as divergence.
    with np.errstate(all="ignore"):
        for _ in range(config.epochs):
            for start in range(0, len(sequences), config.batch_size):
                batch = sequences[start : start + config.batch_size]
                gain, bias = update(batch, replace(weights, gain=gain, bias=bias), config)
    if not (np.abs(gain) < BOUND).all() or not (np.abs(bias) < BOUND).all():
        raise ConfigError(
            f"intrinsic plasticity diverged with eta = {config.eta:g} and sigma = {config.sigma:g} "
            f"(rule {config.rule}); expected a lower eta"
        )
    return replace(weights, gain=gain, bias=bias)


def kl_divergence(activations: NDArray, mu: float, sigma: float) -> float:
    """KL divergence of activations `(..., units)` from a Gaussian, their entropy estimated on bins: mean over units."""
    units = activations.shape[-1]
    values = activations.reshape(-1, units)
    places = np.clip(((values + 1) * (BINS / 2)).astype(np.int64), 0, BINS - 1) + BINS * np.arange(units)
    shares = np.bincount(places.ravel(), minlength=BINS * units).reshape(units, BINS) / len(values)
    logs = np.log(shares * (BINS / 2), out=np.zeros_like(shares), where=shares > 0)
    entropy = -(shares * logs).sum(axis=1)
    energy = ((values - mu) ** 2).mean(axis=0) / (2 * sigma**2) + np.log(sigma * np.sqrt(2 * np.pi))
    return float((energy - entropy).mean())


def activations(sequences: NDArray, weights: ReservoirWeights) -> NDArray[np.float32]:
    """The activations h of every step, `(n, steps, units)`."""
    return np.stack([activation for _, activation in _run(sequences, weights)], axis=1)


def _run(sequences: NDArray, weights: ReservoirWeights) -> Iterator[tuple[NDArray, NDArray]]:
    """Net input and activation `(n, units)` after each step; gain and bias may be changed in place between steps."""
    state = np.zeros((len(sequences), weights.units), np.float32)
    for t in range(sequences.shape[1]):
        net, activation, state = step(state, sequences[:, t].astype(np.float32), weights)
        yield net, activation


def _step_by_step(
    batch: NDArray, weights: ReservoirWeights, config: Plasticity
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    moving = replace(weights, gain=weights.gain.copy(), bias=weights.bias.copy())
    eta = np.float32(config.eta)
    for net, activation in _run(batch, moving):
        gradient = bias_gradient(activation, config)
        moving.bias[:] += eta * gradient.mean(axis=0)
        moving.gain[:] += eta / moving.gain + eta * (gradient * net).mean(axis=0)
    return moving.gain, moving.bias


def _normalized(
    batch: NDArray, weights: ReservoirWeights, config: Plasticity
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    of_bias, of_gain = np.zeros(weights.units), np.zeros(weights.units)
    for net, activation in _run(batch, weights):
        gradient = bias_gradient(activation, config)
        of_bias += gradient.mean(axis=0)
        of_gain += 1 / weights.gain + np.einsum("nu,nu->u", gradient, net) / len(net)
    gain = weights.gain + config.eta * _unit_length(of_gain)
    bias = weights.bias + config.eta * _unit_length(of_bias)
    return gain.astype(np.float32), bias.astype(np.float32)


def _unit_length(gradient: NDArray) -> NDArray:
    norm = np.linalg.norm(gradient)
    return gradient / norm if norm > 0 else gradient
