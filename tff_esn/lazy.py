"""Modules that are imported on first use.

TensorFlow takes seconds to import. A module that needs it only sometimes imports it like this:

    if TYPE_CHECKING:
        import tensorflow as tf
    else:
        tf = LazyModule("tensorflow")
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LazyModule:
    """A placeholder that imports its module on first access to an attribute."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)
