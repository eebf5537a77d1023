"""The spread of a number over repetitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tff_esn.errors import DataError

_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Spread:
    """Mean of several values, standard deviation (of the sample) and 95 % confidence interval (Student's t)."""

    mean: float
    std: float
    low: float
    high: float
    n: int


def spread(values: Sequence[float]) -> Spread:
    """The spread of a few values: all NaN if one of them is; of one value only the mean is known."""
    if not len(values):
        raise DataError("values", "none", "at least one, for a mean")
    numbers, n = np.asarray(values, float), len(values)
    if not np.isfinite(numbers).all():
        return Spread(math.nan, math.nan, math.nan, math.nan, n)
    mean = float(numbers.mean())
    if n == 1:
        return Spread(mean, math.nan, math.nan, math.nan, n)
    std = float(numbers.std(ddof=1))
    from scipy.special import stdtrit

    margin = float(stdtrit(n - 1, (1 + _CONFIDENCE) / 2)) * std / math.sqrt(n)
    return Spread(mean, std, mean - margin, mean + margin, n)
