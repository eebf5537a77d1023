"""Incremental Federated Learning (Bacciu et al. 2021; FedRR in later papers), and what it is compared with.

    A_c = Y_c S_c^T,  B_c = S_c S_c^T                   at client c        (IncFed paper, eqs. 6-7; thesis eq. B.2)
    A = sum_c A_c,  B = sum_c B_c                       at the server      (eqs. 8-9; B.3)
    W = A (B + lambda I)^-1                                                (eq. 10; B.4)

is the readout that all the data in one place would give (eq. 3). What it is compared with averages readouts that
each client solves for itself, W = sum_c (N_c / N) W_c (eqs. 4-5, whose printed weights are 1 / N_c).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Callable

import numpy as np
from numpy.typing import NDArray

from tff_esn.closed_form.messages import Message, MessageError, full_message, message_bytes, readout_message
from tff_esn.closed_form.solver import solve_general
from tff_esn.closed_form.statistics import RidgeStatistics, solved_readout
from tff_esn.config import ClosedFormSwitches
from tff_esn.console import log
from tff_esn.errors import ConfigError
from tff_esn.presets import CLOSED_FORMS
from tff_esn.privacy.secure_aggregation import SecureSum, secure_sum
from tff_esn.readout.readout import Readout

Statistics = Mapping[str, RidgeStatistics]
Compress = Callable[[str, RidgeStatistics], Message]
CORRECTED = CLOSED_FORMS["corrected"]


@dataclass(frozen=True)
class FederatedReadout:
    """A readout and what it cost.

    Attributes:
        readout: Solved at the server.
        bytes_up: Length of each client's message.
        bytes_down: Length of the message that each client gets back.
        units: Number of units (or eigenvectors) that each client told about.
        left_out: Clients whose message could not be used, and why.
    """

    readout: Readout
    bytes_up: Mapping[str, int]
    bytes_down: int
    units: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def total_bytes(self) -> int:
        """Up and down, over all clients."""
        return sum(self.bytes_up.values()) + self.bytes_down * len(self.bytes_up)


@dataclass(frozen=True)
class Received:
    """The server's sums, of the clients whose messages could be used."""

    a: NDArray[np.float64]
    b: NDArray[np.float64]
    bias: bool
    clients: tuple[str, ...]
    left_out: Mapping[str, str]


def central(statistics: Statistics, regularization: float) -> Readout:
    """Ridge regression of everyone's data (IncFed paper, eq. 3)."""
    return reduce(add, statistics.values()).solve(regularization)


def incfed(
    statistics: Statistics,
    regularization: float,
    switches: ClosedFormSwitches = CORRECTED,
    dtype: type[np.floating] = np.float64,
) -> FederatedReadout:
    """IncFed (eqs. 6-10): every client sends all of A and half of the symmetric B."""
    return federate(statistics, lambda _, own: full_message(own), regularization, switches, dtype)


def secure_incfed(
    statistics: Statistics, regularization: float, switches: ClosedFormSwitches = CORRECTED
) -> FederatedReadout:
    """IncFed by secure aggregation: the server sees the sums of A and B, and no client's own."""
    summed, found = securely_summed(statistics)
    received = Received(summed.a, summed.b, summed.bias, tuple(statistics), {})
    return FederatedReadout(
        solved(received, regularization, switches),
        found.bytes_up,
        found.bytes_down + message_bytes("readout", *summed.a.shape),
        {client: own.units for client, own in statistics.items()},
    )


def securely_summed(statistics: Statistics, noise: float = 0.0) -> tuple[RidgeStatistics, SecureSum]:
    """The sum of the clients' statistics by secure aggregation.

    Units are in [-1, 1] and steps count at most 1, so that no value exceeds the number of a client's samples, which
    the server is told.

    Args:
        statistics: Of each client.
        noise: Deviation of noise that is on them, whose values exceed ten of them practically never.
    """
    check_one_reservoir({client: own.reservoir for client, own in statistics.items()})
    first = next(iter(statistics.values()))
    bound = max(1, *(own.samples for own in statistics.values())) + 10 * noise
    found = secure_sum({client: own.vector for client, own in statistics.items()}, bound)
    return first.of_vector(found.total, sum(own.samples for own in statistics.values())), found


