"""Runs on disk: what was run, with which code, how it went and what came out.

A run is a folder:

    run.json       what was run, when, with which versions, and its status
    metrics.csv    one row for each logged step
    tensorboard/   the same numbers for TensorBoard
    model.keras    the model, and whatever else the run writes

`run.json` comes first, so that a run whose process dies leaves a trace. No run overwrites another, and one process
at a time works in a folder: it holds the lock `.lock`, which ends with it.
"""

from __future__ import annotations

import builtins
import csv
import dataclasses
import io
import json
import math
import operator
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, BinaryIO, Literal, Optional, Union

import psutil
from pydantic import AwareDatetime, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from tff_esn.console import log
from tff_esn.errors import ConfigError, DataError, TffEsnError
from tff_esn.store.cache import fingerprint
from tff_esn.store.events import EventsFile
from tff_esn.store.files import append_bytes, atomic_write, hold, whole_lines
from tff_esn.versions import stack_versions

_RECORD, _METRICS, _EVENTS, _MODEL, _LOCK = "run.json", "metrics.csv", "tensorboard", "model.keras", ".lock"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
#: A process's start, told by the clock, moves a little when the clock is set.
_CLOCK_SECONDS = 2.0
_CANDIDATES = 10
_GIT_SECONDS = 10.0

Cell = Union[bool, int, float, str, None]


@dataclass(frozen=True)
class GitState:
    """The commit of the checkout that the code ran from, and whether the package differed from it."""

    revision: str
    dirty: bool


@dataclass(frozen=True)
class Process:
    """The process of a run; its start tells it from a later one with the same number."""

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
    """What `run.json` holds.

    Attributes:
        kind: What was done, such as `train`.
        config: The settings as they were used.
        seed: Seed of every random choice.
        command: The command line.
        versions: Of Python, the platform and the packages.
        git: The code's commit, if it lies in a checkout.
        process: Who ran it.
        started: When it began.
        status: A run that says `running` may have died: see `RunInfo`.
        finished: When it ended.
        duration: Seconds it took; of a run that was taken up again, all its parts that ended by themselves.
        result: What came out.
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


@dataclasses.dataclass(frozen=True)
class RunInfo:
    """A run in a list.

    Attributes:
        name: Name of its folder.
        folder: The folder.
        status: That of `RunRecord`; or `incomplete` if its process is gone without an end; or `unreadable`.
        record: What `run.json` holds; None if it is unreadable.
        problem: Why it failed or cannot be read.
    """

    name: str
    folder: Path
    status: str
    record: RunRecord | None
    problem: str | None

    @classmethod
    def of(cls, folder: Path) -> RunInfo:
        """Looks at a run's folder, whatever state it is in."""
        try:
            record = _read_record(folder)
        except DataError as error:
            return cls(folder.name, folder, "unreadable", None, f"{_RECORD}: {error.found}")
        died = record.status == "running" and not record.process.alive
        return cls(folder.name, folder, "incomplete" if died else record.status, record, record.reason)

    @property
    def duration(self) -> float | None:
        """Seconds the run took or, if it still runs, has been running for; None if nobody knows."""
        if self.record is None or self.status == "incomplete":
            return None
        if self.status == "running":
            return (_now() - self.record.started).total_seconds()
        return self.record.duration


_RECORDS = TypeAdapter(RunRecord)


