from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tff_esn.errors import DataError
from tff_esn.store.cache import Cache, Shared, default_folder
from tff_esn.store.files import atomic_write


def test_what_is_stored_comes_back(cache: Cache) -> None:
    assert cache.load("kind", "key") is None
    cache.store("kind", "key", {"a": np.arange(3), "names": np.array(["x", "y"])})
    loaded = cache.load("kind", "key")
    assert loaded is not None
    np.testing.assert_array_equal(loaded["a"], [0, 1, 2])
    assert loaded["names"].tolist() == ["x", "y"]


@pytest.mark.parametrize("damage", ["flipped", "truncated", "empty", "pickled"])
def test_a_damaged_entry_counts_as_missing(cache: Cache, damage: str) -> None:
    cache.store("kind", "key", {"a": np.arange(1000)})
    path = cache.path("kind", "key")
    content = bytearray(path.read_bytes())
    content[500] ^= 0xFF
    if damage == "pickled":
        np.savez(path, a=np.array([{}], dtype=object))
    else:
        path.write_bytes({"flipped": bytes(content), "truncated": bytes(content[:600]), "empty": b""}[damage])
    assert cache.load("kind", "key") is None


def test_a_digest_follows_the_content(cache: Cache, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"one")
    first = cache.content_digest([file])
    assert cache.content_digest([file]) == first
    file.write_bytes(b"two")
    assert cache.content_digest([file]) != first
    copy = tmp_path / "copy"
    copy.write_bytes(b"one")
    assert cache.content_digest([copy]) == first
    with pytest.raises(DataError, match="missing: No such file"):
        cache.content_digest([tmp_path / "missing"])


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), atomic_write(path) as file:
        file.write(b"new")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_folder_is_the_users_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFF_ESN_CACHE", "/somewhere")
    assert default_folder() == Path("/somewhere")


@contextmanager
def scratch_elsewhere(cache: Cache) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process with a scratch folder that holds a file."""
    program = """
import sys, time
from pathlib import Path
from tff_esn.store.cache import Cache
with Cache(Path(sys.argv[1])).scratch() as scratch:
    (scratch / "file").write_text("mine")
    print(scratch, flush=True)
    time.sleep(60)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(cache.folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().rstrip())
    finally:
        process.kill()
        process.communicate()


def test_a_scratch_folder_is_gone_when_its_block_ends(cache: Cache) -> None:
    with cache.scratch() as first, cache.scratch() as second:
        assert first != second
        (first / "below").mkdir()
        (first / "below" / "file").write_text("mine")
        assert (first / "below" / "file").exists()
    with pytest.raises(RuntimeError), cache.scratch() as third:
        raise RuntimeError
    assert not any(folder.exists() for folder in (first, second, third))


def test_a_scratch_folder_in_use_elsewhere_stays_and_that_of_a_killed_process_goes(cache: Cache) -> None:
    with scratch_elsewhere(cache) as (process, theirs):
        with cache.scratch():
            assert (theirs / "file").read_text() == "mine"
        process.kill()
        process.wait()
        assert theirs.exists()
        # Killed before it had its lock.
        unlocked = theirs.with_name("unlocked")
        unlocked.mkdir()
        with cache.scratch() as own:
            assert not theirs.exists()
            assert not unlocked.exists()
            assert own.exists()


def test_scratch_folders_begin_and_end_at_the_same_time(cache: Cache) -> None:
    def use(_: int) -> None:
        for _ in range(200):
            with cache.scratch() as own:
                (own / "file").write_text("mine")
                assert (own / "file").exists()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(use, range(8)))


def test_shared_values_are_made_once_and_the_least_recently_used_dropped() -> None:
    dropped: list[str] = []
    made: list[str] = []
    shared = Shared(memory=10, dropped=dropped.append)
    for key in ("a", "b", "a"):
        assert shared.get(key, lambda key=key: (made.append(key), key * 4)[1], len) == key * 4
    assert (made, dropped) == (["a", "b"], [])
    shared.get("c", lambda: "cccc", len)
    assert dropped == ["bbbb"]
    # One that is too large by itself is kept all the same, alone.
    shared.get("d", lambda: "d" * 20, len)
    assert dropped == ["bbbb", "aaaa", "cccc"]
    assert shared.get("d", lambda: "again", len) == "d" * 20
