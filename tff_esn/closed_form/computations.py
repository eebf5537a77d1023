"""The closed forms as TensorFlow Federated computations.

Clients compute their statistics and choose what to send in TensorFlow; `federated_sum` adds dense messages,
`federated_aggregate` rebuilds and adds sparse ones; the server solves. The mathematics is that of
`incfed`, `partial`, `pfedrr` and `fedip`, which run without TFF and agree with these.

A client is a struct of `path`, that of a file of sequences and their labels as `write_examples` writes it, which is
read where the client's work is done, and `order` (int32, `(units,)`), its random permutation of the units. A
reservoir, placed at the server and broadcast, is a struct of `recurrent_kernel`, `input_kernel`, `gain` and `bias`:
all clients have the same one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Callable

import numpy as np
from numpy.typing import NDArray

from tff_esn.reservoir.plasticity import Plasticity
from tff_esn.reservoir.step import tf_step
from tff_esn.reservoir.weights import ReservoirWeights
from tff_esn.runtime.context import load_tff
from tff_esn.store.client_files import read_examples

if TYPE_CHECKING:
    import tensorflow as tf
    import tensorflow_federated as tff

#: Steps whose states are in memory at a time.
BLOCK_STEPS = 25


@dataclass(frozen=True)
class Shapes:
    """Sizes that the clients of a computation share; `leaking_rate` is the reservoir's."""

    units: int
    inputs: int
    steps: int
    outputs: int
    leaking_rate: float = 1.0


def reservoir_struct(weights: ReservoirWeights) -> OrderedDict[str, NDArray]:
    """A reservoir as the computations take it."""
    names = ("recurrent_kernel", "input_kernel", "gain", "bias")
    return OrderedDict((name, getattr(weights, name).astype(np.float32)) for name in names)


def adapted_weights(weights: ReservoirWeights, reservoir: Mapping[str, Any]) -> ReservoirWeights:
    """A reservoir with the gain and bias that `build_fedip` found."""
    gain, bias = (np.asarray(reservoir[name], np.float32) for name in ("gain", "bias"))
    return replace(weights, gain=gain, bias=bias)


def client_struct(path: str | PathLike[str], order: NDArray) -> OrderedDict[str, Any]:
    """A client as the computations take it."""
    return OrderedDict(path=str(path), order=order.astype(np.int32))


def build_incfed(shapes: Shapes, regularization: float) -> tff.templates.IterativeProcess:
    """IncFed: each round's statistics are added to the earlier ones (IncFed paper, eqs. 6-12).

    `next(state, reservoir, clients)` returns the new state and the readout W, `(outputs, units)`. With different
    clients in different rounds the same process trains on a stream of clients.
    """
    tff = load_tff()
    import tensorflow as tf

    types = _Types(shapes)
    lower_places = np.stack(np.tril_indices(shapes.units), axis=1)

    @tff.tensorflow.computation
    def zeros() -> Any:
        return OrderedDict(
            a=tf.zeros((shapes.outputs, shapes.units), tf.float64), half_b=tf.zeros((len(lower_places),), tf.float64)
        )

    @tff.tensorflow.computation(types.client, types.reservoir)
    def message(client: Any, reservoir: Any) -> Any:
        a, b = tf_statistics(*tf_sequences(client, shapes), reservoir, shapes)
        return OrderedDict(a=a, half_b=tf.gather_nd(b, lower_places))

    state_type = zeros.type_signature.result

    @tff.tensorflow.computation(state_type, state_type)
    def added(state: Any, more: Any) -> Any:
        return tf.nest.map_structure(tf.add, state, more)

    @tff.tensorflow.computation(state_type)
    def solved(state: Any) -> Any:
        lower = tf.scatter_nd(lower_places, state["half_b"], (shapes.units, shapes.units))
        return tf_solve(
            state["a"], lower + tf.linalg.set_diag(tf.transpose(lower), np.zeros(shapes.units)), regularization
        )

    @tff.federated_computation
    def initialize() -> Any:
        return tff.federated_eval(zeros, tff.SERVER)

    @tff.federated_computation(initialize.type_signature.result, types.at_server, types.at_clients)
    def next_round(state: Any, reservoir: Any, clients: Any) -> Any:
        messages = tff.federated_map(message, (clients, tff.federated_broadcast(reservoir)))
        state = tff.federated_map(added, (state, tff.federated_sum(messages)))
        return state, tff.federated_map(solved, state)

    return tff.templates.IterativeProcess(initialize, next_round)


