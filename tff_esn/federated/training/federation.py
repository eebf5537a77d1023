"""An algorithm on its clients, under one of three engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from tff_esn.errors import ConfigError
from tff_esn.federated.algorithm import GradientAlgorithm
from tff_esn.federated.attacks.attack import HONEST, Attack
from tff_esn.federated.defences.defence import Defence
from tff_esn.federated.objective import Objective
from tff_esn.federated.training.builtin import ReservoirBank, build_builtin_process, client_dataset, model_function
from tff_esn.federated.training.client_states import ClientFiles
from tff_esn.federated.training.local import Client, Diagnostics, LocalWork
from tff_esn.federated.training.process import ServerState, build_readout_process
from tff_esn.readout.parameters import GradientTraining
from tff_esn.readout.readout import Readout
from tff_esn.reservoir.weights import ReservoirWeights
from tff_esn.seeds import seed_for


@dataclass(frozen=True)
class RoundReport:
    """How a round went.

    Attributes:
        loss: Mean of the clients' objectives over the examples of those that counted.
        examples: Number of these examples.
        clients: Diagnostics of each client; empty for TFF's built-in processes, which report sums only.
        left_out: Clients whose update was not finite; TFF's built-in processes do not report their names.
        accepted: Whether the defence accepted a client's update; empty without a defence that chooses.
        fake: Those of the round's clients that attack.
    """

    loss: float
    examples: int
    clients: Mapping[str, Diagnostics]
    left_out: tuple[str, ...]
    accepted: Mapping[str, bool] = field(default_factory=dict)
    fake: tuple[str, ...] = ()


class Federation(Protocol):
    """Rounds of an algorithm. A state is a structure of arrays."""

    clients: tuple[str, ...]

    def initial_state(self) -> Any:
        """Before the first round."""

    def next(self, state: Any, drawn: Sequence[str], round_number: int) -> tuple[Any, RoundReport]:
        """One round of the drawn clients."""

    def readout(self, state: Any) -> Readout:
        """The server's readout."""


def build_federation(
    algorithm: GradientAlgorithm,
    training: GradientTraining,
    files: ClientFiles,
    classes: int,
    start: Readout,
    seed: int,
    reservoirs: Sequence[ReservoirWeights] | None = None,
    defence: Defence | None = None,
) -> Federation:
    """The federation of an algorithm.

    Args:
        algorithm: What a round is.
        training: How a client trains, with a number for each class weight.
        files: The clients' examples: states, or windows for the engine `graph`.
        classes: Number of classes.
        start: The readout before the first round.
        seed: Seed of the examples' orders.
        reservoirs: Reservoir of each client, for the engine `graph`.
        defence: How the server combines updates, ready to use; None for their mean.
    """
    work = LocalWork(
        columns=int(np.prod(files.shape)),
        units=len(start.kernel),
        classes=classes,
        rows=files.rows,
        readout=training,
        weighting=algorithm.client_weighting,
    )
    engine, objective = algorithm.chosen_engine, algorithm.objective()
    if engine == "states" or "builtin" not in algorithm.engines:
        if objective is None:
            raise ConfigError(f"{algorithm.name} with engine = {engine!r}; expected an objective, or a TFF process")
        return ReadoutFederation(algorithm, files, work, start, seed, reservoirs, defence, objective)
    if defence is not None or (algorithm.attack is not None and algorithm.attack.on_update() != HONEST):
        raise ConfigError(f"an attack on updates or a defence with engine = {engine!r}; expected engine = 'states'")
    return BuiltinFederation(algorithm, files, work, start, seed, reservoirs)


class _OnFiles:
    """A federation whose clients' examples are files."""

    def __init__(self, files: ClientFiles, work: LocalWork, attack: Attack | None, seed: int) -> None:
        self.clients, self.work = files.clients, work
        self.row = {client: i for i, client in enumerate(files.clients)}
        self.fake = () if attack is None else attack.fake_clients(files.clients, seed)
        self._on_update = HONEST if attack is None else attack.on_update()
        self._files, self._seed = files, seed

    def client(self, name: str, round_number: int, own: Any) -> Client:
        """Input of a round for a client."""
        first = round_number * self.work.readout.epochs
        order = np.array([seed_for(self._seed, "order", name), first], np.int32)
        attack = np.array(self._on_update if name in self.fake else HONEST, np.float32)
        return Client(str(self._files.seen_path(name)), order, np.int32(self.row[name]), attack, own)


class ReadoutState(NamedTuple):
    """State between rounds.

    Attributes:
        server: State of the server.
        own: The message of each client that is part of the server's sums, stacked; 0 for clients that sent none.
    """

    server: ServerState
    own: Any