def federate(
    statistics: Statistics,
    compress: Compress,
    regularization: float,
    switches: ClosedFormSwitches = CORRECTED,
    dtype: type[np.floating] = np.float64,
) -> FederatedReadout:
    """Clients compress and send, the server rebuilds, adds and solves.

    Args:
        statistics: Of each client.
        compress: What a client sends.
        regularization: lambda.
        switches: As printed or as meant.
        dtype: Type of the values on the wire.
    """
    messages = {client: compress(client, own) for client, own in statistics.items()}
    sent = {client: message.encode(dtype) for client, message in messages.items()}
    received = receive(sent)
    readout = solved(received, regularization, switches, symmetric=next(iter(messages.values())).kind != "columns")
    outputs, columns = received.a.shape
    return FederatedReadout(
        readout,
        {client: len(data) for client, data in sent.items()},
        message_bytes("readout", outputs, columns, value_bytes=np.dtype(dtype).itemsize),
        {client: _told(message) for client, message in messages.items()},
        received.left_out,
    )


def _told(message: Message) -> int:
    """Units in a message, the readout bias not being one."""
    if message.kind == "low_rank":
        return message.count
    return (message.columns if message.kind == "full" else len(message.units)) - message.bias


def receive(sent: Mapping[str, bytes]) -> Received:
    """Rebuilds and adds messages; a client whose message cannot be used is left out, and named.

    What is expected is what most messages say: a single client cannot make the others wrong.

    Raises:
        ConfigError: No message can be used, or the clients have different reservoirs.
    """
    messages, left_out = {}, {}
    for client, data in sent.items():
        try:
            messages[client] = Message.decode(data)
        except MessageError as error:
            left_out[client] = str(error)
    forms = [(message.kind, message.outputs, message.columns, message.bias) for message in messages.values()]
    for client, form in list(zip(messages, forms)):
        usual = max(forms, key=forms.count)
        if form != usual:
            left_out[client] = (
                f"{form[0]}, {form[1]} outputs of {form[2]} columns; expected {usual[0]}, {usual[1]} of {usual[2]}"
            )
            del messages[client]
    for client, reason in left_out.items():
        log.warning("client %s is left out: its message has %s", client, reason)
    if not messages:
        raise ConfigError("no client sent a message that can be used; expected at least one")
    check_one_reservoir({client: message.reservoir for client, message in messages.items()})
    first = next(iter(messages.values()))
    a, b = np.zeros((first.outputs, first.columns)), np.zeros((first.columns, first.columns))
    for message in messages.values():
        for total, part in zip((a, b), message.rebuilt()):
            total += part
    return Received(a, b, first.bias, tuple(messages), left_out)


def check_one_reservoir(reservoirs: Mapping[str, str]) -> None:
    """Refuses clients with different reservoirs: their statistics and readouts do not add up."""
    if len(set(reservoirs.values())) > 1:
        told = ", ".join(f"{client} {digest}" for client, digest in reservoirs.items())
        raise ConfigError(
            f"clients have different reservoirs ({told}): unit i of one is not unit i of another, and sums over "
            "clients mean nothing; expected one reservoir for all"
        )


def solved(
    received: Received, regularization: float, switches: ClosedFormSwitches = CORRECTED, symmetric: bool = True
) -> Readout:
    """The readout of the server's sums."""
    if switches.regularization == "per_client":
        regularization *= len(received.clients)
    if symmetric:
        return solved_readout(received.a, received.b, received.bias, regularization)
    if received.bias:
        raise ConfigError("a readout bias with masked columns of B; expected no bias, appendix B has none")
    return Readout(solve_general(received.a, received.b, regularization).T, np.zeros(len(received.a)), "linear")


def averaged_readouts(
    statistics: Statistics,
    regularization: float,
    switches: ClosedFormSwitches = CORRECTED,
    dtype: type[np.floating] = np.float64,
) -> FederatedReadout:
    """Federated averaging of readouts that each client solves for itself (IncFed paper, eqs. 4-5).

    A client without samples has no readout and does not count.
    """
    check_one_reservoir({client: own.reservoir for client, own in statistics.items()})
    local = {client: own for client, own in statistics.items() if own.samples}
    if not local:
        raise ConfigError("no client has samples; expected at least one")
    total = sum(own.samples for own in local.values())
    sent = {}
    for client, own in local.items():
        readout = own.solve(regularization)
        weights = readout.weights if own.bias else readout.kernel
        sent[client] = readout_message(weights.T, own.samples, own.reservoir, own.bias).encode(dtype)
    mean: NDArray = np.zeros(())
    for message in map(Message.decode, sent.values()):
        weight = message.samples / total if switches.averaging == "N_c/N" else 1 / message.samples
        mean = mean + weight * message.values[0]
    bias = next(iter(local.values())).bias
    readout = Readout.from_weights(mean.T, "linear") if bias else Readout(mean.T, np.zeros(len(mean)), "linear")
    sizes = {client: len(data) for client, data in sent.items()}
    return FederatedReadout(readout, sizes, next(iter(sizes.values())))
