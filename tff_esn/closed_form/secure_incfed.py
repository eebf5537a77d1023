"""IncFed by secure aggregation: the server sees the sums of A and B only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Callable

from pydantic.dataclasses import dataclass

from tff_esn.algorithm import ALGORITHMS
from tff_esn.closed_form.algorithm import ClosedForm
from tff_esn.closed_form.messages import message_bytes
from tff_esn.closed_form.server import FederatedReadout, Received, Statistics, check_one_reservoir, solved
from tff_esn.closed_form.statistics import RidgeStatistics
from tff_esn.errors import ConfigError
from tff_esn.parameters import STRICT
from tff_esn.privacy.secure_aggregation import SecureSum, secure_sum

if TYPE_CHECKING:
    from tff_esn.closed_form.computations import Shapes


@ALGORITHMS.register
@dataclass(frozen=True, repr=False, config=STRICT)
class SecureIncFed(ClosedForm):
    """IncFed whose clients mask what they send: the same readout, more bytes."""

    name = "secure-incfed"
    label = "IncFed, secure aggregation"

    def solve(self, statistics: Statistics) -> FederatedReadout:
        """The readout of the secure sum."""
        summed, found = securely_summed(statistics)
        received = Received(summed.a, summed.b, summed.bias, tuple(statistics), {})
        return FederatedReadout(
            solved(received, self.ridge, self.regularization),
            found.bytes_up,
            found.bytes_down + message_bytes("readout", *summed.a.shape),
            {client: own.units for client, own in statistics.items()},
        )

    def build(self, shapes: Shapes, clients: int) -> Callable[[Any, Sequence[Any]], Any]:
        """Refused: TFF's secure sum adds plain numbers."""
        raise ConfigError("secure-incfed by TFF, whose secure sum hides nothing; expected engine numpy")


def securely_summed(statistics: Statistics, noise: float = 0.0) -> tuple[RidgeStatistics, SecureSum]:
    """The sum of the clients' statistics by secure aggregation.

    Units are in [-1, 1] and steps count at most 1, so that no value exceeds the number of a client's samples, which
    the server knows.

    Args:
        statistics: Of each client.
        noise: Standard deviation of the noise on them; values beyond ten deviations practically never occur.
    """
    check_one_reservoir({client: own.reservoir for client, own in statistics.items()})
    first = next(iter(statistics.values()))
    bound = max(1, *(own.samples for own in statistics.values())) + 10 * noise
    found = secure_sum({client: own.vector for client, own in statistics.items()}, bound)
    return first.of_vector(found.total, sum(own.samples for own in statistics.values())), found
