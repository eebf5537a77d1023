"""Errata of the algorithms that learn by gradients: thesis chapters 2 to 4, and the slides."""

from __future__ import annotations

from dataclasses import replace
from inspect import Parameter, Signature
from typing import Any

import numpy as np
import tensorflow as tf

from tff_esn.federated.fedcurv import Curvature, CurvatureObjective, CurvatureSwitches, fisher_diagonal, penalty_of
from tff_esn.federated.training.discriminator import TrainedDefence
from tff_esn.federated.training.experiment import FederatedExperiment
from tff_esn.readout.readout import initial_readout
from tff_esn.readout.training import Batch, batches_of, cross_entropy, cross_entropy_gradient, with_ones
from tff_esn.reservoir.samples import client_samples
from tff_esn.runs.errata.catalogue import SMALL_ESN, Evidence, Source, erratum, evidence
from tff_esn.runs.presets import algorithm_of
from tff_esn.seeds import generator_for

_MEANT = CurvatureSwitches()


def _with(**switches: Any) -> CurvatureSwitches:
    """FedCurv as meant, but for some switches."""
    return replace(_MEANT, **switches)


def _example(source: Source, examples: int = 50) -> tuple[tf.Tensor, Batch]:
    """A readout, and a batch of the first training subject's states, spread over its recording."""
    own = client_samples(source.data[source.split.train[0]], source.reservoir)
    rows = np.linspace(0, len(own.labels) - 1, examples).astype(int)
    states, labels = tf.constant(own.values[rows], tf.float32), tf.constant(own.labels[rows], tf.int32)
    batches, _ = batches_of(with_ones(states), labels, examples, 2)
    readout = initial_readout(source.reservoir.units, 2, seed=0)
    return tf.constant(readout.weights), Batch(*(part[0] for part in batches))


def _largest(values: tf.Tensor) -> float:
    return float(tf.reduce_max(tf.abs(values)))


def _of_penalty(weights: tf.Tensor, curvature: Curvature, config: CurvatureSwitches, batch: Batch) -> tf.Tensor:
    """The gradient of a client's term, as its training takes it."""
    objective = CurvatureObjective(replace(config, own_share="nothing", fisher_of="all"))
    server = objective.initialize(weights)._replace(curvature=curvature)
    memory = objective.start(server, objective.empty_message(weights), weights)
    with tf.GradientTape() as tape:
        tape.watch(weights)
        term, _ = objective(weights, batch, memory)
    return tape.gradient(term, weights, unconnected_gradients=tf.UnconnectedGradients.ZERO)


@erratum(
    "log-softmax",
    "thesis, Listing 3.6, line 11; Algorithm 2, line 19",
    says="`log_likelihood = tf.nn.log_softmax(output)`, of one sigmoid unit.",
    correction='The likelihood of a Bernoulli variable: `fisher = "true"`, D = mean p(1 − p) h², or `"empirical"`.',
    changes="As printed D, u and v are 0 and the penalty vanishes: FedCurv is FedAvg (see `fedcurv-is-fedavg`).",
)
def log_softmax(source: Source) -> Evidence:
    """The softmax of a single unit is 1 and its logarithm 0, whatever the unit says: so is the Fisher diagonal."""
    weights, batch = _example(source)
    found = {fisher: _largest(fisher_diagonal(weights, batch, _with(fisher=fisher)))
             for fisher in ("listing", "true", "empirical")}  # fmt: skip
    value = float(tf.nn.log_softmax([[0.73]])[0, 0])
    return evidence(
        value == 0 and found["listing"] == 0 and found["true"] > 0,
        f"log_softmax of [0.73]: {value:g}",
        *(f"largest entry of D, {fisher:9}  {value:.4f}" for fisher, value in found.items()),
    )


@erratum(
    "fisher-divisor",
    "thesis, Listing 3.6, line 6; Algorithm 2, line 20",
    says="`n_samples = len(batch)`.",
    correction='`divisor = "examples"`.',
    changes="D, and with it the penalty, would be 10 times too large for batches of 20, were it not 0.",
)
def fisher_divisor(source: Source) -> Evidence:
    """The length of a batch is 2, inputs and labels, not the number of its examples."""
    weights, batch = _example(source)
    pair = (batch.states, batch.targets)
    by = {divisor: _largest(fisher_diagonal(weights, batch, _with(divisor=divisor)))
          for divisor in ("tensors", "examples")}  # fmt: skip
    ratio = by["tensors"] / by["examples"]
    return evidence(
        len(pair) == 2 and np.isclose(ratio, len(batch.states) / 2),
        f"len((inputs, labels)) of a batch of {len(batch.states)}: {len(pair)}",
        f"D divided by it is {ratio:.1f} times D divided by the examples",
    )


