"""Progress in a terminal and where there is none, and what is told once."""

from __future__ import annotations

import logging
import os
import pty
import re
import subprocess
import sys

import pytest

from tff_esn import console


def test_a_log_gets_a_line_now_and_then(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: clock[-1])
    with console.progress("Reproducing", 4) as bar:
        for seconds in (10.0, 59.0, 61.0, 62.0):
            clock.append(seconds)
            bar.advance(note="a part")
    assert capsys.readouterr().err.splitlines() == ["Reproducing: 3 of 4"]
    with console.progress("Reproducing", 1) as bar:
        monkeypatch.setattr(console.console, "quiet", True)
        clock.append(1000.0)
        bar.advance()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("columns", [40, 100])
def test_a_bar_fits_its_terminal(columns: int) -> None:
    program = """
from tff_esn.console import progress
with progress("FedCurv-0.1, seed 12", 78) as bar:
    for _ in range(78):
        bar.advance(note="balanced accuracy: train 0.91, test 0.88")
"""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "COLUMNS": str(columns), "TERM": "xterm"},
    )
    os.close(theirs)
    shown = b""
    while chunk := _read(ours):
        shown += chunk
    os.close(ours)
    assert process.wait() == 0, shown
    lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode()))
    assert max(map(len, lines)) <= columns
    assert any(line.startswith("FedCurv") and "78/78" in line for line in lines)
    assert any(("balanced accuracy: train 0.91, test 0.88" if columns == 100 else "balanced") in line for line in lines)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # Linux's end of a terminal
        return b""


def test_what_happens_often_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    tally = console.Tally()
    for _ in range(3):
        tally.add("bad numbers")
    assert caplog.messages == ["bad numbers"]
    caplog.clear()
    with tally.reported_at_end():
        tally.add("bad numbers")
        tally.add("bad numbers", 2)
        tally.add("worse ones")
        assert caplog.messages == []
    assert caplog.messages == ["bad numbers: 3", "worse ones: 1"]
    assert not tally.take()
    caplog.clear()
    tally.add("bad numbers")
    assert caplog.messages == ["bad numbers"]
