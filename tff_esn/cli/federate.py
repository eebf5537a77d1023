"""`tff-esn federate`: trains a readout in rounds of local training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tff_esn.cli.options import AlgorithmGroup

if TYPE_CHECKING:
    from tff_esn.cli.training import Request
    from tff_esn.runs.kinds.federated import Cell

federate = AlgorithmGroup(
    "federate",
    "federated",
    "tff_esn.cli.federate",
    """Train a readout in federated rounds (FedAvg, FedCurv, ...); each training subject is a client.

    The defaults are those of the thesis's chapter 6. If interrupted, the same command resumes and ends with the same
    numbers, on any hosts. Writes a run folder with the scores of every round, each client's loss and update norm, and
    the model.
    """,
)


def command(name: str) -> click.Command:
    """The command of an algorithm."""
    from typer.core import TyperOption

    from tff_esn.algorithm import ALGORITHMS
    from tff_esn.cli.training import RUN, training_command
    from tff_esn.cli.worker import fleet_options

    resume = TyperOption(
        param_decls=["--resume"],
        metavar="RUN",
        help="Resume this run; its settings must be the same.",
        rich_help_panel=RUN,
    )
    return training_command(ALGORITHMS[name], train, [resume, *fleet_options()])


def train(request: Request) -> None:
    """Trains with each seed, the first in the run's folder, and prints the scores beside the majority class."""
    from tff_esn.cli.training import finish_note, print_tables
    from tff_esn.cli.worker import fleet_of, on_fleet
    from tff_esn.console import console
    from tff_esn.federated.training.client_states import clients_per_round
    from tff_esn.federated.training.experiment import FederatedExperiment
    from tff_esn.runs.kinds.federated import cell_of, majority_scores
    from tff_esn.runs.sweep_results import MAJORITY, model_name, printed_scores
    from tff_esn.store.cache import Cache
    from tff_esn.tables import score_table, to_csv

    fleet = fleet_of(request.options)
    seeds = range(request.seed, request.seed + (request.seeds or 1))
    given = {**request.given, "algorithm": request.kind.name}
    cells = [cell_of(given, request.source, seed) for seed in seeds]
    first = cells[0]
    data = request.study.dataset(first.data, request.jobs)
    clients_per_round(first.algorithm, data.partition.train)
    if request.options["clients_only"] is not None:
        files = FederatedExperiment(data, request.options["clients_only"]).files(first.algorithm)
        console.print(f"Files: {files.folder}", soft_wrap=True)
        return
    store, recorded = request.store, request.recorded(first.algorithm, first.data, seeds=len(seeds))
    resumed = None if request.options["resume"] is None else store.find(request.options["resume"])
    if resumed is not None:
        resumed.check_same(recorded, request.seed)
    name, scores = model_name(first.algorithm), []
    with Cache(request.study.cache).scratch() as scratch, on_fleet(fleet):
        experiment = FederatedExperiment(data, scratch, None if fleet is None else fleet.data)
        programs = [experiment.program(cell.algorithm) for cell in cells[:1]]
        # Not before: refused settings leave no run folder.
        with resumed or store.resume_or_create("federate", recorded, request.seed) as run:
            for cell in cells:
                program = programs.pop() if programs else experiment.program(cell.algorithm)
                folder = run.folder if cell is first else run.path(f"seed-{cell.seed}/metrics.csv").parent
                readout = program.run_in(folder, f"{name}, seed {cell.seed}" if len(cells) > 1 else name)
                scores.append(program.evaluator(readout))
                if cell is first:
                    run.save_model(experiment.trained(cell.algorithm, readout))
            frequent = majority_scores(data)
            parts = {part: [one[part] for one in scores] for part in scores[0]}
            table = score_table(
                "scores",
                _title(first, seeds),
                {
                    MAJORITY: {first.preset: {part: [frequent[part]] for part in parts}},
                    name: {first.preset: parts},
                },
                {name: printed_scores(first.algorithm)},
                {MAJORITY},
            )
            run.write_text("scores.csv", to_csv(table))
            means = {part: sum(one.balanced_accuracy for one in own) / len(own) for part, own in parts.items()}
            run.finish(means)
    print_tables(request.study.root, table)
    finish_note(run.folder, *request.notes)


def _title(cell: Cell, seeds: Sequence[int]) -> str:
    algorithm, noise = cell.algorithm, cell.algorithm.noise.standard_deviation
    columns = getattr(cell.data.features, "columns", (cell.data.features.label,))
    drawn = f" of {algorithm.clients_per_round} clients" if algorithm.clients_per_round else ""
    return (
        f"{algorithm.rounds} rounds{drawn}, {algorithm.reservoirs} reservoirs"
        f"{f', noise {noise:g}' if noise else ''}, {'+'.join(columns)}, preset {cell.preset}, "
        + (f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds")
    )
