"""Commands in the tests' own process: one that needs TensorFlow spends seconds on imports in another."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import pytest

from tff_esn.cli.main import main
from tff_esn.console import console, log, output


def run_here(
    *arguments: object, folder: Path | None = None, text: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs `tff-esn`; what it prints below Python, such as TensorFlow's messages, is not seen.

    Args:
        arguments: The command's.
        folder: Where it runs, if not here.
        text: Its standard input.
        environment: Variables that it gets beside those there are.
    """
    printed, complaint = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as changed, patch.dict(os.environ, environment), warnings.catch_warnings():
        changed.setattr(sys, "argv", ["tff-esn", *map(str, arguments)])
        changed.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        changed.setattr(console, "quiet", console.quiet)
        changed.setattr(output, "width", int(environment.get("COLUMNS", 80)))
        if folder is not None:
            changed.chdir(folder)
        level = log.level
        try:
            with redirect_stdout(printed), redirect_stderr(complaint), pytest.raises(SystemExit) as end:
                main()
        finally:
            log.setLevel(level)  # which -q and -v change
    return subprocess.CompletedProcess(sys.argv, int(end.value.code or 0), printed.getvalue(), complaint.getvalue())
