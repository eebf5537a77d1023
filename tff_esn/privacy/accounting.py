"""Differential privacy of ridge statistics: clipped states, Gaussian noise on A and B.

A state x with norm of at most C and its one-hot target y add y x^T to A and x x^T to B. Half of B and all of A as
one vector, a step moves it by at most Delta = sqrt(C^4 + C^2), and a sequence of T steps by at most T Delta. Noise of
deviation z Delta on every value makes the sum (epsilon, delta)-differentially private with respect to
one step, or one sequence, of one client; `dp-accounting` tells which epsilon a z has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tff_esn.closed_form.statistics import RidgeStatistics
from tff_esn.errors import ConfigError
from tff_esn.readout.readout import Readout
from tff_esn.seeds import generator_for


@dataclass(frozen=True)
class PrivacyBudget:
    """What is promised.

    Attributes:
        epsilon: Of one release of the summed statistics.
        delta: Probability that the promise does not hold.
        unit_steps: Steps of the unit that is protected: 1, or the length of a sequence.
    """

    epsilon: float
    delta: float = 1e-5
    unit_steps: int = 1

    def __post_init__(self) -> None:
        if not self.epsilon > 0 or not 0 < self.delta < 1 or self.unit_steps < 1:
            found = f"epsilon = {self.epsilon:g}, delta = {self.delta:g}, {self.unit_steps} steps"
            raise ConfigError(f"{found}; expected epsilon > 0, delta in (0, 1) and at least one step")

    @property
    def noise_multiplier(self) -> float:
        """The least z with this epsilon and delta, by the exact privacy loss of Gaussian noise."""
        from dp_accounting.pld.common import DifferentialPrivacyParameters
        from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss

        promised = DifferentialPrivacyParameters(self.epsilon, self.delta)
        return float(GaussianPrivacyLoss.from_privacy_guarantee(promised).standard_deviation)


def spent_epsilon(noise_multiplier: float, delta: float) -> float:
    """The epsilon that Gaussian noise of z times the sensitivity has, by the accountant that composes releases."""
    import dp_accounting

    accountant = dp_accounting.pld.PLDAccountant()
    return float(accountant.compose(dp_accounting.GaussianDpEvent(noise_multiplier)).get_epsilon(delta))


def sensitivity(clip: float, budget: PrivacyBudget) -> float:
    """How far one unit moves A and half of B together: T sqrt(C^4 + C^2)."""
    if not clip > 0:
        raise ConfigError(f"clip = {clip:g}; expected a positive norm")
    return budget.unit_steps * math.sqrt(clip**4 + clip**2)


def noisy(statistics: RidgeStatistics, deviation: float, clients: int, seed: int, client: str) -> RidgeStatistics:
    """A client's statistics, made from clipped states, with its share of the noise.

    Args:
        statistics: Without a readout bias, whose column no clip bounds.
        deviation: Of the noise on the sum.
        clients: How many add a share: of one alone the noise is all there is; of n under secure
            aggregation, where the server sees the sum only, each adds 1 / sqrt(n) of it.
        seed: With the client's name, what the noise comes from.
        client: The client.
    """
    if statistics.bias:
        raise ConfigError("a readout bias with differential privacy; expected none, its column is not clipped")
    random, own = generator_for(seed, "privacy noise", client), deviation / math.sqrt(clients)
    return replace(
        statistics,
        a=statistics.a + random.normal(0, own, statistics.a.shape),
        half_b=statistics.half_b + random.normal(0, own, statistics.half_b.shape),
    )


def private_readout(summed: RidgeStatistics, regularization: float, deviation: float) -> Readout:
    """The readout of a sum with noise.

    The eigenvalues of the noise in B reach about 2 sqrt(N_x) deviations to both sides; that much is
    added to lambda, or B + lambda I would have some near 0 by chance. It costs no privacy.
    """
    return summed.solve(regularization + 2 * deviation * math.sqrt(summed.units))


def clip_norm(units: int, share: float = 0.5) -> float:
    """A norm to clip at that does not look at the data: a share of sqrt(N_x), the longest state there can be."""
    return share * float(np.sqrt(units))
