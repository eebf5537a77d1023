"""Privacy, measured: reconstruction from real messages, and accuracy against epsilon."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tff_esn.closed_form.experiments import Clients
from tff_esn.closed_form.incfed import securely_summed
from tff_esn.closed_form.messages import Message, full_message
from tff_esn.closed_form.statistics import RidgeStatistics, client_statistics, ridge_confusions, ridge_statistics
from tff_esn.config import ClosedFormConfig, ReservoirConfig
from tff_esn.console import progress
from tff_esn.datasets.tables import AFFECT, FeatureTable
from tff_esn.errors import ConfigError
from tff_esn.features.windows import Sequences
from tff_esn.metrics import Spread, spread
from tff_esn.privacy.accounting import PrivacyBudget, clip_norm, noisy, private_readout, sensitivity
from tff_esn.privacy.reconstruction import reconstruct, recovery_error
from tff_esn.privacy.secure_aggregation import secure_sum
from tff_esn.reservoir.weights import ReservoirWeights, draw_weights
from tff_esn.tables import Table, text_table

#: The first of these steps after the first labelled one is where the attacked client starts.
_SAMPLES_APART = 1000


@dataclass(frozen=True)
class Leak:
    """How well a message of so many states gives the input away: relative errors of the reconstruction."""

    steps: int
    plain: float
    secure: float
    private: float


def leakage(
    table: FeatureTable, reservoir: ReservoirConfig, counts: Sequence[int], epsilon: float, seed: int
) -> list[Leak]:
    """Attacks messages of a subject's first labelled steps.

    Args:
        table: The subject's channels.
        reservoir: Known to the server, as in IncFed.
        counts: Numbers of states.
        epsilon: Of the noise, for one step, delta 1e-5.
        seed: Of reservoir, noise and search.
    """
    labelled = np.flatnonzero(AFFECT.labels(table.codes) >= 0)
    if len(labelled) < _SAMPLES_APART + max(counts):
        raise ConfigError(f"{table.subject}: {len(labelled)} labelled steps; expected {_SAMPLES_APART + max(counts)}")
    start = labelled[_SAMPLES_APART]
    weights = draw_weights(reservoir, len(table.names), seed)
    clip, budget = clip_norm(weights.units), PrivacyBudget(epsilon)
    deviation = budget.noise_multiplier * sensitivity(clip, budget)
    leaks = []
    with progress("Reconstructing", 3 * len(counts)) as bar:
        for steps in counts:
            own = Sequences(table.subject, table.names, table.values[None, start : start + steps], table.codes[[start]])
            (clipped,) = client_statistics([own], AFFECT, weights, clip=clip)
            sent = {
                "plain": ridge_statistics(own, AFFECT, weights, dtype=np.float64),
                "secure": _as_seen_by_the_server(own, weights),
                "private": noisy(clipped, deviation, 1, seed, table.subject),
            }
            errors = {}
            for name, statistics in sent.items():
                message = Message.decode(full_message(statistics).encode())
                errors[name] = recovery_error(reconstruct(message, weights, seed).inputs, own.values[0])
                bar.advance(note=f"{steps} states, {name}")
            leaks.append(Leak(steps, **errors))
    return leaks


def _as_seen_by_the_server(own: Sequences, weights: ReservoirWeights) -> RidgeStatistics:
    """A masked message, taken for statistics."""
    exact = ridge_statistics(own, AFFECT, weights)
    vector = exact.vector
    sent = secure_sum({"own": vector, "other": vector, "third": vector}, bound=1e6).sent["own"]
    seen = sent.view(np.int64).astype(np.float64)
    # The scale of the masks says nothing: the server brings it to that of statistics.
    return exact.of_vector(seen / np.abs(seen).max() * np.abs(vector).max(), exact.samples)


def leakage_table(subject: str, leaks: Sequence[Leak], epsilon: float) -> Table:
    """Errors of the reconstruction by number of states."""
    headings = ["States", "Message as sent", "Secure aggregation", f"Noise, epsilon {epsilon:g}"]
    rows = [[leak.steps, *(f"{error:.2g}" for error in (leak.plain, leak.secure, leak.private))] for leak in leaks]
    notes = ["0: the recording itself. 1: no better than guessing zeros."]
    title = f"Input of {subject} reconstructed from its message: relative error"
    return text_table(title, headings, rows, notes, headings)


@dataclass(frozen=True)
class PrivateAccuracy:
    """Test accuracy over repetitions; epsilon is None without noise."""

    epsilon: float | None
    accuracy: Spread


def private_accuracies(
    clients: Clients,
    config: ClosedFormConfig,
    epsilons: Sequence[float],
    delta: float,
    unit_steps: int,
    clip_share: float,
    seed: int,
) -> list[PrivateAccuracy]:
    """IncFed with all training clients, without noise and with that of each epsilon, by secure aggregation."""
    budgets = {epsilon: PrivacyBudget(epsilon, delta, unit_steps) for epsilon in epsilons}
    (method,) = config.methods
    split, clip = clients.part(max(config.percent)), clip_norm(method.reservoir.units, clip_share)
    deviations = {epsilon: own.noise_multiplier * sensitivity(clip, own) for epsilon, own in budgets.items()}
    right: dict[float | None, list[float]] = {epsilon: [] for epsilon in (None, *epsilons)}
    with progress("Private IncFed", config.repetitions) as bar:
        for repetition in range(seed, seed + config.repetitions):
            weights = draw_weights(method.reservoir, clients.inputs, repetition)
            sequences = (clients.sequences[name] for name in split.train)
            exact = dict(zip(split.train, client_statistics(sequences, clients.task, weights, clip=clip)))
            readouts = [sum(list(exact.values())[1:], next(iter(exact.values()))).solve(method.ridge)]
            for epsilon in epsilons:
                summed = _secure_noisy_sum(exact, deviations[epsilon], repetition)
                readouts.append(private_readout(summed, method.ridge, deviations[epsilon]))
            counts = [ridge_confusions(clients.sequences[name], clients.task, weights, readouts) for name in split.test]
            for values, confusion in zip(right.values(), np.sum(counts, axis=0)):
                values.append(float(np.trace(confusion) / confusion.sum()))
            bar.advance()
    return [PrivateAccuracy(epsilon, spread(values)) for epsilon, values in right.items()]


def _secure_noisy_sum(exact: dict[str, RidgeStatistics], deviation: float, seed: int) -> RidgeStatistics:
    shares = {name: noisy(own, deviation, len(exact), seed, name) for name, own in exact.items()}
    summed, _ = securely_summed(shares, noise=deviation)
    return summed


def budget_table(found: Sequence[PrivateAccuracy], delta: float, protected: str) -> Table:
    """Accuracy against epsilon."""
    rows = []
    for one in found:
        deviation = "" if math.isnan(one.accuracy.std) else f" ±{100 * one.accuracy.std:.2f}"
        label = "no noise" if one.epsilon is None else f"{one.epsilon:g}"
        rows.append([label, f"{100 * one.accuracy.mean:.2f}{deviation}"])
    title = f"IncFed, test accuracy in % against epsilon of one {protected} (delta = {delta:g})"
    return text_table(title, ["epsilon", "test %"], rows, numeric=["test %"])
