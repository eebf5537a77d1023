"""A new data set: one CSV file a client, a column for each sensor and one for the code of each step.

A table of values and codes is all that reservoirs and federations need; a task says which class a code is.
(Recordings of EDA and BVP need less: see "Your own data" in docs/guide.md.)
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from tff_esn.closed_form.incfed import incfed
from tff_esn.closed_form.statistics import client_statistics, ridge_accuracy
from tff_esn.config import FederatedConfig, ReadoutConfig, ReservoirConfig, WindowConfig
from tff_esn.datasets.splits import ClientSplit
from tff_esn.datasets.tables import FeatureTable, Task
from tff_esn.features.inputs import table_inputs
from tff_esn.features.windows import chunks
from tff_esn.federated.study import FederatedStudy
from tff_esn.presets import settled
from tff_esn.reservoir.weights import draw_weights

SPEED = Task("speed", ("slow", "fast"), {0: 0, 1: 1})


def read_machine(path: Path) -> FeatureTable:
    """One client's file, z-scored."""
    frame = pd.read_csv(path)
    values = frame[["x", "y"]].to_numpy()
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    return FeatureTable(path.stem, ("x", "y"), values, frame["code"].to_numpy())


def write_machines(folder: Path, steps: int) -> None:
    """Four machines that vibrate slowly or fast, in turns of 100 steps."""
    for machine in "abcd":
        random = np.random.default_rng(ord(machine))
        code = np.arange(steps) // 100 % 2
        phase = np.cumsum(0.3 + 0.3 * code)
        vibration = np.stack((np.sin(phase), np.cos(phase)), axis=1) + random.normal(0, 0.3, (steps, 2))
        pd.DataFrame({"x": vibration[:, 0], "y": vibration[:, 1], "code": code}).to_csv(folder / f"{machine}.csv")


def main(steps: int = 3000, rounds: int = 10) -> dict[str, float]:
    """Accuracy on machine d of readouts that a, b and c learned together, by gradients and in closed form."""
    reservoir, split = ReservoirConfig(units=100, bias_scaling=1.0), ClientSplit(("a", "b", "c"), (), ("d",))
    with TemporaryDirectory() as name:
        write_machines(Path(name), steps)
        tables = [read_machine(Path(name) / f"{client}.csv") for client in split.subjects]
        inputs = table_inputs(tables, split, SPEED, WindowConfig("none", "subject"), reading="carried")
        local = ReadoutConfig(learning_rate=0.01, class_weight=None, order="shuffled")
        config = FederatedConfig(reservoir=reservoir, readout=local, rounds=rounds, clients_per_round=3)
        program = FederatedStudy(inputs, Path(name) / "clients").program(settled(config), seed=0)
        averaged = program.evaluator(program.run()[0])["test"].accuracy
    *train, test = [chunks(table, SPEED, steps=50) for table in tables]
    weights = draw_weights(reservoir, inputs=2, seed=0)
    solved = incfed(dict(zip(split.train, client_statistics(train, SPEED, weights))), 1.0).readout
    scores = {"FedAvg": averaged, "IncFed": ridge_accuracy(test, SPEED, weights, solved)}
    print(", ".join(f"{name} {100 * value:.1f} %" for name, value in scores.items()))
    return scores


if __name__ == "__main__":
    main()
