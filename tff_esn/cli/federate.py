"""`tff-esn federate`: a readout learned by rounds of local training."""

# No `from __future__ import annotations`: on Python 3.9 Typer reads options from real annotations only.
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Optional

import typer

from tff_esn.cli.central import Features, Reading, Split
from tff_esn.cli.data import Folder, HrvWindow, Jobs, Labels, PresetName
from tff_esn.cli.options import settings
from tff_esn.cli.runs import Runs
from tff_esn.cli.steps import print_tables
from tff_esn.cli.worker import (
    CertificatesFolder,
    ClientsOnly,
    Insecure,
    WorkerData,
    Workers,
    WorkerTimeout,
    fleet_config,
    on_fleet,
)

if TYPE_CHECKING:
    from tff_esn.config import FederatedConfig


def federate(
    context: typer.Context,
    algorithm: Annotated[
        Literal["fedavg", "fedavg-unweighted", "fedprox", "fedsgd", "mimelite", "fedcurv"],
        typer.Argument(help="What a round is."),
    ],
    folder: Folder,
    preset: PresetName = "thesis",
    input_preset: Annotated[
        Optional[Literal["thesis", "corrected"]],
        typer.Option(help="Preset of the features alone.", show_default="as --preset"),
    ] = None,
    features: Features = "pEDA",
    reading: Reading = "window",
    window: HrvWindow = 25.0,
    split: Split = "thesis",
    reservoirs: Annotated[
        Literal["same", "different"], typer.Option(help="Clients share the server's reservoir, or each has its own.")
    ] = "same",
    server_rate: Annotated[float, typer.Option(help="Learning rate of the server's SGD.")] = 1.0,
    rounds: Annotated[int, typer.Option(help="Number of rounds.")] = 78,
    clients: Annotated[int, typer.Option(help="Clients drawn each round.")] = 5,
    noise: Annotated[float, typer.Option(help="Standard deviation of noise on the clients' inputs.")] = 0.0,
    noisy: Annotated[
        Optional[str], typer.Option(help="Clients with noise, joined by commas.", show_default="all")
    ] = None,
    factor: Annotated[Optional[float], typer.Option(help="FedCurv's lambda.", show_default="the preset's")] = None,
    attack: Annotated[
        Optional[Literal["noise", "label-flip", "sign-flip", "scaled", "random", "stealthy"]],
        typer.Option(help="What bad clients do.", show_default="nobody attacks"),
    ] = None,
    strength: Annotated[Optional[float], typer.Option(help="How strongly.", show_default="the attack's own")] = None,
    share: Annotated[float, typer.Option(help="Share of bad clients, drawn by the seed.")] = 0.5,
    fake: Annotated[
        Optional[str], typer.Option(help="Bad clients instead, joined by commas.", show_default="by --share")
    ] = None,
    defence: Annotated[
        str,
        typer.Option(
            help="none, discriminator, tff-robust, median, trimmed-mean, geometric-median, krum, multi-krum, "
            "norm-filter or cosine-filter."
        ),
    ] = "none",
    discriminator: Annotated[
        Optional[Path],
        typer.Option(help="Of `tff-esn discriminator`.", show_default="trained on the split's discriminator subjects"),
    ] = None,
    evaluate_every: Annotated[int, typer.Option(help="Rounds between evaluations.")] = 1,
    engine: Annotated[
        Optional[Literal["states", "builtin", "graph"]],
        typer.Option(
            help="Train on states computed once; TFF's own process on them; or the reservoir inside TFF's model.",
            show_default="states, where the algorithm has it",
        ),
    ] = None,
    config: Annotated[
        Optional[Path], typer.Option(help="TOML file with all settings, in place of the options for them.")
    ] = None,
    resume: Annotated[
        Optional[str],
        typer.Option(metavar="RUN", help="Go on with this run; its settings must be the same."),
    ] = None,
    workers: Workers = None,
    certificates: CertificatesFolder = None,
    worker_data: WorkerData = None,
    clients_only: ClientsOnly = None,
    worker_timeout: WorkerTimeout = 600.0,
    insecure: Insecure = False,
    labels: Labels = None,
    jobs: Jobs = None,
    runs: Runs = None,
) -> None:
    """Learn a readout by FedAvg, FedCurv or another algorithm; each training subject is a client.

    The defaults are those of the thesis's chapter 6. Stopped in any way, the same command goes
    on where it stopped and ends with the same numbers, on whatever hosts. Writes a run folder with the scores of
    every round, each client's loss and update, and the model.
    """
    from dataclasses import asdict

    from tff_esn.config import FederatedConfig, from_mapping, read_toml
    from tff_esn.console import console
    from tff_esn.datasets.study import open_study
    from tff_esn.deployment.keras_model import TrainedEsn, keras_model, model_card
    from tff_esn.features.inputs import model_inputs, prepared_features
    from tff_esn.federated.clients import check_clients
    from tff_esn.federated.federation import engine_of
    from tff_esn.federated.report import MAJORITY, majority_of, model_name, printed_scores
    from tff_esn.federated.study import FederatedStudy
    from tff_esn.presets import PRESETS, settled
    from tff_esn.store.cache import Cache
    from tff_esn.store.json_values import fingerprint
    from tff_esn.store.run_folders import RunStore
    from tff_esn.tables import score_table, to_csv

    if config is not None:
        given, source = {**read_toml(config), "algorithm": algorithm}, str(config)
    else:
        inputs_given = {"preset": input_preset or preset, "features": features.split(","), "reading": reading}
        given = {
            "algorithm": algorithm,
            "preset": preset,
            "engine": engine,
            "inputs": {**inputs_given, "hrv_window": window, "split": split},
            "reservoirs": reservoirs,
            "server_learning_rate": server_rate,
            "rounds": rounds,
            "clients_per_round": clients,
            "evaluate_every": evaluate_every,
            "noise": {"standard_deviation": noise, "clients": noisy and noisy.split(",")},
        }
        if defence != "none":
            given["defence"] = {"kind": defence, "file": discriminator and str(discriminator)}
        if attack is not None:
            bad = {"share": share, "clients": fake and fake.split(",")}
            given["attack"] = {"kind": attack, "strength": strength, **bad}
        if factor is not None:
            given["fedcurv"] = {**asdict(PRESETS[preset].fedcurv), "factor": factor}
        source = "options"
    fleet = fleet_config(given.pop("fleet", None), source, workers, certificates, worker_timeout, worker_data, insecure)
    chosen = settled(from_mapping(FederatedConfig, given, source))
    engine_of(chosen)
    seed, cache, store = settings(context).seed, Cache(settings(context).cache), RunStore(runs)
    study = open_study(folder, labels)
    preparation = prepared_features(study, chosen.inputs, cache, jobs)
    inputs = model_inputs(preparation, chosen.inputs)
    check_clients(chosen, inputs.split.train)
    if clients_only is not None:
        console.print(f"Files: {FederatedStudy(inputs, clients_only).files(chosen, seed).folder}", soft_wrap=True)
        return
    recorded = {**asdict(chosen), "study": str(folder), "data": fingerprint(sorted(preparation.keys.items()))}
    resumed = None if resume is None else store.find(resume)
    if resumed is not None:
        resumed.check_same(recorded, seed)
    name = model_name(chosen)
    with cache.scratch() as scratch, on_fleet(fleet):
        clients_study = FederatedStudy(inputs, scratch, None if fleet is None else fleet.data)
        program = clients_study.program(chosen, seed)
        # Not before: what is refused leaves no run behind.
        with resumed or store.resume_or_create("federate", recorded, seed) as run:
            readout = program.run_in(run.folder, name)
            scores = program.evaluator(readout)
            found = {MAJORITY: majority_of(program.evaluator, len(inputs.task.classes)), name: scores}
            table = score_table(
                "scores",
                _title(chosen, seed),
                {model: {chosen.preset: {part: [one] for part, one in own.items()}} for model, own in found.items()},
                {name: printed_scores(chosen)},
                {MAJORITY},
            )
            card = model_card(chosen.inputs, inputs.task.classes, 0.5, inputs.split.train)
            trained = TrainedEsn(clients_study.reservoir(chosen, seed), readout)
            run.save_model(keras_model(trained, card.steps if chosen.inputs.reading == "window" else None))
            run.write_json("model.json", card.to_json())
            run.write_text("scores.csv", to_csv(table))
            run.finish({part: own.balanced_accuracy for part, own in scores.items()})
    print_tables(folder, table)
    console.print(f"Run folder: {run.folder}", highlight=False, soft_wrap=True)


def _title(config: "FederatedConfig", seed: int) -> str:
    noise = f", noise {config.noise.standard_deviation:g}" if config.noise.standard_deviation else ""
    features = "+".join(config.inputs.features)
    return (
        f"{config.rounds} rounds of {config.clients_per_round} clients, {config.reservoirs} reservoirs{noise}, "
        f"{features}, preset {config.preset}, seed {seed}"
    )