def build_averaging(shapes: Shapes, regularization: float, averaging: str = "N_c/N") -> tff.Computation:
    """Federated averaging of readouts solved by each client (IncFed paper, eqs. 4-5)."""
    tff = load_tff()
    import tensorflow as tf

    types = _Types(shapes)

    @tff.tensorflow.computation(types.client, types.reservoir)
    def local(client: Any, reservoir: Any) -> Any:
        values, targets = tf_sequences(client, shapes)
        a, b = tf_statistics(values, targets, reservoir, shapes)
        samples = tf.cast(tf.shape(values)[0] * shapes.steps, tf.float64)
        return tf_solve(a, b, regularization), samples

    @tff.tensorflow.computation(local.type_signature.result)
    def weighted(message: Any) -> Any:
        readout, samples = message[0], message[1]
        weight = samples if averaging == "N_c/N" else tf.math.divide_no_nan(tf.ones((), tf.float64), samples)
        return weight * readout, samples

    @tff.tensorflow.computation(local.type_signature.result)
    def finished(total: Any) -> Any:
        return total[0] / total[1] if averaging == "N_c/N" else total[0]

    @tff.federated_computation(types.at_server, types.at_clients)
    def average(reservoir: Any, clients: Any) -> Any:
        readouts = tff.federated_map(local, (clients, tff.federated_broadcast(reservoir)))
        return tff.federated_map(finished, tff.federated_sum(tff.federated_map(weighted, readouts)))

    return average


def build_partial(shapes: Shapes, regularization: float, alpha: float, count: int) -> tff.Computation:
    """Partial IncFed, and with alpha = 0 Random (thesis eqs. B.14-B.17)."""
    import tensorflow as tf

    def compress(a: Any, b: Any, order: Any) -> Any:
        units = tf_mixed_units(tf.reduce_sum(b, axis=1), tf.constant(count), alpha, order)
        return OrderedDict(units=units, a=tf.gather(a, units, axis=1), b=tf.gather(b, units, axis=1))

    def rebuild(message: Any) -> tuple[Any, Any]:
        chosen = tf.one_hot(message["units"], shapes.units, dtype=tf.float64)
        return message["a"] @ chosen, message["b"] @ chosen

    return _one_shot(shapes, compress, rebuild, lambda a, b: tf_solve(a, b, regularization, symmetric=False))


def build_pfedrr(
    shapes: Shapes,
    regularization: float,
    tau: float,
    important_share: float = 1.0,
    last_unit: str = "kept",
) -> tff.Computation:
    """I-pFedRR (a share of 1), R-pFedRR (0) or the hybrid (pFedRR paper, eqs. 2-5)."""
    import tensorflow as tf

    def compress(a: Any, b: Any, order: Any) -> Any:
        importances = tf_squared_importance(b, last_unit)
        count = tf.math.count_nonzero(importances > 1 - tau, dtype=tf.int32)
        units = tf_mixed_units(importances, count, important_share, order)
        block = tf.gather(tf.gather(b, units), units, axis=1)
        below = tf.boolean_mask(block, tf.range(count)[:, None] > tf.range(count)[None])
        return OrderedDict(units=units, a=a, diagonal=tf.linalg.diag_part(b), below=below)

    def rebuild(message: Any) -> tuple[Any, Any]:
        count = tf.size(message["units"])
        pairs = tf.where(tf.range(count)[:, None] > tf.range(count)[None])
        places = tf.gather(message["units"], pairs)
        lower = tf.scatter_nd(places, message["below"], (shapes.units, shapes.units))
        # Ordered units keep the pairs below the diagonal.
        return message["a"], tf.linalg.diag(message["diagonal"]) + lower + tf.transpose(lower)

    return _one_shot(shapes, compress, rebuild, lambda a, b: tf_solve(a, b, regularization))


