"""TensorFlow Federated's runtime in this process."""

from __future__ import annotations

import atexit
from functools import cache
from types import ModuleType
from typing import Any


@cache
def load_tff() -> ModuleType:
    """Imports TensorFlow Federated so that its worker ends with this process.

    TFF ends its worker when its default context is collected. Left to the interpreter,
    that happens after the modules it needs are gone: the worker stays, and a complaint
    is printed. Here the context is let go while everything is still there.
    """
    import tensorflow_federated as tff

    class Ended(tff.framework.SyncContext):
        def invoke(self, comp: Any, arg: Any) -> Any:
            raise RuntimeError("the interpreter is ending")

    atexit.register(tff.framework.set_default_context, Ended())
    return tff
