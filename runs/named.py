"""The named runs."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

from tff_esn.config import read_toml
from tff_esn.errors import ConfigError


def run_names() -> list[str]:
    """The runs that come with the package."""
    files = resources.files(__package__).iterdir()
    return sorted(file.name[:-5] for file in files if file.name.endswith(".toml") and file.name != "demo.toml")


def load_run(name: str) -> dict[str, Any]:
    """A run by its name, or a TOML file of the user's by its path."""
    if name in run_names():
        with resources.as_file(resources.files(__package__) / f"{name}.toml") as path:
            return read_toml(path)
    if name.endswith(".toml"):
        return read_toml(Path(name))
    raise ConfigError(f"no run {name!r}; expected {', '.join(run_names())} or a .toml file")
