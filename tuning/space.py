"""Search spaces: TOML files beside this one, or the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from importlib import resources
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from tff_esn.config import from_mapping, read_toml
from tff_esn.errors import ConfigError

if TYPE_CHECKING:
    import keras_tuner

Value = Union[int, float, str]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class SearchSpace:
    """What may vary, by the dotted path of the setting.

    Attributes:
        document: Where the space comes from.
        solver: `gradients` fits a dense readout, `ridge` solves for it.
        fixed: Settings with one value.
        choice: Settings with a list of values.
        range: Settings between two numbers, uniformly.
        log_range: Settings between two numbers, uniformly in their logarithm.
        integer_range: Settings between two whole numbers.
    """

    document: str
    solver: Literal["gradients", "ridge"]
    fixed: dict[str, Value] = field(default_factory=dict)
    choice: dict[str, list[Value]] = field(default_factory=dict)
    range: dict[str, tuple[float, float]] = field(default_factory=dict)
    log_range: dict[str, tuple[float, float]] = field(default_factory=dict)
    integer_range: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def size(self) -> int | None:
        """Number of configurations, or None where there is no end of them."""
        if self.range or self.log_range or self.integer_range:
            return None
        return prod(len(values) for values in self.choice.values())

    def draw(self, hp: keras_tuner.HyperParameters) -> dict[str, Value]:
        """Declares the space to KerasTuner and returns the trial's settings, the fixed ones too."""
        drawn: dict[str, Value] = dict(self.fixed)
        for name, values in self.choice.items():
            drawn[name] = hp.Choice(name, values)
        for name, (low, high) in self.range.items():
            drawn[name] = hp.Float(name, low, high)
        for name, (low, high) in self.log_range.items():
            drawn[name] = hp.Float(name, low, high, sampling="log")
        for name, (low, high) in self.integer_range.items():
            drawn[name] = hp.Int(name, int(low), int(high))
        return drawn


def space_names() -> list[str]:
    """The spaces that come with the package."""
    return sorted(path.name[:-5] for path in _folder().iterdir() if path.name.endswith(".toml"))


def load_space(name: str) -> SearchSpace:
    """A space by its name, or a TOML file of the user's by its path."""
    if name in space_names():
        with resources.as_file(_folder() / f"{name}.toml") as path:
            return from_mapping(SearchSpace, read_toml(path), path.name)
    if name.endswith(".toml"):
        return from_mapping(SearchSpace, read_toml(Path(name)), name)
    raise ConfigError(f"no search space {name!r}; expected {', '.join(space_names())} or a .toml file")


def _folder() -> Any:
    return resources.files("tff_esn.tuning") / "spaces"


def as_text(values: Sequence[str] | Value) -> str:
    """A setting for a table."""
    return (
        "+".join(values)
        if isinstance(values, (list, tuple))
        else f"{values:g}"
        if isinstance(values, float)
        else str(values)
    )
