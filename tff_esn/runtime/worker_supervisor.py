"""The process that isolates TFF's worker from the network.

TFF's worker listens on all interfaces without authentication, and a TensorFlow graph can write files. Its supervisor
therefore moves it into a network namespace with only a loopback device, and forwards to it what arrives through a
socket made outside: a Unix socket for processes of the same user, or one that asks for a certificate. Where such a
namespace cannot be made, the worker's port stays open, and the process that started the supervisor gets a message.

The worker dies with its supervisor, and the supervisor with the process that started it, in whatever way they end.

Uses only the standard library: this file is also a program, which must start fast.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

CLONE_NEWUSER, CLONE_NEWNET, PR_SET_PDEATHSIG = 0x10000000, 0x40000000, 1
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1
#: The worker's port in a namespace where no other is taken.
PORT = 8000
#: Seconds within which the worker must listen, between two checks whether it does, and of a TLS handshake.
PATIENCE, PAUSE, HANDSHAKE = 60.0, 0.02, 10.0
#: The supervisor's messages when the worker listens.
HIDDEN, EXPOSED = "hidden", "exposed"


def hide() -> bool:
    """Takes this process, which has one thread, into a network of its own; returns whether that could be done."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWNET):
        # An ordinary user may do this as the root of a new user namespace.
        if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET):
            return False
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", 0)
        (flags,) = struct.unpack_from("H", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request), 16)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))
    return True


def die_with_parent() -> None:
    """Asks the kernel to kill this process when the thread that started it is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def keep(
    listener: socket.socket,
    binary: str,
    ready: Callable[[str], None],
    context: ssl.SSLContext | None = None,
    folder: str | None = None,
    parent: int | None = None,
    talkative: bool = False,
) -> int:
    """Runs TFF's worker until it ends, and forwards to it what comes through a socket.

    This process has one thread, and will be in a network namespace of its own.

    Args:
        listener: Made before, so that it is outside.
        binary: The worker.
        ready: Called with `HIDDEN` or `EXPOSED` when the worker listens.
        context: Settings of TLS; None for no TLS.
        folder: Where paths that are not absolute begin.
        parent: Process to die with; None for none.
        talkative: Whether the worker's messages go to standard error.

    Returns:
        The status with which the worker ended.
    """
    hidden = hide()
    if parent is not None:
        die_with_parent()  # Not before: the kernel forgets it when credentials change.
        if os.getppid() != parent:
            return 1
    port = PORT if hidden else _free_port()
    worker = subprocess.Popen(
        [binary, f"--port={port}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=None if talkative else subprocess.DEVNULL,
        cwd=folder,
        # With an arena for each of its threads, the worker's memory grows by half in some hundred rounds; with one
        # for all, the threads wait for each other half of the time.
        env={"MALLOC_ARENA_MAX": "2", **os.environ},
        preexec_fn=die_with_parent,  # Safe: this process has one thread.
        start_new_session=True,  # No Ctrl-C of the terminal's.
    )
    try:
        deadline = time.monotonic() + PATIENCE
        while not _listens(port):
            if worker.poll() is not None or time.monotonic() > deadline:
                break
            time.sleep(PAUSE)
        else:
            ready(HIDDEN if hidden else EXPOSED)
            asyncio.run(_forward(listener, port, context, worker))
    finally:
        worker.kill()
        status = worker.wait()
    return status


async def _forward(
    listener: socket.socket, port: int, context: ssl.SSLContext | None, worker: subprocess.Popen[bytes]
) -> None:
    loop = asyncio.get_running_loop()

    def visitor() -> _Visitor:
        return _Visitor(port)

    timeout = None if context is None else HANDSHAKE
    if listener.family == socket.AF_UNIX:
        await loop.create_unix_server(visitor, sock=listener)
    else:
        await loop.create_server(visitor, sock=listener, ssl=context, ssl_handshake_timeout=timeout)
    while worker.poll() is None:
        await asyncio.sleep(PAUSE * 5)


class _End(asyncio.Protocol):
    """One end of a connection: what arrives here leaves at the other end."""

    transport: asyncio.Transport

    def __init__(self, other: _End | None = None) -> None:
        self.other = other
        self.early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            # Not `pause_reading`, which some versions of Python forget while a connection is being made.
            self.early.append(data)
        else:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if self.other is not None:
            self.other.transport.close()


class _Visitor(_End):
    """The outer end, of an accepted client."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        own = transport.get_extra_info("socket")
        if own.family == socket.AF_UNIX:
            _, user, _ = struct.unpack("3i", own.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            # Other users have other ids inside a user namespace too.
            if user != os.getuid():
                self.transport.abort()
                return
        self._task = asyncio.ensure_future(self._connect())

    async def _connect(self) -> None:
        inside = _End(self)
        try:
            await asyncio.get_running_loop().create_connection(lambda: inside, "127.0.0.1", self._port)
        except OSError:
            self.transport.abort()
            return
        self.other = inside
        if self.transport.is_closing():
            inside.transport.close()
        inside.transport.writelines(self.early)
        self.early.clear()


def _free_port() -> int:
    with socket.socket() as any_socket:
        any_socket.bind(("", 0))
        return any_socket.getsockname()[1]


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return True
    except OSError as error:
        if error.errno not in (None, errno.ECONNREFUSED):
            raise
        return False


def main() -> int:
    """Supervises a worker for the parent process: `worker_supervisor.py LISTENER BINARY PARENT TALKATIVE`."""
    listener, binary, parent, talkative = sys.argv[1:]
    # Its parent alone decides what Ctrl-C means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    status = keep(
        socket.socket(fileno=int(listener)),
        binary,
        lambda how: print(how, flush=True),
        parent=int(parent),
        talkative=bool(int(talkative)),
    )
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
