"""Differential privacy of ridge statistics: clipped states, Gaussian noise on A and B.

A state x with norm of at most C and its one-hot target y add y x^T to A and x x^T to B. Half of B and all of A as
one vector, a step moves it by at most Delta = sqrt(C^4 + C^2), and a sequence of T steps by at most T Delta. Noise of
deviation z Delta on every value makes the sum (epsilon, delta)-differentially private with respect to
one step, or one sequence, of one client; `dp-accounting` computes the epsilon of a z.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tff_esn.errors import ConfigError


@dataclass(frozen=True)
class PrivacyBudget:
    """A privacy budget.

    Attributes:
        epsilon: Epsilon of one release of the summed statistics.
        delta: Probability that the guarantee does not hold.
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


def noise_deviation(clip: float, budget: PrivacyBudget) -> float:
    """The deviation z Delta of the noise for a budget."""
    return budget.noise_multiplier * sensitivity(clip, budget)


def clip_norm(units: int, share: float = 0.5) -> float:
    """A norm to clip at that does not look at the data: a share of sqrt(N_x), the longest state there can be."""
    return share * float(np.sqrt(units))