@erratum(
    "fisher-of-a-sum",
    "thesis, Listing 3.6, lines 12 to 14; Algorithm 2, lines 19 and 20",
    says="The gradient of the whole batch is squared.",
    correction='`fisher = "empirical"`: the squares of the single examples\' gradients are averaged.',
    changes="Gradients of different signs cancel before they are squared: the order of importances is another one.",
)
def fisher_of_a_sum(source: Source) -> Evidence:
    """The square of a batch's gradient is not the mean of the examples' squared gradients."""
    weights, batch = _example(source)
    batched, single = (
        fisher_diagonal(weights, batch, _with(fisher=fisher)).numpy()[:-1, 0] for fisher in ("batch", "empirical")
    )
    top = [set(np.argsort(-own)[:5].tolist()) for own in (batched, single)]
    correlation = float(np.corrcoef(batched, single)[0, 1])
    return evidence(
        correlation < 0.99,
        f"correlation of the two diagonals over {len(single)} units: {correlation:.3f}",
        f"of the five most important units {len(top[0] & top[1])} are the same",
    )


@erratum(
    "penalty-outside",
    "thesis, Listing 3.4, the loop over batches",
    says="`penalty = compute_penalty(…)` stands above `with tf.GradientTape() as tape:`.",
    correction='`penalty = "inside"`.',
    changes="As printed the penalty shifts the loss and reaches no weight, even were D not 0.",
)
def penalty_outside(source: Source) -> Evidence:
    """A penalty that is computed outside the tape has no gradient."""
    weights, batch = _example(source)
    diagonal = fisher_diagonal(weights, batch, _MEANT)
    # Others who are sure that the weights are 1.
    others = Curvature(diagonal, diagonal)
    found = {where: _largest(_of_penalty(weights, others, _with(penalty=where), batch))
             for where in ("outside", "inside")}  # fmt: skip
    return evidence(
        found["outside"] == 0 and found["inside"] > 0,
        f"penalty {float(penalty_of(weights, others)):.4f}; its largest gradient",
        *(f"  {where:8} {value:.4f}" for where, value in found.items()),
    )


@erratum(
    "model-never-moves",
    "thesis, Listing 3.4, the loop over batches",
    says="`client_weights_new = updated_weights`; `model.trainable_variables` are never assigned, neither the "
    "server's weights nor the updated ones.",
    correction="Both are assigned, which is the evident intent; the same under `thesis` and `corrected`.",
    changes="As printed every gradient of every round is taken at the initial weights.",
)
def model_never_moves(source: Source) -> Evidence:
    """The forward pass uses the model's variables, which stay as they were: the second step repeats the first."""
    start, batch = _example(source)
    rate, losses = 0.5, {}
    for name, moves in (("as printed", False), ("as meant", True)):
        weights = start
        for _ in range(200):
            logits = tf.matmul(batch.states, weights if moves else start)
            weights = weights - rate * cross_entropy_gradient(logits, batch)
        losses[name] = float(cross_entropy(tf.matmul(batch.states, weights), batch))
    before = float(cross_entropy(tf.matmul(batch.states, start), batch))
    return evidence(
        losses["as printed"] > losses["as meant"],
        f"loss of the start: {before:.4f}; after 200 steps of SGD",
        *(f"  {name:10} {loss:.4f}" for name, loss in losses.items()),
    )


@erratum(
    "listings-disagree",
    "thesis, Listings 3.4, 3.6 and 3.7",
    says="Listing 3.4 calls `fisher_matrix` and `compute_penalty(batch, client_weights_new, server_u, server_v, "
    "u_local, v_local)`; Listing 3.6 defines `fisher_diag`, Listing 3.7 `compute_penalty(weights, u_global, "
    "v_global, u_local, v_local)` with a factor of 1e-4 that Algorithm 2 does not have.",
    correction="The penalty without the batch; the factor is `FedCurv(factor=…)`, 1e-4 under `thesis`.",
    changes="The listings are not the code that ran.",
)
def listings_disagree(source: Source) -> Evidence:
    """The penalty is called with six arguments and takes five."""
    defined = ("weights", "u_global", "v_global", "u_local", "v_local")
    called = ("batch", "client_weights_new", "server_u", "server_v", "u_local", "v_local")
    signature = Signature([Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in defined])
    try:
        signature.bind(*called)
    except TypeError as error:
        return evidence(True, f"compute_penalty{signature} called with {len(called)} arguments: {error}")
    return evidence(False, "the call fits the definition")


