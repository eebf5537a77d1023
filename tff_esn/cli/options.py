"""Options that every command understands, wherever they stand on the line."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import typer
from typer.core import TyperCommand, TyperGroup

from tff_esn.console import console, log


@dataclass
class Settings:
    """What the common options were set to."""

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


def _common() -> list[click.Parameter]:
    return [
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
            help="Where finished work is kept.",
            show_default="$TFF_ESN_CACHE or the user's cache folder",
        ),
        click.Option(
            ["-q", "--quiet"], is_flag=True, callback=_quiet, expose_value=False, help="Results and errors only."
        ),
        click.Option(["-v", "--verbose"], is_flag=True, callback=_verbose, expose_value=False, help="Say more."),
    ]


class Command(TyperCommand):
    """A command with the common options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(_common())


class Group(TyperGroup):
    """A group of commands with the common options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(_common())
