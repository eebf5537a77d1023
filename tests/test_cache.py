from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tff_esn.cache import Cache, default_folder
from tff_esn.errors import DataError
from tff_esn.files import atomic_write


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
