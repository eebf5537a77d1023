"""Defences against bad clients: rules by which the server makes one update of its clients', in plain TensorFlow.

In the formulas m clients send updates u_i with weights w_i. A weight is a client's own word: rules that use it trust
it. Where a paper's guarantee needs a majority of honest clients, a weighted rule needs the majority of the weight.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from tff_esn.lazy import LazyModule
from tff_esn.parameters import PositiveFloat, PositiveInt
from tff_esn.runtime.context import load_tff

if TYPE_CHECKING:
    import tensorflow as tf
    import tensorflow_federated as tff
else:
    tf = LazyModule("tensorflow")

_strict = ConfigDict(extra="forbid")


class Judgement(NamedTuple):
    """What a rule makes of a round's updates.

    Attributes:
        update: `(parameters,)`, what the server takes for the clients' common update.
        accepted: `(clients,)`, bool: whose updates entered it.
    """

    update: tf.Tensor
    accepted: tf.Tensor


class Rule:
    """Whom the server listens to, and how it combines what those say: everybody, and their weighted mean.

    A rule changes either; it only ever sees updates that count. One counts if its weight is positive and its length
    finite in float32: neither what is not finite itself nor what is so large that sums of it are not.
    """

    def __call__(self, updates: tf.Tensor, weights: tf.Tensor) -> Judgement:
        """Judges a round.

        Args:
            updates: `(clients, parameters)`, float32.
            weights: `(clients,)`, float32; 0 for an update that does not count.

        Returns:
            Without an accepted client, an update of zeros.
        """
        counts = (weights > 0) & tf.math.is_finite(weights) & tf.math.is_finite(tf.norm(updates, axis=1))
        accepted = tf.tensor_scatter_nd_update(
            counts, tf.where(counts), self._accepts(tf.boolean_mask(updates, counts))
        )
        update = tf.cond(
            tf.reduce_any(accepted),
            lambda: self._combined(tf.boolean_mask(updates, accepted), tf.boolean_mask(weights, accepted)),
            lambda: tf.zeros(updates.shape[1:]),
        )
        return Judgement(update, accepted)

    def hears(self, accepted: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """`(clients,)`, bool: whose messages beside the updates count."""
        return accepted

    def _accepts(self, updates: tf.Tensor) -> tf.Tensor:
        """Whom, of m >= 0 clients."""
        return tf.ones(tf.shape(updates)[:1], tf.bool)

    def _combined(self, updates: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """The common update of m >= 1 clients."""
        return _mean(updates, weights)


@dataclass(frozen=True, config=_strict)
class Mean(Rule):
    """sum_i w_i u_i / sum_i w_i: FedAvg (McMahan et al. 2017), no defence."""


@dataclass(frozen=True, config=_strict)
class Median(Rule):
    """median_i u_ij for each coordinate j, unweighted (Yin et al. 2018); of two middle values their mean."""

    def _combined(self, updates: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        return _median(updates)


@dataclass(frozen=True, config=_strict)
class TrimmedMean(Rule):
    """The mean of each coordinate without its floor(beta m) smallest and largest values, unweighted (Yin et al. 2018).

    At most (m - 1) // 2 are dropped on either side, so that one or two are left: beta = 1/2 is the median.

    Attributes:
        share: beta.
    """

    share: Annotated[float, Field(ge=0, le=0.5)]

    def _combined(self, updates: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        count = tf.shape(updates)[0]
        dropped = tf.cast(self.share * tf.cast(count, tf.float32), tf.int32)
        return _trimmed_mean(updates, tf.minimum(dropped, (count - 1) // 2))


@dataclass(frozen=True, config=_strict)
class GeometricMedian(Rule):
    """argmin_v sum_i w_i |v - u_i|, by the smoothed Weiszfeld algorithm (RFA, Pillutla et al. 2022).

    From the weighted mean on, v <- sum_i b_i u_i / sum_i b_i with b_i = w_i / max(nu, |v - u_i|).

    Attributes:
        iterations: Steps of it. The paper takes 3, as each costs a round of secure aggregation; none does here.
        smoothing: nu.
    """

    iterations: PositiveInt
    smoothing: PositiveFloat

    def _combined(self, updates: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        # Relative ones: divided by nu, a very large weight would not be finite.
        shares = weights / tf.reduce_max(weights)

        def step(median: tf.Tensor) -> tuple[tf.Tensor]:
            distances = tf.norm(updates - median, axis=1)
            return (_mean(updates, shares / tf.maximum(distances, self.smoothing)),)

        start = (_mean(updates, shares),)
        (median,) = tf.while_loop(lambda _: tf.constant(True), step, start, maximum_iterations=self.iterations)
        return median


@dataclass(frozen=True, config=_strict)
class Krum(Rule):
    """The weighted mean of the k updates with the least s_i = sum of |u_i - u_j|^2 over the m - f - 2 nearest others j.

    Krum is k = 1, more are multi-Krum (Blanchard et al. 2017). Of equal scores the earlier client's is less, as in
    the paper. Its guarantee needs m > 2 f + 2. With fewer clients at least one neighbour counts, and two bad clients
    who send the same are then each other's: they win. All are accepted if m <= k.

    Attributes:
        bad: f, how many clients may be bad.
        kept: k.
    """

    bad: Annotated[int, Field(ge=0)]
    kept: PositiveInt = 1

    def _accepts(self, updates: tf.Tensor) -> tf.Tensor:
        distances = tf.reduce_sum((updates[:, None] - updates) ** 2, axis=2)
        neighbours = tf.maximum(tf.shape(updates)[0] - self.bad - 2, 1)
        # The nearest is the client itself.
        scores = tf.reduce_sum(tf.sort(distances)[:, 1 : 1 + neighbours], axis=1)
        return tf.argsort(tf.argsort(scores, stable=True)) < self.kept


@dataclass(frozen=True, config=_strict)
class NormFilter(Rule):
    """The weighted mean over |u_i| <= c median_j |u_j|: norm thresholding (Sun et al. 2019), by the round's own median.

    Attributes:
        times: c.
    """

    times: PositiveFloat

    def _accepts(self, updates: tf.Tensor) -> tf.Tensor:
        lengths = tf.norm(updates, axis=1)
        return lengths <= self.times * _median(lengths)


@dataclass(frozen=True, config=_strict)
class CosineFilter(Rule):
    """The weighted mean over cos(u_i, median_j u_j) >= c, with the median of each coordinate.

    As AFA (Muñoz-González et al. 2019), but against the median instead of the mean and at a fixed threshold. An
    update of zeros has a cosine of 0.

    Attributes:
        least: c.
    """

    least: Annotated[float, Field(ge=-1, le=1)]

    def _accepts(self, updates: tf.Tensor) -> tf.Tensor:
        def direction(vectors: tf.Tensor) -> tf.Tensor:
            return tf.math.divide_no_nan(vectors, tf.norm(vectors, axis=-1, keepdims=True))

        return tf.linalg.matvec(direction(updates), direction(_median(updates))) >= self.least


#: For five clients a round. Trimming more than one on either side would be the median. Krum assumes one bad client: its
#: guarantee reaches no further with five, and with two assumed it would compare each update to one other alone.
RULES: dict[str, Rule] = {
    "mean": Mean(),
    "median": Median(),
    "trimmed-mean": TrimmedMean(share=0.2),
    "geometric-median": GeometricMedian(iterations=100, smoothing=1e-6),
    "krum": Krum(bad=1),
    "multi-krum": Krum(bad=1, kept=3),
    "norm-filter": NormFilter(times=2.0),
    "cosine-filter": CosineFilter(least=0.0),
}


def _mean(values: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    return tf.linalg.matvec(values, weights / tf.reduce_sum(weights), transpose_a=True)


def _trimmed_mean(values: tf.Tensor, dropped: tf.Tensor) -> tf.Tensor:
    """Along the first axis, without so many smallest and largest."""
    return tf.reduce_mean(tf.sort(values, axis=0)[dropped : tf.shape(values)[0] - dropped], axis=0)


def _median(values: tf.Tensor) -> tf.Tensor:
    """Along the first axis."""
    return _trimmed_mean(values, (tf.shape(values)[0] - 1) // 2)


# ---- On TensorFlow Federated ----


def gathered(values: tff.Value) -> tff.Value:
    """All clients' values at the server, along a new first axis; for use in a federated computation.

    They come in the order of the clients. TFF promises none, but its runtime accumulates client after client, and
    concatenation keeps what order accumulating and merging have.

    Args:
        values: A structure of tensors at `tff.CLIENTS`.
    """
    tff = load_tff()
    own_type = values.type_signature.member
    all_specs = tff.types.structure_from_tensor_type_tree(
        lambda part: tf.TensorSpec((None, *part.shape), part.dtype), own_type
    )
    all_type = tff.types.tensorflow_to_type(all_specs)

    @tff.tensorflow.computation
    def nobodys() -> Any:
        return tf.nest.map_structure(lambda spec: tf.zeros((0, *spec.shape[1:]), spec.dtype), all_specs)

    @tff.tensorflow.computation(all_type, own_type)
    def accumulate(so_far: Any, own: Any) -> Any:
        return tf.nest.map_structure(lambda rows, row: tf.concat((rows, row[None]), axis=0), so_far, own)

    @tff.tensorflow.computation(all_type, all_type)
    def merge(first: Any, second: Any) -> Any:
        return tf.nest.map_structure(lambda *rows: tf.concat(rows, axis=0), first, second)

    @tff.tensorflow.computation(all_type)
    def report(everybodys: Any) -> Any:
        return everybodys

    return tff.federated_aggregate(values, nobodys(), accumulate, merge, report)


def rule_factory(rule: Rule) -> tff.aggregators.WeightedAggregationFactory:
    """A rule as TFF's processes take one, such as `build_weighted_fed_avg(model_aggregator=rule_factory(Median()))`.

    Returns:
        A factory for structures of float32 tensors with float32 weights. Its processes measure `accepted`,
        `(clients,)`, in the order of the clients.
    """
    base: Any = load_tff().aggregators.WeightedAggregationFactory

    class RuleFactory(base):
        def create(self, value_type: Any, weight_type: Any) -> tff.templates.AggregationProcess:
            return _aggregation_process(rule, value_type, weight_type)

    return RuleFactory()


def _aggregation_process(rule: Rule, value_type: Any, weight_type: Any) -> tff.templates.AggregationProcess:
    tff = load_tff()
    specs = tff.types.structure_from_tensor_type_tree(lambda part: tf.TensorSpec(part.shape, part.dtype), value_type)

    @tff.federated_computation
    def initialize() -> Any:
        return tff.federated_value((), tff.SERVER)

    @tff.tensorflow.computation(value_type)
    def flatten(value: Any) -> tf.Tensor:
        return flattened(value)

    @tff.tensorflow.computation
    def judge(updates: Any, weights: Any) -> Any:
        judgement = rule(updates, weights)
        return unflattened(judgement.update, specs), OrderedDict(accepted=judgement.accepted)

    @tff.federated_computation(
        initialize.type_signature.result,
        tff.FederatedType(value_type, tff.CLIENTS),
        tff.FederatedType(weight_type, tff.CLIENTS),
    )
    def next_round(state: Any, values: Any, weights: Any) -> Any:
        vectors = tff.federated_map(flatten, values)
        result, measurements = tff.federated_map(judge, gathered(tff.federated_zip((vectors, weights))))
        return tff.templates.MeasuredProcessOutput(state, result, measurements)

    return tff.templates.AggregationProcess(initialize, next_round)


def flattened(structure: Any) -> tf.Tensor:
    """All values of a structure of tensors as one `(parameters,)` vector."""
    return tf.concat([tf.reshape(part, (-1,)) for part in tf.nest.flatten(structure)], axis=0)


def unflattened(vector: tf.Tensor, like: Any) -> Any:
    """A vector's values in a structure as of these tensors or `tf.TensorSpec`s."""
    parts = tf.nest.flatten(like)
    pieces = tf.split(vector, [part.shape.num_elements() for part in parts])
    return tf.nest.pack_sequence_as(like, [tf.reshape(piece, part.shape) for piece, part in zip(pieces, parts)])
