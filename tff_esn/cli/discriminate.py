"""`tff-esn discriminator`: the network that rejects clients' updates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tff_esn.cli.options import LazyCommand

if TYPE_CHECKING:
    from tff_esn.cli.training import Request

discriminator = LazyCommand(
    "discriminator",
    """Train the discriminator of anomalous clients on the split's discriminator subjects.

    It learns from updates of a readout, with and without noise on the subjects' inputs. Writes a run folder with the
    network of the first seed, for `federate --set defence.file=...`.
    """,
    "tff_esn.cli.discriminate",
)


def command() -> click.Command:
    """The command."""
    from typer.core import TyperOption

    from tff_esn.cli.training import MAIN, default_data, default_split, training_command
    from tff_esn.federated.fedavg import FedAvg

    trials = TyperOption(
        param_decls=["--trials"],
        type=click.IntRange(0),
        default=30,
        show_default=True,
        help="Number of networks that KerasTuner tries; 0 for no search.",
        rich_help_panel=MAIN,
    )

    def data(study, preset):  # type: ignore[no-untyped-def]
        return {**default_data(study, preset), "split": default_split(study, "thesis-discriminative")}

    return training_command(FedAvg, train, [trials], defaults=data)


def train(request: Request) -> None:
    """Trains with each seed, prints ours and the printed scores, and keeps the network of the first seed."""
    from tff_esn.cli.training import finish_note, print_tables
    from tff_esn.parameters import from_mapping
    from tff_esn.runs.kinds.discriminator import DiscriminatorConfig, DiscriminatorRun, train_first
    from tff_esn.runs.plan import run_parts
    from tff_esn.store.json_values import jsonable

    seeds = request.seeds or 3
    given = {key: value for key, value in request.given.items() if key != "preset"}
    settings = {"kind": "discriminator", "title": "Discriminator", "presets": [request.preset], "settings": given}
    config = from_mapping(
        DiscriminatorConfig, {**settings, "trials": request.options["trials"], "seeds": seeds}, request.source
    )
    work = DiscriminatorRun("discriminator", config, request.study, range(request.seed, request.seed + seeds))
    recorded = {**jsonable(config), "study": str(request.study.root)}
    with request.store.resume_or_create("discriminator", recorded, request.seed) as run:
        results = run_parts(work, request.jobs)
        (table,), _ = work.outcome(results)
        train_first(work, results, request.preset).save(run.path("discriminator.npz"))
        (found,) = work.found(results).values()
        run.finish({"test_f1": sum(one["test_f1"] for one in found["scores"]) / seeds})
    print_tables(request.study.root, table)
    finish_note(run.folder, *request.notes)
