"""Runs on disk: settings, code version, status and results.

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
import dataclasses
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, BinaryIO

from tff_esn.console import log
from tff_esn.errors import ConfigError, TffEsnError
from tff_esn.store.files import atomic_write, hold
from tff_esn.store.json_values import fingerprint, flat, json_text, jsonable
from tff_esn.store.metrics_file import METRICS_CSV, Cell, MetricsFile
from tff_esn.store.run_record import RUN_JSON, Process, RunInfo, RunRecord, utc_now

_MODEL, _LOCK = "model.keras", ".lock"
_CANDIDATES = 10


class Run:
    """A run's folder. As a context manager it records how the block ends.

    >>> import tempfile
    >>> store = RunStore(Path(tempfile.mkdtemp()))
    >>> with store.create("example", {"units": 200}, seed=0) as run:
    ...     run.finish({"accuracy": 0.9})
    >>> store.list()[0].status
    'complete'

    A block over an existing run resumes it: it is `running` again, and `log` adds to its metrics.
    """

    def __init__(self, folder: Path, record: RunRecord) -> None:
        self.folder = folder
        self.record = record
        self._lock: BinaryIO | None = None
        self._since = time.monotonic()
        self._metrics = MetricsFile(folder)

    @classmethod
    def open(cls, folder: Path) -> Run:
        """Opens an existing run by its folder."""
        return cls(folder, RunRecord.read(folder))

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.folder.name

    def __enter__(self) -> Run:
        if self._lock is None:
            self._resume()
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
        """Records that the run is complete, and its result."""
        self._end(status="complete", result=None if result is None else jsonable(result))

    def log(self, *, step: int, **values: Any) -> None:
        """Adds a row to the metrics: see `MetricsFile.log`."""
        self._metrics.log(step=step, **values)

    def metrics(self) -> list[dict[str, Cell]]:
        """The rows logged so far; None where a cell is empty."""
        return self._metrics.rows()

    def check_same(self, config: Mapping[str, Any], seed: int) -> None:
        """Refuses to resume the run with other settings than it was begun with, and says which differ."""
        before, now = flat({**self.record.config, "seed": self.record.seed}), flat({**jsonable(config), "seed": seed})
        texts = [{name: repr(value) for name, value in settings.items()} for settings in (before, now)]
        pairs = {name: [values.get(name, "not set") for values in texts] for name in {**before, **now}}
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
        if name in (RUN_JSON, METRICS_CSV):
            raise ConfigError(f"file name {name!r}; expected another, this one is the run's own")
        path = self.path(name)
        with atomic_write(path) as file:
            file.write(text.encode())
        return path

    def write_json(self, name: str, value: Any) -> Path:
        """Writes a value as `jsonable` makes it, whole or not at all."""
        return self.write_text(name, json_text(value))

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

    def _resume(self) -> None:
        """Locks the folder for this process.

        Raises:
            ConfigError: Another process works in it.
        """
        with suppress(BlockingIOError):
            self._lock = hold(self.folder / _LOCK, wait=False)
        self.record = RunRecord.read(self.folder)  # Another process may have resumed it since it was found.
        process = self.record.process
        if self._lock is None or (self.record.status == "running" and process.alive):
            self._release()
            raise ConfigError(f"{self.folder}: still running as process {process.pid} on {process.host}")
        self._since, self._metrics = time.monotonic(), MetricsFile(self.folder)
        for left in self.folder.rglob(".*"):
            if left.name != _LOCK:  # what a killed process was about to write
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        self._save(process=Process.this(), status="running", finished=None, result=None, reason=None)

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _save(self, **changes: Any) -> None:
        self.record = dataclasses.replace(self.record, **changes)
        self.record.write(self.folder)

    def _end(self, **changes: Any) -> None:
        end = time.monotonic()
        duration = (self.record.duration or 0.0) + end - self._since
        self._since = end
        self._save(**changes, finished=utc_now(), duration=round(duration, 3))


class RunStore:
    """The runs below one folder.

    Args:
        root: The folder; None for `$TFF_ESN_RUNS`, or `results` in the current folder.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or Path(os.environ.get("TFF_ESN_RUNS") or "results")

    def create(self, kind: str, config: Mapping[str, Any], seed: int) -> Run:
        """Starts a run in a new folder `<kind>-<UTC time>-<short hash of the settings>`."""
        record = RunRecord.begin(kind, config, seed)
        digest = fingerprint([kind, record.config, seed])[:8]
        run = Run(_new_folder(self.root / f"{kind}-{record.started:%Y%m%dT%H%M%SZ}-{digest}"), record)
        run._lock = hold(run.folder / _LOCK)
        run._save()
        return run

    def resume_or_create(self, kind: str, config: Mapping[str, Any], seed: int) -> Run:
        """Resumes the latest run with these settings that did not complete; starts a new one if there is none.

        A run that another process works in is left to it.
        """
        settings = jsonable(config)
        for info in reversed(self.list()):
            same = info.record and (info.record.kind, info.record.config, info.record.seed) == (kind, settings, seed)
            if same and info.status != "complete":
                run = Run.open(info.folder)
                with suppress(ConfigError):  # It is running.
                    run._resume()
                    return run
        return self.create(kind, config, seed)

    def list(self) -> builtins.list[RunInfo]:
        """All runs, the oldest first; what cannot be read comes before them."""
        if not self.root.exists():
            return []
        runs = [RunInfo.of(folder) for folder in self.root.iterdir() if (folder / RUN_JSON).exists()]
        return sorted(runs, key=lambda run: (run.record.started.timestamp() if run.record else 0.0, run.name))

    def find(self, which: str | Path) -> Run:
        """The run of this name, with this path, or the only one whose name begins so."""
        for folder in (self.root / which, Path(which)):
            if (folder / RUN_JSON).exists():
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


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _CANDIDATES} more" if len(names) > _CANDIDATES else ""
    return ", ".join(names[-_CANDIDATES:]) + more


def _one_line(error: BaseException) -> str:
    first = next(iter(str(error).strip().splitlines()), "")
    return first if isinstance(error, TffEsnError) else f"{type(error).__name__}: {first}".removesuffix(": ")


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
