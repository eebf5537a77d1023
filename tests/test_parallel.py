"""Tests of the process pool; their workers import this file, so what they call is defined at its top level."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from tff_esn.errors import ConfigError, DataError
from tff_esn.parallel import map_unordered

BOTH_WAYS = pytest.mark.parametrize("jobs", [1, 2])


def _square(number: int) -> int:
    if number < 0:
        raise DataError("numbers", str(number), "no negative number")
    return number**2


def _fail(number: int) -> int:
    raise ValueError(number)


def _sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def _leave_trace(trace: Path) -> None:
    """Leaves a file behind; for the name `last`, waits for another's first."""
    while trace.name == "last" and not any(trace.parent.iterdir()):
        time.sleep(0.5)
    trace.touch()


def _blas_threads(size: int) -> list[int]:
    np.ones((size, size)) @ np.ones((size, size))
    return [library["num_threads"] for library in threadpool_info()]


@BOTH_WAYS
def test_each_item_comes_with_its_result(jobs: int) -> None:
    assert dict(map_unordered(_square, range(5), jobs=jobs, description="")) == {0: 0, 1: 1, 2: 4, 3: 9, 4: 16}


@BOTH_WAYS
def test_no_items_no_results(jobs: int) -> None:
    assert list(map_unordered(_square, [], jobs=jobs, description="")) == []


def test_results_come_as_they_finish(tmp_path: Path) -> None:
    outcomes = map_unordered(_leave_trace, [tmp_path / "last", tmp_path / "first"], jobs=2, description="")
    assert [item.name for item, _ in outcomes] == ["first", "last"]


@BOTH_WAYS
def test_an_error_a_user_can_act_on_is_a_result_and_the_others_go_on(jobs: int) -> None:
    results = dict(map_unordered(_square, [3, -1, 2], jobs=jobs, description=""))
    error = results.pop(-1)
    assert results == {3: 9, 2: 4}
    assert isinstance(error, DataError)
    assert str(error) == "numbers: -1; expected no negative number"


@BOTH_WAYS
def test_any_other_error_propagates(jobs: int) -> None:
    with pytest.raises(ValueError, match="7"):
        list(map_unordered(_fail, [7, 7], jobs=jobs, description=""))
    assert not multiprocessing.active_children()


def test_closing_ends_the_workers() -> None:
    outcomes = map_unordered(_sleep, [0.0, 600.0], jobs=2, description="")
    assert next(outcomes) == (0.0, 0.0)
    outcomes.close()
    assert not multiprocessing.active_children()


def test_workers_compute_on_one_thread() -> None:
    for _, threads in map_unordered(_blas_threads, [8, 9], jobs=2, description=""):
        assert isinstance(threads, list)
        assert set(threads) == {1}


def test_jobs_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="jobs is 0"):
        list(map_unordered(_square, [1], jobs=0, description=""))


SCRIPT = """
import os
import time
from tff_esn.parallel import map_unordered

def work(item):
    os.write(1, b"w")
    time.sleep(600)

if __name__ == "__main__":
    for _ in map_unordered(work, range(10), jobs=2, description=""):
        pass
"""


@pytest.fixture
def parent_of_two(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose two workers are at work."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    root = str(Path(__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": root},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.read(2) == b"ww"
        yield process
    finally:
        process.kill()
        process.wait()


# All processes write to the same pipe: it ends when the last of them has ended.


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_an_interrupt_leaves_no_process_behind_and_starts_nothing_more(parent_of_two: subprocess.Popen[bytes]) -> None:
    os.killpg(parent_of_two.pid, signal.SIGINT)
    rest, _ = parent_of_two.communicate(timeout=30)
    assert rest == b""
    assert parent_of_two.returncode == -signal.SIGINT


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_killed_parent_leaves_no_process_behind(parent_of_two: subprocess.Popen[bytes]) -> None:
    parent_of_two.kill()
    rest, _ = parent_of_two.communicate(timeout=30)
    assert rest == b""
