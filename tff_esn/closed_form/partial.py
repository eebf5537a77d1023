"""Partial IncFed (thesis appendix B): each client sends the columns of A and B of k of its units.

    I_c = B_c 1                                         importance of each unit         (eq. B.15)
    A*_c = A_c diag(1_S),  B*_c = B_c diag(1_S)         S: k units                      (eq. B.16)
    W = (sum_c A*_c) (sum_c B*_c + lambda I)^-1                                         (eqs. B.17 and B.4)

alpha k units of S by importance, the others by chance; k = (150 / |C| / 100) N_x (section B.4). The summed B is not
symmetric and is solved as a general system.
"""

from __future__ import annotations

import numpy as np

from tff_esn.closed_form.incfed import CORRECTED, FederatedReadout, Statistics, federate
from tff_esn.closed_form.messages import Message, columns_message
from tff_esn.closed_form.selection import importance, mixed_units, partial_count, random_order
from tff_esn.closed_form.statistics import RidgeStatistics
from tff_esn.config import ClosedFormSwitches


def partial_incfed(
    statistics: Statistics,
    regularization: float,
    alpha: float,
    seed: int,
    count: int | None = None,
    switches: ClosedFormSwitches = CORRECTED,
    dtype: type[np.floating] = np.float64,
) -> FederatedReadout:
    """Partial IncFed (eqs. B.14-B.17): alpha k units by importance B 1, the others by chance.

    Args:
        statistics: Of each client.
        regularization: lambda.
        alpha: Share of important units.
        seed: Of the random ones.
        count: k; None for (150 / |C| / 100) N_x.
        switches: As printed or as meant.
        dtype: Type of the values on the wire.
    """

    def compress(client: str, own: RidgeStatistics) -> Message:
        k = partial_count(len(statistics), own.units) if count is None else count
        importances = importance(own.b[: own.units, : own.units])
        return columns_message(own, mixed_units(importances, k, alpha, random_order(own.units, seed, client)))

    return federate(statistics, compress, regularization, switches, dtype)


def random_incfed(
    statistics: Statistics,
    regularization: float,
    seed: int,
    count: int | None = None,
    switches: ClosedFormSwitches = CORRECTED,
    dtype: type[np.floating] = np.float64,
) -> FederatedReadout:
    """The thesis's Random: k units by chance, eq. B.16 applied to them."""
    return partial_incfed(statistics, regularization, 0.0, seed, count, switches, dtype)
