"""Ctrl-C at a safe point."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Callable


@contextmanager
def deferred_interrupts() -> Iterator[Callable[[], None]]:
    """While the block runs, Ctrl-C waits until the function it is given is called.

    A KeyboardInterrupt raised wherever the program happens to be can tear a file that
    is being written, or get lost: Python drops exceptions that arise in a destructor.
    A second Ctrl-C does not wait.

    Yields:
        Raises the KeyboardInterrupt that is waiting, if any; to be called between steps.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    before = signal.getsignal(signal.SIGINT)
    if before in (signal.SIG_IGN, None):
        yield lambda: None
        return
    waiting = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal waiting
        waiting = True
        signal.signal(signal.SIGINT, before)

    def check() -> None:
        if waiting:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, note)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)