def build_mean_selected(shapes: Shapes, tau: float, last_unit: str = "kept") -> tff.Computation:
    """How many units pFedRR's threshold selects in the clients' mean, for a low rank of the same size."""
    tff = load_tff()
    import tensorflow as tf

    types = _Types(shapes)

    @tff.tensorflow.computation(types.client, types.reservoir)
    def selected(client: Any, reservoir: Any) -> Any:
        _, b = tf_statistics(*tf_sequences(client, shapes), reservoir, shapes)
        return tf.cast(tf.math.count_nonzero(tf_squared_importance(b, last_unit) > 1 - tau), tf.float64)

    @tff.federated_computation(types.at_server, types.at_clients)
    def mean_selected(reservoir: Any, clients: Any) -> Any:
        return tff.federated_mean(tff.federated_map(selected, (clients, tff.federated_broadcast(reservoir))))

    return mean_selected


def build_low_rank(shapes: Shapes, regularization: float, rank: int) -> tff.Computation:
    """The policy that sends leading eigenvectors of B, as `low_rank`."""
    import tensorflow as tf

    def compress(a: Any, b: Any, order: Any) -> Any:
        values, vectors = tf.linalg.eigh(b)
        values, vectors = values[-rank:], vectors[:, -rank:]
        left = tf.linalg.diag_part(b) - tf.linalg.matvec(vectors**2, values)
        return OrderedDict(a=a, left=left, values=values, vectors=vectors)

    def rebuild(message: Any) -> tuple[Any, Any]:
        vectors = message["vectors"]
        return message["a"], tf.matmul(vectors * message["values"], vectors, transpose_b=True) + tf.linalg.diag(
            message["left"]
        )

    return _one_shot(shapes, compress, rebuild, lambda a, b: tf_solve(a, b, regularization))


def build_fedip(shapes: Shapes, config: Plasticity) -> tff.templates.IterativeProcess:
    """FedIP's rounds: the state is the reservoir, whose gain and bias each round averages over the clients."""
    tff = load_tff()
    import tensorflow as tf

    types = _Types(shapes)

    @tff.tensorflow.computation
    def no_reservoir() -> Any:
        tensors = {name: tf.zeros(own.shape, own.dtype) for name, own in types.reservoir_parts.items()}
        return OrderedDict(tensors)

    @tff.federated_computation
    def initialize() -> Any:
        return tff.federated_eval(no_reservoir, tff.SERVER)

    @tff.tensorflow.computation(types.client, types.reservoir)
    def local(client: Any, reservoir: Any) -> Any:
        values, _ = tf_sequences(client, shapes)
        gain, bias = tf_adapt(values, reservoir, shapes, config)
        return OrderedDict(gain=gain, bias=bias), tf.cast(tf.shape(values)[0], tf.float32)

    @tff.tensorflow.computation(types.reservoir, local.type_signature.result[0])
    def replaced(reservoir: Any, mean: Any) -> Any:
        return OrderedDict({**reservoir, **mean})

    @tff.federated_computation(types.at_server, types.at_clients)
    def next_round(reservoir: Any, clients: Any) -> Any:
        adapted = tff.federated_map(local, (clients, tff.federated_broadcast(reservoir)))
        mean = tff.federated_mean(adapted[0], adapted[1])
        return tff.federated_map(replaced, (reservoir, mean))

    return tff.templates.IterativeProcess(initialize, next_round)


class _Types:
    """The types that all computations share."""

    def __init__(self, shapes: Shapes) -> None:
        tff = load_tff()
        units, inputs = shapes.units, shapes.inputs
        self.reservoir_parts: Mapping[str, Any] = OrderedDict(
            recurrent_kernel=tff.TensorType(np.float32, [units, units]),
            input_kernel=tff.TensorType(np.float32, [inputs, units]),
            gain=tff.TensorType(np.float32, [units]),
            bias=tff.TensorType(np.float32, [units]),
        )
        self.reservoir = tff.to_type(self.reservoir_parts)
        self.client = tff.to_type(
            OrderedDict(
                path=tff.TensorType(np.str_),
                order=tff.TensorType(np.int32, [units]),
            )
        )
        self.at_server = tff.FederatedType(self.reservoir, tff.SERVER)
        self.at_clients = tff.FederatedType(self.client, tff.CLIENTS)


