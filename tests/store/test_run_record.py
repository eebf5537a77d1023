from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import tff_esn
from tff_esn.errors import DataError
from tff_esn.store import run_record as module
from tff_esn.store.run_record import Process, RunInfo, RunRecord


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


def test_a_record_names_the_state_of_the_whole_package(monkeypatch: pytest.MonkeyPatch) -> None:
    state, asked = module.GitState("0" * 40, dirty=True), []
    monkeypatch.setattr(module, "_git_state", lambda package: (asked.append(package), state)[1])
    assert RunRecord.begin("train", {}, 0).git == state
    assert asked == [Path(tff_esn.__file__).parent]


def test_a_later_process_with_the_same_number_is_not_the_runs(tmp_path: Path) -> None:
    own, record = Process.this(), RunRecord.begin("train", {}, 0)

    def status(process: Process) -> str:
        replace(record, process=process).write(tmp_path)
        return RunInfo.of(tmp_path).status

    assert status(own) == "running"
    assert status(replace(own, started=own.started - 100)) == "incomplete"
    assert status(replace(own, started=own.started - 100, host="elsewhere")) == "running"


def test_a_folder_without_a_run_is_no_run(tmp_path: Path) -> None:
    assert RunInfo.of(tmp_path).status == "unreadable"
    with pytest.raises(DataError, match=r"run.json: No such file"):
        RunRecord.read(tmp_path)
