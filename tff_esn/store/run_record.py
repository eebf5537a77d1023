"""The record of a run, `run.json`: what was run, when, by which process, with which code, and how it ended."""

from __future__ import annotations

import dataclasses
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal, Optional

import psutil
from pydantic import AwareDatetime, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from tff_esn.errors import DataError
from tff_esn.store.files import atomic_write
from tff_esn.store.json_values import json_text, jsonable
from tff_esn.versions import stack_versions

RUN_JSON = "run.json"
#: Tolerance of a process's start time, which changes a little when the clock is set.
_CLOCK_SECONDS = 2.0
_GIT_SECONDS = 10.0


@dataclass(frozen=True)
class GitState:
    """The commit of the checkout that the code ran from, and whether the package differed from it."""

    revision: str
    dirty: bool


@dataclass(frozen=True)
class Process:
    """The process of a run; its start time distinguishes it from a later one with the same id."""

    pid: int
    started: float
    host: str

    @classmethod
    def this(cls) -> Process:
        """The running process."""
        own = psutil.Process()
        return cls(own.pid, own.create_time(), platform.node())

    @property
    def alive(self) -> bool:
        """Whether it still runs; that of another machine, which cannot be seen from here, counts as running."""
        if self.host != platform.node():
            return True
        try:
            process = psutil.Process(self.pid)
            ended = process.status() == psutil.STATUS_ZOMBIE
            return not ended and abs(process.create_time() - self.started) < _CLOCK_SECONDS
        except psutil.NoSuchProcess:
            return False


@dataclass(frozen=True)
class RunRecord:
    """The contents of `run.json`.

    Attributes:
        kind: Kind of run, such as `train`.
        config: The settings.
        seed: Seed of every random choice.
        command: The command line.
        versions: Versions of Python, the platform and the packages.
        git: The code's commit, if it is in a checkout.
        process: The process that ran it.
        started: When it began.
        status: A run that says `running` may have died: see `RunInfo`.
        finished: When it ended.
        duration: Seconds it took; of a resumed run, of all its parts that ended by themselves.
        result: Its result.
        reason: Why it failed, in a line.
    """

    kind: str
    config: dict[str, Any]
    seed: int
    command: list[str]
    versions: dict[str, str]
    git: Optional[GitState]
    process: Process
    started: AwareDatetime
    status: Literal["running", "complete", "failed", "interrupted"] = "running"
    finished: Optional[AwareDatetime] = None
    duration: Optional[float] = None
    result: Optional[dict[str, Any]] = None
    reason: Optional[str] = None

    @classmethod
    def begin(cls, kind: str, config: Mapping[str, Any], seed: int) -> RunRecord:
        """The record of a run of this process that begins now."""
        return cls(
            kind=kind,
            config=jsonable(config),
            seed=seed,
            command=sys.argv,
            versions=stack_versions(),
            git=_git_state(Path(__file__).parents[1]),
            process=Process.this(),
            started=utc_now(),
        )

    @classmethod
    def read(cls, folder: Path) -> RunRecord:
        """Reads `run.json` in a run's folder."""
        path = folder / RUN_JSON
        try:
            return TypeAdapter(cls).validate_json(path.read_bytes())
        except OSError as error:
            raise DataError(path, error.strerror or str(error), "a run's record") from None
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            raise DataError(path, f"{key}: {first['msg']}" if key else first["msg"], "a run's record") from None

    def write(self, folder: Path) -> None:
        """Writes `run.json`, whole or not at all."""
        with atomic_write(folder / RUN_JSON) as file:
            file.write(json_text(self).encode())


@dataclasses.dataclass(frozen=True)
class RunInfo:
    """A run in a list.

    Attributes:
        name: Name of its folder.
        folder: The folder.
        status: That of `RunRecord`; or `incomplete` if its process was killed; or `unreadable`.
        record: The contents of `run.json`; None if it is unreadable.
        problem: Why it failed or cannot be read.
    """

    name: str
    folder: Path
    status: str
    record: RunRecord | None
    problem: str | None

    @classmethod
    def of(cls, folder: Path) -> RunInfo:
        """Reads a run's folder, in any state."""
        try:
            record = RunRecord.read(folder)
        except DataError as error:
            return cls(folder.name, folder, "unreadable", None, f"{RUN_JSON}: {error.found}")
        died = record.status == "running" and not record.process.alive
        return cls(folder.name, folder, "incomplete" if died else record.status, record, record.reason)

    @property
    def duration(self) -> float | None:
        """Seconds the run took or, if it still runs, has been running for; None if unknown."""
        if self.record is None or self.status == "incomplete":
            return None
        if self.status == "running":
            return (utc_now() - self.record.started).total_seconds()
        return self.record.duration


def utc_now() -> datetime:
    """The time, in UTC."""
    return datetime.now(timezone.utc)


def _git_state(package: Path) -> GitState | None:
    def git(*arguments: str) -> str:
        command = ["git", "--no-optional-locks", "-C", str(package), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=_GIT_SECONDS).stdout.strip()

    try:
        # A package installed below another project's checkout is not part of it.
        git("ls-files", "--error-unmatch", "__init__.py")
        return GitState(git("rev-parse", "HEAD"), bool(git("status", "--porcelain", "--", ".")))
    except (OSError, subprocess.SubprocessError):
        return None
