"""FedCurv (Shoham et al. 2019; thesis section 2.2.2 and chapter 3): the mathematics of a client, in plain TensorFlow.

A client k penalises changes of weights that are important to the others:

    L_k(w) + lambda * sum_{j != k} (w - w_j)^T D_j (w - w_j)
        = L_k(w) + lambda * sum(w^2 u - 2 w v) + const,   u = sum_j D_j,  v = sum_j D_j w_j        (eqs. 2.16-2.18)

with D_j the diagonal of client j's Fisher information at its weights w_j. What the thesis prints departs from this in
several places; each is a switch of `CurvatureSwitches`.
"""

from __future__ import annotations

from dataclasses import dataclass as plain_dataclass
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic.dataclasses import dataclass

from tff_esn.algorithm import ALGORITHMS
from tff_esn.federated.algorithm import GradientAlgorithm
from tff_esn.lazy import LazyModule
from tff_esn.parameters import STRICT, NonNegativeFloat, Parameters

if TYPE_CHECKING:
    import tensorflow as tf

    from tff_esn.readout import likelihood
    from tff_esn.readout.training import Batch
else:
    tf, likelihood = LazyModule("tensorflow"), LazyModule("tff_esn.readout.likelihood")

#: Listing 3.6 takes the number of tensors in a batch, inputs and labels, for that of its examples.
TENSORS_IN_A_BATCH = 2.0


@dataclass(frozen=True, repr=False, config=STRICT)
class CurvatureSwitches(Parameters):
    """FedCurv's switches: their defaults are FedCurv as meant (Shoham et al. 2019).

    Attributes:
        fisher: The diagonal of the Fisher information that a client computes.
            `listing`: squared gradient of log-softmax of the readout's output, summed over a batch (thesis Listing
            3.6), which is 0 for one output unit; `batch`: squared gradient of the log-likelihood of a batch;
            `empirical`: sum of the squared gradients of each example's log-likelihood;
            `true`: its expectation over labels drawn from the model.
        divisor: Divisor of the diagonal: the number of `tensors` in a batch, 2 (Listing 3.6), or of `examples`.
        fisher_of: Examples of the diagonal: the `last_batch`, before the step on it (Listing 3.4), or `all`, with the
            final weights.
        anchor: Weights w in v = D w: those one step `behind` (Listing 3.4), or the `same` as in D.
        own_share: What a client subtracts from the server's u and v before it computes the penalty: its share of the
            current `batch` (Listing 3.4), its message of the `previous` round, or `nothing`.
        penalty: Computed `outside` the gradient tape, where it has no effect on the weights (Listing 3.4), or `inside`.
        send: What a client sends: its `diagonal` D (Listing 3.4), or the `remainder` u - D (Algorithm 2).
        weighting: Weight of a client's update in the mean: `uniform` (Listing 3.3), or by `examples` (Algorithm 2).
        factor: Factor of the penalty, lambda.
    """

    fisher: Literal["listing", "batch", "empirical", "true"] = "true"
    divisor: Literal["tensors", "examples"] = "examples"
    fisher_of: Literal["last_batch", "all"] = "all"
    anchor: Literal["behind", "same"] = "same"
    own_share: Literal["batch", "previous", "nothing"] = "previous"
    penalty: Literal["outside", "inside"] = "inside"
    send: Literal["diagonal", "remainder"] = "diagonal"
    weighting: Literal["uniform", "examples"] = "examples"
    factor: NonNegativeFloat = 0.1


@ALGORITHMS.register
@dataclass(frozen=True, repr=False, config=STRICT)
class FedCurv(CurvatureSwitches, GradientAlgorithm):
    """FedAvg with a penalty on changes of weights that are important to the other clients."""

    name = "fedcurv"
    label = "FedCurv"

    @property
    def client_weighting(self) -> str:
        """The value of `weighting`."""
        return self.weighting

    def objective(self) -> CurvatureObjective:
        """The penalty."""
        return CurvatureObjective(
            CurvatureSwitches(**{field.name: getattr(self, field.name) for field in fields(CurvatureSwitches)})
        )


class Curvature(NamedTuple):
    """The clients' messages, or their sum at the server.

    Attributes:
        u: D.
        v: D w.
    """

    u: tf.Tensor
    v: tf.Tensor


class ServerCurvature(NamedTuple):
    """State of the server: u and v of the previous round, and lambda."""

    curvature: Curvature
    factor: tf.Tensor


class CurvatureMemory(NamedTuple):
    """State of a client while it trains.

    Attributes:
        others: The server's u and v, without the client's own share of the previous round if that is subtracted.
        factor: lambda.
        behind: The weights one step ago.
        share: The client's share of the batch it saw last.
    """

    others: Curvature
    factor: tf.Tensor
    behind: tf.Tensor
    share: Curvature


