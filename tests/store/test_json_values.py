from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest

from tff_esn.errors import ConfigError
from tff_esn.store.json_values import fingerprint, flat, json_text, jsonable


@dataclass
class Setting:
    rate: float
    names: tuple[str, ...]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Setting(0.5, ("a",)), {"rate": 0.5, "names": ["a"]}),
        ({1: np.arange(2), "x": np.bool_(True)}, {"1": [0, 1], "x": True}),
        ([math.nan, -math.inf, np.float32("nan")], [None, "-Infinity", None]),
        (datetime(2024, 1, 2, 12, tzinfo=timezone.utc), "2024-01-02T12:00:00+00:00"),
        (np.array([1.0, math.inf]), [1.0, "Infinity"]),
        (Path("study/S2"), "study/S2"),
    ],
)
def test_values_become_json(value: object, expected: object) -> None:
    assert jsonable(value) == expected
    assert json.loads(json_text(value)) == expected


def test_what_json_cannot_hold_is_refused() -> None:
    with pytest.raises(ConfigError, match="of type object cannot be written as JSON"):
        jsonable({"x": [object()]})


def test_a_fingerprint_is_of_the_content() -> None:
    # Of SHA-256, worked out by `printf '{"names": ["a"], "rate": 0.5}' | sha256sum`: keys of caches must stay.
    expected = "053aa9da7b2ef12f72124e7fda323737"
    assert fingerprint(Setting(0.5, ("a",))) == expected
    assert fingerprint({"names": ["a"], "rate": 0.5}) == expected
    assert fingerprint({"rate": np.float64(0.5), "names": ("a",)}) == expected
    assert fingerprint(Setting(0.5, ("b",))) != expected


def test_nested_mappings_become_one() -> None:
    assert flat({"a": {"b": 1, "c": {"d": [2]}}, "e": None}) == {"a.b": 1, "a.c.d": [2], "e": None}
