"""Ridge regression of one-hot labels on states (Hoerl and Kennard 1970; thesis eq. 2.19).

    W = Y S^T (S S^T + lambda I)^-1

with states about their mean, so that the bias is not penalised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from tff_esn.readout.readout import Readout, class_targets


@dataclass(frozen=True)
class CentredMoments:
    """Second moments of states and targets about their means: all that ridge regression needs, for any lambda."""

    states_states: NDArray[np.float64]
    states_targets: NDArray[np.float64]
    states_mean: NDArray[np.float64]
    targets_mean: NDArray[np.float64]

    @classmethod
    def of(
        cls, states: NDArray, labels: NDArray[np.int64], classes: int, class_weight: Sequence[float] | None = None
    ) -> CentredMoments:
        """Computes the moments of one data set, with one target column for two classes.

        Class weights are scaled to a mean of 1 over the examples, so that lambda means the same with them.
        """
        targets = class_targets(labels, classes)
        weight = np.ones(len(labels)) if class_weight is None else np.asarray(class_weight, np.float64)[labels]
        weight = (weight / weight.mean())[:, None]
        # The mean is taken out before the products: afterwards it would cancel digits.
        states_mean = (weight * states).mean(axis=0)
        targets_mean = (weight * targets).mean(axis=0)
        centred = states - states_mean
        weighted = weight * centred
        return cls(weighted.T @ centred, weighted.T @ (targets - targets_mean), states_mean, targets_mean)

    def solve(self, regularization: float) -> Readout:
        """W = (S S^T + lambda I)^-1 S Y^T with an unpenalised bias, by Cholesky."""
        matrix = self.states_states + regularization * np.eye(len(self.states_states))
        kernel = scipy.linalg.solve(matrix, self.states_targets, assume_a="pos")
        return Readout(kernel, self.targets_mean - self.states_mean @ kernel, "linear")