def fisher_diagonal(weights: tf.Tensor, batch: Batch, config: CurvatureSwitches) -> tf.Tensor:
    """D: how much the readout's likelihood depends on each weight.

    With states h, outputs p and targets y, an example of class weight c counting as c examples, the sums over a
    batch, before they are divided:

        listing    (sum d log_softmax(p) / dw)^2      (Listing 3.6; without class weights)
        batch      (sum c (y - p) h)^2
        empirical  sum c (p - y)^2 h^2
        true       sum c p (1 - p) h^2
    """
    outputs, share = likelihood.probabilities_of(tf.matmul(batch.states, weights)), batch.share
    # The sums are worked out with shares, class weights over the number of examples, where they are linear in them.
    if config.fisher == "listing":
        counted = tf.cast(share > 0, tf.float32)
        means = tf.matmul(batch.states, counted * _listing_sensitivity(outputs), transpose_a=True) ** 2 / batch.examples
    elif config.fisher == "batch":
        error = share * (batch.targets - outputs)
        means = tf.matmul(batch.states, error, transpose_a=True) ** 2 * batch.examples
    else:
        surprise = (outputs - batch.targets) ** 2 if config.fisher == "empirical" else outputs * (1 - outputs)
        means = tf.matmul(batch.states**2, share * surprise, transpose_a=True)
    return means * (batch.examples / TENSORS_IN_A_BATCH) if config.divisor == "tensors" else means


def _listing_sensitivity(outputs: tf.Tensor) -> tf.Tensor:
    """The gradient of Listing 3.6's sum of log_softmax(p) over the outputs, by the logits behind p.

    By p it is 1 - K softmax(p) for K outputs, exactly 0 for one.
    """
    return likelihood.gradient_by_logits(outputs, 1 - outputs.shape[-1] * tf.nn.softmax(outputs))


def curvature_of(weights: tf.Tensor, behind: tf.Tensor, batch: Batch, config: CurvatureSwitches) -> Curvature:
    """The curvature of a batch, u = D and v = D w, with the weights that the configuration pairs D with."""
    diagonal = fisher_diagonal(weights, batch, config)
    anchor = behind if config.anchor == "behind" else weights
    return Curvature(diagonal, diagonal * anchor)


def penalty_of(weights: tf.Tensor, curvature: Curvature) -> tf.Tensor:
    """sum(w^2 u - 2 w v), over kernel and bias (Listing 3.7)."""
    return tf.reduce_sum(weights * (weights * curvature.u - 2 * curvature.v))


def subtracted(whole: Curvature, part: Curvature) -> Curvature:
    """The curvature of the others."""
    return tf.nest.map_structure(tf.subtract, whole, part)


@plain_dataclass(frozen=True)
class CurvatureObjective:
    """A client's objective under FedCurv; see `tff_esn.federated.objective.Objective`."""

    config: CurvatureSwitches

    def initialize(self, weights: tf.Tensor) -> ServerCurvature:
        """Zero u and v."""
        return ServerCurvature(self.empty_message(weights), tf.constant(self.config.factor, tf.float32))

    def start(self, server: ServerCurvature, own: Curvature, weights: tf.Tensor) -> CurvatureMemory:
        """The others' u and v; `own` is this client's message of the previous round, 0 if it sent none."""
        curvature = server.curvature
        others = subtracted(curvature, own) if self.config.own_share == "previous" else curvature
        return CurvatureMemory(others, server.factor, weights, tf.nest.map_structure(tf.zeros_like, curvature))

    def __call__(self, weights: tf.Tensor, batch: Batch, memory: CurvatureMemory) -> tuple[tf.Tensor, CurvatureMemory]:
        """The penalty at `weights`."""
        config, share, others = self.config, memory.share, memory.others
        if config.own_share == "batch" or config.fisher_of == "last_batch":
            share = tf.nest.map_structure(tf.stop_gradient, curvature_of(weights, memory.behind, batch, config))
        if config.own_share == "batch":
            others = subtracted(others, share)
        term = memory.factor * penalty_of(weights, others)
        if config.penalty == "outside":
            term = tf.stop_gradient(term)
        return term, memory._replace(behind=weights, share=share)

    def message(
        self, server: ServerCurvature, trained: tf.Tensor, everything: Batch, memory: CurvatureMemory
    ) -> Curvature:
        """D and D w after the last step, or what remains of the server's u and v without them."""
        share = memory.share
        if self.config.fisher_of == "all":
            share = curvature_of(trained, memory.behind, everything, self.config)
        return subtracted(server.curvature, share) if self.config.send == "remainder" else share

    def empty_message(self, weights: tf.Tensor) -> Curvature:
        """Zero u and v."""
        zeros = tf.zeros_like(weights)
        return Curvature(zeros, zeros)

    def finish(self, server: ServerCurvature, total: Curvature) -> ServerCurvature:
        """The clients' sums are the next round's u and v (Listing 3.5)."""
        return server._replace(curvature=total)

    def without_rates(self) -> CurvatureObjective:
        """The objective with a factor of 0."""
        return replace(self, config=replace(self.config, factor=0.0))
