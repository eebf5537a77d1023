"""Errata of readouts in closed form: thesis appendix B, and the IncFed, FedIP and pFedRR papers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tff_esn.closed_form.averaging import AveragedRidge
from tff_esn.closed_form.central_ridge import CentralRidge
from tff_esn.closed_form.incfed import IncFed
from tff_esn.closed_form.messages import block_message, columns_message, full_message, message_bytes
from tff_esn.closed_form.selection import importance, squared_importance, threshold_units, top_units
from tff_esn.closed_form.statistics import RidgeStatistics
from tff_esn.evaluation.reconstruction import reconstruct, recovery_error
from tff_esn.reservoir.plasticity import Plasticity, activations, adapt, kl_divergence
from tff_esn.reservoir.states import last_states
from tff_esn.runs.errata.catalogue import Evidence, Source, erratum, evidence
from tff_esn.seeds import generator_for

_RIDGE = 1.0


def _apart(found: NDArray, true: NDArray) -> float:
    return float(np.linalg.norm(found - true) / np.linalg.norm(true))


@erratum(
    "equivalent-aggregate",
    "thesis, chapter 7, and slides, “Conclusions”",
    says="ESNs suit a federation “because, from the mathematically point of view, the aggregated model is the same of "
    "the model learned using the whole dataset”; “The only parameters exchanged among nodes are the *readout* "
    "weights”.",
    correction="The first holds for IncFed, which sends A and B; the second for FedAvg, which is not equivalent.",
    changes="The thesis's federated experiments average readouts: no equivalence holds for them.",
)
def equivalent_aggregate(source: Source) -> Evidence:
    """Only the sums of A and B give the readout of all the data; the mean of readouts does not."""
    everything, *others = (
        algorithm(ridge=_RIDGE).solve(source.statistics).readout.kernel
        for algorithm in (CentralRidge, IncFed, AveragedRidge)
    )
    summed, averaged = (_apart(own, everything) for own in others)
    return evidence(
        summed < 1e-6 < averaged,
        "relative distance from the readout of all data in one place",
        f"  IncFed, sums of A and B  {'below 1e-6' if summed < 1e-6 else f'{summed:.4f}'}",
        f"  mean of readouts         {averaged:.4f}",
    )


@erratum(
    "likelihood-sign",
    "thesis, equation B.5 (and pFedRR paper, equation 3)",
    says="ℒ(W) = −½ log(2πσ²) − (−(Y_i − W S_i)²) / (2σ²): two minus signs.",
    correction="One: −(Y_i − W S_i)² / (2σ²), as equation B.6 then has it.",
    changes="None: the Hessian that is used has the right sign.",
)
def likelihood_sign(source: Source) -> Evidence:
    """As printed a larger error is more likely."""

    def likelihood(error: float, sign: float) -> float:
        return -0.5 * np.log(2 * np.pi) + sign * error**2 / 2

    rows = {
        name: [likelihood(error, sign) for error in (0.0, 3.0)] for name, sign in (("printed", 1.0), ("meant", -1.0))
    }
    return evidence(
        rows["printed"][1] > rows["printed"][0] and rows["meant"][1] < rows["meant"][0],
        "log-likelihood of an error of 0 and of 3, with sigma = 1",
        *(f"  as {name:8} {zero:+.4f}  {three:+.4f}" for name, (zero, three) in rows.items()),
    )


@erratum(
    "states-transposed",
    "thesis, equation B.10",
    says="“if S^T = (S_1, S_2, …, S_n), F can be written as S S^T / σ²”.",
    correction="S = (S_1, …, S_n), one state a column.",
    changes="None.",
)
def states_transposed(source: Source) -> Evidence:
    """With the states as columns of Sᵀ the product has a row for each sample, not for each unit."""
    states = generator_for(0, "errata", "states").normal(size=(7, 3))
    printed, meant = states @ states.T, states.T @ states
    total = np.sum([np.outer(state, state) for state in states], axis=0)
    return evidence(
        printed.shape != total.shape and np.allclose(meant, total),
        f"7 states of 3 units: sum of S_i S_i^T {total.shape}, "
        f"S S^T as printed {printed.shape}, as meant {meant.shape}",
    )


@erratum(
    "signed-importance",
    "thesis, equations B.12 and B.15",
    says="I = B 1 “represents how much each neuron is correlated with all the others neurons”.",
    correction="Squares, as the later pFedRR paper takes them (equation 5).",
    changes="Importances of correlations with opposite signs cancel; which units are sent depends on the sign in "
    "which a unit happens to be drawn.",
)
def signed_importance(source: Source) -> Evidence:
    """Turning the sign of a unit changes no readout's answers, but which units count as important."""
    b = next(iter(source.statistics.values())).b
    half = len(b) // 2
    signs = np.where(np.arange(len(b)) % 2, -1.0, 1.0)
    turned = signs[:, None] * b * signs
    kept = {
        name: len(set(top_units(of(b), half)) & set(top_units(of(turned), half)))
        for name, of in (("B 1", importance), ("sum of squares", squared_importance))
    }
    return evidence(
        kept["B 1"] < half == kept["sum of squares"],
        f"of the {half} most important units, with every second unit's sign turned, remain",
        *(f"  {name:15} {count}" for name, count in kept.items()),
    )