@erratum(
    "unweighted-mean",
    "thesis, Listing 3.3, `tff.federated_mean(model_deltas)`, against Algorithm 2, line 8",
    says="The listing's mean has no weight; the algorithm weights by n_k / n.",
    correction='`weighting = "examples"`.',
    changes="Small on WESAD, whose subjects have about as many examples each.",
    recordings=True,
)
def unweighted_mean(source: Source) -> Evidence:
    """An unweighted mean is not the algorithm's."""
    counts = np.array([len(source.features()[name].table) for name in source.split.train])
    weights = counts / counts.sum()
    uniform = 1 / len(counts)
    return evidence(
        not np.allclose(weights, uniform),
        f"weights n_k / n of {len(counts)} clients: {weights.min():.4f} to {weights.max():.4f}; "
        f"without weights: {uniform:.4f}",
    )


@erratum(
    "remainder",
    "thesis, chapter 3, and Algorithm 2, lines 9, 23 and its return",
    says="A client sends u_local = u − D, and the server sums what clients send; Listing 3.4 sends D.",
    correction='`send = "diagonal"`, as in the listing and in Shoham et al. 2019.',
    changes="Under Algorithm 2 as printed the penalty rewards moving away, more with every round.",
)
def remainder(source: Source) -> Evidence:
    """Summed remainders u − D make importances negative, and they grow with every round."""
    weights, batch = _example(source)
    clients, lines, held = 5, [], True
    for send in ("diagonal", "remainder"):
        objective = CurvatureObjective(_with(send=send))
        server, seen = objective.initialize(weights), []
        for _ in range(3):
            memory = objective.start(server, objective.empty_message(weights), weights)
            messages = [objective.message(server, weights, batch, memory) for _ in range(clients)]
            server = objective.finish(server, tf.nest.map_structure(lambda *parts: tf.add_n(parts), *messages))
            seen.append(float(tf.reduce_sum(server.curvature.u[:-1])))
        lines.append(f"  {send:10} " + "  ".join(f"{value:10.2f}" for value in seen))
        held &= (seen[2] < seen[1] < seen[0] < 0) if send == "remainder" else seen[0] > 0
    return evidence(held, f"sum of u at the server after rounds 1, 2 and 3 of {clients} equal clients, sent as", *lines)


@erratum(
    "fedcurv-is-fedavg",
    "thesis, section 6.2, Figures 6.3 to 6.7, and chapter 7",
    says="“the problem of *catastrophic forgetting* in FedAvg … and FedCurv alleviates this problem having more "
    "growing monotone curves”.",
    correction="All switches of `FedCurv` under `corrected`.",
    changes="If what ran was the listings, the printed curves differ by chance and by the mean's weights. Under "
    "`corrected` FedCurv is within the spread of FedAvg (`tff-esn reproduce primal-phase`).",
)
def fedcurv_is_fedavg(source: Source) -> Evidence:
    """As printed FedCurv is FedAvg with an unweighted mean, to the last bit."""
    rounds, clients = 3, len(source.split.train)
    shared = {"esn": SMALL_ESN, "rounds": rounds, "clients_per_round": clients}
    with source.cache.scratch() as scratch:
        experiment = FederatedExperiment(source.data, scratch)

        def kernel(name: str, **switches: Any) -> np.ndarray:
            algorithm: Any = algorithm_of(name, "thesis", {**shared, **switches}, name)
            return experiment.program(algorithm).run()[0].kernel

        averaged, printed = kernel("fedavg-unweighted"), kernel("fedcurv")
        meant = kernel("fedcurv", **_with(weighting="uniform").get_params())
    apart = [float(np.abs(own - averaged).max()) for own in (printed, meant)]
    return evidence(
        apart[0] == 0 and apart[1] > 0,
        f"largest difference from unweighted FedAvg after {rounds} rounds of {clients} clients",
        f"  FedCurv as printed  {apart[0]:.6f}",
        f"  FedCurv as meant    {apart[1]:.6f}",
    )


