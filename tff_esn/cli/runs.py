"""`tff-esn runs`: earlier runs and their results."""

# No `from __future__ import annotations`: on Python 3.9 Typer reads options from real annotations only.

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from tff_esn.cli.options import Command, Group

if TYPE_CHECKING:
    from tff_esn.store.run_folders import Run, RunInfo
    from tff_esn.tables import Table

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="""List the runs, or show one.

    Every command that trains writes a folder: run.json (settings, seed, versions, commit, status), metrics.csv,
    TensorBoard's events and the model. [cyan]tensorboard --logdir results[/cyan] shows them all.
    """,
)

Runs = Annotated[
    Optional[Path],
    typer.Option("--runs", metavar="DIR", help="Folder of the runs.", show_default="$TFF_ESN_RUNS or ./results"),
]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable, all digits.")]

_STYLES = {
    "complete": "green",
    "running": "cyan",
    "interrupted": "yellow",
    "incomplete": "yellow",
    "failed": "red",
    "unreadable": "red",
}
_HEADLINE = 3


@app.command("list", cls=Command)
def list_runs(context: typer.Context, runs: Runs = None, json_: Json = False) -> None:
    """List all runs, the latest last.

    A run is complete, failed, interrupted or running; incomplete if its process was killed;
    unreadable if its run.json is damaged.
    """
    from tff_esn.console import output
    from tff_esn.store.run_folders import RunStore
    from tff_esn.tables import to_terminal

    store = RunStore(runs)
    found = store.list()
    if json_:
        _print_json([_summary(info) for info in found])
    elif found:
        output.print(to_terminal(_list_table(found), _STYLES))
    else:
        print(f"no runs in {store.root}")


@app.command(cls=Command)
def show(
    context: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder or name, or the beginning of its name.")],
    runs: Runs = None,
    rows: Annotated[int, typer.Option(min=1, help="Number of rows of metrics to show, the last ones.")] = 5,
    json_: Json = False,
) -> None:
    """Show a run: settings, versions, result, last metrics and files."""
    from tff_esn.console import output
    from tff_esn.store.run_folders import RunInfo, RunStore, flat
    from tff_esn.tables import text_table, to_terminal

    found = RunStore(runs).find(run)
    info, metrics = RunInfo.of(found.folder), found.metrics()[-rows:]
    if json_:
        _print_json({**vars(found.record), **_summary(info), "metrics": metrics, "files": _files(found)})
        return
    for title, values in (
        (f"Run {info.name}", _facts(info)),
        ("Settings", found.record.config),
        ("Versions", found.record.versions),
        ("Result", found.record.result or {}),
        ("Files", {name: f"{size:,} bytes" for name, size in _files(found).items()}),
    ):
        if values:
            output.print(to_terminal(text_table(title, ["", ""], flat(values).items())), "")
    if metrics:
        output.print(to_terminal(_metrics_table(metrics, output.width)))


def _print_json(value: Any) -> None:
    import json

    from tff_esn.store.json_values import jsonable

    print(json.dumps(jsonable(value), indent=1))


def _summary(info: "RunInfo") -> dict[str, Any]:
    record = info.record
    return {
        "name": info.name,
        "folder": info.folder,
        "kind": record and record.kind,
        "status": info.status,
        "started": record and record.started,
        "duration": info.duration,
        "seed": record.seed if record else None,
        "result": record and record.result,
        "problem": info.problem,
    }


def _files(run: "Run") -> dict[str, int]:
    return {str(path.relative_to(run.folder)): path.stat().st_size for path in run.files()}


def _list_table(found: Sequence["RunInfo"]) -> "Table":
    """A row per run, with kind, seed and result below the name to fit 80 columns."""
    from tff_esn.tables import text_table

    rows = []
    for info in found:
        record = info.record
        result = (_headline(record.result) if record and record.result else "") or info.problem
        below = [*([f"{record.kind}, seed {record.seed}"] if record else []), *([result] if result else [])]
        started = f"{record.started:%Y-%m-%d %H:%M:%S}" if record else ""
        rows.append([f"{info.name}\n{': '.join(below)}", info.status, started, _duration(info.duration)])
    return text_table("Runs", ["Name, result", "Status", "Started (UTC)", "Duration"], rows, numeric=["Duration"])


def _headline(result: Mapping[str, Any]) -> str:
    from tff_esn.store.json_values import flat

    numbers = {key: value for key, value in flat(result).items() if isinstance(value, (int, float))}
    return ", ".join(f"{key} {value:.4g}" for key, value in list(numbers.items())[:_HEADLINE])


def _duration(seconds: Optional[float]) -> str:
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _facts(info: "RunInfo") -> dict[str, Any]:
    import shlex

    record = info.record
    assert record is not None  # A run that was found has been read.
    facts = {
        "Status": info.status,
        "Kind": record.kind,
        "Seed": record.seed,
        "Started": f"{record.started:%Y-%m-%d %H:%M:%S} UTC",
        "Duration": _duration(info.duration),
        "Command": shlex.join(record.command),
        "Commit": record.git and record.git.revision + (", with changes" if record.git.dirty else ""),
        "Problem": info.problem,
        "Folder": info.folder,
    }
    return {name: fact for name, fact in facts.items() if fact not in (None, "")}


def _metrics_table(rows: Sequence[Mapping[str, Any]], width: int) -> "Table":
    """The non-empty columns, as many as fit, and the number of those that do not."""
    from tff_esn.tables import least_width, text_table

    filled = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    for count in range(len(filled), 0, -1):
        shown, more = filled[:count], len(filled) - count
        headings = [name.replace("/", "\n").replace("_", " ") for name in shown]
        cells = ([_cell_text(row[name]) for name in shown] for row in rows)
        notes = [f"{more} more columns in metrics.csv"] if more else []
        table = text_table("Last metrics", headings, cells, notes, headings)
        if least_width(table) <= width:
            break
    return table


def _cell_text(cell: Any) -> str:
    if cell is None:
        return ""
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
