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
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tff_esn.errors import ConfigError, DataError
from tff_esn.store import run_folders as module
from tff_esn.store.run_folders import Process, Run, RunInfo, RunStore, jsonable

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
    run = store.create("train", config, seed=7, name="fedavg")
    written = json.loads((run.folder / "run.json").read_text())
    assert written["config"] == {"units": 200, "rates": [0.5, 0.25], "folder": "study", "limit": None}
    assert (written["kind"], written["seed"], written["status"]) == ("train", 7, "running")
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


def test_a_later_process_with_the_same_number_is_not_the_runs(store: RunStore) -> None:
    run = store.create("train", {}, 0)
    own = Process.this()
    rewrite(run, process={"pid": own.pid, "started": own.started - 100, "host": own.host})
    assert store.list()[0].status == "incomplete"
    rewrite(run, process={"pid": own.pid, "started": own.started - 100, "host": "elsewhere"})
    assert store.list()[0].status == "running"


def test_runs_of_the_same_second_do_not_meet(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_now", lambda: NOON)
    with ThreadPoolExecutor(8) as threads:
        runs = list(threads.map(lambda number: store.create("train", {"units": 5}, 0, name="a"), range(8)))
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
    with pytest.raises(ConfigError, match="name of a run 'a/b'; expected letters"):
        store.create("train", {}, 0, name="a/b")
    with pytest.raises(ConfigError, match="of type object cannot be written as JSON"):
        store.create("train", {"x": object()}, 0)


def test_metrics_are_on_disk_at_once_and_continue_after_reopening(store: RunStore) -> None:
    run = store.create("train", {}, 0)
    run.log(step=0, loss=np.float32(0.1), accuracy=1, phase="train, a", last=None)
    path = run.folder / "metrics.csv"
    loss = float(np.float32(0.1))
    assert path.read_text() == f'step,loss,accuracy,phase,last\n0,{loss!r},1,"train, a",\n'
    again = store.find(run.name)
    again.log(step=1, accuracy=0.3, last=True)
    again.log(step=np.int64(2), loss=math.nan, last=False)
    assert path.read_text().splitlines()[2:] == ["1,,0.3,,True", "2,nan,,,False"]
    rows = again.metrics()
    assert rows[0] == {"step": 0, "loss": loss, "accuracy": 1, "phase": "train, a", "last": None}
    assert rows[1] == {"step": 1, "loss": None, "accuracy": 0.3, "phase": None, "last": True}
    assert math.isnan(rows[2]["loss"])  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"metrics.csv: new columns f1, auc; expected only .* step, loss, accuracy"):
        store.find(run.name).log(step=3, f1=0.5, loss=0.1, auc=0.5)
    assert len(run.metrics()) == 3


@pytest.mark.parametrize(("kept", "rows"), [(b"step,loss\n0,0.5\n1,0", 1), (b"step,lo", 0), (b"", 0)])
def test_a_row_that_was_cut_off_is_written_over(store: RunStore, kept: bytes, rows: int) -> None:
    run = store.create("train", {}, 0)
    (run.folder / "metrics.csv").write_bytes(kept)
    assert len(run.metrics()) == rows
    run.log(step=7, loss=0.25)
    assert len(run.metrics()) == rows + 1
    assert run.metrics()[-1] == {"step": 7, "loss": 0.25}


def test_what_is_no_number_is_not_logged(store: RunStore) -> None:
    run = store.create("train", {}, 0)
    with pytest.raises(ConfigError, match=r"metric loss is array\(\[1, 2\]\); expected a number or a text"):
        run.log(step=0, loss=np.array([1, 2]))
    with pytest.raises(TypeError):
        run.log(step=0.5, loss=1.0)  # type: ignore[arg-type]
    assert run.metrics() == []