def _one_shot(
    shapes: Shapes,
    compress: Callable[[Any, Any, Any], Any],
    rebuild: Callable[[Any], tuple[Any, Any]],
    solve: Callable[[Any, Any], Any],
) -> tff.Computation:
    """Clients compress, the server rebuilds and adds message by message, and solves."""
    tff = load_tff()
    import tensorflow as tf

    types = _Types(shapes)

    @tff.tensorflow.computation
    def zero() -> Any:
        n = shapes.units
        return tf.zeros((shapes.outputs, n), tf.float64), tf.zeros((n, n), tf.float64)

    @tff.tensorflow.computation(types.client, types.reservoir)
    def message(client: Any, reservoir: Any) -> Any:
        return compress(*tf_statistics(*tf_sequences(client, shapes), reservoir, shapes), client["order"])

    sums = zero.type_signature.result

    @tff.tensorflow.computation(sums, message.type_signature.result)
    def accumulate(total: Any, own: Any) -> Any:
        a, b = rebuild(own)
        return total[0] + a, total[1] + b

    @tff.tensorflow.computation(sums, sums)
    def merge(one: Any, other: Any) -> Any:
        return one[0] + other[0], one[1] + other[1]

    @tff.tensorflow.computation(sums)
    def report(total: Any) -> Any:
        return solve(total[0], total[1])

    @tff.federated_computation(types.at_server, types.at_clients)
    def federate(reservoir: Any, clients: Any) -> Any:
        messages = tff.federated_map(message, (clients, tff.federated_broadcast(reservoir)))
        return tff.federated_aggregate(messages, zero(), accumulate, merge, report)

    return federate


def tf_sequences(client: Any, shapes: Shapes) -> tuple[tf.Tensor, tf.Tensor]:
    """A client's `(n, steps, inputs)` sequences and the `(n, outputs)` targets, one of which is 1."""
    import tensorflow as tf

    values, labels = read_examples(client["path"], shapes.steps * shapes.inputs)
    return tf.reshape(values, (-1, shapes.steps, shapes.inputs)), tf.one_hot(labels, shapes.outputs)


def tf_statistics(values: Any, targets: Any, reservoir: Any, shapes: Shapes) -> tuple[tf.Tensor, tf.Tensor]:
    """A and B whole of sequences, states in float32, sums in float64."""
    import tensorflow as tf

    units, weights = shapes.units, ReservoirWeights(**reservoir, leaking_rate=shapes.leaking_rate)

    def step(state: Any, inputs: Any) -> Any:
        return tf_step(state, inputs, weights).state

    by_step = tf.transpose(values, (1, 0, 2))
    state = tf.zeros((tf.shape(by_step)[1], units))
    a, b = tf.zeros((shapes.outputs, units), tf.float64), tf.zeros((units, units), tf.float64)
    for start in range(0, shapes.steps, BLOCK_STEPS):
        states = tf.scan(step, by_step[start : start + BLOCK_STEPS], state)
        rows = tf.reshape(states, (-1, units))
        a += tf.cast(tf.matmul(targets, tf.reduce_sum(states, axis=0), transpose_a=True), tf.float64)
        b += tf.cast(tf.matmul(rows, rows, transpose_a=True), tf.float64)
        state = states[-1]
    return a, b


def tf_solve(a: Any, b: Any, regularization: float, symmetric: bool = True) -> tf.Tensor:
    """W = A (B + lambda I)^-1: by the eigenvalues of a symmetric B, however it is conditioned, or as it is."""
    import tensorflow as tf

    if not symmetric:
        matrix = b + regularization * tf.eye(b.shape[0], dtype=tf.float64)
        return tf.transpose(tf.linalg.solve(tf.transpose(matrix), tf.transpose(a)))
    values, vectors = tf.linalg.eigh(b)
    return tf.matmul((a @ vectors) / (tf.maximum(values, 0.0) + regularization), vectors, transpose_b=True)


