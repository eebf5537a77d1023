"""What can be chosen by name: algorithms, studies, feature recipes, attacks, defences, metrics.

An object is registered in its own file with the decorator `register`; its name is listed nowhere else. Modules of the
package that hold such objects are imported when a name is first looked up, and so are those of other packages that
declare the entry point `tff_esn.<kind>`, for instance in their pyproject.toml:

    [project.entry-points."tff_esn.algorithms"]
    fedsparse = "my_package.fedsparse"
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module, metadata
from typing import Any, Generic, TypeVar

from tff_esn.errors import ConfigError

T = TypeVar("T")


class Registry(Generic[T]):
    """Objects of one kind by name.

    Args:
        kind: What they are, in the plural and as in the entry point: `algorithms`.
        packages: Packages or modules of ours that register some.
    """

    def __init__(self, kind: str, packages: Iterable[str]) -> None:
        self.kind, self._packages = kind, tuple(packages)
        self._found: dict[str, T] = {}
        self._loaded = False

    def register(self, entry: Any) -> Any:
        """Registers an object that has a `name`; used as a decorator."""
        name = entry.name
        known = self._found.get(name)
        if known is not None and _origin(known) != _origin(entry):
            raise ConfigError(f"{self.kind}: {name!r} of {_origin(entry)} is taken by {_origin(known)}")
        self._found[name] = entry
        return entry

    def register_instance(self, kind: type) -> type:
        """Registers an instance of a class without parameters; used as a decorator of the class."""
        self.register(kind())
        return kind

    def __getitem__(self, name: str) -> T:
        """The object of a name; an unknown one is an error that suggests the nearest."""
        if name not in self._found:
            self._load()
        if name not in self._found:
            one = re.sub("ies$", "y", self.kind).rstrip("s")
            raise ConfigError(f"no {one} {name!r}; {expected(name, self._found)}")
        return self._found[name]

    def items(self) -> Mapping[str, T]:
        """All objects by name, in the order of their names."""
        self._load()
        return dict(sorted(self._found.items()))

    def names(self) -> tuple[str, ...]:
        """All names."""
        return tuple(self.items())

    def create(self, given: Any, source: str) -> Any:
        """An object of a registered class: given as itself, by its name, or as a table with its `name`."""
        from tff_esn.parameters import from_mapping

        if isinstance(given, str):
            return self[given]()  # type: ignore[operator]
        if isinstance(given, Mapping):
            values = dict(given)
            if "name" not in values:
                found = f"no name among {', '.join(values) or 'nothing'}"
                raise ConfigError(f"{source}: {found}; expected one of {', '.join(self.names())}")
            return from_mapping(self[values.pop("name")], values, source)  # type: ignore[arg-type]
        return given

    def _load(self) -> None:
        if self._loaded:
            return
        for name in self._packages:
            module = import_module(name)
            for found in pkgutil.iter_modules(getattr(module, "__path__", ())):
                import_module(f"{name}.{found.name}")
        group = f"tff_esn.{self.kind}"
        points: Any = metadata.entry_points()  # a dictionary on Python 3.9
        for point in points.select(group=group) if hasattr(points, "select") else points.get(group, ()):
            try:
                point.load()
            except (ImportError, AttributeError) as error:
                raise ConfigError(f"entry point {point.name!r} of {group}: {error}; expected {point.value}") from error
        # Last, so that the next look-up fails too if something could not be imported.
        self._loaded = True


def expected(name: str, known: Iterable[str]) -> str:
    """What was expected instead of an unknown name: the nearest one if there is one, and all of them.

    >>> expected("fedavgg", ["fedavg", "fedcurv"])
    "did you mean 'fedavg'? Expected one of fedavg, fedcurv"
    """
    names = sorted(known)
    near = get_close_matches(str(name), names, 1)
    hint = f"did you mean {near[0]!r}? Expected" if near else "expected"
    return f"{hint} one of {', '.join(names)}"


def _origin(entry: Any) -> str:
    kind = entry if isinstance(entry, type) else type(entry)
    return f"{kind.__module__}.{kind.__qualname__}"
