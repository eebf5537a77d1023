"""Defences by name: how the server combines its clients' updates, in plain TensorFlow.

In the formulas m clients send updates u_i with weights w_i. A client reports its weight itself: defences that use it
trust it. Where a paper's guarantee needs a majority of honest clients, a weighted defence needs the majority of the
weight.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Optional

from pydantic import BeforeValidator, InstanceOf

from tff_esn.datasets.federated import FederatedDataset
from tff_esn.lazy import LazyModule
from tff_esn.parameters import Parameters
from tff_esn.registry import Registry
from tff_esn.runtime.context import load_tff

if TYPE_CHECKING:
    import tensorflow as tf
    import tensorflow_federated as tff

    from tff_esn.federated.algorithm import GradientAlgorithm
    from tff_esn.readout.parameters import GradientTraining
else:
    tf = LazyModule("tensorflow")


class Aggregate(NamedTuple):
    """The result of a defence on a round's updates.

    Attributes:
        update: `(parameters,)`, the combined update.
        accepted: `(clients,)`, bool: clients whose updates are in it.
        counted: `(clients,)`, bool: clients whose other messages count.
    """

    update: tf.Tensor
    accepted: tf.Tensor
    counted: tf.Tensor


class Defence(Parameters):
    """Which clients the server accepts, and how it combines their updates: by default all, and their weighted mean.

    A defence overrides `accepts` or `combined`, which see valid updates only: those of positive weight and of a length
    that is finite in float32. A value that is not finite is not valid, nor is one whose square is not.
    """

    name: ClassVar[str]

    def prepared(
        self, data: FederatedDataset, algorithm: GradientAlgorithm, training: GradientTraining, scratch: Path
    ) -> Defence:
        """The defence that the rounds of an algorithm use; one that has to learn first is trained here.

        Args:
            data: All clients.
            algorithm: The algorithm whose defence it is.
            training: How its clients train, with a number for each class weight.
            scratch: Folder for temporary files.
        """
        return self

    def aggregator(self) -> tff.aggregators.WeightedAggregationFactory | None:
        """TFF's aggregator, for a defence that uses one; None for the others."""
        return None

    def __call__(self, updates: tf.Tensor, weights: tf.Tensor) -> Aggregate:
        """Aggregates a round.

        Args:
            updates: `(clients, parameters)`, float32.
            weights: `(clients,)`, float32; 0 for an update that is not valid.

        Returns:
            Without an accepted client, an update of zeros.
        """
        valid = (weights > 0) & tf.math.is_finite(weights) & tf.math.is_finite(tf.norm(updates, axis=1))
        accepted = tf.tensor_scatter_nd_update(valid, tf.where(valid), self.accepts(tf.boolean_mask(updates, valid)))
        update = tf.cond(
            tf.reduce_any(accepted),
            lambda: self.combined(tf.boolean_mask(updates, accepted), tf.boolean_mask(weights, accepted)),
            lambda: tf.zeros(updates.shape[1:]),
        )
        return Aggregate(update, accepted, accepted)

    def accepts(self, updates: tf.Tensor) -> tf.Tensor:
        """`(m,)`, bool: which of m >= 0 valid updates are accepted."""
        return tf.ones(tf.shape(updates)[:1], tf.bool)

    def combined(self, updates: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """`(parameters,)`: the common update of m >= 1 accepted ones."""
        return mean(updates, weights)


DEFENCES: Registry[type[Defence]] = Registry("defences", ["tff_esn.federated.defences"])


def _chosen(given: Any) -> Any:
    return None if given in ("none", {"name": "none"}) else DEFENCES.create(given, "defence")


#: A defence as a parameter: itself, its name, or a table with its name and parameters; None or `none` for no defence.
DefenceChoice = Annotated[Optional[InstanceOf[Defence]], BeforeValidator(_chosen)]


def mean(values: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """The weighted mean along the first axis."""
    return tf.linalg.matvec(values, weights / tf.reduce_sum(weights), transpose_a=True)


def trimmed_mean(values: tf.Tensor, dropped: tf.Tensor) -> tf.Tensor:
    """The mean along the first axis without the given number of smallest and of largest values."""
    return tf.reduce_mean(tf.sort(values, axis=0)[dropped : tf.shape(values)[0] - dropped], axis=0)


def median(values: tf.Tensor) -> tf.Tensor:
    """The median along the first axis; of two middle values their mean."""
    return trimmed_mean(values, (tf.shape(values)[0] - 1) // 2)


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
    def empty() -> Any:
        return tf.nest.map_structure(lambda spec: tf.zeros((0, *spec.shape[1:]), spec.dtype), all_specs)

    @tff.tensorflow.computation(all_type, own_type)
    def accumulate(so_far: Any, own: Any) -> Any:
        return tf.nest.map_structure(lambda rows, row: tf.concat((rows, row[None]), axis=0), so_far, own)

    @tff.tensorflow.computation(all_type, all_type)
    def merge(first: Any, second: Any) -> Any:
        return tf.nest.map_structure(lambda *rows: tf.concat(rows, axis=0), first, second)

    @tff.tensorflow.computation(all_type)
    def report(rows: Any) -> Any:
        return rows

    return tff.federated_aggregate(values, empty(), accumulate, merge, report)


def aggregation_factory(defence: Defence) -> tff.aggregators.WeightedAggregationFactory:
    """A defence for TFF's own processes: `build_weighted_fed_avg(model_aggregator=aggregation_factory(Median()))`.

    Returns:
        A factory for structures of float32 tensors with float32 weights. Its processes measure `accepted`,
        `(clients,)`, in the order of the clients.
    """
    base: Any = load_tff().aggregators.WeightedAggregationFactory

    class DefenceFactory(base):
        def create(self, value_type: Any, weight_type: Any) -> tff.templates.AggregationProcess:
            return _aggregation_process(defence, value_type, weight_type)

    return DefenceFactory()


def _aggregation_process(defence: Defence, value_type: Any, weight_type: Any) -> tff.templates.AggregationProcess:
    tff = load_tff()
    specs = tff.types.structure_from_tensor_type_tree(lambda part: tf.TensorSpec(part.shape, part.dtype), value_type)

    @tff.federated_computation
    def initialize() -> Any:
        return tff.federated_value((), tff.SERVER)

    @tff.tensorflow.computation(value_type)
    def flatten(value: Any) -> tf.Tensor:
        return flattened(value)

    @tff.tensorflow.computation
    def aggregate(updates: Any, weights: Any) -> Any:
        result = defence(updates, weights)
        return unflattened(result.update, specs), OrderedDict(accepted=result.accepted)

    @tff.federated_computation(
        initialize.type_signature.result,
        tff.FederatedType(value_type, tff.CLIENTS),
        tff.FederatedType(weight_type, tff.CLIENTS),
    )
    def next_round(state: Any, values: Any, weights: Any) -> Any:
        vectors = tff.federated_map(flatten, values)
        result, measurements = tff.federated_map(aggregate, gathered(tff.federated_zip((vectors, weights))))
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