def tf_squared_importance(b: Any, last_unit: str = "kept") -> tf.Tensor:
    """As `selection.squared_importance`."""
    import tensorflow as tf

    squares = tf.reduce_sum(b**2, axis=1)
    low, high = tf.reduce_min(squares), tf.reduce_max(squares)
    scaled = tf.math.divide_no_nan(squares - low, high - low)
    if last_unit == "dropped":
        scaled = tf.concat((scaled[:-1], [-np.inf]), axis=0)
    return scaled


def tf_mixed_units(importances: Any, count: Any, share: float, order: Any) -> tf.Tensor:
    """As `selection.mixed_units`."""
    import tensorflow as tf

    units = importances.shape[0]
    by_importance = tf.argsort(importances, direction="DESCENDING", stable=True)
    important = by_importance[: tf.cast(tf.round(share * tf.cast(count, tf.float64)), tf.int32)]
    taken = tf.scatter_nd(important[:, None], tf.ones_like(important), (units,))
    # In TFF's graphs `==` asks whether two tensors are the same object.
    others = tf.boolean_mask(order, tf.equal(tf.gather(taken, order), 0))
    return tf.sort(tf.concat((important, others[: count - tf.size(important)]), axis=0))


def tf_adapt(values: Any, reservoir: Any, shapes: Shapes, config: Plasticity) -> tuple[tf.Tensor, tf.Tensor]:
    """As `plasticity.adapt`: gain and bias after `config.epochs` passes."""
    import tensorflow as tf

    variance, mu, eta = config.sigma**2, config.mu, config.eta
    weights = ReservoirWeights(**reservoir, leaking_rate=shapes.leaking_rate)

    def gradients(net: Any, h: Any, gain: Any) -> tuple[Any, Any]:
        if config.rule == "printed":
            of_bias = mu / variance - (h / variance + 1 - h * h + mu * h)
        else:
            of_bias = mu / variance - h / variance * (2 * variance + 1 - h * h + mu * h)
        return tf.reduce_mean(of_bias, axis=0), 1 / gain + tf.reduce_mean(of_bias * net, axis=0)

    def batch_update(batch: Any, gain: Any, bias: Any) -> tuple[Any, Any]:
        by_step = tf.transpose(batch, (1, 0, 2))

        def step(t: Any, state: Any, gain: Any, bias: Any, sum_gain: Any, sum_bias: Any) -> tuple[Any, ...]:
            net, h, state = tf_step(state, by_step[t], replace(weights, gain=gain, bias=bias))
            of_bias, of_gain = gradients(net, h, gain)
            if config.rule == "normalized":
                sum_gain, sum_bias = sum_gain + of_gain, sum_bias + of_bias
            else:
                gain, bias = gain + eta * of_gain, bias + eta * of_bias
            return t + 1, state, gain, bias, sum_gain, sum_bias

        zeros = tf.zeros((shapes.units,))
        start = (tf.constant(0), tf.zeros((tf.shape(batch)[0], shapes.units)), gain, bias, zeros, zeros)
        _, _, gain, bias, sum_gain, sum_bias = tf.while_loop(lambda t, *_: t < shapes.steps, step, start)
        if config.rule == "normalized":
            gain += eta * tf.math.divide_no_nan(sum_gain, tf.norm(sum_gain))
            bias += eta * tf.math.divide_no_nan(sum_bias, tf.norm(sum_bias))
        return gain, bias

    # Batch after batch, epoch after epoch.
    count = (tf.shape(values)[0] + config.batch_size - 1) // config.batch_size

    def visit(number: Any, gain: Any, bias: Any) -> tuple[Any, Any, Any]:
        first = (number % count) * config.batch_size
        return number + 1, *batch_update(values[first : first + config.batch_size], gain, bias)

    start = (tf.constant(0), weights.gain, weights.bias)
    _, gain, bias = tf.while_loop(lambda number, *_: number < config.epochs * count, visit, start)
    return gain, bias
