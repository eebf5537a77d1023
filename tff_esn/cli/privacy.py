"""`tff-esn privacy`: what a message of statistics reveals, and what protecting it costs."""

# No `from __future__ import annotations`: on Python 3.9 Typer reads options from real annotations only.
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import typer

from tff_esn.cli.data import Device, Folder, Jobs, Labels, Rate
from tff_esn.cli.options import Command, Group, settings

if TYPE_CHECKING:
    from tff_esn.features.study import DataSettings, Study
    from tff_esn.reservoir.esn import ESN

Units = Annotated[int, typer.Option(help="Number of units.")]
SpectralRadius = Annotated[float, typer.Option(help="Largest absolute eigenvalue.")]
LeakingRate = Annotated[float, typer.Option(help="Leaking rate a, in (0, 1].")]
InputScaling = Annotated[float, typer.Option(help="Largest absolute input weight.")]

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="""Measure what a client's message reveals, and what protecting it costs.

    The IncFed paper says that data cannot be recovered from A = Y S^T and B = S S^T.
    """,
)


@app.command(cls=Command)
def reconstruct(
    context: typer.Context,
    folder: Folder,
    subject: Annotated[
        Optional[str], typer.Option(help="Subject whose recording is reconstructed.", show_default="the first")
    ] = None,
    steps: Annotated[str, typer.Option(help="Numbers of states that the client contributed.")] = "1,2,3,5,8",
    epsilon: Annotated[float, typer.Option(help="Epsilon of differential privacy, delta 1e-5.")] = 8.0,
    units: Units = 100,
    spectral_radius: SpectralRadius = 0.9,
    leaking_rate: LeakingRate = 0.5,
    input_scaling: InputScaling = 0.5,
    device: Device = None,
    rate: Rate = None,
    labels: Labels = None,
    jobs: Jobs = None,
) -> None:
    """Reconstruct a client's input from its message: plain, under secure aggregation, with noise.

    An error of 0 is a perfect reconstruction; 1 is the error of guessing zeros.
    """
    from tff_esn.console import output
    from tff_esn.datasets.splits import ClientSplit
    from tff_esn.datasets.study import chosen_subjects
    from tff_esn.errors import ConfigError
    from tff_esn.evaluation.leakage import leakage, leakage_table
    from tff_esn.features.preparation import prepare
    from tff_esn.features.study import Study, task_of
    from tff_esn.store.cache import Cache
    from tff_esn.tables import to_terminal

    if not all(part.strip().isdigit() and int(part) for part in steps.split(",")):
        raise ConfigError(f"steps = {steps}; expected whole numbers from 1, joined by commas")
    counts = [int(part) for part in steps.split(",")]
    esn = _esn(context, units, spectral_radius, leaking_rate, input_scaling)
    study = Study(folder, settings(context).cache, labels)
    client = chosen_subjects(study.folder, subject and [subject])[0]
    chosen = _channels(study, device, rate, max(counts))
    recipe, cache = chosen.features, Cache(study.cache)
    preparation = prepare(study.folder, recipe, subjects=[client], cache=cache, jobs=jobs)
    task = task_of(study.folder, chosen.task)
    data = recipe.dataset([preparation.table(client)], task, ClientSplit((client,)))
    output.print(to_terminal(leakage_table(client, leakage(data, client, esn, counts, epsilon), epsilon)))


@app.command(cls=Command)
def budget(
    context: typer.Context,
    folder: Folder,
    epsilons: Annotated[str, typer.Option(help="Values of epsilon, joined by commas.")] = "0.5,1,2,4,8",
    delta: Annotated[float, typer.Option(help="Delta.")] = 1e-5,
    protect: Annotated[Literal["step", "chunk"], typer.Option(help="Unit of privacy: a step, or a chunk.")] = "step",
    clip: Annotated[float, typer.Option(help="Norm to which states are clipped, as a share of sqrt(units).")] = 0.3,
    units: Units = 100,
    spectral_radius: SpectralRadius = 0.9,
    leaking_rate: LeakingRate = 0.5,
    input_scaling: InputScaling = 0.5,
    ridge: Annotated[float, typer.Option(min=0.0, help="Regularisation lambda.")] = 1.0,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds, starting at --seed.")] = 3,
    steps: Annotated[int, typer.Option(min=1, help="Length of a chunk.")] = 700,
    device: Device = None,
    rate: Rate = None,
    labels: Labels = None,
    jobs: Jobs = None,
) -> None:
    """Print the test accuracy of IncFed under differential privacy for each epsilon.

    States are clipped, every client adds its share of Gaussian noise to A and B, and the
    server sees only their sum, by secure aggregation.
    """
    from tff_esn.console import output
    from tff_esn.errors import ConfigError
    from tff_esn.evaluation.leakage import budget_table, private_accuracies
    from tff_esn.features.study import Study
    from tff_esn.privacy.accounting import PrivacyBudget
    from tff_esn.tables import to_terminal

    try:
        values = [float(part) for part in epsilons.split(",")]
    except ValueError:
        raise ConfigError(f"epsilons = {epsilons}; expected numbers joined by commas") from None
    budgets = [PrivacyBudget(epsilon, delta, 1 if protect == "step" else steps) for epsilon in values]
    esn = _esn(context, units, spectral_radius, leaking_rate, input_scaling)
    study = Study(folder, settings(context).cache, labels)
    data = study.dataset(_channels(study, device, rate, steps), jobs)
    found = private_accuracies(data, esn, ridge, budgets, clip, seeds)
    output.print(to_terminal(budget_table(found, delta, protect)))


def _esn(
    context: typer.Context, units: int, spectral_radius: float, leaking_rate: float, input_scaling: float
) -> "ESN":
    from tff_esn.parameters import from_mapping
    from tff_esn.reservoir.esn import ESN

    given = {"units": units, "spectral_radius": spectral_radius, "leaking_rate": leaking_rate}
    return from_mapping(ESN, {**given, "input_scaling": input_scaling, "seed": settings(context).seed}, "options")


def _channels(study: "Study", device: Optional[str], rate: Optional[float], steps: int) -> "DataSettings":
    """Raw channels in chunks, with the task and split of the papers on closed forms."""
    from tff_esn.cli.training import channel_data
    from tff_esn.features.study import DataSettings
    from tff_esn.parameters import from_mapping, merged

    given: dict[str, Any] = {"rate": rate, "steps": steps, **({} if device is None else {"device": device})}
    return from_mapping(DataSettings, merged(channel_data(study.folder, ""), {"features": given}), "options")
