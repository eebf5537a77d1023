"""Files on disks that are full or read-only, of processes that are killed, and with bits that fell over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tff_esn.errors import ConfigError, DataError
from tff_esn.store.cache import Cache
from tff_esn.store.checkpoint import Checkpoint
from tff_esn.store.files import atomic_write, read_arrays, write_arrays
from tff_esn.store.run_folders import Run, RunStore


def small_disk(folder: Path, program: str, options: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in which `folder` is a file system of its own."""
    script = f'mount -t tmpfs -o {options} none "$1" && exec "$2" -c "$3" "$1"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    result = subprocess.run(
        [*command, str(folder), sys.executable, program], capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    if "unshare:" in result.stderr or "mount:" in result.stderr:
        pytest.skip(f"no file system can be mounted here: {result.stderr.strip()}")
    return result


FULL = """
import logging, sys
from pathlib import Path
import numpy as np
from tff_esn.store.files import append_bytes, read_arrays, write_arrays
from tff_esn.store.run_folders import RunStore
folder = Path(sys.argv[1])
write_arrays(folder / "state.npz", {"a": np.arange(10)})
for much in (lambda: write_arrays(folder / "state.npz", {"a": np.zeros(10**6)}),
             lambda: append_bytes(folder / "metrics.csv", bytes(10**7))):
    try:
        much()
        raise SystemExit("it fitted")
    except OSError as error:
        print(error.strerror, Path(error.filename).name)
(folder / "metrics.csv").unlink()
print(read_arrays(folder / "state.npz")["a"].tolist(), sorted(path.name for path in folder.iterdir()))
with RunStore(folder).create("train", {}, 0) as run:
    run.write_text("a", "kept")
    for name in ("a", "b"):
        try:
            run.write_text(name, "x" * 10**7)
        except OSError as error:
            print(error.strerror, Path(error.filename).name)
print(RunStore(folder).list()[0].status, [path.name for path in run.files()], (run.folder / "a").read_text())
"""


def test_a_full_disk_costs_nothing_that_was_there(tmp_path: Path) -> None:
    result = small_disk(tmp_path, FULL, "size=200k")
    assert result.stdout.splitlines() == [
        "No space left on device state.npz",
        "No space left on device metrics.csv",
        "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9] ['state.npz']",
        "No space left on device a",
        "No space left on device b",
        "complete ['a', 'run.json'] kept",
    ], result.stderr


COMMAND = """
import sys
from tff_esn.cli.main import main
sys.argv = ["tff-esn", "data", "synth", sys.argv[1] + "/study", "--subjects", "2", "--minutes", "5", "--jobs", "1"]
main()
"""


@pytest.mark.parametrize(
    ("options", "complaint"), [("size=300k", "No space left on device"), ("ro", "Read-only file system")]
)
def test_a_command_that_cannot_write_is_one_line(tmp_path: Path, options: str, complaint: str) -> None:
    result = small_disk(tmp_path, COMMAND, options)
    assert result.returncode == 2
    assert complaint in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert str(tmp_path / "study") in result.stderr


# ---- Killed ----

HALF_WAY = """
import sys, time
from pathlib import Path
from tff_esn.store.files import atomic_write
with atomic_write(Path(sys.argv[1])) as file:
    file.write(bytes(10**6))
    print("half way", flush=True)
    time.sleep(60)
"""


def test_what_a_killed_process_was_writing_goes_and_what_another_writes_stays(tmp_path: Path) -> None:
    path = tmp_path / "file[1]"
    path.write_bytes(b"old")
    (tmp_path / ".file[1].swp").write_bytes(b"somebody's own")
    process = subprocess.Popen([sys.executable, "-c", HALF_WAY, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    (part,) = tmp_path.glob("*.part")
    with atomic_write(path) as file:
        file.write(b"new")
    assert part.exists()
    process.kill()
    process.communicate()
    assert part.exists()
    with atomic_write(path) as file:
        file.write(b"newer")
    assert sorted(found.name for found in tmp_path.iterdir()) == [".file[1].swp", "file[1]"]
    assert path.read_bytes() == b"newer"


def test_two_processes_do_not_meet_in_a_run(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    with store.create("train", {}, 0) as run:
        with pytest.raises(ConfigError, match=f"{run.folder}: still running as process {os.getpid()}"):
            Run.open(run.folder).__enter__()
        run.finish({"accuracy": 0.5})
    half = run.folder / ".model.keras.abcdefgh.part"
    half.write_bytes(b"half")
    # Two that found it at the same time: the one that comes second is told.
    first, second = Run.open(run.folder), Run.open(run.folder)
    with first:
        assert not half.exists()
        with pytest.raises(ConfigError, match="still running"):
            second.__enter__()
    with second:
        pass


LOCKED = """
import sys, time
from pathlib import Path
from tff_esn.store.run_folders import Run
with Run.open(Path(sys.argv[1])):
    print("taken", flush=True)
    time.sleep(60)
"""


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    with RunStore(tmp_path).create("train", {}, 0) as run:
        pass
    process = subprocess.Popen([sys.executable, "-c", LOCKED, str(run.folder)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        with pytest.raises(ConfigError, match=f"still running as process {process.pid}"):
            Run.open(run.folder).__enter__()
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    with Run.open(run.folder) as again:
        assert again.record.status == "running"


# ---- Damaged ----


def test_every_bit_of_an_array_file_counts(tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    write_arrays(path, {"a": np.arange(3), "b": np.array("text")})
    content = path.read_bytes()
    np.testing.assert_array_equal(np.load(path)["a"], [0, 1, 2])  # others read it too
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        with pytest.raises(DataError):
            read_arrays(path)
        path.write_bytes(content[:place])
        with pytest.raises(DataError):
            read_arrays(path)


def test_a_damaged_cache_entry_is_made_anew(cache: Cache, caplog: pytest.LogCaptureFixture) -> None:
    random, entry = np.random.default_rng(0), {"a": np.random.default_rng(1).normal(size=1000)}
    for _ in range(20):
        cache.store("kind", "key", entry)
        path = cache.path("kind", "key")
        content = bytearray(path.read_bytes())
        content[random.integers(len(content))] ^= int(random.integers(1, 256))
        path.write_bytes(content)
        assert cache.load("kind", "key") is None
        assert "damaged cache entry" in caplog.text
        caplog.clear()


def test_objects_are_neither_written_nor_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Object arrays"):
        write_arrays(tmp_path / "a.npz", {"a": np.array([{}], dtype=object)})
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_checkpoint_begins_anew_and_a_foreign_one_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint, state = Checkpoint(tmp_path / "state.npz"), (np.float32(0.5), {"w": np.arange(3.0)})
    like = (np.float32(0), {"w": np.zeros(3)})
    assert checkpoint.load(like) == (like, 0)
    checkpoint.save(state, 4)
    (rate, weights), done = checkpoint.load(like)
    assert (rate, type(rate), done) == (0.5, np.float32, 4)
    np.testing.assert_array_equal(weights["w"], [0, 1, 2])
    with pytest.raises(DataError, match="a state of something else; expected 2 arrays, as of this run"):
        checkpoint.load((np.float32(0), {"w": np.zeros(4)}))
    content = checkpoint.path.read_bytes()
    checkpoint.path.write_bytes(content[: len(content) // 2])
    assert checkpoint.load(like) == (like, 0)
    assert "damaged checkpoint" in caplog.text and "the run starts over" in caplog.text
