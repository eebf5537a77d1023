"""The discriminator's sizes, chosen by KerasTuner."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import keras_tuner

from tff_esn.config import DiscriminatorConfig, from_mapping, read_toml
from tff_esn.federated.discriminator import VALIDATION_SHARE, UpdateExamples, discriminator_network
from tff_esn.tuning.search import cheap_collections, tuner_seed
from tff_esn.tuning.space import SearchSpace


def choose_discriminator(
    examples: UpdateExamples, config: DiscriminatorConfig, project: Path, trials: int, seed: int
) -> DiscriminatorConfig:
    """A random search for the network with the best accuracy on the examples held out for validation.

    Args:
        examples: What it learns from, without those it is tested on.
        config: What the search does not choose.
        project: KerasTuner's folder; a search that is there is gone on with.
        trials: Networks tried, at most.
        seed: Of the search and of the networks.
    """
    with resources.as_file(resources.files("tff_esn.tuning") / "discriminator.toml") as path:
        space = from_mapping(SearchSpace, read_toml(path), path.name)

    def chosen(values: dict[str, Any]) -> DiscriminatorConfig:
        units = (values["first_units"], values["second_units"])
        return replace(config, units=units, dropout=values["dropout"])

    def build(hp: keras_tuner.HyperParameters) -> Any:
        return discriminator_network(examples.updates.shape[1], chosen(space.draw(hp)), seed)

    tuner = keras_tuner.RandomSearch(
        build,
        objective=keras_tuner.Objective("val_binary_accuracy", "max"),
        max_trials=trials,
        seed=tuner_seed(seed),
        directory=project.parent,
        project_name=project.name,
    )
    with cheap_collections():
        tuner.search(
            examples.updates,
            examples.real,
            epochs=config.epochs,
            batch_size=config.batch_size,
            validation_split=VALIDATION_SHARE,
            shuffle=False,
            verbose=0,
        )
    return chosen(tuner.get_best_hyperparameters(1)[0].values)
