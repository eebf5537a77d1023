"""Federated averaging of readouts that each client solves for itself (IncFed paper, eqs. 4-5).

W = sum_c (N_c / N) W_c         with the printed weights 1 / N_c, which do not sum to 1, as a switch
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from tff_esn.algorithm import ALGORITHMS
from tff_esn.closed_form.algorithm import ClosedForm
from tff_esn.closed_form.computations import Shapes, build_averaging
from tff_esn.closed_form.messages import Message, readout_message
from tff_esn.closed_form.server import FederatedReadout, Statistics, check_one_reservoir
from tff_esn.errors import ConfigError
from tff_esn.parameters import STRICT
from tff_esn.readout.readout import Readout


@ALGORITHMS.register
@dataclass(frozen=True, repr=False, config=STRICT)
class AveragedRidge(ClosedForm):
    """The mean of the ridge readouts of each client; a client without samples has none and does not count.

    Attributes:
        averaging: Weight of a client's readout: `N_c/N`, or `1/N_c` as printed.
    """

    averaging: Literal["N_c/N", "1/N_c"] = "N_c/N"

    name = "averaging"
    label = "averaged ridge readouts"

    def solve(self, statistics: Statistics) -> FederatedReadout:
        """The weighted mean of the clients' readouts."""
        check_one_reservoir({client: own.reservoir for client, own in statistics.items()})
        local = {client: own for client, own in statistics.items() if own.samples}
        if not local:
            raise ConfigError("no client has samples; expected at least one")
        total = sum(own.samples for own in local.values())
        sent = {}
        for client, own in local.items():
            readout = own.solve(self.ridge)
            kernel = np.vstack((readout.kernel, readout.bias)) if own.bias else readout.kernel
            message = readout_message(kernel.T, own.samples, own.reservoir, own.bias)
            sent[client] = message.encode(self.wire_type)
        mean: NDArray = np.zeros(())
        for message in map(Message.decode, sent.values()):
            weight = message.samples / total if self.averaging == "N_c/N" else 1 / message.samples
            mean = mean + weight * message.values[0]
        kernel, bias = (mean[:, :-1], mean[:, -1]) if self.bias else (mean, np.zeros(len(mean)))
        sizes = {client: len(data) for client, data in sent.items()}
        return FederatedReadout(Readout(kernel.T, bias, "linear"), sizes, next(iter(sizes.values())))

    def build(self, shapes: Shapes, clients: int) -> Callable[[Any, Sequence[Any]], Any]:
        """Clients solve, the server averages."""
        return build_averaging(shapes, self.ridge, self.averaging)
