"""Partial Federated Ridge Regression (De Caro et al. 2023): A whole, of B the diagonal and some units' block.

    I_i = sum_j B_ij^2, scaled to [0, 1]                importance of each unit         (pFedRR paper, eq. 5)
    S = {i : I_i > 1 - tau}                             the units a client tells about
    B*_c = B_c (.) (M_S + I)                            M_S: 1 between units of S       (eq. 2)
    W = (sum_c A_c) (sum_c B*_c + lambda I)^-1

Also what its conclusions name as future work: a policy between importance and chance; and one that sends
the leading eigenvectors of B instead of units.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from tff_esn.closed_form.incfed import CORRECTED, FederatedReadout, Statistics, federate
from tff_esn.closed_form.messages import Message, block_message, low_rank_message
from tff_esn.closed_form.selection import (
    Units,
    mixed_units,
    random_order,
    random_units,
    squared_importance,
    threshold_units,
)
from tff_esn.closed_form.statistics import RidgeStatistics
from tff_esn.config import ClosedFormSwitches

Policy = Literal["importance", "random", "hybrid"]


def pfedrr(
    statistics: Statistics,
    regularization: float,
    tau: float,
    policy: Policy = "importance",
    seed: int = 0,
    alpha: float = 0.5,
    switches: ClosedFormSwitches = CORRECTED,
    dtype: type[np.floating] = np.float64,
) -> FederatedReadout:
    """pFedRR: I-pFedRR, R-pFedRR or a hybrid of them, with the same number of units each.

    Args:
        statistics: Of each client.
        regularization: lambda.
        tau: Threshold in (0, 1): units whose scaled importance exceeds 1 - tau count.
        policy: `importance` takes those units, `random` as many by chance, `hybrid` as many, a share of
            them by importance and the others by chance.
        seed: Of the random units.
        alpha: The hybrid's share of important units.
        switches: As printed or as meant.
        dtype: Type of the values on the wire.
    """

    def compress(client: str, own: RidgeStatistics) -> Message:
        return block_message(own, _units(own, tau, policy, random_order(own.units, seed, client), alpha, switches))

    return federate(statistics, compress, regularization, switches, dtype)


def _units(
    own: RidgeStatistics, tau: float, policy: Policy, order: Units, alpha: float, switches: ClosedFormSwitches
) -> Units:
    b = own.b[: own.units, : own.units]
    important = threshold_units(b, tau, switches.last_unit)
    if policy == "importance":
        return important
    if policy == "random":
        return random_units(order, len(important))
    return mixed_units(squared_importance(b, switches.last_unit), len(important), alpha, order)


def low_rank(
    statistics: Statistics,
    regularization: float,
    rank: int,
    switches: ClosedFormSwitches = CORRECTED,
    dtype: type[np.floating] = np.float64,
) -> FederatedReadout:
    """Each client sends the `rank` leading eigenvectors of its B, A, and the diagonal they leave."""
    return federate(statistics, lambda _, own: low_rank_message(own, rank), regularization, switches, dtype)


def rank_of_same_size(units: int, selected: int) -> int:
    """The rank whose message is as long as pFedRR's of `selected` units, at least 1.

    >>> rank_of_same_size(1000, 500)
    124
    """
    return max(1, selected * (selected - 1) // 2 // (units + 1))