def test_tensorboard_reads_the_same_numbers(store: RunStore) -> None:
    import tensorflow as tf
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with store.create("train", {}, 0) as run:
        for step in range(12):
            run.log(step=step, loss=tf.constant(1 / (step + 1)), **{"S2/accuracy": 0.5, "phase": "train"})
    with store.find(run.name) as again:
        again.log(step=12, loss=0.0)
    events = EventAccumulator(str(run.folder / "tensorboard"), size_guidance={"tensors": 0})
    events.Reload()
    assert sorted(events.Tags()["tensors"]) == ["S2/accuracy", "loss"]
    found = [(event.step, float(tf.make_ndarray(event.tensor_proto))) for event in events.Tensors("loss")]
    assert found == [(row["step"], pytest.approx(row["loss"])) for row in run.metrics()]
    assert len(found) == 13


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


def test_the_latest_run_that_did_not_end_goes_on_if_its_settings_are_the_same(store: RunStore) -> None:
    config = {"rounds": (1, 2)}

    def interrupted(kind: str, settings: dict[str, Any], seed: int) -> Run:
        with pytest.raises(KeyboardInterrupt), store.create(kind, settings, seed) as run:
            raise KeyboardInterrupt
        return run

    others = {interrupted(*which).name for which in (("tune", config, 0), ("train", {}, 0), ("train", config, 1))}
    first = store.continued("train", config, 0)
    assert first.name not in others
    # It still runs, here.
    assert store.continued("train", config, 0).name not in {*others, first.name}
    for run in (first, store.find(store.list()[-1].name)):
        run.finish()
    stopped = [interrupted("train", config, 0) for _ in range(2)]
    rewrite(stopped[0], started=NOON.isoformat())
    found = store.continued("train", {"rounds": [1, 2]}, 0)
    assert found.name == stopped[1].name
    with pytest.raises(ValueError, match="no good"), found:
        raise ValueError("no good")
    # A failure may have been of the machine's.
    assert store.continued("train", config, 0).name == found.name
    with found:
        found.finish()
    assert store.continued("train", config, 0).name == stopped[0].name


def test_a_killed_run_goes_on(store: RunStore) -> None:
    with sleeping_run(store.root) as process:
        (theirs,) = store.list()
        assert store.continued("train", {}, 0).name != theirs.name
        process.send_signal(signal.SIGKILL)
        process.wait()
    with store.continued("train", {}, 0) as run:
        assert run.name == theirs.name
    assert run.record.status == "complete"


def test_finding_a_run(store: RunStore, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"x: no such run in .*; it has none"):
        store.find("x")
    one, two = store.create("train", {}, 0, name="fedavg"), store.create("train", {}, 1, name="fedcurv")
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


def test_the_commit_is_the_packages_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, installed = tmp_path / "package", tmp_path / "venv" / "package"
    for folder in (package, installed):
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("")
    assert module._git_state(package) is None
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    for command in (("init", "-q"), ("add", "package"), (*identity, "commit", "-qm", "first")):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    state = module._git_state(package)
    assert state is not None
    assert (len(state.revision), state.dirty) == (40, False)
    assert module._git_state(installed) is None
    (package / "new.py").write_text("")
    assert module._git_state(package) == module.GitState(state.revision, dirty=True)
    monkeypatch.setenv("PATH", "")
    assert module._git_state(package) is None


@dataclass
class Setting:
    rate: float
    names: tuple[str, ...]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Setting(0.5, ("a",)), {"rate": 0.5, "names": ["a"]}),
        ({1: np.arange(2), "x": np.bool_(True)}, {"1": [0, 1], "x": True}),
        ([math.nan, -math.inf, np.float32("nan")], [None, "-Infinity", None]),
        (NOON, "2024-01-02T12:00:00+00:00"),
        (np.array([1.0, math.inf]), [1.0, "Infinity"]),
    ],
)
def test_values_become_json(value: object, expected: object) -> None:
    assert jsonable(value) == expected
    assert json.loads(json.dumps(jsonable(value), allow_nan=False)) == expected


def test_a_folder_without_a_run_is_no_run(tmp_path: Path) -> None:
    assert RunInfo.of(tmp_path).status == "unreadable"
    with pytest.raises(DataError, match=r"run.json: No such file"):
        Run.open(tmp_path)
