"""Work in parts, each of which is cached as soon as it is done and never done twice."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Callable

import numpy as np
from numpy.typing import NDArray

from tff_esn.errors import TffEsnError
from tff_esn.parallel import map_unordered
from tff_esn.store.cache import Cache
from tff_esn.store.json_values import jsonable

#: Of a kept part: the seconds it took.
ELAPSED = "elapsed"
_JSON = "json"
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Task:
    """A part of the work.

    Attributes:
        label: What is shown while it runs.
        folder: Folder of the cache.
        key: Key of everything that its result depends on; tasks with the same key are one.
        work: Called with a folder for files that only the running process needs; must be importable by name.
    """

    label: str
    folder: str
    key: str
    work: Callable[[Path], Arrays]

    def __str__(self) -> str:
        return self.label


def packed(value: Any) -> Arrays:
    """A result that is JSON instead of arrays."""
    return {_JSON: np.array(json.dumps(jsonable(value)))}


def unpacked(arrays: Arrays) -> Any:
    """The value that `packed` was called with, as JSON holds it."""
    return json.loads(str(arrays[_JSON]))


def kept_results(tasks: Sequence[Task], cache: Cache) -> dict[str, Arrays]:
    """The cached results by key."""
    found = {task.key: cache.load(task.folder, task.key) for task in {task.key: task for task in tasks}.values()}
    return {key: arrays for key, arrays in found.items() if arrays is not None}


def run_tasks(tasks: Sequence[Task], cache: Cache, jobs: int | None, description: str) -> dict[str, Arrays]:
    """All results by key; parts that are not cached are run. An interrupt loses only the parts in progress."""
    results = kept_results(tasks, cache)
    missing = list({task.key: task for task in tasks if task.key not in results}.values())
    with cache.scratch() as scratch:
        work = partial(_run_and_keep, cache, scratch)
        with closing(map_unordered(work, missing, jobs=jobs, description=description)) as outcomes:
            for task, outcome in outcomes:
                if isinstance(outcome, TffEsnError):
                    raise outcome
                results[task.key] = outcome
    return results


def _run_and_keep(cache: Cache, scratch: Path, task: Task) -> Arrays:
    start = time.monotonic()
    arrays = {**task.work(scratch)}
    arrays[ELAPSED] = np.array(time.monotonic() - start)
    cache.store(task.folder, task.key, arrays)
    return arrays
