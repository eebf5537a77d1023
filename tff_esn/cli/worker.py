"""`tff-esn worker`: this host computes for others; the options by which commands use such hosts."""

# No `from __future__ import annotations`: on Python 3.9 Typer reads options from real annotations only.
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from tff_esn.cli.options import Command, Group

if TYPE_CHECKING:
    from tff_esn.config import FleetConfig

FRANK = "--insecure-anyone-may-run-code"
Workers = Annotated[
    Optional[str],
    typer.Option(
        metavar="HOST:PORT,...", help="Hosts with `tff-esn worker` for the clients' work.", show_default="this one"
    ),
]
CertificatesFolder = Annotated[
    Optional[Path], typer.Option("--certificates", help="This host's folder of `tff-esn worker init`.")
]
WorkerTimeout = Annotated[float, typer.Option(help="Seconds that one client's work may take on a worker.")]
WorkerData = Annotated[
    Optional[str],
    typer.Option(
        metavar="FOLDER",
        help="Where workers have copies of the files that --clients-only wrote, below their --data.",
        show_default="this host's cache, on a disk they share",
    ),
]
ClientsOnly = Annotated[
    Optional[Path],
    typer.Option(metavar="FOLDER", help="Write the clients' files there, to copy to workers, and do no more."),
]
Insecure = Annotated[
    bool, typer.Option(FRANK, help="No certificates: who reaches a worker can do there whatever its user can.")
]

app = typer.Typer(cls=Group, help="Compute for other hosts.")


@app.callback(invoke_without_command=True)
def worker(
    context: typer.Context,
    port: Annotated[Optional[int], typer.Option(min=0, max=65535, help="Port to listen on.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.", show_default="all")] = "",
    certificates: CertificatesFolder = None,
    data: Annotated[Optional[Path], typer.Option(help="Folder with the clients' files.")] = None,
    insecure: Insecure = False,
) -> None:
    """Run TFF's worker for other hosts, until it is stopped.

    It serves those who show a certificate of the fleet, made by `tff-esn worker init`. See docs/fleet.md.
    """
    if context.invoked_subcommand is not None:
        return
    from tff_esn.errors import ConfigError
    from tff_esn.runtime.server import serve

    if port is None:
        raise ConfigError("no --port; expected one such as --port 8443, or `tff-esn worker init`")
    if (certificates is None) != insecure:
        raise ConfigError(f"a worker needs --certificates FOLDER, or {FRANK} and then none")
    serve(host, port, certificates, data)


@app.command(cls=Command)
def init(
    folder: Annotated[Path, typer.Argument(help="Where to.")],
    name: Annotated[
        Optional[list[str]],
        typer.Option(help="A worker: the names and addresses under which it is reached, joined by commas."),
    ] = None,
    days: Annotated[int, typer.Option(min=1, help="How long the certificates are valid.")] = 825,
) -> None:
    """Make a certificate authority, and certificates for the coordinator and for each worker.

    Each gets a folder of its own to copy to its host. Called again, it makes those that are missing.
    """
    from tff_esn.console import output
    from tff_esn.runtime.certificates import create_certificates

    for made in create_certificates(folder, [one.split(",") for one in name or ["localhost,127.0.0.1"]], days):
        output.print(str(made), highlight=False, soft_wrap=True)


def fleet_config(
    table: Optional[Mapping[str, Any]],
    source: str,
    workers: Optional[str],
    certificates: Optional[Path],
    timeout: float,
    data: Optional[str],
    insecure: bool,
) -> "Optional[FleetConfig]":
    """The workers of a TOML file's table `fleet`, or those of the options."""
    from tff_esn.config import FleetConfig, from_mapping

    if workers is None:
        return None if table is None else from_mapping(FleetConfig, table, source)
    given = {"workers": workers.split(","), "certificates": certificates, "timeout": timeout}
    return from_mapping(FleetConfig, {**given, "data": data, "insecure": insecure}, "options")


def on_fleet(config: "Optional[FleetConfig]") -> AbstractContextManager[None]:
    """Within the block, clients' work is done by these workers, if there are any."""
    if config is None:
        return nullcontext()
    from tff_esn.runtime.fleet import Fleet

    return Fleet(config).installed()
