"""The named runs."""

from __future__ import annotations

from dataclasses import dataclass as plain_dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic.dataclasses import dataclass

from tff_esn.errors import ConfigError
from tff_esn.parameters import STRICT, PositiveFloat, PositiveInt, from_mapping, merged, read_toml
from tff_esn.registry import expected


@dataclass(frozen=True, config=STRICT)
class Headline:
    """A headline number of a run, shown in the summary.

    Attributes:
        claim: Name of the number.
        table: Name of the run's table that holds it.
        row: Label of its row.
        column: Name of its column.
    """

    claim: str
    table: str
    row: str
    column: str


@dataclass(frozen=True, config=STRICT)
class AboutConfig:
    """Description of a named run: `[about]` in `runs/*.toml`.

    Attributes:
        document: Document whose tables it reproduces; `beyond` for what no document has.
        order: Its position among the document's runs.
        covers: The tables and figures.
        takes: Requirements in addition to the study's recordings.
        claimed: The document's claim.
        why: Why ours differs, if it does.
        notes: Notes on the printed numbers, one sentence each.
        errata: Names of the errata that concern it.
        headlines: Its numbers in the summary.
        study: Study whose recordings it needs.
        cell_seconds: Duration of one part on one processor, for estimates before anything was measured.
    """

    document: Literal["thesis", "incfed", "fedip", "pfedrr", "beyond"] = "beyond"
    order: int = 0
    covers: tuple[str, ...] = ()
    takes: str = ""
    claimed: str = ""
    why: str = ""
    notes: tuple[str, ...] = ()
    errata: tuple[str, ...] = ()
    headlines: tuple[Headline, ...] = ()
    study: Literal["wesad", "hhar"] = "wesad"
    cell_seconds: PositiveFloat = 5.0


@dataclass(frozen=True, config=STRICT)
class DemoConfig:
    """Settings of `tff-esn demo`.

    Attributes:
        subjects: Number of generated subjects.
        minutes: Length of each recording.
        runs: Named runs, each in its quick form.
    """

    subjects: PositiveInt
    minutes: PositiveFloat
    runs: tuple[str, ...]


@plain_dataclass(frozen=True)
class NamedRun:
    """A named run.

    Attributes:
        name: Name of its file, without the ending.
        about: Its description.
        settings: Its configuration, whose type depends on its `kind`.
    """

    name: str
    about: AboutConfig
    settings: dict[str, Any]


def run_names() -> list[str]:
    """The runs that come with the package."""
    files = resources.files(__package__).iterdir()
    return sorted(file.name[:-5] for file in files if file.name.endswith(".toml") and file.name != "demo.toml")


def load_run(name: str, quick: bool = False) -> NamedRun:
    """A run by its name, or a TOML file of the user's by its path.

    Args:
        name: The name, or the path.
        quick: Whether the changes in `[quick]` apply.
    """
    if name in run_names():
        with resources.as_file(resources.files(__package__) / f"{name}.toml") as path:
            described = read_toml(path)
    elif name.endswith(".toml"):
        described = read_toml(Path(name))
    else:
        raise ConfigError(f"no run {name!r}; {expected(name, run_names())}, or a .toml file")
    shorter = described.pop("quick", {})
    settings = merged(described, shorter if quick else {})
    about = from_mapping(AboutConfig, settings.pop("about", {}), name)
    return NamedRun(Path(name).stem if name.endswith(".toml") else name, about, settings)
