"""`tff-esn solve`: readouts in closed form; `tff-esn privacy`: what their messages give away."""

# No `from __future__ import annotations`: on Python 3.9 Typer reads options from real annotations only.
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import typer

from tff_esn.cli.data import Device, Folder, Jobs, Labels, PresetName, Rate
from tff_esn.cli.options import Command, Group, settings
from tff_esn.cli.runs import Runs
from tff_esn.cli.steps import channel_settings, print_tables
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
    from tff_esn.closed_form.experiments import Clients, TableResult
    from tff_esn.config import ClosedFormConfig

AlgorithmName = Literal[
    "central",
    "averaging",
    "incfed",
    "secure-incfed",
    "partial",
    "random",
    "pfedrr",
    "r-pfedrr",
    "hybrid",
    "low-rank",
    "fedip",
]
Units = Annotated[int, typer.Option(min=1, help="Units of the reservoir, N_x.")]
Radius = Annotated[float, typer.Option("--radius", help="Spectral radius.")]
Leaking = Annotated[float, typer.Option("--leaking", help="Leaking rate, in (0, 1].")]
Scaling = Annotated[float, typer.Option("--scaling", help="Input scaling.")]
Steps = Annotated[int, typer.Option("--steps", min=1, help="Length of a chunk.")]
Ridge = Annotated[float, typer.Option(help="Regularisation lambda.")]


