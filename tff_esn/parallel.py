"""Calls a function on many items in several processes, which never outlive their parent."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections import Counter
from collections.abc import Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import closing, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Callable, TypeVar, Union

from threadpoolctl import threadpool_limits

from tff_esn.console import console, progress, tally
from tff_esn.errors import ConfigError, TffEsnError

Item = TypeVar("Item")
Result = TypeVar("Result")
Outcome = Union[Result, TffEsnError]


def map_unordered(
    function: Callable[[Item], Result], items: Sequence[Item], *, jobs: int | None, description: str
) -> Generator[tuple[Item, Outcome[Result]], None, None]:
    """Calls `function` on each item and yields each item with its result, in the order they finish.

    A `TffEsnError` is yielded as the result of its item. Any other exception propagates and, like an
    interrupt, ends the workers at once; so does closing the generator. A caller whose own code may
    raise between two results holds it in `contextlib.closing`: its traceback would keep it open.

    Args:
        function: Must be importable by name (or a `partial` of such), since workers are spawned.
        items: What to call it on.
        jobs: Number of processes; None for one per processor. With one, all runs in this process; with
            more, a script that gets here must guard its main module, as `multiprocessing` asks.
        description: Shown beside the progress bar.
    """
    if jobs is not None and jobs < 1:
        raise ConfigError(f"jobs is {jobs}; expected at least 1")
    jobs = min(jobs or os.cpu_count() or 1, len(items))
    outcomes = _in_processes(function, items, jobs) if jobs > 1 else ((item, _call(function, item)) for item in items)
    with closing(outcomes), progress(description, len(items)) as bar:
        for item, outcome in outcomes:
            bar.advance(note=str(item))
            yield item, outcome


def _call(function: Callable[[Item], Result], item: Item) -> Outcome[Result]:
    try:
        return function(item)
    except TffEsnError as error:
        return error


def _in_processes(
    function: Callable[[Item], Result], items: Sequence[Item], jobs: int
) -> Generator[tuple[Item, Outcome[Result]], None, None]:
    # Spawned, not forked: TensorFlow's threads do not survive a fork.
    context = get_context("spawn")
    end_here, end_there = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker, initargs=(end_here,))
    try:
        pending = {pool.submit(_call_on_one_thread, function, item): item for item in items}
        for future in as_completed(list(pending)):
            outcome, counts = future.result()
            for what, times in counts.items():
                tally.add(what, times)
            # Popped, so that a yielded result is not kept in memory.
            yield pending.pop(future), outcome
        pool.shutdown()
    finally:
        end_there.close()
        pool.shutdown(cancel_futures=True)
        end_here.close()


def _start_worker(lifeline: Connection) -> None:
    # Ctrl-C reaches the whole process group; the parent alone decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    console.quiet = True  # The parent shows one bar for all workers.
    tally.reported_later = True
    # The processes fill the machine already. TensorFlow reads these when it is imported here, and in TFF's worker.
    os.environ.update(TF_NUM_INTRAOP_THREADS="1", TF_NUM_INTEROP_THREADS="1")
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    logging.basicConfig(format="%(message)s")  # Before a library sets a format of its own.
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()


def _end_with(lifeline: Connection) -> None:
    # Nothing is ever sent: this returns when the parent closes its end, or dies in whatever way.
    with suppress(EOFError, OSError):
        lifeline.recv()
    os._exit(1)


def _call_on_one_thread(function: Callable[[Item], Result], item: Item) -> tuple[Outcome[Result], Counter[str]]:
    # The same for other libraries; set for each call, because it holds for those that are loaded.
    with threadpool_limits(1):
        return _call(function, item), tally.take()
