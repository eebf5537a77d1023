"""The discriminator's sizes, chosen by KerasTuner."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import keras_tuner

from tff_esn.federated.defences.discriminator import DiscriminatorParameters
from tff_esn.federated.training.discriminator import VALIDATION_SHARE, UpdateExamples, discriminator_network
from tff_esn.tuning.search import cheap_collections, tuner_seed

# The thesis chose the sizes by a random search (section 6.1) whose space it does not print.
_FIRST_UNITS = [32, 64, 128, 256, 512]
_SECOND_UNITS = [16, 32, 64, 128, 256]
_DROPOUT = [0.1, 0.2, 0.3, 0.5]


def choose_discriminator(
    examples: UpdateExamples, config: DiscriminatorParameters, project: Path, trials: int, seed: int
) -> DiscriminatorParameters:
    """A random search for the network with the best accuracy on the examples held out for validation.

    Args:
        examples: Training examples.
        config: Settings that the search does not choose.
        project: KerasTuner's folder; an existing search is resumed.
        trials: Largest number of networks to try.
        seed: Seed of the search and of the networks.
    """

    def chosen(hp: keras_tuner.HyperParameters) -> DiscriminatorParameters:
        units = (hp.Choice("first_units", _FIRST_UNITS), hp.Choice("second_units", _SECOND_UNITS))
        return replace(config, units=units, dropout=hp.Choice("dropout", _DROPOUT))

    def build(hp: keras_tuner.HyperParameters) -> Any:
        return discriminator_network(examples.updates.shape[1], chosen(hp), seed)

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
    return chosen(tuner.get_best_hyperparameters(1)[0])