def solve(
    context: typer.Context,
    algorithm: Annotated[AlgorithmName, typer.Argument(help="How clients' statistics become a readout.")],
    folder: Folder,
    config: Annotated[
        Optional[Path], typer.Option(help="TOML file of a whole table (see runs/), in place of the options below.")
    ] = None,
    units: Units = 200,
    radius: Radius = 0.9,
    leaking: Leaking = 0.5,
    scaling: Scaling = 0.5,
    ridge: Ridge = 1.0,
    alpha: Annotated[float, typer.Option(help="Share of important units (partial, hybrid).")] = 0.5,
    tau: Annotated[str, typer.Option(help="Thresholds to choose from on the validation subjects.")] = "0.1,0.5,0.9",
    rule: Annotated[
        Literal["preset", "printed", "schrauwen", "normalized"],
        typer.Option(help="FedIP: its equation as --preset has it, as printed, as meant, or the authors' code."),
    ] = "normalized",
    sigma: Annotated[float, typer.Option(help="FedIP: deviation of the target Gaussian.")] = 0.1,
    eta: Annotated[float, typer.Option(help="FedIP: learning rate.")] = 0.01,
    epochs: Annotated[int, typer.Option(min=1, help="FedIP: local epochs.")] = 3,
    rounds: Annotated[int, typer.Option(min=1, help="FedIP: rounds.")] = 1,
    repetitions: Annotated[int, typer.Option(min=1, help="Reservoirs, from --seed on.")] = 3,
    split: Annotated[Optional[str], typer.Option(help="Split that grows.", show_default="the study's")] = None,
    steps: Steps = 700,
    device: Device = "chest",
    rate: Rate = None,
    preset: PresetName = "corrected",
    engine: Annotated[
        Literal["numpy", "tff"], typer.Option(help="Where it is computed: the fast kernel, or TensorFlow Federated.")
    ] = "numpy",
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
    """Solve for a readout in closed form with 25, 50, 75 and 100 % of the training subjects.

    Clients send statistics of their reservoir states, the server adds them and solves:
    incfed (all of them), secure-incfed (the same by secure aggregation: the server sees
    sums only), partial and random (thesis appendix B), pfedrr, r-pfedrr, hybrid and low-rank
    (what is important of them), fedip (incfed on a reservoir that adapted); beside central
    ridge regression and averaging of local readouts. The table tells the test accuracy and
    the bytes on the wire.
    """
    from tff_esn.closed_form.engine import solve_with_tff, write_sequences
    from tff_esn.closed_form.experiments import load_clients
    from tff_esn.config import ClosedFormConfig, from_mapping
    from tff_esn.console import console, output
    from tff_esn.datasets.hhar import is_hhar
    from tff_esn.errors import ConfigError
    from tff_esn.runs.named import load_run
    from tff_esn.store.cache import Cache

    given: dict[str, Any]
    fleet_table, source = None, "options"
    if config is not None:
        given, source = dict(load_run(str(config)).settings), str(config)
        fleet_table = given.pop("fleet", None)
    else:
        method: dict[str, Any] = {"name": algorithm, "algorithm": "incfed" if algorithm == "fedip" else algorithm}
        method["reservoir"] = {
            "units": units,
            "spectral_radius": radius,
            "leaking_rate": leaking,
            "input_scaling": scaling,
        }
        method.update(ridge=ridge, alpha=alpha, tau=tau.split(","))
        if algorithm == "fedip":
            method["plasticity"] = {"rule": rule, "sigma": sigma, "eta": eta, "epochs": epochs, "rounds": rounds}
        given = {"title": algorithm, "methods": [method], "repetitions": repetitions, "preset": preset}
        given["channels"] = {**channel_settings(device, rate), "steps": steps}
        given["hhar"] = {"rate": rate}
        given["split"] = split or ("hhar-5-2-2" if is_hhar(folder) else "wesad-9-3-3")
    fleet = fleet_config(fleet_table, source, workers, certificates, worker_timeout, worker_data, insecure)
    if fleet is not None and engine != "tff":
        raise ConfigError(f"workers with --engine {engine}; expected --engine tff")
    table, cache = from_mapping(ClosedFormConfig, given, source), Cache(settings(context).cache)
    clients = load_clients(folder, table, cache, labels, jobs)
    if clients_only is not None:
        console.print(f"Files: {write_sequences(clients_only, clients, table)}", soft_wrap=True)
    elif engine == "tff":
        with cache.scratch() as scratch, on_fleet(fleet):
            files = write_sequences(scratch, clients, table)
            seen = files if fleet is None or fleet.data is None else fleet.data / files.name
            for told in solve_with_tff(clients, table, settings(context).seed, seen):
                output.print(told, highlight=False)
    else:
        run_closed_form(folder, clients, table, settings(context).seed, runs)


def run_closed_form(
    folder: Path, clients: "Clients", table: "ClosedFormConfig", seed: int, runs: Optional[Path]
) -> None:
    """Runs a table of closed forms, keeps what came out in a run folder, and prints it."""
    from dataclasses import asdict, replace

    from tff_esn.closed_form.experiments import THRESHOLDED, run_table
    from tff_esn.console import console
    from tff_esn.runs.kinds.closed_form import closed_form_table, threshold_table
    from tff_esn.store.run_folders import RunStore

    with RunStore(runs).create("solve", {**asdict(table), "study": str(folder)}, seed) as run:
        result = run_table(clients, table, seed)
        run.write_json("outcomes.json", [asdict(one) for one in result.outcomes])
        run.finish(_headline(result))
    made = closed_form_table("solve", {table.preset: result}, folder)
    thresholded = [one.name for one in table.methods if one.algorithm in THRESHOLDED and len(one.tau) > 1]
    thresholds = (threshold_table(result, name) for name in thresholded)
    print_tables(folder, replace(made, notes=[*made.notes, *_notes(result)]), *thresholds)
    console.print(f"Run folder: {run.folder}", highlight=False, soft_wrap=True)


def _headline(result: "TableResult") -> dict[str, float]:
    """Mean test accuracy of each method with all clients, for the list of runs."""
    from tff_esn.metrics import spread

    top = max(result.config.percent)
    return {
        method.name: spread([one.accuracy("test") for one in result.chosen(method.name, top)]).mean
        for method in result.config.methods
    }


def _notes(result: "TableResult") -> list[str]:
    from tff_esn.console import size_text

    config, top = result.config, max(result.config.percent)
    totals = []
    for method in config.methods:
        own = result.chosen(method.name, top)[0]
        totals.append(f"{method.name} {size_text((own.bytes_up + own.bytes_down) * own.clients)}")
    return [
        f"{config.repetitions} reservoirs; values are sent as {config.wire}, with indices and a header.",
        f"All clients, up and down, at {top} %: {', '.join(totals)}.",
    ]


app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="""See what a message of statistics gives away, and what hiding it costs.

    The IncFed paper says that data cannot be recovered from A = Y S^T and B = S S^T.
    """,
)


