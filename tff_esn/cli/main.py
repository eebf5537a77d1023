"""The command line: parses, calls, prints."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from typing import Any, NoReturn

import click
import typer

from tff_esn.cli import (
    central,
    data,
    demo,
    deploy,
    discriminate,
    errata,
    federate,
    inspect,
    privacy,
    reproduce,
    runs,
    solve,
    tune,
    worker,
)
from tff_esn.cli.options import Command, Group
from tff_esn.console import log, tally
from tff_esn.errors import TffEsnError

BAD_INPUT, INTERRUPTED = 2, 130

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="""Federated Echo State Networks for stress prediction from wearable sensors.

    An Echo State Network's reservoir is random and fixed; only its readout is learned.
    Each subject of a study is a client whose data stay with it.

    [bold]First steps[/bold]

    [cyan]tff-esn demo[/cyan]                          a quick demo on synthetic data
    [cyan]tff-esn data synth /tmp/study[/cyan]         synthetic subjects in WESAD's layout
    [cyan]tff-esn data check WESAD[/cyan]              what a folder holds, and its defects
    [cyan]tff-esn data stats WESAD[/cyan]              the thesis's Tables 5.1 to 5.3
    [cyan]tff-esn central WESAD[/cyan]                 the centralised model and baselines
    [cyan]tff-esn federate fedavg WESAD[/cyan]         a readout trained by federated rounds
    [cyan]tff-esn solve incfed WESAD[/cyan]            a readout solved in closed form
    [cyan]tff-esn tune WESAD[/cyan]                    model selection over Table 6.1
    [cyan]tff-esn reproduce --all --data WESAD[/cyan]  every table and figure, with a report
    [cyan]tff-esn errata[/cyan]                        errors in the documents, with evidence
    """,
)
app.add_typer(data.app, name="data")
app.add_typer(runs.app, name="runs")
app.add_typer(privacy.app, name="privacy")
app.add_typer(worker.app, name="worker")
for command in (
    demo.demo,
    inspect.inspect,
    tune.tune,
    reproduce.reproduce,
    reproduce.report,
    errata.errata,
    deploy.export,
    deploy.predict,
):
    app.command(cls=Command)(command)


def _print_versions(wanted: bool) -> None:
    if wanted:
        from tff_esn.versions import stack_versions

        for name, version in stack_versions().items():
            print(name, version)
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", is_eager=True, callback=_print_versions, help="Show the versions of the stack and exit."
    ),
) -> None:
    # TensorFlow and Addons log many lines when they are first imported, here or in a worker.
    if not log.isEnabledFor(logging.DEBUG):
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
        os.environ["PYTHONWARNINGS"] = "ignore"
        warnings.simplefilter("ignore")
        logging.getLogger("tensorflow").setLevel(logging.ERROR)


def _fail(message: str, status: int) -> NoReturn:
    for line in message.splitlines() or [""]:
        print(f"tff-esn: {line}", file=sys.stderr)
    sys.exit(status)


def cli() -> click.Group:
    """All commands."""
    group: Any = typer.main.get_command(app)
    for command in (central.central, federate.federate, solve.solve, discriminate.discriminator):
        group.add_command(command)
    return group


def main() -> None:
    """Runs a command; an error the user can act on is one line and exit status 2."""
    try:
        with tally.reported_at_end():
            status = cli().main(prog_name="tff-esn", standalone_mode=False)
    except TffEsnError as error:
        _fail(str(error), BAD_INPUT)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "tff-esn"
        _fail(f"{error.format_message()} (see '{command} --help')", BAD_INPUT)
    except click.ClickException as error:
        _fail(error.format_message(), BAD_INPUT)
    except BrokenPipeError:
        # The reader closed the pipe, as `head` does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error), BAD_INPUT)
    if status == INTERRUPTED:  # Typer's exit status on Ctrl-C
        _fail("interrupted; finished work is kept, and the same command resumes", status)
    sys.exit(status)


if __name__ == "__main__":
    main()
