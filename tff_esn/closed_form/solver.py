"""W = A (B + lambda I)^-1 in float64: Cholesky where B is well conditioned, a stable solver where it is not."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from tff_esn.console import tally
from tff_esn.errors import ConfigError

#: Below this reciprocal condition number fewer than three digits of a Cholesky solution are right.
MIN_RECIPROCAL_CONDITION = 1e-13
ILL_CONDITIONED = "systems ill-conditioned for Cholesky, solved by eigenvalues or singular values"


def solve_symmetric(a: NDArray, b: NDArray, regularization: float) -> NDArray[np.float64]:
    """W = A (B + lambda I)^-1 of a symmetric, positive semidefinite B.

    Args:
        a: `(outputs, units)`.
        b: `(units, units)`.
        regularization: lambda, added once.

    Returns:
        `(outputs, units)`.

    Raises:
        ConfigError: lambda is 0 (or below) and B singular.
    """
    a, matrix = _checked(a, b, regularization)
    factor, failed = scipy.linalg.lapack.dpotrf(matrix, lower=1)
    if not failed:
        reciprocal, _ = scipy.linalg.lapack.dpocon(factor, np.abs(matrix).sum(axis=0).max(), uplo="L")
        if reciprocal > MIN_RECIPROCAL_CONDITION:
            return scipy.linalg.cho_solve((factor, True), a.T).T
    tally.add(ILL_CONDITIONED)
    values, vectors = np.linalg.eigh(b)
    # What is negative is a rounding error of 0.
    values = np.maximum(values, 0) + regularization
    if not values[0] > np.finfo(np.float64).eps * len(b) * values[-1] and regularization == 0:
        raise _singular(regularization)
    return (a @ vectors / values) @ vectors.T


def solve_general(a: NDArray, b: NDArray, regularization: float) -> NDArray[np.float64]:
    """W = A (B + lambda I)^-1 of any square B, such as one whose columns were masked (thesis eq. B.16)."""
    a, matrix = _checked(a, b, regularization)
    factor, pivots, failed = scipy.linalg.lapack.dgetrf(matrix.T)
    reciprocal = 0.0
    if not failed:
        reciprocal, _ = scipy.linalg.lapack.dgecon(factor, np.abs(matrix.T).sum(axis=0).max())
    if reciprocal > MIN_RECIPROCAL_CONDITION:
        return scipy.linalg.lu_solve((factor, pivots), a.T).T
    if failed and regularization == 0:
        raise _singular(regularization)
    tally.add(ILL_CONDITIONED)
    return np.linalg.lstsq(matrix.T, a.T, rcond=None)[0].T


def _checked(a: NDArray, b: NDArray, regularization: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if not regularization >= 0:
        raise ConfigError(f"lambda = {regularization:g}; expected 0 or more")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ConfigError("A or B holds values that are not finite; expected finite numbers")
    return np.asarray(a, np.float64), b + regularization * np.eye(len(b))


def _singular(regularization: float) -> ConfigError:
    return ConfigError(f"B is singular with lambda = {regularization:g}; expected a larger lambda")