class ReadoutFederation(_OnFiles):
    """A federation that runs this package's process."""

    def __init__(
        self,
        algorithm: GradientAlgorithm,
        files: ClientFiles,
        work: LocalWork,
        start: Readout,
        seed: int,
        reservoirs: Sequence[ReservoirWeights] | None,
        defence: Defence | None,
        objective: Objective,
    ) -> None:
        super().__init__(files, work, algorithm.attack, seed)
        self.objective = objective
        self._rate, self._start = algorithm.server_learning_rate, start
        features = None if reservoirs is None else _InGraph(tuple(reservoirs), files.shape)
        # Learning rates are part of the state, so that one process serves for all of them.
        without_rates = replace(work, features=features, readout=replace(work.readout, learning_rate=1.0))
        self._process = _kept_process(without_rates, objective.without_rates(), defence)

    def initial_state(self) -> ReadoutState:
        """The initial readout, with the learning rates of the configuration."""
        state = self._process.initialize()
        weights = self._start.weights
        server = state._replace(
            weights=weights,
            optimizer={**state.optimizer, "learning_rate": np.float32(self._rate)},
            objective=_arrays(self.objective.initialize(weights)),
            learning_rate=np.float32(self.work.readout.learning_rate),
        )
        return ReadoutState(server, self._empty_messages())

    def next(self, state: ReadoutState, drawn: Sequence[str], round_number: int) -> tuple[ReadoutState, RoundReport]:
        """One round of the drawn clients."""
        rows = [self.row[name] for name in drawn]
        clients = [
            self.client(name, round_number, tf.nest.map_structure(lambda all_, i=row: all_[i], state.own))
            for name, row in zip(drawn, rows)
        ]
        server, output = self._process.next(state.server, clients)
        counted = np.asarray(output.counted if len(output.counted) else output.diagnostics.finite, bool)
        # If no message counts, the server keeps its sums and the clients their previous messages.
        own = self._empty_messages() if counted.any() else state.own
        changed = np.array(rows)[counted]
        tf.nest.map_structure(lambda all_, sent: all_.__setitem__(changed, sent[counted]), own, output.messages)
        report = _report(dict(zip(drawn, map(Diagnostics._make, zip(*output.diagnostics)))))
        accepted = dict(zip(drawn, map(bool, output.accepted)))
        fake = tuple(name for name in drawn if name in self.fake)
        return ReadoutState(server, own), replace(report, accepted=accepted, fake=fake)

    def readout(self, state: ReadoutState) -> Readout:
        """The server's readout."""
        return Readout.from_weights(np.asarray(state.server.weights), self._start.activation)

    def _empty_messages(self) -> Any:
        empty = self.objective.empty_message(self._start.weights)
        return tf.nest.map_structure(lambda part: np.zeros((len(self.clients), *part.shape), np.float32), empty)


class BuiltinFederation(_OnFiles):
    """A federation that runs one of TFF's built-in processes."""

    def __init__(
        self,
        algorithm: GradientAlgorithm,
        files: ClientFiles,
        work: LocalWork,
        start: Readout,
        seed: int,
        reservoirs: Sequence[ReservoirWeights] | None,
    ) -> None:
        super().__init__(files, work, algorithm.attack, seed)
        self._activation = start.activation
        self._shape = None if reservoirs is None else files.shape
        self._examples = dict(zip(files.clients, files.examples))
        steps = files.shape[0]
        self._process = build_builtin_process(algorithm, work.readout, model_function(work, start, reservoirs, steps))

    def initial_state(self) -> Any:
        """The initial readout."""
        return self._process.initialize()

    def next(self, state: Any, drawn: Sequence[str], round_number: int) -> tuple[Any, RoundReport]:
        """One round of the drawn clients."""
        clients = [self.client(name, round_number, ()) for name in drawn]
        output = self._process.next(state, [client_dataset(client, self.work, self._shape) for client in clients])
        train = output.metrics["client_work"]["train"]
        counted = int(train["num_examples"]) // self.work.readout.epochs
        # TFF does not name clients with non-finite updates. FedAvg does not count their examples; the other
        # processes report a non-finite loss.
        missing = sum(self._examples[name] for name in drawn) - counted
        loss = float(train["loss"]) if counted else float("nan")
        left_out: tuple[str, ...] = ()
        if missing:
            left_out = (f"clients with {missing} examples",)
        elif not np.isfinite(loss):
            left_out = ("a client that TFF does not name",)
        return output.state, RoundReport(loss, counted, {}, left_out)

    def readout(self, state: Any) -> Readout:
        """The server's readout."""
        kernel, bias = map(np.asarray, self._process.get_model_weights(state).trainable)
        return Readout(kernel, bias, self._activation)


@dataclass(frozen=True, eq=False)
class _InGraph:
    """The states of windows, by the client's reservoir, computed inside the client's graph."""

    bank: tuple[ReservoirWeights, ...]
    shape: tuple[int, ...]

    def __call__(self, values: tf.Tensor, reservoir: tf.Tensor) -> tf.Tensor:
        layer = ReservoirBank(self.bank)
        layer.build(None)
        return layer.states(tf.reshape(values, (-1, *self.shape)), reservoir)


@lru_cache(maxsize=32)
def _kept_process(work: LocalWork, objective: Objective, defence: Defence | None) -> Any:
    return build_readout_process(work, objective, defence=defence)


def _arrays(values: Any) -> Any:
    return tf.nest.map_structure(lambda value: value.numpy(), values)


def _report(clients: Mapping[str, Diagnostics]) -> RoundReport:
    counted = {name: one for name, one in clients.items() if one.finite}
    examples = sum(int(one.examples) for one in counted.values())
    total = sum(float(one.loss) * int(one.examples) for one in counted.values())
    left_out = tuple(name for name in clients if name not in counted)
    return RoundReport(total / examples if examples else float("nan"), examples, clients, left_out)
