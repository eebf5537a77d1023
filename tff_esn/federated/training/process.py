"""Rounds on TensorFlow Federated: which part is computed where (thesis Listings 3.2, 3.3 and 3.5).

The mathematics of a client is in `local` and in one file per algorithm; here it is distributed. A client gets a path,
not its data: it reads its examples where it runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf

from tff_esn.federated.defences.defence import Defence, gathered
from tff_esn.federated.objective import Objective
from tff_esn.federated.training.local import Client, ClientResult, Diagnostics, LocalTraining, LocalWork
from tff_esn.runtime.context import load_tff

if TYPE_CHECKING:
    import tensorflow_federated as tff

#: Steps of training in a turn of a client's loop, which TFF's worker interprets: with fewer the loop costs more, with
#: more its start.
STEPS_TOGETHER = 4


class ServerState(NamedTuple):
    """State of the server between rounds.

    Attributes:
        weights: The readout's.
        optimizer: The server optimizer's, with its learning rate.
        aggregator: The aggregator's.
        objective: State of the clients' objectives.
        learning_rate: The clients'.
    """

    weights: tf.Tensor
    optimizer: Any
    aggregator: Any
    objective: Any
    learning_rate: Any


class RoundOutput(NamedTuple):
    """Output of a round in addition to the new state.

    Attributes:
        diagnostics: Of the clients, each a `(clients,)` vector.
        messages: Their messages for the next round's objectives, stacked.
        accepted: `(clients,)`: whether the defence accepted the update; empty without a defence that chooses.
        counted: `(clients,)`: whether the message counts; empty without a defence that chooses.
    """

    diagnostics: Diagnostics
    messages: Any
    accepted: Any
    counted: Any


def build_readout_process(
    work: LocalWork,
    objective: Objective,
    server_learning_rate: float = 1.0,
    defence: Defence | None = None,
) -> tff.templates.IterativeProcess:
    """Rounds of local training, the mean of the clients' updates, and a step of the server's SGD along it.

    A client whose update is not finite has weight 0. If all have, nothing changes.

    Args:
        work: What a client does.
        objective: What it minimises beside its loss.
        server_learning_rate: With 1 the server's weights become the clients' mean.
        defence: How the server combines updates, ready to use; None for their weighted mean.

    Returns:
        `initialize: ( -> ServerState@SERVER)` and
        `next: (<ServerState@SERVER, {Client}@CLIENTS> -> <ServerState@SERVER, RoundOutput>)`. Learning rates are part
        of the state, so that one process serves for all of them.
    """
    tff = load_tff()
    server_optimizer = tff.learning.optimizers.build_sgdm(server_learning_rate)
    weights_type = tff.types.tensorflow_to_type(_specs(work.zero_weights()))
    message_type = tff.types.tensorflow_to_type(_specs(objective.empty_message(work.zero_weights())))
    aggregator = None if defence is None else defence.aggregator()
    factory = aggregator or tff.aggregators.MeanFactory(no_nan_division=True)
    aggregation = factory.create(weights_type, tff.TensorType(np.float32))
    aggregator_type = aggregation.initialize.type_signature.result.member
    training = LocalTraining(work, objective, STEPS_TOGETHER)

    @tff.tensorflow.computation(aggregator_type)
    def initial_state(of_aggregator: Any) -> ServerState:
        weights = work.zero_weights()
        rate = tf.constant(work.readout.learning_rate, tf.float32)
        optimizer = server_optimizer.initialize(_specs(weights))
        return ServerState(weights, optimizer, of_aggregator, objective.initialize(weights), rate)

    @tff.federated_computation
    def initialize() -> Any:
        return tff.federated_map(initial_state, aggregation.initialize())

    state_type = initialize.type_signature.result.member
    client_type = tff.types.StructWithPythonType(
        [
            ("path", np.str_),
            ("seed", (np.int32, (2,))),
            ("reservoir", np.int32),
            ("attack", (np.float32, (2,))),
            ("own", message_type),
        ],
        Client,
    )

    @tff.tensorflow.computation(state_type, client_type)
    def client_update(state: Any, client: Any) -> ClientResult:
        return training(state.weights, state.learning_rate, state.objective, client)

    @tff.tensorflow.computation(state_type, aggregator_type, weights_type, message_type, np.float32)
    def server_update(state: Any, of_aggregator: Any, mean: Any, total: Any, weight: Any) -> ServerState:
        optimizer, weights = server_optimizer.next(state.optimizer, state.weights, -mean)
        # If no client counts, the objective's state stays.
        finished = objective.finish(state.objective, total)
        known = tf.nest.map_structure(lambda new, old: tf.where(weight > 0, new, old), finished, state.objective)
        return ServerState(weights, optimizer, of_aggregator, known, state.learning_rate)

    @tff.tensorflow.computation(weights_type, np.float32, message_type)
    def as_rows(update: Any, weight: Any, message: Any) -> Any:
        return tf.reshape(update, (-1,)), weight, message

    @tff.tensorflow.computation
    def aggregate(updates: Any, weights: Any, messages: Any) -> Any:
        assert defence is not None
        update, accepted, counted = defence(updates, weights)
        total = tf.nest.map_structure(lambda rows: tf.reduce_sum(tf.boolean_mask(rows, counted), axis=0), messages)
        weight = tf.reduce_sum(tf.boolean_mask(weights, counted))
        return tf.reshape(update, work.zero_weights().shape), total, weight, accepted, counted

    @tff.federated_computation(tff.FederatedType(state_type, tff.SERVER), tff.FederatedType(client_type, tff.CLIENTS))
    def next_round(state: Any, clients: Any) -> Any:
        results = tff.federated_map(client_update, (tff.federated_broadcast(state), clients))
        if defence is None or aggregator is not None:
            aggregated = aggregation.next(state.aggregator, results.update, results.weight)
            of_aggregator, mean = aggregated.state, aggregated.result
            total, weight = tff.federated_sum(results.message), tff.federated_sum(results.weight)
            accepted = counted = tff.federated_value((), tff.SERVER)
        else:
            rows = gathered(tff.federated_map(as_rows, (results.update, results.weight, results.message)))
            mean, total, weight, accepted, counted = tff.federated_map(aggregate, rows)
            of_aggregator = state.aggregator
        new = tff.federated_map(server_update, (state, of_aggregator, mean, total, weight))
        # At the server: what stays at the clients would make those of a fleet compute twice.
        diagnostics, messages = gathered(tff.federated_zip((results.diagnostics, results.message)))
        return new, RoundOutput(diagnostics, messages, accepted, counted)

    return tff.templates.IterativeProcess(initialize, next_round)


def _specs(values: Any) -> Any:
    return tf.nest.map_structure(tf.TensorSpec.from_tensor, values)
