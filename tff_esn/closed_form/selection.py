"""Selection of the units whose statistics a client sends.

    B 1                        importance in Partial IncFed (Di Mauro 2022, thesis eqs. B.12 and B.15)
    sum_j B_ij^2               importance in pFedRR (De Caro et al. 2023, eq. 5), with the threshold 1 - tau

Chance enters as `order`, a random permutation of the units that belongs to the client, so that a choice
is the same wherever it is computed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tff_esn.errors import ConfigError
from tff_esn.seeds import generator_for

Units = NDArray[np.int64]


def random_order(units: int, seed: int, client: str) -> Units:
    """A client's random permutation of the units."""
    return generator_for(seed, "units", client).permutation(units)


def partial_count(clients: int, units: int) -> int:
    """The units each client sends, k = (150 / |C| / 100) * N_x (thesis, section B.4), rounded down.

    >>> [partial_count(clients, 500) for clients in (3, 5, 7, 9)]
    [250, 150, 107, 83]
    """
    return _checked_count(int(150 / clients / 100 * units), units, f"with {clients} clients ")


def importance(b: NDArray) -> NDArray:
    """I = B 1, the correlation of each unit with all others (thesis eq. B.15)."""
    return b.sum(axis=1)


def squared_importance(b: NDArray, last_unit: str = "kept") -> NDArray:
    """I_i = sum_j B_ij^2, scaled to [0, 1] by minimum and maximum (pFedRR paper, eq. 5).

    Where all units are equally important, none is more so than another: all have 0. A last unit that is
    `dropped` (as in `PFedRR`) is less important than any.
    """
    squares = (b**2).sum(axis=1)
    low, high = squares.min(), squares.max()
    scaled = (squares - low) / (high - low) if high > low else np.zeros(len(b))
    if last_unit == "dropped":
        scaled[-1] = -np.inf
    return scaled


def top_units(importances: NDArray, count: int) -> Units:
    """The `count` most important units, of equal ones the first."""
    return np.sort(np.argsort(-importances, kind="stable")[: _checked_count(count, len(importances))])


def mixed_units(importances: NDArray, count: int, share: float, order: Units) -> Units:
    """`share` of `count` units by importance, the others by chance (Partial IncFed's alpha, thesis section B.4)."""
    if not 0 <= share <= 1:
        raise ConfigError(f"alpha = {share:g}; expected a share from 0 to 1")
    _checked_count(count, len(importances))
    important = top_units(importances, round(share * count))
    others = order[~np.isin(order, important)]
    return np.sort(np.concatenate((important, others[: count - len(important)])))


def threshold_units(b: NDArray, tau: float, last_unit: str = "kept") -> Units:
    """S = {i : I_i > 1 - tau} (pFedRR paper, after eq. 5), I scaled to [0, 1].

    Args:
        b: S S^T.
        tau: Threshold in (0, 1).
        last_unit: As in `PFedRR`.
    """
    if not 0 < tau < 1:
        raise ConfigError(f"tau = {tau:g}; expected a threshold between 0 and 1, both excluded")
    return np.flatnonzero(squared_importance(b, last_unit) > 1 - tau)


def _checked_count(count: int, units: int, of: str = "") -> int:
    if not 0 <= count <= units:
        raise ConfigError(f"k = {count} units {of}out of {units}; expected at most {units}")
    return count
