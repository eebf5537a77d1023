from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tff_esn.interrupts import deferred_interrupts


@pytest.fixture(autouse=True)
def pythons_own_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_waits_for_the_next_check() -> None:
    steps = []
    with pytest.raises(KeyboardInterrupt), deferred_interrupts() as check:
        for step in range(5):
            check()
            steps.append(step)
            if step == 2:
                os.kill(os.getpid(), signal.SIGINT)
            steps.append(step)
    assert steps == [0, 0, 1, 1, 2, 2]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_does_not_wait() -> None:
    with pytest.raises(KeyboardInterrupt), deferred_interrupts():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("not reached")


def test_without_an_interrupt_nothing_happens() -> None:
    with deferred_interrupts() as check:
        check()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
