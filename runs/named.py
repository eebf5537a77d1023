"""The named runs."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from tff_esn.config import AboutConfig, from_mapping, merged, read_toml
from tff_esn.errors import ConfigError


@dataclass(frozen=True)
class NamedRun:
    """A run as its file describes it.

    Attributes:
        name: Its file's, without the ending.
        about: What it is to its reader.
        settings: What is run; its `kind` says which configuration that is.
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
        quick: Whether what `[quick]` changes is changed, for a first look.
    """
    if name in run_names():
        with resources.as_file(resources.files(__package__) / f"{name}.toml") as path:
            described = read_toml(path)
    elif name.endswith(".toml"):
        described = read_toml(Path(name))
    else:
        raise ConfigError(f"no run {name!r}; expected {', '.join(run_names())} or a .toml file")
    shorter = described.pop("quick", {})
    settings = merged(described, shorter if quick else {})
    about = from_mapping(AboutConfig, settings.pop("about", {}), name)
    return NamedRun(Path(name).stem if name.endswith(".toml") else name, about, settings)
