from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tff_esn.closed_form.fedip import fedip
from tff_esn.closed_form.messages import message_bytes
from tff_esn.errors import ConfigError
from tff_esn.reservoir.esn import ESN
from tff_esn.reservoir.plasticity import Plasticity, activations, adapt, kl_divergence
from tff_esn.reservoir.weights import ReservoirWeights, draw_weights


def reservoir(units: int = 5, inputs: int = 2) -> ReservoirWeights:
    return draw_weights(ESN(units=units, leaking_rate=0.7, bias_scaling=0.1), inputs, seed=0)


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def neuron_by_neuron(
    sequences: np.ndarray, weights: ReservoirWeights, config: Plasticity
) -> tuple[np.ndarray, np.ndarray]:
    """One batch, every neuron and step for itself, in float64."""
    (n, steps, inputs), units = sequences.shape, weights.units
    gain, bias = weights.gain.astype(float), weights.bias.astype(float)
    states = np.zeros((n, units))
    bias_sum, gain_sum = np.zeros(units), np.zeros(units)
    mu, sigma, eta = config.mu, config.sigma, config.eta
    for t in range(steps):
        nets, activated = np.zeros((n, units)), np.zeros((n, units))
        for s in range(n):
            for i in range(units):
                net = sum(weights.input_kernel[j, i] * float(sequences[s, t, j]) for j in range(inputs))
                net += sum(float(weights.recurrent_kernel[j, i]) * states[s, j] for j in range(units))
                nets[s, i], activated[s, i] = net, np.tanh(gain[i] * net + bias[i])
        for i in range(units):
            of_bias, of_gain = [], []
            for s in range(n):
                h = activated[s, i]
                if config.rule == "printed":
                    delta = -((-mu / sigma**2) + (h / sigma**2 + 1 - h**2 + mu * h))
                else:
                    delta = -(-mu / sigma**2 + (h / sigma**2) * (2 * sigma**2 + 1 - h**2 + mu * h))
                of_bias.append(delta)
                of_gain.append(1 / gain[i] + delta * nets[s, i])
            if config.rule == "normalized":
                bias_sum[i] += np.mean(of_bias)
                gain_sum[i] += np.mean(of_gain)
            else:
                bias[i] += eta * np.mean(of_bias)
                gain[i] += eta * np.mean(of_gain)
        states = (1 - weights.leaking_rate) * states + weights.leaking_rate * activated
    if config.rule == "normalized":
        gain += eta * gain_sum / np.linalg.norm(gain_sum)
        bias += eta * bias_sum / np.linalg.norm(bias_sum)
    return gain, bias


@pytest.mark.parametrize("rule", ["printed", "schrauwen", "normalized"])
@pytest.mark.parametrize("mu", [0.0, 0.2])
def test_the_update_is_that_of_a_loop_over_neurons_and_steps(rule: str, mu: float) -> None:
    weights, sequences = reservoir(), noise(3, 6, 2)
    config = Plasticity(mu=mu, sigma=0.4, eta=0.02, epochs=1, batch_size=3, rule=rule)
    gain, bias = neuron_by_neuron(sequences, weights, config)
    adapted = adapt(sequences, weights, config)
    np.testing.assert_allclose(adapted.gain, gain, rtol=2e-5)
    np.testing.assert_allclose(adapted.bias, bias, rtol=2e-5, atol=2e-6)
    assert np.abs(adapted.gain - weights.gain).max() > 1e-3


def test_batches_and_epochs_follow_one_another() -> None:
    weights, sequences = reservoir(), noise(4, 6, 2)
    config = Plasticity(sigma=0.4, epochs=2, batch_size=2)
    one = replace(config, epochs=1, batch_size=4)
    expected = weights
    for rows in (slice(0, 2), slice(2, 4)) * 2:
        expected = adapt(sequences[rows], expected, one)
    adapted = adapt(sequences, weights, config)
    np.testing.assert_allclose(adapted.gain, expected.gain, rtol=1e-6)
    np.testing.assert_allclose(adapted.bias, expected.bias, rtol=1e-6)
    np.testing.assert_array_equal(adapt(sequences[:0], weights, config).gain, weights.gain)


@pytest.mark.parametrize(("rule", "eta"), [("schrauwen", 3e-4), ("normalized", 0.05)])
def test_the_divergence_from_the_gaussian_falls_over_epochs(rule: str, eta: float) -> None:
    weights, sequences = reservoir(20), noise(60, 40, 2)
    config = Plasticity(sigma=0.2, eta=eta, epochs=1, batch_size=20, rule=rule)
    divergences = [kl_divergence(activations(sequences, weights), 0.0, 0.2)]
    for _ in range(8):
        weights = adapt(sequences, weights, config)
        divergences.append(kl_divergence(activations(sequences, weights), 0.0, 0.2))
    assert all(after < before for before, after in zip(divergences, divergences[1:])), divergences
    assert divergences[-1] < 0.7 * divergences[0]


def test_the_divergence_of_a_gaussian_from_itself_is_nothing() -> None:
    values = np.random.default_rng(0).normal(0.1, 0.2, (100_000, 3))
    assert abs(kl_divergence(values, 0.1, 0.2)) < 0.01
    # Of N(0.1, 0.2) from N(0, 0.3): log(0.3 / 0.2) + (0.2^2 + 0.1^2) / (2 0.3^2) - 1 / 2.
    assert kl_divergence(values, 0.0, 0.3) == pytest.approx(np.log(1.5) + 0.05 / 0.18 - 0.5, abs=0.01)


def test_fedip_averages_by_number_of_sequences() -> None:
    weights, config = reservoir(), Plasticity(sigma=0.4, epochs=2, rounds=1)
    data = {"S2": noise(3, 6, 2), "S3": -noise(9, 6, 2), "S4": noise(0, 6, 2)}
    seen = []
    found = fedip(data, weights, config, lambda number, adapted: seen.append((number, adapted)))
    alone = [adapt(sequences, weights, config) for sequences in data.values()]
    np.testing.assert_allclose(found.weights.gain, 0.25 * alone[0].gain + 0.75 * alone[1].gain, rtol=1e-6)
    np.testing.assert_allclose(found.weights.bias, 0.25 * alone[0].bias + 0.75 * alone[1].bias, atol=1e-6)
    assert [number for number, _ in seen] == [1]
    twice = fedip(data, weights, replace(config, rounds=2))
    again = fedip(data, found.weights, config)
    np.testing.assert_allclose(twice.weights.gain, again.weights.gain, rtol=1e-6)
    assert twice.bytes_down == 2 * found.bytes_down
    assert set(twice.bytes_up.values()) == {2 * message_bytes("gains", 0, 5, value_bytes=4)}


def test_what_diverges_or_has_nothing_to_adapt_to_is_refused() -> None:
    config = Plasticity(sigma=0.005, eta=1e30, rule="schrauwen")
    with pytest.raises(ConfigError, match=r"diverged with eta = 1e\+30 and sigma = 0.005"):
        adapt(noise(3, 60, 2), reservoir(), config)
    with pytest.raises(ConfigError, match="no client has sequences"):
        fedip({"S2": noise(0, 6, 2)}, reservoir(), Plasticity())
