"""`tff-esn runs`: what was run before, and what came out."""

# No `from __future__ import annotations`: on Python 3.9 Typer reads options from real annotations only.

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from tff_esn.cli.options import Command, Group

if TYPE_CHECKING:
    from tff_esn.store.run_folders import Run, RunInfo

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="""List the runs, or look at one.

    Every command that trains leaves a folder: run.json (settings, seed, versions, commit, status), metrics.csv,
    TensorBoard's events and the model. [cyan]tensorboard --logdir results[/cyan] draws them all.
    """,
)

Runs = Annotated[
    Optional[Path],
    typer.Option("--runs", metavar="DIR", help="Folder of the runs.", show_default="$TFF_ESN_RUNS or ./results"),
]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable, all digits.")]

_STYLES = {"complete": "green", "running": "cyan", "failed": "red", "unreadable": "red"}
_HEADLINE = 3
_NAME_WIDTH = 36


@app.command("list", cls=Command)
def list_runs(context: typer.Context, runs: Runs = None, json_: Json = False) -> None:
    """List all runs, the latest last.

    A run is complete, failed, interrupted or running; incomplete if its process is gone without
    an end; unreadable if its run.json is damaged.
    """
    from tff_esn.console import output
    from tff_esn.store.run_folders import RunStore

    store = RunStore(runs)
    found = store.list()
    if json_:
        _print_json([_summary(info) for info in found])
    elif found:
        output.print(_list_table(found))
    else:
        print(f"no runs in {store.root}")


@app.command(cls=Command)
def show(
    context: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help="Name of a run, the beginning of it, or its folder.")],
    runs: Runs = None,
    rows: Annotated[int, typer.Option(min=1, help="How many of the last rows of its metrics.")] = 5,
    json_: Json = False,
) -> None:
    """Show a run: settings, versions, result, last metrics and files."""
    from tff_esn.console import output
    from tff_esn.store.json_values import flat
    from tff_esn.store.run_folders import RunInfo, RunStore

    found = RunStore(runs).find(run)
    info, metrics = RunInfo.of(found.folder), found.metrics()[-rows:]
    if json_:
        _print_json({**vars(found.record), **_summary(info), "metrics": metrics, "files": _files(found)})
        return
    output.print(_facts_table(info), highlight=False)
    for title, values in (
        ("Settings", found.record.config),
        ("Versions", found.record.versions),
        ("Result", found.record.result or {}),
        ("Files", {name: f"{size:,} bytes" for name, size in _files(found).items()}),
    ):
        if values:
            output.print(_pairs_table(title, flat(values)), highlight=False)
    if metrics:
        output.print(_metrics_table(metrics), highlight=False)


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


def _list_table(found: Sequence["RunInfo"]) -> Table:
    # The result stands below the name, which must stay in one line to be copied: all fits 80 columns.
    table = Table(title="Runs", title_justify="left", box=SIMPLE_HEAD, padding=(0, 0))
    width = min(_NAME_WIDTH, max(len(info.name) for info in found))
    table.add_column("Name, result", min_width=width, overflow="fold")
    for column in ("Kind", "Status", "Started (UTC)", "Duration", "Seed"):
        table.add_column(column, justify="right" if column in ("Duration", "Seed") else "left", overflow="fold")
    for info in found:
        record = info.record
        result = (_headline(record.result) if record and record.result else "") or info.problem
        table.add_row(
            escape(info.name) + (f"\n[dim]{escape(result)}" if result else ""),
            escape(record.kind) if record else "",
            _status(info),
            f"{record.started:%Y-%m-%d %H:%M:%S}" if record else "",
            _duration(info.duration),
            str(record.seed) if record else "",
            end_section=True,
        )
    return table


def _status(info: "RunInfo") -> str:
    return f"[{_STYLES.get(info.status, 'yellow')}]{info.status}[/]"


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


def _facts_table(info: "RunInfo") -> Table:
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
    return _pairs_table(f"Run {info.name}", {name: fact for name, fact in facts.items() if fact not in (None, "")})


def _pairs_table(title: str, pairs: Mapping[str, Any]) -> Table:
    table = Table(title=escape(title), title_justify="left", box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", overflow="fold")
    table.add_column(overflow="fold")
    for name, value in pairs.items():
        table.add_row(escape(name), escape(str(value)))
    return table


def _metrics_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title="Last metrics", title_justify="left", box=SIMPLE_HEAD)
    for name in rows[0]:
        table.add_column(escape(name), justify="right", overflow="fold")
    for row in rows:
        table.add_row(*(_cell_text(cell) for cell in row.values()))
    return table


def _cell_text(cell: Any) -> str:
    if cell is None:
        return ""
    return f"{cell:.4g}" if isinstance(cell, float) else escape(str(cell))