@erratum(
    "asymmetric-b",
    "thesis, equation B.16 and B.17",
    says="B*_c = B_c × [I × (1 ⊗ 1_S)]: the columns of B are masked, and equation B.4 solves with the sum.",
    correction="As printed it is solved as a general system (`solve_general`); pFedRR masks rows and columns.",
    changes="B is no Gram matrix any more. On the real recordings the readout is 12 to 18 points worse than IncFed's "
    "(`tff-esn reproduce table-b-3`).",
)
def asymmetric_b(source: Source) -> Evidence:
    """The sum of B with masked columns is not symmetric; with masked rows and columns it is."""
    messages = {"columns": columns_message, "block": block_message}
    skew = {}
    for kind, compress in messages.items():
        b = np.zeros((source.reservoir.units,) * 2)
        for own in source.statistics.values():
            b += compress(own, top_units(importance(own.b), own.units // 2)).rebuilt()[1]
        skew[kind] = float(np.abs(b - b.T).max() / np.abs(b).max())
    return evidence(
        skew["columns"] > 0 and skew["block"] == 0,
        "largest |B − Bᵀ|, relative to the largest |B|",
        f"  columns masked (equation B.16)  {skew['columns']:.4f}",
        f"  rows and columns (pFedRR)       {skew['block']:.4f}",
    )


@erratum(
    "sixty-percent",
    "thesis, section B.3, last paragraph",
    says="“k(1 + N_x)” values; with k = N_x / 2 “reduces the client floating-point values transmission by ∼ 60%”.",
    correction="k(N_y + N_x) values, 50 % of all of A and B, before the indices. B is symmetric: IncFed itself needs "
    "half of it.",
    changes="Against IncFed with half of B, Partial IncFed with k = N_x / 2 saves 1 %.",
)
def sixty_percent(source: Source) -> Evidence:
    """Half of the columns of A and B are half of the values, and as many as IncFed sends of a symmetric B."""
    outputs, units = 4, 500
    everything = 8 * units * (outputs + units)
    sent = {
        "IncFed, A and all of B": everything,
        "IncFed, A and half of B": message_bytes("full", outputs, units),
        "Partial IncFed, k = 250": message_bytes("columns", outputs, units, units // 2),
    }
    saved = {name: 1 - size / everything for name, size in sent.items()}
    return evidence(
        abs(saved["Partial IncFed, k = 250"] - 0.5) < 0.01,
        f"bytes a client sends, {units} units, {outputs} classes",
        *(f"  {name:24} {size:9d}   saved {100 * saved[name]:5.1f} %" for name, size in sent.items()),
    )


@erratum(
    "averaging-weights",
    "IncFed paper, equation 5",
    says="W = Σ_c (1 / N_train,c) W_c.",
    correction='`averaging = "N_c/N"`.',
    changes="As printed the readout is near 0 and small clients count most; an argmax does not see the first.",
)
def averaging_weights(source: Source) -> Evidence:
    """The weights 1 / N_c do not sum to one, and give most to who has least."""
    counts = np.array([own.samples for own in source.statistics.values()])
    printed, meant = AveragedRidge(ridge=_RIDGE, averaging="1/N_c"), AveragedRidge(ridge=_RIDGE)
    sizes = [float(np.linalg.norm(own.solve(source.statistics).readout.kernel)) for own in (printed, meant)]
    return evidence(
        (1 / counts).sum() < 0.01 and sizes[0] < 0.01 * sizes[1],
        f"sum of 1 / N_c over {len(counts)} clients: {(1 / counts).sum():.5f}; of N_c / N: 1",
        f"norm of the averaged readout: printed {sizes[0]:.5f}, meant {sizes[1]:.5f}",
    )


@erratum(
    "per-client-beta",
    "IncFed paper, equations 7 to 10 (thesis, equation 2.20)",
    says="B_c = S_c S_cᵀ + β_c I at every client; “(10) is mathematically equivalent to (3)”.",
    correction='`regularization = "once"`, as thesis equation B.4 and the slides have it.',
    changes="As printed the regularisation grows with the number of clients; equal to equation 3 for |C| β.",
)
def per_client_beta(source: Source) -> Evidence:
    """The sum carries the regularisation as many times as there are clients."""
    clients = len(source.statistics)
    printed = IncFed(ridge=_RIDGE, regularization="per_client").solve(source.statistics).readout.kernel
    together = [CentralRidge(ridge=factor * _RIDGE).solve(source.statistics) for factor in (1, clients)]
    distances = [_apart(printed, own.readout.kernel) for own in together]
    return evidence(
        distances[1] < 1e-6 < distances[0],
        f"distance of IncFed as printed, {clients} clients, from all data in one place",
        f"  with beta      {distances[0]:.2e}",
        f"  with {clients} x beta  {'below 1e-6' if distances[1] < 1e-6 else f'{distances[1]:.2e}'}",
    )


@erratum(
    "data-recovered",
    "IncFed paper, section III",
    says="“it is *not possible to recover it* from the transferred matrices”; the server “is still unable to recover "
    "the original training data”.",
    correction="Secure aggregation, or noise: `tff-esn privacy reconstruct DIR`, `tff-esn privacy budget DIR`.",
    changes="None in the accuracies; the privacy claim does not hold for clients with few states.",
)
def data_recovered(source: Source) -> Evidence:
    """A client with one state x sends x xᵀ and y xᵀ: label, state and input are read off."""
    name = source.split.train[0]
    own = source.data[name]
    inputs = np.asarray(own.values)[:1, -1:].astype(np.float64)
    state = last_states(inputs, source.reservoir)
    label = int(own.labels[0])
    message = full_message(RidgeStatistics.of(state, np.eye(2)[[label]]))
    found = reconstruct(message, source.reservoir)
    error = recovery_error(found.inputs, inputs[0])
    return evidence(
        found.label == label and error < 1e-3,
        f"one step of {name}: relative error of the reconstructed input "
        f"{'below 1e-3' if error < 1e-3 else f'{error:.2g}'}, its label found: {found.label == label}",
    )


@erratum(
    "intrinsic-plasticity",
    "FedIP paper, equation 2",
    says="Δb = −η((−μ/σ²) + (x̃/σ² + 1 − x̃² + μx̃)).",
    correction="Δb = −η(−μ/σ² + (x̃/σ²)(2σ² + 1 − x̃² + μx̃)) (Schrauwen et al. 2008): "
    '`plasticity.rule = "schrauwen"`, or `"normalized"` as in the authors\' code.',
    changes="As printed activations rest at −σ²: at most 0.02 off with the paper's σ below 0.15. The authors' public "
    "code has (x̃/σ²)(2σ² + 1 − x̃² − μx̃) for b, which is right with their μ = 0.",
)
def intrinsic_plasticity(source: Source) -> Evidence:
    """With mu = 0 the printed rule does not rest at a mean activation of 0 but of -sigma^2."""
    sequences = generator_for(0, "errata", "plasticity").uniform(-1, 1, (20, 200, source.reservoir.inputs))
    config = Plasticity(mu=0.0, sigma=0.3, eta=0.001, epochs=20, batch_size=20)
    lines, means = [], {}
    for rule in (None, "printed", "schrauwen"):
        weights = source.reservoir if rule is None else adapt(sequences, source.reservoir, replace(config, rule=rule))
        active = activations(sequences, weights)
        means[rule] = float(active.mean())
        divergence = kl_divergence(active, config.mu, config.sigma)
        lines.append(f"  {rule or 'not adapted':12} mean {means[rule]:+.3f}   divergence {divergence:6.3f}")
    rest = -(config.sigma**2)
    return evidence(
        abs(means["printed"] / rest - 1) < 0.2 and abs(means["schrauwen"]) < 0.2 * config.sigma**2,
        f"activations, to follow a Gaussian of mean {config.mu:g} and deviation {config.sigma:g}; "
        f"-sigma^2 is {rest:.3f}",
        *lines,
    )


@erratum(
    "last-neuron",
    "pFedRR paper, after equation 5 (and equation 5 itself)",
    says="S = {i | 0 ≤ i < N_x − 1; I_i > (1 − τ)}; the sum of equation 5 runs from j = 0 to N_x.",
    correction='`last_unit = "kept"`: 0 ≤ i ≤ N_x − 1, and the sum ends at N_x − 1.',
    changes="One unit of 1000 is never selected; the sum has a term more than B has columns.",
)
def last_neuron(source: Source) -> Evidence:
    """Counting from 0, the set leaves out the last neuron however important it is."""
    b = np.diag([1.0, 2.0, 3.0, 9.0])
    found = {last: threshold_units(b, 0.99, last).tolist() for last in ("dropped", "kept")}
    return evidence(
        3 not in found["dropped"] and 3 in found["kept"],
        "four units of growing importance, tau = 0.99, selected",
        f"  as printed  {found['dropped']}",
        f"  as meant    {found['kept']}",
    )
