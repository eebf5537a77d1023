"""TensorFlow Federated's runtime in this process."""

from __future__ import annotations

import atexit
from functools import cache
from types import ModuleType
from typing import Any

import psutil


@cache
def load_tff() -> ModuleType:
    """Imports TensorFlow Federated so that its worker ends with this process.

    TFF interrupts its worker when its default context is collected. Left to the
    interpreter, that happens after the modules it needs are gone: the worker stays, and
    a complaint is printed. Where interrupts are ignored, as in a shell's background, it
    waits for the worker for ever. Here the worker is killed and the context let go while
    everything is still there.
    """
    import tensorflow_federated as tff

    class Ended(tff.framework.SyncContext):
        def invoke(self, comp: Any, arg: Any) -> Any:
            raise RuntimeError("the interpreter is ending")

    def end() -> None:
        for child in psutil.Process().children():
            if child.name() == "worker_binary":
                child.kill()
        tff.framework.set_default_context(Ended())

    atexit.register(end)
    return tff
