"""The server's side of closed forms: messages are received, rebuilt, added up and solved.

A = sum_c A_c,  B = sum_c B_c,  W = A (B + lambda I)^-1           (IncFed paper, eqs. 8-10; thesis eqs. B.3, B.4)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Callable, Literal

import numpy as np
from numpy.typing import NDArray

from tff_esn.closed_form.messages import Message, MessageError, message_bytes
from tff_esn.closed_form.solver import solve_general
from tff_esn.closed_form.statistics import RidgeStatistics, solved_readout
from tff_esn.console import log
from tff_esn.errors import ConfigError
from tff_esn.readout.readout import Readout

Statistics = Mapping[str, RidgeStatistics]
Compress = Callable[[str, RidgeStatistics], Message]
#: beta inside every B_c, as printed (IncFed paper, eq. 7), so that the sum carries it |C| times, or lambda once.
Regularization = Literal["once", "per_client"]


@dataclass(frozen=True)
class FederatedReadout:
    """A readout and the bytes sent for it.

    Attributes:
        readout: Solved at the server.
        bytes_up: Length of each client's message.
        bytes_down: Length of the message that each client gets back.
        units: Number of units (or eigenvectors) that each client sent.
        left_out: Clients whose message could not be used, and why.
    """

    readout: Readout
    bytes_up: Mapping[str, int]
    bytes_down: int
    units: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def total_bytes(self) -> int:
        """Bytes up and down, over all clients."""
        return sum(self.bytes_up.values()) + self.bytes_down * len(self.bytes_up)


@dataclass(frozen=True)
class Received:
    """The server's sums, of the clients whose messages could be used."""

    a: NDArray[np.float64]
    b: NDArray[np.float64]
    bias: bool
    clients: tuple[str, ...]
    left_out: Mapping[str, str]


def federate(
    statistics: Statistics,
    compress: Compress,
    ridge: float,
    regularization: Regularization = "once",
    dtype: type[np.floating] = np.float64,
) -> FederatedReadout:
    """Clients compress and send, the server rebuilds, adds and solves.

    Args:
        statistics: Of each client.
        compress: What a client sends.
        ridge: lambda.
        regularization: Where it is added: `once` at the server, or by each client.
        dtype: Type of the values on the wire.
    """
    messages = {client: compress(client, own) for client, own in statistics.items()}
    sent = {client: message.encode(dtype) for client, message in messages.items()}
    received = receive(sent)
    readout = solved(received, ridge, regularization, symmetric=next(iter(messages.values())).kind != "columns")
    outputs, columns = received.a.shape
    return FederatedReadout(
        readout,
        {client: len(data) for client, data in sent.items()},
        message_bytes("readout", outputs, columns, value_bytes=np.dtype(dtype).itemsize),
        {client: _sent_units(message) for client, message in messages.items()},
        received.left_out,
    )


def _sent_units(message: Message) -> int:
    """Units in a message, the readout bias not being one."""
    if message.kind == "low_rank":
        return message.count
    return (message.columns if message.kind == "full" else len(message.units)) - message.bias


def receive(sent: Mapping[str, bytes]) -> Received:
    """Rebuilds and adds messages; a client whose message cannot be used is left out, and named.

    The expected form is that of most messages, so that a single client cannot invalidate the others.

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
    usual = Counter(forms).most_common(1)[0][0] if forms else None
    for client, form in list(zip(messages, forms)):
        if usual is not None and form != usual:
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
        digests = ", ".join(f"{client} {digest}" for client, digest in reservoirs.items())
        raise ConfigError(
            f"clients have different reservoirs ({digests}): unit i of one is not unit i of another, and sums over "
            "clients mean nothing; expected one reservoir for all"
        )


def solved(
    received: Received, ridge: float, regularization: Regularization = "once", symmetric: bool = True
) -> Readout:
    """The readout of the server's sums."""
    if regularization == "per_client":
        ridge *= len(received.clients)
    if symmetric:
        return solved_readout(received.a, received.b, received.bias, ridge)
    if received.bias:
        raise ConfigError("a readout bias with masked columns of B; expected no bias, appendix B has none")
    return Readout(solve_general(received.a, received.b, ridge).T, np.zeros(len(received.a)), "linear")
