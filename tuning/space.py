"""Search spaces: TOML files in `tuning/spaces/`, or the user's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass as plain_dataclass
from dataclasses import field
from importlib import resources
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Union

from pydantic import BeforeValidator
from pydantic.dataclasses import dataclass

from tff_esn.algorithm import ALGORITHMS, Algorithm
from tff_esn.errors import ConfigError
from tff_esn.features.study import DataSettings
from tff_esn.parameters import STRICT, from_mapping, merged, nested, read_toml
from tff_esn.registry import expected

if TYPE_CHECKING:
    import keras_tuner

_DATA = "data."


def _joined(given: Any) -> Any:
    """A list of names as KerasTuner can choose it: joined by `+`, which the settings it is for split again."""
    names = isinstance(given, list) and all(isinstance(name, str) for name in given)
    return "+".join(given) if names else given


#: A value that KerasTuner can draw.
Value = Union[int, float, Annotated[str, BeforeValidator(_joined)]]


@plain_dataclass(frozen=True)
class Configuration:
    """Configuration of a trial: an algorithm and its data settings."""

    algorithm: Algorithm
    data: DataSettings


@dataclass(frozen=True, config=STRICT)
class SearchSpace:
    """A search space: parameters of an algorithm by their dotted names, and below `data` those of `DataSettings`.

    Attributes:
        document: Where the space comes from.
        algorithm: Name of the algorithm.
        fixed: Settings with one value.
        choice: Settings with a list of values.
        range: Settings between two numbers, uniformly.
        log_range: Settings between two numbers, uniformly in their logarithm.
        integer_range: Settings between two whole numbers.
    """

    document: str
    algorithm: str
    fixed: dict[str, Any] = field(default_factory=dict)
    choice: dict[str, list[Value]] = field(default_factory=dict)
    range: dict[str, tuple[float, float]] = field(default_factory=dict)
    log_range: dict[str, tuple[float, float]] = field(default_factory=dict)
    integer_range: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Checks the algorithm's name, and that every setting is given once."""
        ALGORITHMS[self.algorithm]
        names = [*self.fixed, *self.choice, *self.range, *self.log_range, *self.integer_range]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"{self.document}: {name} is given twice; expected one value, list or range of it")

    @property
    def kind(self) -> type[Algorithm]:
        """The algorithm's class."""
        return ALGORITHMS[self.algorithm]

    @property
    def size(self) -> int | None:
        """Number of configurations; None if infinite."""
        if self.range or self.log_range or self.integer_range:
            return None
        return prod(len(values) for values in self.choice.values())

    def draw(self, hp: keras_tuner.HyperParameters) -> dict[str, Value]:
        """Declares the space to KerasTuner and returns what it drew for the trial."""
        drawn: dict[str, Value] = {}
        for name, values in self.choice.items():
            drawn[name] = hp.Choice(name, values)
        for name, (low, high) in self.range.items():
            drawn[name] = hp.Float(name, low, high)
        for name, (low, high) in self.log_range.items():
            drawn[name] = hp.Float(name, low, high, sampling="log")
        for name, (low, high) in self.integer_range.items():
            drawn[name] = hp.Int(name, int(low), int(high))
        return drawn

    def configuration(self, drawn: Mapping[str, Any], base: Mapping[str, Any]) -> Configuration:
        """The configuration of what was drawn.

        Args:
            drawn: Dotted settings.
            base: Settings that the space does not give, as nested tables.
        """
        tables = merged(base, nested(self.fixed), nested(drawn))
        data = from_mapping(DataSettings, tables.pop("data", {}), f"{self.document}, data")
        return Configuration(from_mapping(self.kind, tables, self.document), data)

    def data_settings(self, base: Mapping[str, Any]) -> Iterator[DataSettings]:
        """The data settings of all choices; for a range, of its lower end."""
        lows = {**self.range, **self.log_range, **self.integer_range}
        drawn = {name: values[:1] for name, values in {**self.choice, **lows}.items()}
        drawn.update({name: values for name, values in self.choice.items() if name.startswith(_DATA)})
        for values in product(*drawn.values()):
            yield self.configuration(dict(zip(drawn, values)), base).data


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
    raise ConfigError(f"no search space {name!r}; {expected(name, space_names())} or a .toml file")


def _folder() -> Any:
    return resources.files("tff_esn.tuning") / "spaces"


def setting_label(name: str) -> str:
    """A setting's name in a table: the last part of it."""
    return "features" if name.endswith("features.columns") else name.split(".")[-1].replace("_", " ")


def as_text(value: Value) -> str:
    """A setting for a table."""
    return f"{value:g}" if isinstance(value, float) else str(value)
