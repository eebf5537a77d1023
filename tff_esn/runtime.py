"""TensorFlow Federated's runtime in this process."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import socket
import subprocess
import sys
import time
from concurrent.futures import wait
from functools import cache, lru_cache
from pathlib import Path
from threading import Event, Lock, Thread
from types import ModuleType
from typing import Any

from tff_esn.console import log

#: Seconds within which the worker must listen, between two looks whether it does, and of one wait for a result.
_PATIENCE, _PAUSE, _WAIT = 60.0, 0.02, 0.5
#: TFF's own limit of a message, in bytes; and no proxy between this process and its worker.
_CHANNEL = (
    ("grpc.max_receive_message_length", 2_000_000_000),
    ("grpc.max_send_message_length", 2_000_000_000),
    ("grpc.enable_http_proxy", 0),
)
#: A program that becomes the worker, after asking the kernel to kill it when its parent is gone. A
#: `preexec_fn` could ask too, but Python code between a fork and an exec is not safe beside threads.
_BECOME = """
import ctypes, os, signal, sys
parent, *command = sys.argv[1:]
PR_SET_PDEATHSIG = 1
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
if os.getppid() == int(parent):  # else it was gone before
    os.execv(command[0], command)
"""


@cache
def load_tff() -> ModuleType:
    """Imports TensorFlow Federated so that its worker ends with this process.

    The default context is the one that TFF sets, for the thread that comes here first as well, but
    with a worker of our own. TFF's keeps this process's output open, receives the terminal's Ctrl-C,
    and stays if this process is killed; it is interrupted, and waited for, when the context is
    collected, which at the interpreter's end comes too late.
    """
    # Whatever is forked here becomes another program at once. gRPC's handlers, for forks that go on, can
    # make that crash or hang.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    import grpc  # type: ignore[import-untyped]
    import tensorflow_federated as tff

    worker = _Worker(Path(tff.__file__).parent / "data" / "worker_binary")

    @lru_cache(maxsize=1)
    def connect(port: int) -> Any:
        return tff.framework.RemoteExecutorGrpcStub(grpc.insecure_channel(f"127.0.0.1:{port}", _CHANNEL))

    def create_executor(cardinalities: dict[Any, int]) -> Any:
        executor = tff.framework.RemoteExecutor(connect(worker.port()))
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


class _Worker:
    """The process that computes for TFF: started when first needed, and anew if it has died.

    It gets nothing of the terminal: no Ctrl-C, since this process alone decides what that means,
    and no stream that it could write to or keep open. The kernel kills it when the thread that
    started it is gone, which therefore must last as long as this process.

    Args:
        binary: What to start.
    """

    def __init__(self, binary: Path) -> None:
        self._binary = binary
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._lock = Lock()
        self._ended = Event()

    def port(self) -> int:
        """Returns the port on which a living worker listens."""
        with self._lock:
            if self._ended.is_set():
                raise RuntimeError("TFF's worker has ended, because this process is ending")
            if self._process is None or self._process.poll() is not None:
                if self._process is not None:
                    log.warning("TFF's worker ended with status %d: starting another", self._process.returncode)
                self._start()
            return self._port

    def end(self) -> None:
        """Kills the worker, for good."""
        # Set outside of the lock, so that a worker that is being started is not waited for.
        self._ended.set()
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.wait()

    def _start(self) -> None:
        import portpicker  # type: ignore[import-untyped]

        self._port = portpicker.pick_unused_port()
        self._process = subprocess.Popen(
            [sys.executable, "-ISc", _BECOME, str(os.getpid()), self._binary, f"--port={self._port}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=None if log.isEnabledFor(logging.DEBUG) else subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + _PATIENCE
        while not _listens(self._port):
            if self._process.poll() is not None:
                raise RuntimeError(
                    f"TFF's worker ({self._binary}) ended with status {self._process.returncode} as it started"
                )
            if self._ended.wait(_PAUSE) or time.monotonic() > deadline:
                self._process.kill()
                self._process.wait()
                raise RuntimeError(f"TFF's worker did not listen on port {self._port}")


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return True
    except OSError:
        return False
