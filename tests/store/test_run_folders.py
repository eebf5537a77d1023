from __future__ import annotations

import json
import math
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tff_esn.errors import ConfigError, DataError
from tff_esn.store import run_record
from tff_esn.store.run_folders import Run, RunStore

NOON = datetime(2024, 1, 2, 12, 0, 0, tzinfo=timezone.utc)


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "runs")


@contextmanager
def sleeping_run(root: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process in the middle of a run."""
    program = """
import signal, sys, time
from pathlib import Path
from tff_esn.store.run_folders import RunStore
signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell's background jobs are born ignoring it.
with RunStore(Path(sys.argv[1])).create("train", {}, 0) as run:
    print(run.name, flush=True)
    time.sleep(60)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(root)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def rewrite(run: Run, **changes: Any) -> None:
    path = run.folder / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_run_records_what_was_run_and_with_what(store: RunStore) -> None:
    config = {"units": 200, "rates": (0.5, np.float32(0.25)), "folder": Path("study"), "limit": None}
    run = store.create("fedavg", config, seed=7)
    written = json.loads((run.folder / "run.json").read_text())
    assert written["config"] == {"units": 200, "rates": [0.5, 0.25], "folder": "study", "limit": None}
    assert (written["kind"], written["seed"], written["status"]) == ("fedavg", 7, "running")
    assert written["command"] == sys.argv
    assert written["versions"]["python"] == platform.python_version()
    assert written["versions"]["numpy"] == np.__version__
    assert {"platform", "tensorflow", "tensorflow-federated"} <= set(written["versions"])
    assert written["process"]["pid"] == os.getpid()
    assert run.name.startswith("fedavg-20")
    assert store.list()[0].status == "running"


def test_the_end_of_a_block_is_recorded(store: RunStore) -> None:
    with store.create("train", {}, 0) as run:
        run.finish({"accuracy": np.float64(0.5), "auroc": math.nan})
    (info,) = store.list()
    assert info.record is not None
    assert (info.status, info.record.result) == ("complete", {"accuracy": 0.5, "auroc": None})
    assert info.record.finished is not None
    assert info.record.finished >= info.record.started
    assert info.duration is not None
    assert 0 <= info.duration < 60
    with store.create("train", {}, 0) as run:
        pass
    assert run.record.status == "complete"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("first\nsecond"), "ValueError: first"),
        (RuntimeError(), "RuntimeError"),
        (DataError("a.csv", "empty", "rows"), "a.csv: empty; expected rows"),
    ],
)
def test_a_failure_is_recorded_in_a_line(store: RunStore, error: Exception, reason: str) -> None:
    with pytest.raises(type(error)), store.create("train", {}, 0) as run:
        run.finish({"accuracy": 0.5})
        raise error
    (info,) = store.list()
    assert (info.status, info.problem) == ("failed", reason)


