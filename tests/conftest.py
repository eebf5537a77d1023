"""What the tests share: a cache of their own, generated subjects, and the real recordings if there are any."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tff_esn.cache import Cache
from tff_esn.data.synthetic.wesad import write_wesad


def default_interrupt() -> None:
    """For a child process: Ctrl-C works in it even where the tests run in a shell's background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


REFERENCE = Path(__file__).parent / "reference"


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three generated subjects of ten minutes, with chest signals and E4 folders."""
    out = tmp_path_factory.mktemp("generated")
    write_wesad(out, subjects=3, minutes=10.0, chest=True, e4_csv=True)
    return out


@pytest.fixture(scope="session")
def wesad() -> Path:
    """The public release, wherever `TFF_ESN_WESAD` says it is."""
    folder = os.environ.get("TFF_ESN_WESAD")
    if not folder:
        pytest.skip("TFF_ESN_WESAD names no folder with WESAD")
    return Path(folder)
