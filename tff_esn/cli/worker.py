"""`tff-esn worker`: runs a remote worker; options with which other commands use remote workers."""

# No `from __future__ import annotations`: on Python 3.9 Typer reads options from real annotations only.
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import click
import typer
from typer.core import TyperOption

from tff_esn.cli.options import Command, Group

if TYPE_CHECKING:
    from tff_esn.runtime.fleet import FleetConfig

FRANK = "--insecure-anyone-may-run-code"
CertificatesFolder = Annotated[
    Optional[Path], typer.Option("--certificates", help="This host's folder of `tff-esn worker init`.")
]
Insecure = Annotated[bool, typer.Option(FRANK, help="Disables TLS: anyone who can connect can run code.")]

app = typer.Typer(cls=Group, help="Run a remote worker.")


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

    It accepts only clients with a certificate made by `tff-esn worker init`. See docs/fleet.md.
    """
    if context.invoked_subcommand is not None:
        return
    from tff_esn.errors import ConfigError
    from tff_esn.runtime.server import serve

    if port is None:
        raise ConfigError("no --port; expected one such as --port 8443, or `tff-esn worker init`")
    if (certificates is None) != insecure:
        raise ConfigError(f"a worker needs either --certificates FOLDER or {FRANK}")
    serve(host, port, certificates, data)


@app.command(cls=Command)
def init(
    folder: Annotated[Path, typer.Argument(help="Folder to write to.")],
    name: Annotated[
        Optional[list[str]],
        typer.Option(help="A worker's host names and addresses, joined by commas; may be repeated."),
    ] = None,
    days: Annotated[int, typer.Option(min=1, help="Validity of the certificates in days.")] = 825,
) -> None:
    """Create a certificate authority, and certificates for the coordinator and for each worker.

    Each host has its own folder, to be copied there. If called again, creates the missing ones.
    """
    from tff_esn.console import output
    from tff_esn.runtime.certificates import create_certificates

    for made in create_certificates(folder, [one.split(",") for one in name or ["localhost,127.0.0.1"]], days):
        output.print(str(made), highlight=False, soft_wrap=True)


def fleet_options() -> list[click.Parameter]:
    """Options of commands that can use remote workers."""

    def option(*names: str, **settings: Any) -> TyperOption:
        return TyperOption(param_decls=list(names), rich_help_panel="Workers on other hosts", **settings)

    folder = click.Path(path_type=Path)
    return [
        option("--workers", metavar="HOST:PORT,...", help="Hosts that run `tff-esn worker`, for the clients' work."),
        option("--certificates", type=folder, help="This host's folder of `tff-esn worker init`."),
        option(
            "--worker-data",
            metavar="FOLDER",
            help="Folder, below the workers' --data, with copies of the files that --clients-only wrote.",
            show_default="this host's cache, on a disk they share",
        ),
        option(
            "--clients-only",
            type=folder,
            metavar="FOLDER",
            help="Only write the clients' files there, to be copied to workers.",
        ),
        option(
            "--worker-timeout",
            type=float,
            default=600.0,
            show_default=True,
            help="Longest time in seconds for one client's work on a worker.",
        ),
        option(
            FRANK, "insecure", is_flag=True, default=False, help="Disables TLS: anyone who can connect can run code."
        ),
    ]


def fleet_of(options: Mapping[str, Any]) -> "Optional[FleetConfig]":
    """The workers that the options name, or the table `fleet` of the file of settings; None without any."""
    from tff_esn.errors import ConfigError
    from tff_esn.parameters import from_mapping
    from tff_esn.runtime.fleet import FleetConfig

    table = options.get("fleet")
    if options["workers"] is None:
        return None if table is None else from_mapping(FleetConfig, table, str(options["config"]))
    if table is not None:
        raise ConfigError(f"workers are set by --workers and by {options['config']}; expected one of them")
    given = {
        "workers": options["workers"].split(","),
        "certificates": options["certificates"],
        "timeout": options["worker_timeout"],
        "data": options["worker_data"],
        "insecure": options["insecure"],
    }
    return from_mapping(FleetConfig, given, "options")


def on_fleet(config: "Optional[FleetConfig]") -> AbstractContextManager[None]:
    """Runs clients' work on these workers within the block, if there are any."""
    if config is None:
        return nullcontext()
    from tff_esn.runtime.fleet import Fleet

    return Fleet(config).installed()