def test_an_end_that_cannot_be_recorded_does_not_hide_the_failure(
    store: RunStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("no space left")

    with pytest.raises(ValueError, match="the failure"), store.create("train", {}, 0) as run:
        monkeypatch.setattr(run, "_save", full)
        raise ValueError("the failure")
    assert "no space left" in caplog.text


def test_a_killed_run_is_incomplete(store: RunStore) -> None:
    with sleeping_run(store.root) as process:
        assert [info.status for info in store.list()] == ["running"]
        process.send_signal(signal.SIGKILL)
        process.wait()
    (info,) = store.list()
    assert (info.status, info.duration) == ("incomplete", None)
    with store.find(info.name) as run:  # It can be taken up again.
        assert store.list()[0].status == "running"
    assert run.record.status == "complete"


def test_a_killed_run_is_incomplete_before_its_parent_has_noticed(store: RunStore) -> None:
    with sleeping_run(store.root) as process:
        process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert store.list()[0].status == "incomplete"


def test_an_interrupted_run_says_so(store: RunStore) -> None:
    with sleeping_run(store.root) as process:
        process.send_signal(signal.SIGINT)
        process.wait()
    (info,) = store.list()
    assert (info.status, info.problem) == ("interrupted", None)
    assert info.duration is not None


def test_runs_of_the_same_second_do_not_meet(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_record, "utc_now", lambda: NOON)
    with ThreadPoolExecutor(8) as threads:
        runs = list(threads.map(lambda number: store.create("a", {"units": 5}, 0), range(8)))
    for number, run in enumerate(runs):
        run.write_text("number.txt", str(number))
    first = "a-20240102T120000Z-"
    names = sorted(run.name for run in runs)
    assert len(set(names)) == 8
    assert names[0][: len(first)] == first
    assert names[1:] == [f"{names[0]}-{number}" for number in range(2, 9)]
    assert [run.path("number.txt").read_text() for run in runs] == [str(number) for number in range(8)]
    assert len(store.list()) == 8


def test_the_name_tells_settings_apart(store: RunStore) -> None:
    digests = [store.create("train", {"units": units}, seed).name[-8:] for units, seed in ((5, 0), (6, 0), (5, 1))]
    assert len(set(digests)) == 3


def test_tensorflow_is_imported_only_when_something_is_logged(store: RunStore) -> None:
    program = f"""
import sys
from pathlib import Path
from tff_esn.store.run_folders import RunStore
with RunStore(Path({str(store.root)!r})).create("train", {{}}, 0) as run:
    run.write_json("scores.json", [1])
    run.finish({{"accuracy": 0.5}})
assert "tensorflow" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    assert store.list()[0].status == "complete"


def test_a_model_comes_back(store: RunStore) -> None:
    import tensorflow as tf

    run = store.create("train", {}, 0)
    model = tf.keras.Sequential([tf.keras.layers.Input((3,)), tf.keras.layers.Dense(1, activation="sigmoid")])
    path = run.save_model(model)
    assert path == run.folder / "model.keras"
    inputs = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(tf.keras.models.load_model(path)(inputs), model(inputs))

    class Broken:
        def save(self, path: Path) -> None:
            path.write_text("half")
            raise RuntimeError

    before = path.read_bytes()
    with pytest.raises(RuntimeError):
        run.save_model(Broken())
    assert path.read_bytes() == before
    assert sorted(file.name for file in run.folder.iterdir()) == [".lock", "model.keras", "run.json"]


def test_files_stay_inside_the_folder(store: RunStore) -> None:
    run = store.create("train", {}, 0)
    assert json.loads(run.write_json("tables/scores.json", {"a": math.inf}).read_text()) == {"a": "Infinity"}
    assert run.write_text("report.md", "±").read_text(encoding="utf-8") == "±"
    assert run.path("figures/one.png").parent.is_dir()
    (run.folder / ".run.json.abc").write_text("cut off")
    names = [str(path.relative_to(run.folder)) for path in run.files()]
    assert names == ["report.md", "run.json", "tables/scores.json"]
    for name in ("../x", "/x", "a/../../x", "", "."):
        with pytest.raises(ConfigError, match="expected a name inside the run's folder"):
            run.path(name)
    for name in ("run.json", "metrics.csv"):
        with pytest.raises(ConfigError, match="this one is the run's own"):
            run.write_text(name, "")


def test_a_run_is_taken_up_again(store: RunStore) -> None:
    with pytest.raises(KeyboardInterrupt), store.create("train", {}, 0) as run:
        raise KeyboardInterrupt
    rewrite(run, duration=100.0)
    with store.find(run.name) as again:
        assert (again.record.status, again.record.finished) == ("running", None)
        with pytest.raises(ConfigError, match=f"still running as process {os.getpid()}"), store.find(run.name):
            pass
        again.finish({"accuracy": 1.0})
    (info,) = store.list()
    assert info.status == "complete"
    assert info.duration is not None
    assert 100 <= info.duration < 160


def test_a_run_with_other_settings_is_refused_and_they_are_named(store: RunStore) -> None:
    config = {"readout": {"epochs": 2, "order": "time"}, "classes": ("a", "b"), "engine": None}
    run = store.create("federate", config, 3)
    store.find(run.name).check_same(config, 3)
    # What a file says is no other setting.
    store.find(run.name).check_same({**config, "classes": ["a", "b"]}, 3)
    with pytest.raises(ConfigError) as refusal:
        store.find(run.name).check_same({**config, "readout": {"epochs": 5, "order": "time"}}, 4)
    assert str(refusal.value) == (
        f"{run.folder}: other settings than the run was begun with: "
        "readout.epochs = 2 in the run, 5 now; seed = 3 in the run, 4 now"
    )
    with pytest.raises(ConfigError, match="begun with: more = not set in the run, 1 now"):
        run.check_same({**config, "more": 1}, 3)


def interrupted(store: RunStore, kind: str, settings: dict[str, Any], seed: int) -> Run:
    with pytest.raises(KeyboardInterrupt), store.create(kind, settings, seed) as run:
        raise KeyboardInterrupt
    return run


def test_the_latest_run_with_the_same_settings_that_did_not_complete_is_resumed(store: RunStore) -> None:
    config = {"rounds": (1, 2)}
    others = [interrupted(store, *other) for other in (("tune", config, 0), ("train", {}, 0), ("train", config, 1))]
    with store.resume_or_create("train", config, 0) as new:
        assert new.name not in {run.name for run in others}
    with store.resume_or_create("train", config, 0) as complete:  # The one before it is.
        assert complete.name != new.name
    earlier, later = (interrupted(store, "train", config, 0) for _ in range(2))
    rewrite(earlier, started=NOON.isoformat())
    with pytest.raises(ValueError, match="no good"), store.resume_or_create("train", {"rounds": [1, 2]}, 0) as failed:
        raise ValueError("no good")
    assert failed.name == later.name
    # A failure may have been of the machine's.
    with store.resume_or_create("train", config, 0) as again:
        assert again.name == later.name
    with store.resume_or_create("train", config, 0) as last:
        assert last.name == earlier.name


def test_a_run_that_is_running_is_left_to_its_process(store: RunStore) -> None:
    stopped = interrupted(store, "train", {}, 0)
    with store.resume_or_create("train", {}, 0) as run, store.resume_or_create("train", {}, 0) as other:
        assert run.name == stopped.name != other.name
    with sleeping_run(store.root) as process:
        theirs = store.list()[-1]
        with store.resume_or_create("train", {}, 0) as new:
            assert new.name != theirs.name
        process.send_signal(signal.SIGKILL)
        process.wait()
    with store.resume_or_create("train", {}, 0) as run:
        assert run.name == theirs.name


def test_two_that_resume_at_the_same_time_do_not_meet(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = interrupted(store, "train", {}, 0)
    before = store.list()
    with store.resume_or_create("train", {}, 0) as first:
        monkeypatch.setattr(store, "list", lambda: before)  # what the other saw just before
        with store.resume_or_create("train", {}, 0) as second:
            assert first.name == stopped.name != second.name


def test_a_resumed_run_replaces_the_metrics_it_comes_to_again(store: RunStore) -> None:
    run = interrupted(store, "train", {}, 0)
    for step in range(4):
        run.log(step=step, loss=0.5)
    with run:
        run.log(step=2, loss=0.25, accuracy=1.0)
    assert store.find(run.name).metrics() == [
        {"step": 0, "loss": 0.5, "accuracy": None},
        {"step": 1, "loss": 0.5, "accuracy": None},
        {"step": 2, "loss": 0.25, "accuracy": 1.0},
    ]


def test_finding_a_run(store: RunStore, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"x: no such run in .*; it has none"):
        store.find("x")
    one, two = store.create("fedavg", {}, 0), store.create("fedcurv", {}, 1)
    for which in (one.name, "feda", one.folder, str(one.folder), os.path.relpath(one.folder)):
        assert store.find(which).name == one.name
    with pytest.raises(ConfigError, match=f"fed: 2 runs begin so; expected one of {one.name}, {two.name}"):
        store.find("fed")
    with pytest.raises(ConfigError, match=f"esn: no such run in .*; there are {one.name}, {two.name}"):
        store.find("esn")
    # A name that is the beginning of another's is that run.
    shutil.copytree(one.folder, one.folder.with_name(f"{one.name}-2"))
    assert store.find(one.name).folder == one.folder
    for number in range(20):
        store.create("train", {}, number)
    with pytest.raises(ConfigError, match=" and 10 more"):
        store.find("train")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff\x00", b'{"kind": 1}', b'{"status": "running"}', b"null", None]
)
def test_a_damaged_record_is_shown_as_unreadable(store: RunStore, content: bytes | None) -> None:
    run = store.create("train", {}, 0)
    good = store.create("train", {}, 1)
    path = run.folder / "run.json"
    path.unlink()
    path.mkdir() if content is None else path.write_bytes(content)
    (store.root / "no run").mkdir()
    (store.root / "file").write_text("")
    damaged, other = store.list()
    assert (damaged.name, damaged.status, damaged.record, damaged.duration) == (run.name, "unreadable", None, None)
    assert damaged.problem is not None
    assert damaged.problem.startswith("run.json: ")
    assert "\n" not in damaged.problem
    assert other.name == good.name
    with pytest.raises(DataError, match=r"run.json: .*; expected a run's record"):
        store.find(run.name)


def test_where_runs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TFF_ESN_RUNS", raising=False)
    monkeypatch.chdir(tmp_path)
    assert RunStore().root == Path("results")
    assert RunStore().list() == []
    assert RunStore().create("train", {}, 0).folder.resolve().parent == tmp_path / "results"
    monkeypatch.setenv("TFF_ESN_RUNS", str(tmp_path / "elsewhere"))
    assert RunStore().root == tmp_path / "elsewhere"
