"""`tff-esn reproduce`: tables and figures of the documents, each a named run."""

# No `from __future__ import annotations`: on Python 3.9 Typer reads options from real annotations only.
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from tff_esn.cli.data import Jobs, Labels
from tff_esn.cli.options import settings
from tff_esn.cli.runs import Runs
from tff_esn.cli.solve import run_closed_form
from tff_esn.cli.steps import print_scores

if TYPE_CHECKING:
    from tff_esn.config import SweepConfig
    from tff_esn.federated.results import SweepResults
    from tff_esn.federated.sweep import Source
    from tff_esn.store import Run


def reproduce(
    context: typer.Context,
    names: Annotated[
        Optional[list[str]], typer.Argument(metavar="[NAME]...", help="Named runs, or TOML files of your own.")
    ] = None,
    data: Annotated[
        Optional[Path], typer.Option(help="Folder of the study.", show_default="generated subjects")
    ] = None,
    seeds: Annotated[
        Optional[int], typer.Option(min=1, help="Seeds, from --seed on.", show_default="the run's")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the named runs and exit.")] = False,
    labels: Labels = None,
    jobs: Jobs = None,
    runs: Runs = None,
) -> None:
    """Run tables and figures of the documents over seeds, beside the printed numbers.

    Finished parts are kept: stopped, the same command goes on where it stopped, and with more
    seeds only these are run. Writes a run folder with tables, curves and figures.
    """
    from tff_esn.cache import Cache
    from tff_esn.closed_form.experiments import load_clients
    from tff_esn.config import ClosedFormConfig, SweepConfig, from_mapping
    from tff_esn.console import output
    from tff_esn.data.synthetic.wesad import ensure_wesad
    from tff_esn.errors import ConfigError
    from tff_esn.federated.sweep import Source
    from tff_esn.runs.named import load_run, run_names

    described = {name: load_run(name) for name in (run_names() if list_ else names or [])}
    if list_:
        for name, description in described.items():
            output.print(f"[cyan]{name}[/]  {description['title']}", soft_wrap=True)
        return
    if not described:
        raise ConfigError(f"no run named; expected some of {', '.join(run_names())}, or a .toml file")
    cache = Cache(settings(context).cache)
    folder = data or ensure_wesad(cache.folder, jobs=jobs)
    for name, description in described.items():
        if description.get("kind") == "closed-form":
            chosen = description if seeds is None else {**description, "repetitions": seeds}
            table = from_mapping(ClosedFormConfig, chosen, name)
            clients = load_clients(folder, table, cache, labels, jobs)
            run_closed_form(folder, clients, table, settings(context).seed, runs)
        else:
            sweep = from_mapping(SweepConfig, description, name)
            _sweep(name, sweep, Source(folder, cache.folder, labels), settings(context).seed, seeds, jobs, runs)


def _sweep(
    name: str,
    sweep: "SweepConfig",
    source: "Source",
    first: int,
    seeds: Optional[int],
    jobs: Optional[int],
    runs: Optional[Path],
) -> None:
    from dataclasses import asdict

    from tff_esn.console import console
    from tff_esn.federated.results import SweepResults, majority_scores
    from tff_esn.federated.sweep import cells_of, run_cells
    from tff_esn.store import RunStore

    count = seeds or sweep.seeds
    cells = cells_of(sweep, range(first, first + count), name)
    with RunStore(runs).create(
        "reproduce", {**asdict(sweep), "study": str(source.study), "seeds": count}, first
    ) as run:
        results = SweepResults(sweep, run_cells(cells, source, jobs), majority_scores(cells, source))
        _write(run, results)
        run.finish({"runs": len(cells)})
    for table in sweep.tables:
        for preset in results.presets:
            title = f"{table.title}, preset {preset}, {count} seeds"
            print_scores(title, results.table(table, preset), source.study)
            _print_detections(f"{table.title}: fakes rejected, preset {preset}", results.detections(table, preset))
    for pivot in sweep.pivots:
        for preset in results.presets:
            for metric in pivot.metrics:
                _print_pivot(f"{pivot.title}: {metric}, preset {preset}", results.pivot(pivot, preset, metric))
    console.print(f"Run folder: {run.folder}", highlight=False, soft_wrap=True)


def _write(run: "Run", results: "SweepResults") -> None:
    from tff_esn.evaluation.figures import draw_judged, draw_panels
    from tff_esn.evaluation.score_tables import to_csv, to_markdown

    run.write_text("curves.csv", results.curves_csv())
    for preset in results.presets:
        for table in results.sweep.tables:
            rows = results.table(table, preset)
            to_csv(rows, run.path(f"{table.name}-{preset}.csv"))
            run.write_text(f"{table.name}-{preset}.md", to_markdown(rows))
            run.write_json(f"{table.name}-{preset}-detection.json", results.detections(table, preset))
        for pivot in results.sweep.pivots:
            for metric in pivot.metrics:
                lines = results.pivot(pivot, preset, metric)
                run.write_text(f"{pivot.name}-{metric}-{preset}.csv", "\n".join(map(",".join, lines)) + "\n")
        for figure in results.sweep.figures:
            if figure.kind == "judged":
                shown = results.judged(figure, preset)
                drawn, fake, rejected, _ = shown.judged.T
                accuracy = shown.curve("test", "accuracy")
                title = f"{figure.title}, preset {preset}"
                path = run.path(f"{figure.name}-{preset}.png")
                draw_judged(path, title, shown.rounds, accuracy, drawn - rejected, drawn - fake)
                continue
            for chosen in results.figures(figure):
                name = "-".join([figure.name, *map(str, chosen), preset])
                title = ", ".join([figure.title, *map(str, chosen), f"preset {preset}"])
                draw_panels(run.path(f"{name}.png"), title, results.panels(figure, preset, chosen), "accuracy")


def _print_detections(title: str, detections: dict[str, dict[str, float]]) -> None:
    from rich.table import Table

    from tff_esn.console import output

    if not detections:
        return
    table = Table(title=title, title_justify="left")
    for heading in ("Model", "Precision", "Recall", "Mean abs. error"):
        table.add_column(heading, justify="left" if heading == "Model" else "right")
    for name, values in detections.items():
        table.add_row(name, *(f"{value:.4f}" for value in values.values()))
    output.print(table)


def _print_pivot(title: str, lines: list[list[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from tff_esn.console import output

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for i, heading in enumerate(lines[0]):
        table.add_column(heading, justify="right" if i else "left")
    for line in lines[1:]:
        table.add_row(*line)
    output.print(table)
