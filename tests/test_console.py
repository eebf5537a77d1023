"""Progress where there is no terminal."""

from __future__ import annotations

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
