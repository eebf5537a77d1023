"""Parameters: frozen dataclasses, validated on construction and documented by their docstrings.

One declaration serves the constructor, TOML keys, options of the command line and their help: the line of an attribute
in the section `Attributes` of a docstring is its help.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import tomli
from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from tff_esn.errors import ConfigError
from tff_esn.registry import expected

#: Configuration of every dataclass of parameters: an unknown parameter is an error.
STRICT = ConfigDict(extra="forbid")
_T = TypeVar("_T")
_P = TypeVar("_P", bound="Parameters")

PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegativeFloat = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PositiveInt = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


def split_names(given: Any) -> Any:
    """Names joined by `+` or `,` as a list; anything else as it is.

    >>> split_names("HR+HRV")
    ['HR', 'HRV']
    """
    return [name.strip() for name in re.split(r"[+,]", given)] if isinstance(given, str) else given


#: Names: a list, or a text with `+` or `,` between them.
Names = Annotated[tuple[str, ...], BeforeValidator(split_names)]


class ParameterError(ConfigError, ValueError):
    """A parameter with an invalid value."""


class _Checked(type):
    """Reports invalid arguments of a constructor in one line."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except ValidationError as error:
            raise ParameterError(_one_line(cls, error, cls.__name__)) from None


class Parameters(metaclass=_Checked):
    """Base of dataclasses of parameters, with scikit-learn's `get_params` and `set_params`."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All parameters by name; with `deep` those of nested ones too, as `esn__units`."""
        params = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        nested_ones = {name: value for name, value in params.items() if deep and isinstance(value, Parameters)}
        for name, value in nested_ones.items():
            params.update({f"{name}__{key}": own for key, own in value.get_params().items()})
        return params

    def set_params(self: _P, **params: Any) -> _P:
        """Changes parameters in place, as scikit-learn does, and returns the object."""
        changed = self.replaced({name.replace("__", "."): value for name, value in params.items()})
        self.__dict__.update(changed.__dict__)
        return self

    def replaced(self: _P, changes: Mapping[str, Any]) -> _P:
        """A copy with some parameters changed, nested ones by dotted names."""
        own: dict[str, Any] = {}
        inside: dict[str, dict[str, Any]] = {}
        for name, value in changes.items():
            head, _, rest = name.partition(".")
            if head not in help_of(type(self)):
                raise ConfigError(
                    f"{type(self).__name__} has no parameter {head!r}; {expected(head, help_of(type(self)))}"
                )
            if rest:
                inside.setdefault(head, {})[rest] = value
            else:
                own[head] = value
        for name, nested_changes in inside.items():
            value = own.get(name, getattr(self, name))
            if not isinstance(value, Parameters):
                raise ConfigError(
                    f"{type(self).__name__} has {name} = {value!r}, without parameters; expected {name} itself, "
                    f"not {name}.{next(iter(nested_changes))}"
                )
            own[name] = value.replaced(nested_changes)
        return replace(self, **own)  # type: ignore[type-var]

    def __sklearn_clone__(self: _P) -> _P:
        return replace(self)  # type: ignore[type-var]

    def __repr__(self) -> str:
        given = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)  # type: ignore[arg-type]
            if getattr(self, field.name) != field.default
        ]
        return f"{type(self).__name__}({', '.join(given)})"


def help_of(kind: Any) -> dict[str, str]:
    """The fields of a dataclass with their texts in the docstrings of the class and its bases."""
    return _help_of(kind)


@cache
def _help_of(kind: Any) -> dict[str, str]:
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        texts.update(_attributes(inspect.cleandoc(base.__doc__ or "")))
    return {field.name: texts.get(field.name, "") for field in fields(kind)}


def _attributes(text: str) -> dict[str, str]:
    """The section `Attributes` of a docstring, each attribute's lines joined."""
    section = re.search(r"^Attributes:\n((?:    .*\n?|\n)*)", text, re.MULTILINE)
    entries = re.findall(r"^    (\w+): ((?:.*\n?)(?:^     .*\n?)*)", section.group(1) if section else "", re.MULTILINE)
    return {name: " ".join(lines.split()) for name, lines in entries}


def from_mapping(kind: type[_T], values: Mapping[str, Any], source: str) -> _T:
    """Builds a dataclass, or says in one line which key has which wrong value."""
    try:
        return TypeAdapter(kind).validate_python(dict(values))
    except ValidationError as error:
        raise ConfigError(_one_line(kind, error, source)) from None


#: A key of a table or a place in a list. Of a setting with several types pydantic names the type, too, as
#: `ClientSplit` or `constrained-int`.
_KEY = re.compile(r"(?!(str|int|float|bool)$)[a-z_][a-z0-9_]*|\d+")


def _one_line(kind: Any, error: ValidationError, source: str) -> str:
    """The first error, with the nearest name if there is one."""
    errors = error.errors()
    # Of several types that a setting may have, the one that fits best.
    about_it = [own for own in errors if own["loc"][:1] == errors[0]["loc"][:1]]
    first = max(about_it, key=lambda own: len(_keys(own["loc"])))
    keys, names = _keys(first["loc"]), list(help_of(kind))
    if not keys:  # a key that is no name
        key = ".".join(map(str, first["loc"]))
        return f"{source}: no setting {key!r}; {expected(key, names)}"
    if keys[0].isdigit() and int(keys[0]) < len(names):  # a positional argument
        keys[0] = names[int(keys[0])]
    if first["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        for key in keys[:-1]:
            kind = _dataclass_of(kind, key)
        known = expected(keys[-1], help_of(kind)) if is_dataclass(kind) else "expected a known one"
        return f"{source}: no setting {'.'.join(keys)!r}; {known}"
    near = []
    if first["type"] == "literal_error":
        near = get_close_matches(str(first["input"]), re.findall(r"'([^']+)'", first["ctx"]["expected"]), 1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"{source}: {'.'.join(keys)} = {first['input']!r}: {first['msg']}{hint}"


def _keys(location: tuple[int | str, ...]) -> list[str]:
    return [str(part) for part in location if _KEY.fullmatch(str(part))]


def _dataclass_of(kind: Any, key: str) -> Any:
    """The dataclass that a field holds, maybe among other types; None for none."""
    field = getattr(kind, "__pydantic_fields__", {}).get(key)
    kinds = (field.annotation, *get_args(field.annotation)) if field else ()
    return next((one for one in kinds if is_dataclass(one)), None)


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted paths as nested tables.

    >>> nested({"esn.units": 50, "ridge": 1.0})
    {'esn': {'units': 50}, 'ridge': 1.0}
    """
    tables: dict[str, Any] = {}
    for name, value in settings.items():
        *path, key = name.split(".")
        table = tables
        for part in path:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise ConfigError(f"{name}: {part} = {table!r} already; expected one of the two")
        table[key] = value
    return tables


def merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Nested tables, later ones over earlier ones."""
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
            result[key] = merged(result[key], value) if both else value
    return result


def read_toml(path: Path) -> dict[str, Any]:
    """Reads a TOML file, or reports in one line why it cannot be read."""
    try:
        return tomli.loads(path.read_bytes().decode())
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; expected a TOML file") from None
    # Numbers may be too long and tables too deep.
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: {' '.join(str(error).split())}; expected a TOML file") from None
