from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tff_esn.federated.defences.discriminator import DiscriminatorParameters
from tff_esn.federated.training.discriminator import UpdateExamples
from tff_esn.tuning.discriminator import choose_discriminator


def test_sizes_are_chosen_out_of_the_space_and_the_rest_stays(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    real = np.arange(80) % 2 == 0
    updates = random.normal(size=(80, 6)) + real[:, None]
    examples = UpdateExamples(updates.astype(np.float32), real, {})
    config = DiscriminatorParameters(epochs=1, batch_size=16, noise=0.7)
    chosen = choose_discriminator(examples, config, tmp_path / "project", trials=2, seed=0)
    oracle = json.loads((tmp_path / "project" / "oracle.json").read_text())
    space = {own["config"]["name"]: own["config"]["values"] for own in oracle["hyperparameters"]["space"]}
    assert space == {
        "first_units": [32, 64, 128, 256, 512],
        "second_units": [16, 32, 64, 128, 256],
        "dropout": [0.1, 0.2, 0.3, 0.5],
    }
    assert chosen.units[0] in space["first_units"] and chosen.units[1] in space["second_units"]
    assert chosen.dropout in space["dropout"]
    assert (chosen.epochs, chosen.batch_size, chosen.noise) == (1, 16, 0.7)
    assert choose_discriminator(examples, config, tmp_path / "project", trials=2, seed=0) == chosen