@erratum(
    "shares-of-the-drawn",
    "thesis, Algorithms 1 (line 8), 2 (line 8), 3 (line 11) and 4 (line 10)",
    says="w ← Σ_{k=1}^{K} (n_k / n) w^k, with m clients of K drawn.",
    correction="n is that of the drawn clients: n_k / Σ_{j ∈ S_t} n_j, as TensorFlow Federated has it.",
    changes="As printed the weights of 5 drawn clients of 10 sum to about a half: the model shrinks every round.",
    recordings=True,
)
def shares_of_the_drawn(source: Source) -> Evidence:
    """The weights n_k / n of the clients that were drawn do not sum to one."""
    counts = np.array([len(source.features()[name].table) for name in source.split.train])
    drawn = generator_for(0, "errata", "drawn").choice(len(counts), -(-len(counts) // 2), replace=False)
    share = counts[drawn].sum() / counts.sum()
    return evidence(share < 1, f"{len(drawn)} of {len(counts)} clients drawn: their n_k / n sum to {share:.4f}")


@erratum(
    "rejected-clients",
    "thesis, Algorithm 3, lines 10 and 11; Algorithm 4, lines 9 and 10",
    says="“if not *valid* then w^k_{t+1} ← w^k_t”, and the mean is over all clients.",
    correction='`treatment = "left_out"`: a rejected client does not count in the mean.',
    changes="As printed every rejection shortens the step of those accepted: with two of five rejected to 3/5.",
)
def rejected_clients(source: Source) -> Evidence:
    """A rejected client is not discarded: its old weights pull the mean back."""
    # A network that accepts updates above a half.
    one = np.ones((1, 1), np.float32)
    layers = ((one, np.zeros(1, np.float32)), (one, np.full(1, -0.5, np.float32)))
    updates, weights = tf.constant([[1.0], [1.0], [1.0], [-1.0], [-1.0]]), tf.ones(5)
    found = {
        treatment: float(TrainedDefence(layers, treatment)(updates, weights).update[0])
        for treatment in ("replaced", "left_out")
    }
    return evidence(
        np.isclose(found["replaced"], 0.6) and np.isclose(found["left_out"], 1.0),
        "three clients send +1, two are rejected; the server moves by",
        *(f"  {treatment:9} {value:.2f}" for treatment, value in found.items()),
    )


@erratum(
    "laplace-covariance",
    "thesis, section 2.2.2, after equation 2.14",
    says="The posterior is a Gaussian “with expectation θ_A* and covariance diag(I_A*)”.",
    correction="Precision diag(I_A*): the covariance is its inverse (Kirkpatrick et al. 2017).",
    changes="None: the penalty of equation 2.13 uses I as precision.",
)
def laplace_covariance(source: Source) -> Evidence:
    """The Fisher information is the precision of the posterior, not its covariance."""
    random = generator_for(0, "errata", "laplace")
    n, deviation = 100, 0.5
    information = n / deviation**2
    # With a flat prior the posterior of a mean given n draws is as wide as means of n draws spread.
    spread = float(random.normal(0, deviation, (20_000, n)).mean(axis=1).var())
    return evidence(
        abs(spread * information - 1) < 0.05,
        f"mean of {n} draws of deviation {deviation}: Fisher information {information:.0f}",
        f"variance of the estimate {spread:.6f}, 1 / information {1 / information:.6f}",
    )


@erratum(
    "slides-penalty",
    "slides, “Federated Curvature (FedCurv)”",
    says="−2λ [Σ v] W_{t, c_i}: the second term is at the weights of the round before.",
    correction="W_{t+1, c_i}, as in equation 2.17 of the thesis.",
    changes="None in the thesis's code; as on the slide the others' weights would not attract, and 0 would.",
)
def slides_penalty(source: Source) -> Evidence:
    """With the old weights in its second term the penalty pulls to 0, not to the others' weights."""
    weights, batch = _example(source)
    u = fisher_diagonal(weights, batch, _MEANT)
    # The others are sure of weights of 1, where we are.
    ones = tf.ones_like(weights)
    slide = _largest(_of_penalty(ones, Curvature(u, tf.zeros_like(u)), _MEANT, batch))
    meant = _largest(_of_penalty(ones, Curvature(u, u), _MEANT, batch))
    return evidence(
        slide > 0 and meant == 0,
        "largest gradient of the penalty at the others' own weights",
        f"  as on the slide, the second term a constant  {slide:.4f}",
        f"  as meant                                     {meant:.4f}",
    )
