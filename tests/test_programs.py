"""The programs that people are told to use start in the installed environment."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import psutil

from tff_esn import __version__
from tff_esn.versions import version_of

PROGRAMS = Path(sys.executable).parent
#: Seconds for what takes a few on an idle machine.
PATIENCE = 120


def test_tff_esn_tells_its_version() -> None:
    found = subprocess.run([PROGRAMS / "tff-esn", "--version"], capture_output=True, text=True, check=True)
    assert found.stdout.startswith(f"tff-esn {__version__}\n")
    assert found.stderr == ""


def test_tensorboard_answers(tmp_path: Path) -> None:
    command = [PROGRAMS / "tensorboard", "--logdir", tmp_path, "--host", "127.0.0.1", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        started = [psutil.Process(process.pid)]
        try:
            assert process.stderr is not None
            told = ""
            while not (address := re.search(r"http://127\.0\.0\.1:\d+/", told)):
                line = process.stderr.readline()
                assert line, told
                told += line
            started += started[0].children(recursive=True)
            with urllib.request.urlopen(f"{address[0]}data/environment", timeout=PATIENCE) as answer:
                assert json.load(answer)["version"] == version_of("tensorboard")
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE)
    _, left = psutil.wait_procs(started, timeout=PATIENCE)
    assert not left
