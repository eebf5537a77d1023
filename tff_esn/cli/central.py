"""`tff-esn central`: the centralised model, its readouts and the baselines."""

# No `from __future__ import annotations`: on Python 3.9 Typer reads options from real annotations only.
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import typer

from tff_esn.cli.data import Folder, HrvWindow, Jobs, Labels, PresetName
from tff_esn.cli.options import settings
from tff_esn.cli.runs import Runs
from tff_esn.cli.steps import assessed, print_tables

if TYPE_CHECKING:
    from tff_esn.central.assess import Outcome
    from tff_esn.config import InputConfig

Features = Annotated[str, typer.Option(help="Columns the model sees, joined by commas: pEDA,tEDA,HR,HRV.")]
Reading = Annotated[
    Literal["window", "carried"],
    typer.Option(help="Each window an example from a zero state, or the state carried through the recording."),
]
Split = Annotated[str, typer.Option(help="Who trains, validates and tests.")]
Config = Annotated[
    Optional[Path],
    typer.Option(help="TOML file with [inputs], [reservoir] and [readout], in place of the options for them."),
]


def central(
    context: typer.Context,
    folder: Folder,
    preset: PresetName = "thesis",
    features: Features = "pEDA",
    reading: Reading = "window",
    window: HrvWindow = 25.0,
    task: Annotated[
        Literal["stress", "affect"], typer.Option(help="Stressed or not, or the four states baseline to meditation.")
    ] = "stress",
    split: Split = "thesis",
    seeds: Annotated[int, typer.Option(min=1, help="Train with so many seeds, from --seed on.")] = 10,
    threshold: Annotated[
        Literal["0.5", "validation"], typer.Option(help="Decision threshold: 0.5, or chosen on the validation set.")
    ] = "0.5",
    config: Config = None,
    labels: Labels = None,
    jobs: Jobs = None,
    runs: Runs = None,
) -> None:
    """Train the centralised ESN and the baselines; score design and test set over seeds.

    The defaults are the thesis's Table 6.2; the table is its Table 6.3. Writes a run
    folder with the scores of every seed and subject, and the model of the first seed.
    """
    from dataclasses import asdict

    from tff_esn.central.assess import PRINTED_MODEL
    from tff_esn.config import CentralConfig, from_mapping, read_toml
    from tff_esn.console import console
    from tff_esn.datasets.study import open_study
    from tff_esn.deployment.keras_model import keras_model, model_card
    from tff_esn.features.inputs import model_inputs, prepared_features
    from tff_esn.metrics import METRICS
    from tff_esn.runs.kinds.central import assessment_table
    from tff_esn.store.cache import Cache
    from tff_esn.store.run_folders import RunStore
    from tff_esn.tables import to_csv

    if config is not None:
        settled = from_mapping(CentralConfig, read_toml(config), str(config))
    else:
        chosen = {"preset": preset, "features": features.split(","), "reading": reading, "task": task}
        given: dict[str, Any] = {"inputs": {**chosen, "hrv_window": window, "split": split}}
        if task != "stress":  # Table 6.2's weights are those of two classes.
            given["readout"] = {"class_weight": None}
        settled = from_mapping(CentralConfig, given, "options")
    first = settings(context).seed
    study = open_study(folder, labels)
    inputs = model_inputs(
        prepared_features(study, settled.inputs, Cache(settings(context).cache), jobs), settled.inputs
    )
    recorded = {**asdict(settled), "study": str(folder), "seeds": seeds, "threshold": threshold}
    with RunStore(runs).create("central", recorded, first) as run:
        outcomes = []
        for outcome, trained in assessed(inputs, settled, range(first, first + seeds), threshold == "validation"):
            outcomes.append(outcome)
            for part, scores in outcome.parts.items():
                values = {metric: getattr(scores, metric) for metric in METRICS}
                run.log(step=outcome.seed or 0, model=outcome.model, part=part, **values)
            if trained is not None and outcome.seed == first and outcome.model == PRINTED_MODEL:
                card = model_card(settled.inputs, inputs.task.classes, outcome.threshold, inputs.split.design)
                run.save_model(keras_model(trained, card.steps if settled.inputs.reading == "window" else None))
                run.write_json("model.json", card.to_json())
        found = {str(settled.inputs.preset): outcomes}
        table = assessment_table(_title(settled.inputs, seeds), found, settled.inputs.task == "stress")
        run.write_text("scores.csv", to_csv(table))
        run.write_json("outcomes.json", [asdict(outcome) for outcome in outcomes])
        run.finish(_headline(outcomes))
    print_tables(folder, table)
    console.print(f"Run folder: {run.folder}", highlight=False, soft_wrap=True)


def _headline(outcomes: "Sequence[Outcome]") -> dict[str, dict[str, float]]:
    """Mean accuracy and AUROC of the ESNs on the test set, for the list of runs."""
    from tff_esn.metrics import spread_of

    esns = dict.fromkeys(outcome.model for outcome in outcomes if outcome.seed is not None)
    spreads = {model: spread_of([one.parts["test"] for one in outcomes if one.model == model]) for model in esns}
    return {model: {metric: own[metric].mean for metric in ("accuracy", "auroc")} for model, own in spreads.items()}


def _title(inputs: "InputConfig", seeds: int) -> str:
    features = "+".join(inputs.features)
    return f"Central model, {inputs.task}, {inputs.reading} reading, {features}, preset {inputs.preset}, {seeds} seeds"
