"""Federated Intrinsic Plasticity (De Caro et al. 2022): federated averaging of a reservoir's gains and biases.

    g_{t+1} = sum_c (n_c / n) g^c_{t+1},  b_{t+1} = sum_c (n_c / n) b^c_{t+1}         (FedIP paper, Algorithm 1, line 9)

with g^c, b^c the result of E epochs of intrinsic plasticity on client c's data, from g_t, b_t (eqs. 2-3; the rule is in
`tff_esn.reservoir.plasticity`), and n_c its number of sequences. The readout is IncFed's, on the reservoir adapted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Callable

import numpy as np
from pydantic.dataclasses import dataclass

from tff_esn.algorithm import ALGORITHMS
from tff_esn.closed_form.algorithm import AdaptedReservoir
from tff_esn.closed_form.incfed import IncFed
from tff_esn.closed_form.messages import Message, gains_message
from tff_esn.datasets.federated import Arrays, FederatedDataset
from tff_esn.errors import ConfigError
from tff_esn.parameters import STRICT
from tff_esn.reservoir.plasticity import Plasticity, adapt
from tff_esn.reservoir.states import threads
from tff_esn.reservoir.weights import ReservoirWeights

OnRound = Callable[[int, ReservoirWeights], None]


@ALGORITHMS.register
@dataclass(frozen=True, repr=False, config=STRICT)
class FedIP(IncFed):
    """IncFed on a reservoir whose gains and biases the clients adapt together.

    Attributes:
        plasticity: The rule, and its rounds and epochs.
    """

    plasticity: Plasticity = Plasticity()

    name = "fedip"
    label = "FedIP"

    def adapted(self, data: FederatedDataset, weights: ReservoirWeights) -> AdaptedReservoir:
        """Rounds of intrinsic plasticity on the clients' sequences."""
        return fedip({client: own.values for client, own in data.sequences.items()}, weights, self.plasticity)


def fedip(
    clients: Mapping[str, Arrays],
    weights: ReservoirWeights,
    config: Plasticity,
    on_round: OnRound = lambda number, weights: None,
) -> AdaptedReservoir:
    """Adapts a reservoir to all clients' sequences.

    Args:
        clients: Sequences `(n, steps, inputs)` of each client.
        weights: The reservoir that the server hands out.
        config: Plasticity and rounds.
        on_round: Called after every round with its number and the reservoir.
    """
    sizes = {client: len(sequences) for client, sequences in clients.items()}
    total = sum(sizes.values())
    if not total:
        raise ConfigError("no client has sequences; expected at least one")
    up, down = dict.fromkeys(clients, 0), 0
    for number in range(1, config.rounds + 1):
        down += len(gains_message(weights.gain, weights.bias, 0).encode(np.float32))
        gain, bias = np.zeros(weights.units), np.zeros(weights.units)
        for client, data in _sent(clients, weights, config).items():
            up[client] += len(data)
            message = Message.decode(data)
            for mean, own in zip((gain, bias), message.values):
                mean += message.samples / total * own
        weights = replace(weights, gain=gain.astype(np.float32), bias=bias.astype(np.float32))
        on_round(number, weights)
    return AdaptedReservoir(weights, up, down)


def _sent(clients: Mapping[str, Arrays], weights: ReservoirWeights, config: Plasticity) -> dict[str, bytes]:
    """Every client's message of a round, clients side by side."""

    def send(sequences: Arrays) -> bytes:
        return local_update(sequences, weights, config).encode(np.float32)

    with threads() as pool:
        return dict(zip(clients, pool.map(send, clients.values())))


def local_update(sequences: Arrays, weights: ReservoirWeights, config: Plasticity) -> Message:
    """A client's part of a round: E epochs on its own data (Algorithm 1, line 7)."""
    if isinstance(sequences, tuple):  # of different lengths: one after the other
        adapted = weights
        for _ in range(config.epochs):
            for own in sequences:
                adapted = adapt(own[None], adapted, replace(config, epochs=1))
    else:
        adapted = adapt(sequences, weights, config)
    return gains_message(adapted.gain, adapted.bias, len(sequences))
