"""Modules that are imported when something of them is first needed.

TensorFlow takes seconds to import. A module that only sometimes computes with it names it so:

    if TYPE_CHECKING:
        import tensorflow as tf
    else:
        tf = LazyModule("tensorflow")
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LazyModule:
    """Stands for a module until an attribute of it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)