class Run:
    """A run's folder. As a context manager it records how the block ends.

    >>> import tempfile
    >>> store = RunStore(Path(tempfile.mkdtemp()))
    >>> with store.create("example", {"units": 200}, seed=0) as run:
    ...     run.finish({"accuracy": 0.9})
    >>> store.list()[0].status
    'complete'

    A run that was found again takes up where it stopped: a block over it makes it `running`, and
    `log` appends to its metrics.
    """

    def __init__(self, folder: Path, record: RunRecord) -> None:
        self.folder = folder
        self.record = record
        self._lock: BinaryIO | None = None
        self._since = time.monotonic()
        self._columns: tuple[str, ...] | None = None
        self._events = EventsFile(folder / _EVENTS)

    @classmethod
    def open(cls, folder: Path) -> Run:
        """Finds a run again by its folder."""
        return cls(folder, _read_record(folder))

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.folder.name

    def __enter__(self) -> Run:
        if self._lock is None:
            self._take()
            self._since = time.monotonic()
            for left in self.folder.rglob(".*"):
                if left.name != _LOCK:  # what a killed process was about to write
                    shutil.rmtree(left) if left.is_dir() else left.unlink()
            _header(self.folder / _METRICS)  # Whoever appends next must not continue a line that was cut off.
            self._save(process=Process.this(), status="running", finished=None, result=None, reason=None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None:
                if self.record.status == "running":
                    self.finish()
            elif isinstance(error, KeyboardInterrupt):
                self._end(status="interrupted")
            else:
                self._end(status="failed", reason=_one_line(error))
        except OSError as problem:
            if error is None:
                raise
            # What went wrong first is what the user needs to see.
            log.warning("%s: the end of the run is not recorded (%s)", self.folder, problem)
        finally:
            self._release()

    def finish(self, result: Mapping[str, Any] | None = None) -> None:
        """Records that the run is complete, and what came out."""
        self._end(status="complete", result=None if result is None else jsonable(result))

    def log(self, *, step: int, **values: Any) -> None:
        """Adds a row to the metrics, on disk at once, and its numbers to TensorBoard.

        The first row fixes the columns; a later one may leave some out.
        """
        cells = {name: _cell(name, value) for name, value in values.items()}
        number = operator.index(step)
        self._append({"step": number, **cells})
        scalars = {name: float(cell) for name, cell in cells.items() if isinstance(cell, (int, float))}
        if scalars:
            self._events.write(number, scalars)

    def metrics(self) -> list[dict[str, Cell]]:
        """The rows logged so far; None where a cell is empty."""
        path = self.folder / _METRICS
        try:
            lines = list(_csv_lines(whole_lines(path)))
        except csv.Error as error:
            raise DataError(path, str(error), "a CSV file") from None
        return [dict(zip(lines[0], map(_parsed, line))) for line in lines[1:]]

    def check_same(self, config: Mapping[str, Any], seed: int) -> None:
        """Refuses to take the run up with other settings than it was begun with, and says which differ."""
        before, now = flat({**self.record.config, "seed": self.record.seed}), flat({**jsonable(config), "seed": seed})
        told = [{name: repr(value) for name, value in settings.items()} for settings in (before, now)]
        pairs = {name: [own.get(name, "not set") for own in told] for name in {**before, **now}}
        different = [
            f"{name} = {was} in the run, {is_now} now" for name, (was, is_now) in pairs.items() if was != is_now
        ]
        if different:
            raise ConfigError(f"{self.folder}: other settings than the run was begun with: {'; '.join(different)}")

    def path(self, name: str) -> Path:
        """Where a file of the run lies, for others to write; the folders to it are made."""
        parts = PurePosixPath(name)
        if not parts.name or parts.is_absolute() or ".." in parts.parts:
            raise ConfigError(f"file name {name!r}; expected a name inside the run's folder")
        path = self.folder / parts
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write_text(self, name: str, text: str) -> Path:
        """Writes a file, whole or not at all."""
        if name in (_RECORD, _METRICS):
            raise ConfigError(f"file name {name!r}; expected another, this one is the run's own")
        path = self.path(name)
        with atomic_write(path) as file:
            file.write(text.encode())
        return path

    def write_json(self, name: str, value: Any) -> Path:
        """Writes a value as `jsonable` makes it, whole or not at all."""
        return self.write_text(name, _json(value))

    def save_model(self, model: Any) -> Path:
        """Saves a Keras model as `model.keras`, whole or not at all."""
        path = self.folder / _MODEL
        # Keras goes by the ending of the name, so the folder is the temporary one.
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=".model.") as scratch, atomic_write(path) as file:
            model.save(Path(scratch) / _MODEL)
            file.write((Path(scratch) / _MODEL).read_bytes())
        return path

    def files(self) -> list[Path]:
        """The files of the run, without what a killed process was about to write."""
        whole = (path for path in self.folder.rglob("[!.]*") if path.is_file())
        return sorted(path for path in whole if not path.parent.name.startswith("."))

    def _take(self) -> None:
        """Makes the folder this process's own, for as long as it works in it."""
        with suppress(BlockingIOError):
            self._lock = hold(self.folder / _LOCK, wait=False)
        if (self.folder / _RECORD).exists():
            self.record = _read_record(self.folder)  # Somebody may have gone on with it since it was found.
        process = self.record.process
        if self._lock is None or (self.record.status == "running" and process.alive):
            self._release()
            raise ConfigError(f"{self.folder}: still running as process {process.pid} on {process.host}")

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _save(self, **changes: Any) -> None:
        self.record = dataclasses.replace(self.record, **changes)
        with atomic_write(self.folder / _RECORD) as file:
            file.write(_json(self.record).encode())

    def _end(self, **changes: Any) -> None:
        now = time.monotonic()
        duration = (self.record.duration or 0.0) + now - self._since
        self._since = now
        self._save(**changes, finished=_now(), duration=round(duration, 3))

    def _append(self, row: Mapping[str, Cell]) -> None:
        path, text = self.folder / _METRICS, io.StringIO()
        columns = self._columns or _header(path)
        writer = csv.DictWriter(text, columns or tuple(row), restval="", lineterminator="\n")
        if columns is None:
            columns = tuple(row)
            writer.writeheader()
        extra = [name for name in row if name not in columns]
        if extra:
            raise DataError(
                path, f"new columns {', '.join(extra)}", f"only those of its first row, {', '.join(columns)}"
            )
        writer.writerow(row)
        append_bytes(path, text.getvalue().encode())
        self._columns = columns


