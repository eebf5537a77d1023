"""A data source of one's own: a folder with one CSV file per client, which then every command and algorithm takes.

(Recordings of EDA and BVP get the features of the studies too: see "Your own data" in docs/guide.md.)
"""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

import tff_esn as te
from tff_esn.datasets.study import STUDIES, StudyFolder
from tff_esn.datasets.tables import FeatureTable, Task


@STUDIES.register
@dataclass(frozen=True)
class Machines(StudyFolder):
    """Machines that vibrate: files `NAME.machine.csv` with columns x, y and code, one row per step."""

    name = "machines"
    holds = "machines (NAME.machine.csv)"
    tasks = (Task("speed", ("slow", "fast"), {0: 0, 1: 1}),)
    features = ("channels",)

    @classmethod
    def recognize(cls, root, labels):
        """A folder with such files."""
        return cls(root) if any(root.glob("*.machine.csv")) else None

    @property
    def subjects(self):
        """The files' names."""
        return tuple(path.name.split(".")[0] for path in self.files(""))

    def files(self, subject):
        """All files: they are read in one pass."""
        return tuple(sorted(self.root.glob("*.machine.csv")))

    def tables(self, recipe):
        """Every machine's values, z-scored, with the code of each step."""
        found = {}
        for machine, path in zip(self.subjects, self.files("")):
            frame = pd.read_csv(path)
            values = frame[["x", "y"]].to_numpy()
            values = (values - values.mean(axis=0)) / values.std(axis=0)
            found[machine] = FeatureTable(machine, ("x", "y"), values, frame["code"].to_numpy())
        return found


def write_machines(folder: Path, steps: int) -> None:
    """Four machines that vibrate slowly or fast, in turns of 100 steps."""
    for machine in "abcd":
        random = np.random.default_rng(ord(machine))
        code = np.arange(steps) // 100 % 2
        phase = np.cumsum(0.3 + 0.3 * code)
        x, y = np.stack((np.sin(phase), np.cos(phase))) + random.normal(0, 0.3, (2, steps))
        pd.DataFrame({"x": x, "y": y, "code": code}).to_csv(folder / f"{machine}.machine.csv")


def main(steps: int = 3000, rounds: int = 10) -> dict[str, float]:
    """Accuracy on machine d of readouts that a, b and c learned together, by gradients and in closed form."""
    with TemporaryDirectory() as name:
        write_machines(Path(name), steps)
        study = te.load_study(name, cache=Path(name) / "cache")
        train, test = study.clients(steps=50).split(test=["d"])
    esn = te.ESN(units=100, bias_scaling=1.0)
    scores = {}
    for algorithm in (te.FedAvg(esn, rounds=rounds), te.IncFed(esn, ridge=1.0)):
        scores[algorithm.label] = algorithm.fit(train).score(test)
        print(f"{algorithm.label}: {100 * scores[algorithm.label]:.1f} %")
    return scores


if __name__ == "__main__":
    main()
