"""A new federated algorithm: FedSparse, FedAvg whose clients keep their readouts sparse.

A client minimises its loss and strength * sum |w|. That is a term of its objective; drawing clients, training,
averaging and scoring stay as they are. FedCurv (`tff_esn/federated/fedcurv.py`) is an algorithm whose clients also send
something beside their weights.
"""

import numpy as np
import tensorflow as tf
from pydantic.dataclasses import dataclass

import tff_esn as te
from tff_esn.algorithm import ALGORITHMS
from tff_esn.federated.algorithm import GradientAlgorithm
from tff_esn.federated.objective import ProximalObjective
from tff_esn.parameters import STRICT, NonNegativeFloat


@dataclass(frozen=True)
class SparseObjective(ProximalObjective):
    """A lasso: the term strength * sum |w|."""

    def __call__(self, weights, batch, memory):
        """The term, and what the client remembers until its next step."""
        return memory.strength * tf.reduce_sum(tf.abs(weights)) if self.strength else None, memory


@ALGORITHMS.register
@dataclass(frozen=True, repr=False, config=STRICT)
class FedSparse(GradientAlgorithm):
    """FedAvg with a lasso.

    Attributes:
        strength: Strength of the lasso.
    """

    strength: NonNegativeFloat = 0.01

    name = "fedsparse"
    label = "FedSparse"

    def objective(self):
        """The lasso."""
        return SparseObjective(self.strength)


def main(minutes: float = 20.0, rounds: int = 20) -> dict[float, float]:
    """Trains with two strengths; the share of readout weights that are nearly 0, by strength."""
    study = te.generate_study(subjects=4, minutes=minutes)
    data = study.clients(features="corrected", columns=("pEDA", "tEDA", "HR", "HRV"))
    train, test = data.split(test=["S5"])
    small = {}
    for strength in (0.0, 0.01):
        algorithm = ALGORITHMS["fedsparse"](rounds=rounds, learning_rate=0.001, strength=strength)
        model = algorithm.fit(train)
        small[strength] = float(np.mean(np.abs(model.readout.kernel) < 0.01))
        auroc = model.score(test, "auroc")
        print(f"strength {strength:g}: {small[strength]:.0%} of the weights below 0.01, AUROC {auroc:.3f}")
    return small


if __name__ == "__main__":
    main()
