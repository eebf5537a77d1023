"""Options of every command, accepted at any place on the command line."""

from __future__ import annotations

import inspect
import logging
import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import typer
from typer.core import TyperCommand, TyperGroup

from tff_esn.console import console, log

#: Group of the main options in the help.
MAIN = "Options"


@dataclass
class Settings:
    """Values of the common options."""

    seed: int = 0
    cache: Path | None = None


def settings(context: typer.Context) -> Settings:
    """The common options of a running command."""
    return context.ensure_object(Settings)


def _keep(context: click.Context, option: click.Parameter, value: Any) -> None:
    if value is not None and option.name is not None:
        setattr(context.ensure_object(Settings), option.name, value)


def _quiet(context: click.Context, option: click.Parameter, value: bool) -> None:
    if value:
        console.quiet = True
        log.setLevel(logging.ERROR)


def _verbose(context: click.Context, option: click.Parameter, value: bool) -> None:
    if value:
        logging.basicConfig(format="%(message)s")
        log.setLevel(logging.DEBUG)


def _short_help(context: click.Context, option: click.Parameter, value: bool) -> None:
    if value:
        command = context.command
        command.params = [one for one in command.params if getattr(one, "rich_help_panel", None) in (None, MAIN)]
        print(context.get_help())
        print("--help shows all options.")
        context.exit()


def _common() -> list[click.Parameter]:
    return [
        click.Option(
            ["-h"],
            is_flag=True,
            is_eager=True,
            callback=_short_help,
            expose_value=False,
            help="Show the main options and exit.",
        ),
        click.Option(
            ["--seed"],
            type=click.IntRange(0),
            callback=_keep,
            expose_value=False,
            help="Seed of every random choice.",
            show_default="0",
        ),
        click.Option(
            ["--cache"],
            type=click.Path(file_okay=False, path_type=Path),
            callback=_keep,
            expose_value=False,
            help="Folder of cached results.",
            show_default="$TFF_ESN_CACHE or the user's cache folder",
        ),
        click.Option(
            ["-q", "--quiet"], is_flag=True, callback=_quiet, expose_value=False, help="Print only results and errors."
        ),
        click.Option(
            ["-v", "--verbose"], is_flag=True, callback=_verbose, expose_value=False, help="Print more messages."
        ),
    ]


def _filled(text: str | None) -> str | None:
    """A help text with one line per paragraph, so that it fills the terminal; lines of markup are kept."""
    return text and re.sub(r"(?<!\n)\n(?![\n\[])", " ", inspect.cleandoc(text))


class Command(TyperCommand):
    """A command with the common options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help = _filled(self.help)
        self.params.extend(_common())


class Group(TyperGroup):
    """A group of commands with the common options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help = _filled(self.help)
        self.params.extend(_common())


class AlgorithmGroup(Group):
    """A group with a command for each algorithm of a family, built on demand.

    Args:
        name: Name of the group.
        family: Family of the algorithms.
        module: Module whose `command(name)` builds the command of an algorithm.
        help_text: What the group does.
    """

    def __init__(self, name: str, family: str, module: str, help_text: str) -> None:
        super().__init__(name=name, help=help_text, no_args_is_help=True, rich_markup_mode="rich")
        self._family, self._module = family, module

    def list_commands(self, context: click.Context) -> list[str]:
        """The algorithms' names."""
        from tff_esn.algorithm import ALGORITHMS

        return [name for name, kind in ALGORITHMS.items().items() if kind.family == self._family]

    def get_command(self, context: click.Context, name: str) -> click.Command:
        """The command of an algorithm; an unknown one is an error that suggests the nearest."""
        from tff_esn.registry import expected

        known = self.list_commands(context)
        if name not in known:
            raise click.UsageError(f"no algorithm {name!r}; {expected(name, known)}", context)
        return import_module(self._module).command(name)


class LazyCommand(Command):
    """A command whose options are built on first use.

    Args:
        name: Name of the command.
        help_text: What it does.
        module: Module whose `command()` builds it.
    """

    def __init__(self, name: str, help_text: str, module: str) -> None:
        super().__init__(name=name, help=help_text, rich_markup_mode="rich")
        self._module = module

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """The context of the command itself."""
        made = import_module(self._module).command()
        made.name, made.help = self.name, self.help
        return made.make_context(info_name, args, parent, **extra)