@app.command(cls=Command)
def reconstruct(
    context: typer.Context,
    folder: Folder,
    subject: Annotated[Optional[str], typer.Option(help="Whose recording.", show_default="the first")] = None,
    steps: Annotated[str, typer.Option(help="Numbers of states that the client contributed.")] = "1,2,3,5,8",
    epsilon: Annotated[float, typer.Option(help="Of differential privacy, delta 1e-5.")] = 8.0,
    units: Units = 100,
    radius: Radius = 0.9,
    leaking: Leaking = 0.5,
    scaling: Scaling = 0.5,
    device: Device = "chest",
    rate: Rate = None,
    labels: Labels = None,
    jobs: Jobs = None,
) -> None:
    """Reconstruct a client's input from its message: plain, under secure aggregation, with noise.

    An error of 0 is the recording itself; 1 is what guessing zeros gives.
    """
    from tff_esn.config import ChannelConfig, ReservoirConfig, from_mapping
    from tff_esn.console import output
    from tff_esn.datasets.study import open_study
    from tff_esn.errors import ConfigError
    from tff_esn.features.preparation import ChannelRecipe, prepare
    from tff_esn.privacy.leakage import leakage, leakage_table
    from tff_esn.store.cache import Cache
    from tff_esn.tables import to_terminal

    channels = from_mapping(ChannelConfig, channel_settings(device, rate), "options")
    reservoir = from_mapping(
        ReservoirConfig,
        {"units": units, "spectral_radius": radius, "leaking_rate": leaking, "input_scaling": scaling},
        "options",
    )
    study = open_study(folder, labels)
    chosen = subject or study.subjects[0]
    preparation = prepare(
        study, ChannelRecipe(channels), subjects=[chosen], cache=Cache(settings(context).cache), jobs=jobs
    )
    if not all(part.strip().isdigit() and int(part) for part in steps.split(",")):
        raise ConfigError(f"steps = {steps}; expected whole numbers from 1, joined by commas")
    counts = [int(part) for part in steps.split(",")]
    found = leakage(preparation.load(chosen), reservoir, counts, epsilon, settings(context).seed)
    output.print(to_terminal(leakage_table(chosen, found, epsilon)))


@app.command(cls=Command)
def budget(
    context: typer.Context,
    folder: Folder,
    epsilons: Annotated[str, typer.Option(help="Values of epsilon, joined by commas.")] = "0.5,1,2,4,8",
    delta: Annotated[float, typer.Option(help="Delta.")] = 1e-5,
    protect: Annotated[Literal["step", "chunk"], typer.Option(help="What is protected: a step, or a chunk.")] = "step",
    clip: Annotated[float, typer.Option(help="Longest state that counts, as a share of sqrt(units).")] = 0.3,
    units: Units = 100,
    radius: Radius = 0.9,
    leaking: Leaking = 0.5,
    scaling: Scaling = 0.5,
    ridge: Ridge = 1.0,
    repetitions: Annotated[int, typer.Option(min=1, help="Reservoirs, from --seed on.")] = 3,
    steps: Steps = 700,
    device: Device = "chest",
    rate: Rate = None,
    labels: Labels = None,
    jobs: Jobs = None,
) -> None:
    """Tell the test accuracy of IncFed under differential privacy against epsilon.

    States are clipped, every client adds its share of Gaussian noise to A and B, and the
    server sees the sum by secure aggregation only.
    """
    from tff_esn.closed_form.experiments import load_clients
    from tff_esn.config import ClosedFormConfig, from_mapping
    from tff_esn.console import output
    from tff_esn.datasets.hhar import is_hhar
    from tff_esn.errors import ConfigError
    from tff_esn.privacy.leakage import budget_table, private_accuracies
    from tff_esn.store.cache import Cache
    from tff_esn.tables import to_terminal

    try:
        values = [float(part) for part in epsilons.split(",")]
    except ValueError:
        raise ConfigError(f"epsilons = {epsilons}; expected numbers joined by commas") from None
    reservoir = {"units": units, "spectral_radius": radius, "leaking_rate": leaking, "input_scaling": scaling}
    given: dict[str, Any] = {"title": "privacy", "repetitions": repetitions}
    given["methods"] = [{"name": "IncFed", "reservoir": reservoir, "ridge": ridge}]
    given["channels"] = {**channel_settings(device, rate), "steps": steps}
    given["split"] = "hhar-5-2-2" if is_hhar(folder) else "wesad-9-3-3"
    table = from_mapping(ClosedFormConfig, given, "options")
    clients = load_clients(folder, table, Cache(settings(context).cache), labels, jobs)
    unit_steps = 1 if protect == "step" else steps
    found = private_accuracies(clients, table, values, delta, unit_steps, clip, settings(context).seed)
    output.print(to_terminal(budget_table(found, delta, protect)))
