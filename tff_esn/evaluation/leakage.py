"""Privacy, measured: reconstruction from real messages, and accuracy against epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

import numpy as np
from numpy.typing import NDArray

from tff_esn.closed_form.central_ridge import CentralRidge
from tff_esn.closed_form.messages import Message, full_message
from tff_esn.closed_form.private_statistics import noisy, private_readout
from tff_esn.closed_form.secure_incfed import securely_summed
from tff_esn.closed_form.server import Statistics
from tff_esn.closed_form.statistics import RidgeStatistics, client_statistics, confusions, dataset_statistics
from tff_esn.console import progress
from tff_esn.datasets.federated import FederatedDataset, LabelledSequences
from tff_esn.errors import ConfigError
from tff_esn.evaluation.reconstruction import reconstruct, recovery_error
from tff_esn.metrics import Spread, spread
from tff_esn.privacy.accounting import PrivacyBudget, clip_norm, noise_deviation
from tff_esn.privacy.secure_aggregation import secure_sum
from tff_esn.readout.readout import Readout
from tff_esn.reservoir.esn import ESN
from tff_esn.reservoir.weights import ReservoirWeights, draw_weights
from tff_esn.tables import Table, text_table

#: Steps of the client before the attacked ones: not the start of its recording.
_STEPS_BEFORE = 1000


@dataclass(frozen=True)
class Leak:
    """Relative errors of the input reconstructed from a message of some states."""

    steps: int
    plain: float
    secure: float
    private: float


def leakage(data: FederatedDataset, client: str, esn: ESN, counts: Sequence[int], epsilon: float) -> list[Leak]:
    """Attacks messages of a client's first steps of a sequence.

    Args:
        data: Equally long sequences, of at least as many steps as are attacked.
        client: The client.
        esn: The reservoir, known to the server as in IncFed; its seed is that of noise and search too.
        counts: Numbers of states.
        epsilon: Of the noise, for one step, delta 1e-5.
    """
    values, label = _attacked(data, client, max(counts))
    weights, classes = draw_weights(esn, data.inputs, esn.seed), len(data.classes)
    clip = clip_norm(weights.units)
    deviation = noise_deviation(clip, PrivacyBudget(epsilon))
    leaks = []
    with progress("Reconstructing", 3 * len(counts)) as bar:
        for steps in counts:
            own = LabelledSequences(values[None, :steps], np.full((1, steps), label))
            (exact,) = client_statistics([own], classes, weights, dtype=np.float64)
            (clipped,) = client_statistics([own], classes, weights, clip=clip)
            sent = {
                "plain": exact,
                "secure": _as_seen_by_the_server(own, classes, weights),
                "private": noisy(clipped, deviation, 1, esn.seed, client),
            }
            errors = {}
            for name, statistics in sent.items():
                message = Message.decode(full_message(statistics).encode())
                errors[name] = recovery_error(reconstruct(message, weights, esn.seed).inputs, values[:steps])
                bar.advance(note=f"{steps} states, {name}")
            leaks.append(Leak(steps, **errors))
    return leaks


def _attacked(data: FederatedDataset, client: str, steps: int) -> tuple[NDArray, int]:
    """A sequence of a client, and its class."""
    own = data[client]
    if own.steps is None or own.steps < steps:
        raise ConfigError(f"{client}: sequences of {own.steps or 'different'} steps; expected at least {steps} each")
    number = _STEPS_BEFORE // own.steps
    if len(own) <= number:
        raise ConfigError(f"{client}: {len(own)} sequences of {own.steps} steps; expected more than {number}")
    return np.asarray(own.values[number]), int(np.ravel(own.labels[number])[0])


def _as_seen_by_the_server(own: LabelledSequences, classes: int, weights: ReservoirWeights) -> RidgeStatistics:
    """A masked message, taken for statistics."""
    (exact,) = client_statistics([own], classes, weights)
    vector = exact.vector
    sent = secure_sum({"own": vector, "other": vector, "third": vector}, bound=1e6).sent["own"]
    seen = sent.view(np.int64).astype(np.float64)
    # The scale of the masks says nothing: the server brings it to that of statistics.
    return exact.of_vector(seen / np.abs(seen).max() * np.abs(vector).max(), exact.samples)


def leakage_table(client: str, leaks: Sequence[Leak], epsilon: float) -> Table:
    """Errors of the reconstruction by number of states."""
    headings = ["States", "Message as sent", "Secure aggregation", f"Noise, epsilon {epsilon:g}"]
    rows = [[leak.steps, *(f"{error:.2g}" for error in (leak.plain, leak.secure, leak.private))] for leak in leaks]
    notes = ["0: perfect reconstruction. 1: no better than guessing zeros."]
    title = f"Input of {client} reconstructed from its message: relative error"
    return text_table(title, headings, rows, notes, headings)


@dataclass(frozen=True)
class PrivateAccuracy:
    """Test accuracy over seeds; epsilon is None without noise."""

    epsilon: Optional[float]
    accuracy: Spread


def private_accuracies(
    data: FederatedDataset,
    esn: ESN,
    ridge: float,
    budgets: Sequence[PrivacyBudget],
    clip_share: float,
    seeds: int,
) -> list[PrivateAccuracy]:
    """IncFed of clipped states, without noise and with that of each budget, by secure aggregation.

    Args:
        data: Its training clients train, its test clients test.
        esn: The reservoir; its seed is the first.
        ridge: lambda.
        budgets: Privacy budgets.
        clip_share: Norm to which states are clipped, as a share of sqrt(units).
        seeds: Number of seeds, of reservoir and noise.
    """
    for part in ("train", "test"):
        if not len(data.part(part).sequences) or not len(data.part(part).labels()):
            raise ConfigError(f"no sample of a {part} client; expected some")
    clip = clip_norm(esn.units, clip_share)
    deviations = [noise_deviation(clip, budget) for budget in budgets]
    accuracies: list[list[float]] = []
    with progress("Private IncFed", seeds) as bar:
        for seed in range(esn.seed, esn.seed + seeds):
            weights = draw_weights(esn, data.inputs, seed)
            clipped = dataset_statistics(data.part("train"), weights, clip=clip)
            readouts = [
                CentralRidge(esn, ridge).solve(clipped).readout,
                *(_private_readout(clipped, ridge, deviation, seed) for deviation in deviations),
            ]
            tested = data.part("test").sequences.values()
            counts = np.sum([confusions(own, len(data.classes), weights, readouts) for own in tested], axis=0)
            accuracies.append([float(np.trace(one) / one.sum()) for one in counts])
            bar.advance()
    epsilons = [None, *(budget.epsilon for budget in budgets)]
    return [PrivateAccuracy(epsilon, spread(list(own))) for epsilon, own in zip(epsilons, zip(*accuracies))]


def _private_readout(clipped: Statistics, ridge: float, deviation: float, seed: int) -> Readout:
    """The readout of a secure sum to which each client adds its share of the noise."""
    shares = {client: noisy(own, deviation, len(clipped), seed, client) for client, own in clipped.items()}
    summed, _ = securely_summed(shares, noise=deviation)
    return private_readout(summed, ridge, deviation)


def budget_table(found: Sequence[PrivateAccuracy], delta: float, protected: str) -> Table:
    """Accuracy against epsilon."""
    rows = []
    for one in found:
        deviation = "" if np.isnan(one.accuracy.std) else f" ±{100 * one.accuracy.std:.2f}"
        label = "no noise" if one.epsilon is None else f"{one.epsilon:g}"
        rows.append([label, f"{100 * one.accuracy.mean:.2f}{deviation}"])
    title = f"IncFed, test accuracy in % against epsilon of one {protected} (delta = {delta:g})"
    return text_table(title, ["epsilon", "test %"], rows, numeric=["test %"])
