"""What the tests share: a cache of their own, generated subjects, and the real recordings if there are any."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:
    # The workers fill the machine already. Read when NumPy and TensorFlow are loaded, here and in processes from here.
    os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), "1"))

from tff_esn.datasets.synthetic.wesad import write_wesad
from tff_esn.store.cache import Cache

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # In a shell's background interrupts are ignored, by children too: they must learn of Ctrl-C. Not by `preexec_fn`:
    # a fork of this process, with TFF's threads in it, can crash.
    signal.signal(signal.SIGINT, signal.default_int_handler)

#: In front of a command that is to ignore interrupts, as in a shell's background.
DEAF = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")


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
