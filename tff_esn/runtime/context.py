"""TensorFlow Federated's runtime in this process."""

from __future__ import annotations

import asyncio
import atexit
import os
from concurrent.futures import wait
from functools import cache, lru_cache
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any

from tff_esn.runtime.local_worker import HiddenWorker
from tff_esn.runtime.remote_executor import remote_executor

#: Seconds of one wait for a result, and for what an interrupt has left behind.
_WAIT, _PATIENCE = 0.5, 60.0
#: TFF's own limit of a message, in bytes; and no proxy between this process and its worker.
CHANNEL = (
    ("grpc.max_receive_message_length", 2_000_000_000),
    ("grpc.max_send_message_length", 2_000_000_000),
    ("grpc.enable_http_proxy", 0),
)


@cache
def load_tff() -> ModuleType:
    """Imports TensorFlow Federated so that its worker ends with this process.

    The default context is the one that TFF sets, also for the thread that first calls this, but with
    `LocalWorker`. TFF's worker keeps this process's output open, receives the terminal's Ctrl-C, and
    survives if this process is killed; it is stopped when the context is collected, which is too late
    when the interpreter exits.
    """
    # Forked processes execute another program at once. gRPC's fork handlers, meant for forks that continue,
    # can make that crash or hang.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    import grpc  # type: ignore[import-untyped]
    import tensorflow_federated as tff

    worker = HiddenWorker(Path(tff.__file__).parent / "data" / "worker_binary")

    @lru_cache(maxsize=1)
    def connect(address: str) -> Any:
        return tff.framework.RemoteExecutorGrpcStub(grpc.insecure_channel(address, CHANNEL))

    def create_executor(cardinalities: dict[Any, int]) -> Any:
        executor = remote_executor()(connect(worker.address()))
        executor.set_cardinalities({tff.CLIENTS: 0, **cardinalities})
        return executor

    native = tff.framework.AsyncExecutionContext(
        tff.framework.ResourceManagingExecutorFactory(create_executor),
        tff.backends.native.desugar_and_transform_to_native,
        transform_args=tff.tensorflow.transform_args,
        transform_result=tff.tensorflow.transform_result,
    )
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name="tff", daemon=True).start()

    class Context(tff.framework.SyncContext):
        def invoke(self, comp: Any, arg: Any) -> Any:
            worker.begin()
            result = asyncio.run_coroutine_threadsafe(native.invoke(comp, arg), loop)
            try:
                # An interrupt that comes just as a wait begins is noticed only when that wait is over.
                while not wait([result], timeout=_WAIT).done:
                    pass
                return result.result()
            finally:
                result.cancel()  # what an interrupt has left behind; a result stays one

    def end() -> None:
        worker.end()
        # A computation that an interrupt has left behind fails now. The interpreter waits for that: a
        # thread that it ends within TensorFlow's code seems to abort the process.
        wait([asyncio.run_coroutine_threadsafe(_others(), loop)], timeout=_PATIENCE)

    atexit.register(end)
    tff.framework.set_default_context(Context())
    return tff


async def _others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)
