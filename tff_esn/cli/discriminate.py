"""`tff-esn discriminator`: the network that judges clients' updates."""

# No `from __future__ import annotations`: on Python 3.9 Typer reads options from real annotations only.
from typing import Annotated, Literal, Optional

import typer

from tff_esn.cli.central import Features, PresetName, Reading, Split
from tff_esn.cli.data import Folder, HrvWindow, Jobs, Labels
from tff_esn.cli.options import settings
from tff_esn.cli.runs import Runs


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

    from rich.table import Table

    from tff_esn.config import FederatedConfig, from_mapping
    from tff_esn.console import console, output
    from tff_esn.datasets.synthetic import is_generated
    from tff_esn.features.source import Source
    from tff_esn.federated.discriminator import train_discriminator, update_examples
    from tff_esn.metrics import spread
    from tff_esn.presets import settled
    from tff_esn.runs.reported import reported
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
    cards = []
    with cache.scratch() as scratch, RunStore(runs).create("discriminator", recorded, first) as run:
        network = config.discriminator
        for seed in range(first, first + seeds):
            examples = update_examples(inputs, config, seed, scratch)
            if trials and seed == first:
                key = fingerprint([asdict(config), content, seed])[:8]
                project = cache.folder / "tuning" / f"discriminator-{key}"
                network = choose_discriminator(examples.split(seed)[0], network, project, trials, seed)
            made = train_discriminator(examples, network, subjects, defence, seed)
            cards.append((made.card, examples.accuracy))
            if seed == first:
                made.save(run.path("discriminator.npz"))
        run.finish({"test_f1": spread([card.test_f1 for card, _ in cards]).mean})
    printed = reported()["thesis"]["discriminator"]
    table = Table(title=f"Discriminator, trained on {defence.trained_on}, {seeds} seeds", title_justify="left")
    for heading in ("", "ours", "printed"):
        table.add_column(heading, justify="right" if heading else "left")
    rows = {
        "validation accuracy": ([card.validation_accuracy for card, _ in cards], "validation_binary_accuracy"),
        "train F1": ([card.train_f1 for card, _ in cards], "train_f1"),
        "test F1": ([card.test_f1 for card, _ in cards], "test_f1"),
    }
    for kind in cards[0][1]:
        rows[f"{kind} ESN, test F1"] = ([own[kind] for _, own in cards], f"{kind}_esn_test_f1")
    for name, (values, key) in rows.items():
        own = spread(values)
        table.add_row(name, f"{own.mean:.4f}" + ("" if seeds == 1 else f" ± {own.std:.4f}"), f"{printed[key]:.4f}")
    table.caption = f"dense layers of {network.units[0]} and {network.units[1]} units, dropout {network.dropout:g}"
    output.print(table)
    if is_generated(folder):
        output.print("[yellow]Generated subjects: these are not the study's numbers.")
    console.print(f"Run folder: {run.folder}", highlight=False, soft_wrap=True)
