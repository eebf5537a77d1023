"""Values as JSON can hold them, and short keys made of them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from tff_esn.errors import ConfigError


def jsonable(value: Any) -> Any:
    """Converts a value to one that JSON can hold.

    Dataclasses become mappings; arrays, tensors and tuples lists; paths and times text; NaN null, and
    infinities, which JSON lacks too, "Infinity" and "-Infinity".
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return None if math.isnan(value) else float(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # Registered objects, such as algorithms, are identified by their name.
        name = getattr(type(value), "name", None)
        named = {"name": name} if isinstance(name, str) else {}
        return {**named, **{field.name: jsonable(getattr(value, field.name)) for field in dataclasses.fields(value)}}
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    for method in ("numpy", "tolist"):  # of tensors; of arrays and NumPy's scalars
        if hasattr(value, method):
            return jsonable(getattr(value, method)())
    raise ConfigError(f"{value!r} of type {type(value).__name__} cannot be written as JSON")


def json_text(value: Any) -> str:
    """A value as the text of a JSON file."""
    return json.dumps(jsonable(value), indent=1, allow_nan=False) + "\n"


def fingerprint(value: Any) -> str:
    """A short key of a value: 32 hexadecimal digits, the same for the same JSON whatever the order of keys."""
    return hashlib.sha256(json.dumps(jsonable(value), sort_keys=True).encode()).hexdigest()[:32]


def flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dots between the keys."""
    result: dict[str, Any] = {}
    for key, value in values.items():
        result.update(flat(value, f"{above}{key}.") if isinstance(value, Mapping) else {f"{above}{key}": value})
    return result
