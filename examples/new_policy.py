"""A closed form of one's own: clients send the units that tell the classes apart, not those that are most active.

pFedRR's clients rank units by B alone. Here a client ranks them by A: how strongly a unit goes with each class,
relative to its own length. Messages, sums and solving stay as they are.
"""

from tempfile import TemporaryDirectory

import numpy as np
from pydantic.dataclasses import dataclass

import tff_esn as te
from tff_esn.algorithm import ALGORITHMS
from tff_esn.closed_form.algorithm import ClosedForm
from tff_esn.closed_form.messages import block_message
from tff_esn.closed_form.selection import top_units
from tff_esn.closed_form.server import federate
from tff_esn.parameters import STRICT, Share


@ALGORITHMS.register
@dataclass(frozen=True, repr=False, config=STRICT)
class DiscriminativeUnits(ClosedForm):
    """Clients send A, the diagonal of B, and the block of the units that tell the classes apart.

    Attributes:
        share: Share of the units.
    """

    share: Share = 0.2

    name = "discriminative"
    label = "discriminative units"

    def solve(self, statistics):
        """The readout of the sums of blocks."""

        def message(client, own):
            b = own.b[: own.units, : own.units]
            angles = own.a[:, : own.units] / np.sqrt(np.diag(b))
            spread = angles.max(axis=0) - angles.min(axis=0)
            return block_message(own, top_units(spread, round(self.share * own.units)))

        return federate(statistics, message, self.ridge)


def main(minutes: float = 20.0, units: int = 100) -> dict[str, float]:
    """Three training subjects and one to test on; the accuracy of each algorithm."""
    with TemporaryDirectory() as cache:
        study = te.generate_study(subjects=4, minutes=minutes, cache=cache)
        data = study.clients("channels", task="affect", device="wrist", rate=4.0, steps=40)
    train, test = data.split(test=["S5"])
    esn = te.ESN(units=units)
    scores = {}
    for algorithm in (te.IncFed(esn, 1.0), te.PFedRR(esn, 1.0, tau=0.5), DiscriminativeUnits(esn, 1.0)):
        scores[algorithm.label] = algorithm.fit(train).score(test)
        print(f"{algorithm.label:20} {100 * scores[algorithm.label]:5.1f} %")
    return scores


if __name__ == "__main__":
    main()
