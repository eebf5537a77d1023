"""A new federated algorithm: FedAvg whose clients keep their readouts sparse.

A client minimises its loss and strength * sum |w|. That is a term of its objective; drawing clients,
training, averaging and scoring stay as they are. FedCurv (`tff_esn/federated/fedcurv.py`) is an
objective whose clients also tell each other something.
"""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import tensorflow as tf

from tff_esn.config import FEATURES, FederatedConfig, InputConfig
from tff_esn.datasets.splits import ClientSplit
from tff_esn.datasets.study import open_study
from tff_esn.datasets.synthetic.wesad import write_wesad
from tff_esn.features.inputs import model_inputs, prepared_features
from tff_esn.federated.fedavg import ProximalObjective
from tff_esn.federated.study import FederatedStudy
from tff_esn.presets import settled
from tff_esn.store.cache import Cache


@dataclass(frozen=True)
class SparseObjective(ProximalObjective):
    """FedAvg with a lasso: the term strength * sum |w|."""

    def __call__(self, weights, batch, memory):
        """The term, and what the client remembers until its next step."""
        return memory.strength * tf.reduce_sum(tf.abs(weights)) if self.strength else None, memory


def main(minutes: float = 20.0, rounds: int = 20) -> dict[float, float]:
    """Trains with two strengths; the share of readout weights that are nearly 0, by strength."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_wesad(folder, subjects=4, minutes=minutes)
        split = ClientSplit(("S2", "S3", "S4"), (), ("S5",))
        inputs = InputConfig(preset="corrected", features=FEATURES, reading="carried", split=split)
        config = settled(FederatedConfig(preset="corrected", inputs=inputs, rounds=rounds, clients_per_round=3))
        prepared = prepared_features(open_study(folder), inputs, Cache(folder / "cache"))
        study = FederatedStudy(model_inputs(prepared, inputs), folder / "clients")
        small = {}
        for strength in (0.0, 0.1):
            program = study.program(config, seed=0, objective=SparseObjective(strength))
            readout, _ = program.run()
            small[strength] = float(np.mean(np.abs(readout.kernel) < 0.01))
            score = program.evaluator(readout)["test"]
            print(f"strength {strength:g}: {small[strength]:.0%} of the weights below 0.01, AUROC {score.auroc:.3f}")
        return small


if __name__ == "__main__":
    main()
