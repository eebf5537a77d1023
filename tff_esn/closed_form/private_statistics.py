"""Ridge statistics with the noise of differential privacy; `tff_esn.privacy.accounting` computes its size."""

from __future__ import annotations

import math

from tff_esn.closed_form.statistics import RidgeStatistics
from tff_esn.errors import ConfigError
from tff_esn.readout.readout import Readout
from tff_esn.seeds import generator_for


def noisy(statistics: RidgeStatistics, deviation: float, clients: int, seed: int, client: str) -> RidgeStatistics:
    """A client's statistics, made from clipped states, with its share of the noise.

    Args:
        statistics: Without a readout bias, whose column no clip bounds.
        deviation: Of the noise on the sum.
        clients: Number of clients n that add a share: under secure aggregation, where the server sees
            only the sum, each adds 1 / sqrt(n) of the noise; 1 for all of it.
        seed: Seed of the noise, together with the client's name.
        client: The client.
    """
    if statistics.bias:
        raise ConfigError("a readout bias with differential privacy; expected none, its column is not clipped")
    exact = statistics.vector
    noise = generator_for(seed, "privacy noise", client).normal(0, deviation / math.sqrt(clients), exact.size)
    return statistics.of_vector(exact + noise, statistics.samples)


def private_readout(summed: RidgeStatistics, ridge: float, deviation: float) -> Readout:
    """The readout of a sum with noise.

    The eigenvalues of the noise in B reach about 2 sqrt(N_x) deviations to both sides; that much is
    added to lambda, or B + lambda I would have some near 0 by chance. It costs no privacy.
    """
    return summed.solve(ridge + 2 * deviation * math.sqrt(summed.units))
