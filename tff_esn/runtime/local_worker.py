"""TFF's worker of this process, which no other user can reach."""

from __future__ import annotations

import logging
import os
import secrets
import select
import socket
import subprocess
import sys
import time
from pathlib import Path
from threading import Event, Lock

from tff_esn.console import log
from tff_esn.runtime import worker_supervisor

#: Seconds within which the worker must listen, fewer than its supervisor would wait; and between two checks.
_PATIENCE, _PAUSE = worker_supervisor.PATIENCE - 5, 0.05
#: Deaths of the worker that one computation survives: it may have been killed for lack of memory elsewhere.
_DEATHS = 2


class HiddenWorker:
    """The process that computes for TFF: started on first use, and restarted if it has died.

    It is detached from the terminal: it receives no Ctrl-C, which only this process handles, and
    has no stream that it could write to or keep open. The kernel kills it when the thread that
    started it ends, which therefore must last as long as this process. It is reached through a Unix
    socket without a file, open to this process's user only.

    Args:
        binary: The program to start.
    """

    def __init__(self, binary: Path) -> None:
        self._binary = binary
        self._process: subprocess.Popen[bytes] | None = None
        self._address = ""
        self._deaths = 0
        self._lock = Lock()
        self._ended = Event()

    def address(self) -> str:
        """The address, for gRPC, of a running worker."""
        with self._lock:
            if self._ended.is_set():
                raise RuntimeError("TFF's worker has ended, because this process is ending")
            if self._process is None or self._process.poll() is not None:
                if self._process is not None:
                    self._deaths += 1
                    if self._deaths > _DEATHS:
                        status = self._process.returncode
                        raise RuntimeError(
                            f"TFF's worker ended {self._deaths} times in one computation, status {status}"
                        )
                    log.warning("TFF's worker ended with status %d: starting another", self._process.returncode)
                self._start()
            return self._address

    def begin(self) -> None:
        """Called when a computation begins, whose worker may die a few times; TFF would retry for ever."""
        self._deaths = 0

    def end(self) -> None:
        """Kills the worker, for good."""
        # Set outside of the lock, so that a worker that is being started is not waited for.
        self._ended.set()
        with self._lock:
            self._kill()

    def _start(self) -> None:
        name = f"tff-esn-{secrets.token_hex(16)}"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"\0{name}")
            listener.listen()
            talkative = log.isEnabledFor(logging.DEBUG)
            number = listener.fileno()
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-IS",
                    worker_supervisor.__file__,
                    *map(str, (number, self._binary, os.getpid(), int(talkative))),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=None if talkative else subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=[number],
            )
        self._address = f"unix-abstract:{name}"
        how = self._said()
        if how == worker_supervisor.EXPOSED:
            log.warning(
                "TFF's worker listens on all interfaces, and whoever reaches this host can run code on it: this user "
                "may make no network namespace to hide it in (see docs/fleet.md)"
            )

    def _said(self) -> str:
        """The supervisor's message when the worker listens."""
        assert self._process is not None and self._process.stdout is not None
        deadline = time.monotonic() + _PATIENCE
        with self._process.stdout as stream:
            while not select.select([stream], [], [], _PAUSE)[0]:
                if self._ended.is_set() or time.monotonic() > deadline:
                    self._kill()
                    raise RuntimeError(f"TFF's worker ({self._binary}) did not listen")
            said = stream.readline().decode().strip()
        if not said:
            status = self._process.wait()
            raise RuntimeError(f"TFF's worker ({self._binary}) ended with status {status} as it started")
        return said

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
