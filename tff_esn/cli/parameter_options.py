"""Options of the command line from the parameters' dataclasses: names, types and help are declared once."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import click
from rich.markup import escape
from typer.core import TyperOption

from tff_esn.errors import ConfigError
from tff_esn.parameters import Parameters, help_of, nested

#: Nested parameters whose options have no prefix, and their group in the help.
FLAT = {"esn": "Reservoir", "plasticity": "Plasticity"}
#: Groups of the help for shared parameters, by the class that declares them.
GROUPS = {"GradientTraining": "Training of the readout", "GradientAlgorithm": "Federation", "ClosedForm": "Solution"}


@dataclass(frozen=True)
class Parameter:
    """A parameter that has an option.

    Attributes:
        key: Its dotted name.
        option: Name of the option.
        type: Its annotation.
        default: Default of the class.
        help: Its text in the docstring.
        group: Group of the help.
    """

    key: str
    option: str
    type: Any
    default: Any
    help: str
    group: str


def parameters_of(kind: type, group: str, key: str = "", prefix: str = "") -> Iterator[Parameter]:
    """The parameters of a dataclass and of nested ones, which are flat or have the field's name as a prefix.

    A field that is chosen by name, such as an attack, has an option for the name and, with a prefix, options for the
    parameters that all attacks share.
    """
    if not is_dataclass(kind):
        return
    hints, texts = get_type_hints(kind, include_extras=True), help_of(kind)
    for field in fields(kind):
        name, annotation = field.name, hints[field.name]
        default = field.default if field.default is not MISSING else None
        inside = _nested_type(annotation)
        path, option = f"{key}{name}", f"--{prefix}{name}".replace("_", "-")
        if inside is None:
            yield Parameter(path, option, annotation, default, texts[name], GROUPS.get(_declared_in(kind, name), group))
        elif name in FLAT:
            yield from parameters_of(inside, FLAT[name], f"{path}.")
        elif _is_choice(annotation):
            yield Parameter(f"{path}.name", option, str, getattr(default, "name", None), texts[name], "Attack, defence")
            yield from parameters_of(inside, "Attack, defence", f"{path}.", f"{prefix}{name}-")
        else:
            yield from parameters_of(inside, name.capitalize(), f"{path}.", f"{prefix}{name}-")


def option_of(parameter: Parameter, default: str | None = None, group: str | None = None) -> TyperOption:
    """The option of a parameter; its value stays text, which `given_values` converts."""
    shown = default or (_text(parameter.default) if parameter.default is not None else None)
    return TyperOption(
        param_decls=[parameter.option, _destination(parameter)],
        type=click.STRING,
        metavar=_metavar(parameter.type),
        help=escape(_first_sentence(parameter.help.replace("`", ""))),
        show_default=shown or False,
        default=None,
        rich_help_panel=group or parameter.group,
    )


def given_values(parameters: Sequence[Parameter], values: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each option that was given, with its value by dotted name."""
    for parameter in parameters:
        text = values.get(_destination(parameter))
        if text is not None:
            yield parameter.option, {parameter.key: parsed(text)}


def named_choices(values: Mapping[str, Any], parameters: Sequence[Parameter]) -> dict[str, Any]:
    """Values with choices given as a name, such as `attack = "sign-flip"`, under the option's key `attack.name`."""
    choices = {parameter.key for parameter in parameters if parameter.key.endswith(".name")}
    return {f"{key}.name" if f"{key}.name" in choices else key: value for key, value in values.items()}


def parsed(text: str) -> Any:
    """Parses a number, true, false, none, or a list joined by commas; any other text is returned as it is.

    >>> parsed("0.5"), parsed("S1,S2"), parsed("none"), parsed("10")
    (0.5, ['S1', 'S2'], None, 10)
    """
    if "," in text:
        return [parsed(part.strip()) for part in text.split(",")]
    if text.lower() in ("none", "true", "false"):
        return {"none": None, "true": True, "false": False}[text.lower()]
    for kind in (int, float):
        try:
            return kind(text) if "_" not in text else text
        except ValueError:
            continue
    return text


def set_values(texts: Sequence[str]) -> dict[str, Any]:
    """The values of `--set key=value` by dotted name."""
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {text}; expected KEY=VALUE, such as esn.units=100")
        if key.strip() in found:
            raise ConfigError(f"--set {key.strip()} is given twice; expected once")
        found[key.strip()] = parsed(value.strip())
    return found


def combined(*layers: tuple[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Merges settings from several sources as nested tables; a key that two of them set is an error.

    Args:
        *layers: The name of a source, and its settings by dotted name.
    """
    said: dict[str, tuple[str, Any]] = {}
    for source, values in layers:
        for key, value in values.items():
            other = next(
                (known for known in said if f"{known}.".startswith(f"{key}.") or f"{key}.".startswith(f"{known}.")),
                None,
            )
            if other is not None:
                raise ConfigError(f"{key} is set by {source} and by {said[other][0]}; expected one of them")
            said[key] = source, value
    return nested({key: value for key, (_, value) in said.items()})


def _declared_in(kind: type, name: str) -> str:
    return next((base.__name__ for base in kind.__mro__ if name in vars(base).get("__annotations__", {})), "")


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.;]) (?=[A-Z])|: (?=[a-z]+: )", text)[0].rstrip(".;:") + "."


def _destination(parameter: Parameter) -> str:
    return parameter.key.replace(".", "__")


def _bare(annotation: Any) -> Any:
    """An annotation without its constraints."""
    return _bare(get_args(annotation)[0]) if get_origin(annotation) is Annotated else annotation


def _alternatives(annotation: Any) -> list[Any]:
    bare = _bare(annotation)
    if get_origin(bare) in (Union, getattr(types, "UnionType", Union)):
        return [one for part in get_args(bare) for one in _alternatives(part) if one is not type(None)]
    return [bare]


def _nested_type(annotation: Any) -> type | None:
    return next(
        (one for one in _alternatives(annotation) if isinstance(one, type) and issubclass(one, Parameters)), None
    )


def _is_choice(annotation: Any) -> bool:
    """Whether the field holds a registered object, chosen by name."""
    inside = _nested_type(annotation)
    return inside is not None and not hasattr(inside, "name") and "name" in getattr(inside, "__annotations__", {})


def _metavar(annotation: Any) -> str:
    names = []
    for one in _alternatives(annotation):
        if get_origin(one) is Literal:
            names += [str(value) for value in get_args(one)]
        elif get_origin(one) is tuple:
            names.append("LIST")
        else:
            names.append({int: "INTEGER", float: "NUMBER", bool: "true|false"}.get(one, "TEXT"))
    return "|".join(dict.fromkeys(names))


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(map(_text, value))
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
