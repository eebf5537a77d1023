"""A new selection policy: clients send the units that tell the classes apart, not those that are most alive.

pFedRR's clients rank units by B alone. Here a client ranks them by A, how strongly a unit goes with
each class, in units of its own length. Messages, sums and solving stay as they are.
"""

import numpy as np

from tff_esn.closed_form.incfed import federate, incfed
from tff_esn.closed_form.messages import block_message
from tff_esn.closed_form.pfedrr import pfedrr
from tff_esn.closed_form.selection import top_units
from tff_esn.closed_form.statistics import client_statistics, ridge_accuracy
from tff_esn.config import ChannelConfig, ReservoirConfig
from tff_esn.datasets.synthetic.physiology import generate_subject
from tff_esn.datasets.tables import AFFECT
from tff_esn.features.channels import channel_table
from tff_esn.features.windows import chunks
from tff_esn.reservoir.weights import draw_weights


def discriminative(client, own):
    """The message of a client: A, the diagonal of B, and the block of a fifth of the units."""
    b = own.b[: own.units, : own.units]
    angles = own.a[:, : own.units] / np.sqrt(np.diag(b))
    spread = angles.max(axis=0) - angles.min(axis=0)
    return block_message(own, top_units(spread, own.units // 5))


def main(minutes: float = 20.0, units: int = 100) -> dict[str, float]:
    """Three training subjects and one to test on; the accuracy of each policy."""
    config = ChannelConfig(device="wrist", rate=4.0, steps=40)
    tables = [channel_table(generate_subject(f"S{i}", minutes=minutes, chest=False), config) for i in (2, 3, 4, 5)]
    *train, test = [chunks(table, AFFECT, config.steps) for table in tables]
    weights = draw_weights(ReservoirConfig(units=units), len(tables[0].names), seed=0)
    own = dict(zip(("S2", "S3", "S4"), client_statistics(train, AFFECT, weights)))
    found = {
        "all of A and B": incfed(own, 1.0),
        "important units": pfedrr(own, 1.0, tau=0.5),
        "discriminative units": federate(own, discriminative, 1.0),
    }
    scores = {name: ridge_accuracy(test, AFFECT, weights, one.readout) for name, one in found.items()}
    for name, one in found.items():
        print(f"{name:21} {100 * scores[name]:5.1f} %  {np.mean(list(one.bytes_up.values())):7.0f} bytes a client")
    return scores


if __name__ == "__main__":
    main()
