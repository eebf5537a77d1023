"""`tff-esn discriminator`: the network that judges clients' updates."""

# No `from __future__ import annotations`: on Python 3.9 Typer reads options from real annotations only.
from typing import Annotated, Literal, Optional

import typer

from tff_esn.cli.central import Features, PresetName, Reading, Split
from tff_esn.cli.data import Folder, HrvWindow, Jobs, Labels
from tff_esn.cli.options import settings
from tff_esn.cli.runs import Runs
from tff_esn.cli.steps import print_tables


def discriminator(
    context: typer.Context,
    folder: Folder,
    preset: PresetName = "thesis",
    features: Features = "pEDA",
    reading: Reading = "window",
    window: HrvWindow = 25.0,
    split: Split = "thesis-discriminative",
    reservoirs: Annotated[Literal["same", "different"], typer.Option(help="Of the clients it is to judge.")] = "same",
    trained_on: Annotated[
        Optional[Literal["steps", "rounds"]],
        typer.Option(help="The steps of a training, or updates of whole rounds.", show_default="the preset's"),
    ] = None,
    trials: Annotated[int, typer.Option(min=0, help="Networks that KerasTuner tries; 0 for none.")] = 30,
    seeds: Annotated[int, typer.Option(min=1, help="Train with so many seeds, from --seed on.")] = 3,
    labels: Labels = None,
    jobs: Jobs = None,
    runs: Runs = None,
) -> None:
    """Train the discriminator of anomalous clients on the split's discriminator subjects.

    Its examples are updates of a readout, of the subjects as they are and with noise on their
    inputs. Writes a run folder with the network of the first seed, for `federate --discriminator`.
    """
    from dataclasses import asdict

    from tff_esn.config import FederatedConfig, from_mapping
    from tff_esn.console import console
    from tff_esn.features.source import Source
    from tff_esn.federated.discriminator import train_discriminator, update_examples
    from tff_esn.metrics import spread
    from tff_esn.presets import settled
    from tff_esn.runs.kinds.discriminator import discriminator_scores, discriminator_table
    from tff_esn.store.cache import Cache
    from tff_esn.store.json_values import fingerprint
    from tff_esn.store.run_folders import RunStore
    from tff_esn.tuning.discriminator import choose_discriminator

    given = {
        "preset": preset,
        "inputs": {
            "preset": preset,
            "features": features.split(","),
            "reading": reading,
            "hrv_window": window,
            "split": split,
        },
        "reservoirs": reservoirs,
        "defence": {"kind": "discriminator", "trained_on": trained_on},
    }
    config = settled(from_mapping(FederatedConfig, given, "options"))
    defence = config.defence
    assert defence is not None
    first, cache = settings(context).seed, Cache(settings(context).cache)
    source = Source(folder, cache.folder, labels)
    inputs, content = source.inputs(config.inputs, jobs), source.content(config.inputs)
    subjects = inputs.split.discriminator
    recorded = {**asdict(config), "study": str(folder), "seeds": seeds, "trials": trials}
    scores = []
    with cache.scratch() as scratch, RunStore(runs).create("discriminator", recorded, first) as run:
        network = config.discriminator
        for seed in range(first, first + seeds):
            examples = update_examples(inputs, config, seed, scratch)
            if trials and seed == first:
                key = fingerprint([asdict(config), content, seed])[:8]
                project = cache.folder / "tuning" / f"discriminator-{key}"
                network = choose_discriminator(examples.split(seed)[0], network, project, trials, seed)
            made = train_discriminator(examples, network, subjects, defence, seed)
            scores.append(discriminator_scores(made.card, examples.accuracy))
            if seed == first:
                made.save(run.path("discriminator.npz"))
        run.finish({"test_f1": spread([own["test_f1"] for own in scores]).mean})
    found = {"scores": scores, "units": network.units, "dropout": network.dropout, "trained_on": defence.trained_on}
    print_tables(folder, discriminator_table(f"Discriminator, {seeds} seeds", {preset: found}))
    console.print(f"Run folder: {run.folder}", highlight=False, soft_wrap=True)