class RunStore:
    """The runs below one folder.

    Args:
        root: The folder; None for `$TFF_ESN_RUNS`, or `results` in the current folder.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or Path(os.environ.get("TFF_ESN_RUNS") or "results")

    def create(self, kind: str, config: Mapping[str, Any], seed: int, name: str | None = None) -> Run:
        """Starts a run in a new folder `<name or kind>-<UTC time>-<short hash of the settings>`."""
        stem = name or kind
        if not _NAME.fullmatch(stem):
            raise ConfigError(f"name of a run {stem!r}; expected letters, digits, '.', '_' and '-'")
        settings, started = jsonable(config), _now()
        record = RunRecord(
            kind=kind,
            config=settings,
            seed=seed,
            command=sys.argv,
            versions=stack_versions(),
            git=_git_state(Path(__file__).parent),
            process=Process.this(),
            started=started,
        )
        digest = fingerprint([kind, settings, seed])[:8]
        run = Run(_new_folder(self.root / f"{stem}-{started:%Y%m%dT%H%M%SZ}-{digest}"), record)
        run._lock = hold(run.folder / _LOCK)
        run._save()
        return run

    def continued(self, kind: str, config: Mapping[str, Any], seed: int) -> Run:
        """The latest run with these settings that did not come to its end; a new one if there is none."""
        settings = jsonable(config)
        for info in reversed(self.list()):
            same = info.record and (info.record.kind, info.record.config, info.record.seed) == (kind, settings, seed)
            if same and info.status not in ("complete", "running"):
                return Run.open(info.folder)
        return self.create(kind, config, seed)

    def list(self) -> builtins.list[RunInfo]:
        """All runs, the oldest first; what cannot be read comes before them."""
        if not self.root.exists():
            return []
        runs = [RunInfo.of(folder) for folder in self.root.iterdir() if (folder / _RECORD).exists()]
        return sorted(runs, key=lambda run: (run.record.started.timestamp() if run.record else 0.0, run.name))

    def find(self, which: str | Path) -> Run:
        """The run of this name, with this path, or the only one whose name begins so."""
        for folder in (self.root / which, Path(which)):
            if (folder / _RECORD).exists():
                return Run.open(folder)
        names = [run.name for run in self.list()]
        found = [name for name in names if name.startswith(str(which))]
        if len(found) == 1:
            return Run.open(self.root / found[0])
        if found:
            raise ConfigError(f"{which}: {len(found)} runs begin so; expected one of {_some(found)}")
        raise ConfigError(
            f"{which}: no such run in {self.root}; {f'there are {_some(names)}' if names else 'it has none'}"
        )


def jsonable(value: Any) -> Any:
    """Makes a value one that JSON can hold.

    Dataclasses become mappings; arrays, tensors and tuples lists; paths and times text; NaN null, and
    infinities, which JSON lacks too, "Infinity" and "-Infinity".
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return None if math.isnan(value) else float(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: jsonable(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    for method in ("numpy", "tolist"):  # of tensors; of arrays and NumPy's scalars
        if hasattr(value, method):
            return jsonable(getattr(value, method)())
    raise ConfigError(f"{value!r} of type {type(value).__name__} cannot be written as JSON")


def flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dots between the keys."""
    result: dict[str, Any] = {}
    for key, value in values.items():
        result.update(flat(value, f"{above}{key}.") if isinstance(value, Mapping) else {f"{above}{key}": value})
    return result


def _json(value: Any) -> str:
    return json.dumps(jsonable(value), indent=1, allow_nan=False) + "\n"


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _CANDIDATES} more" if len(names) > _CANDIDATES else ""
    return ", ".join(names[-_CANDIDATES:]) + more


def _one_line(error: BaseException) -> str:
    first = next(iter(str(error).strip().splitlines()), "")
    return first if isinstance(error, TffEsnError) else f"{type(error).__name__}: {first}".removesuffix(": ")


def _read_record(folder: Path) -> RunRecord:
    path = folder / _RECORD
    try:
        return _RECORDS.validate_json(path.read_bytes())
    except OSError as error:
        raise DataError(path, error.strerror or str(error), "a run's record") from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise DataError(path, f"{key}: {first['msg']}" if key else first["msg"], "a run's record") from None


def _new_folder(wanted: Path) -> Path:
    wanted.parent.mkdir(parents=True, exist_ok=True)
    number, folder = 1, wanted
    while True:
        try:
            folder.mkdir()
            return folder
        except FileExistsError:
            number += 1
            folder = wanted.with_name(f"{wanted.name}-{number}")


def _git_state(package: Path) -> GitState | None:
    def git(*arguments: str) -> str:
        command = ["git", "--no-optional-locks", "-C", str(package), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=_GIT_SECONDS).stdout.strip()

    try:
        # Installed below somebody's checkout, the package is no part of it.
        git("ls-files", "--error-unmatch", "__init__.py")
        return GitState(git("rev-parse", "HEAD"), bool(git("status", "--porcelain", "--", ".")))
    except (OSError, subprocess.SubprocessError):
        return None


def _cell(name: str, value: Any) -> Cell:
    if hasattr(value, "numpy"):
        value = value.numpy()
    if getattr(value, "size", None) == 1:
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ConfigError(f"metric {name} is {value!r}; expected a number or a text")


def _parsed(text: str) -> Cell:
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text or None


def _csv_lines(content: bytes) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(content.decode(errors="replace"), newline=""))


def _header(path: Path) -> tuple[str, ...] | None:
    """The columns of a CSV file that will be appended to; a last line that was cut off is taken away."""
    whole = whole_lines(path)
    if path.exists():
        os.truncate(path, len(whole))
    return tuple(next(_csv_lines(whole))) if whole else None
