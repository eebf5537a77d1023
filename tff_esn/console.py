"""What the package writes to the screen: messages and progress bars, on standard error.

Results go to standard output, so that `tff-esn ... > file` holds results only.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column

#: Messages and progress.
console = Console(stderr=True)
#: Results.
output = Console()
log = logging.getLogger("tff_esn")
#: Seconds between two lines of progress where there is no terminal.
LINE_SECONDS = 60.0


class Tally:
    """Counts warnings that may arise thousands of times and reports each once.

    Outside of `reported_at_end` that is at its first occurrence.
    """

    def __init__(self) -> None:
        self.reported_later = False
        self._counts: Counter[str] = Counter()

    def add(self, what: str, times: int = 1) -> None:
        """Counts a warning."""
        if not self.reported_later and what not in self._counts:
            log.warning("%s", what)
        self._counts[what] += times

    def take(self) -> Counter[str]:
        """The counts since the last call, which are then reset."""
        counts, self._counts = self._counts, Counter()
        return counts

    @contextmanager
    def reported_at_end(self) -> Iterator[None]:
        """Reports the counts of a block when it ends."""
        self.take()
        self.reported_later = True
        try:
            yield
            for what, times in self.take().items():
                log.warning("%s: %d", what, times)
        finally:
            self.reported_later = False


tally = Tally()


class Bar(Protocol):
    """A progress bar that is shown."""

    def advance(self, amount: float = 1, note: str = "") -> None:
        """Moves the bar by `amount` and shows `note` beside it."""


@contextmanager
def progress(description: str, total: float) -> Iterator[Bar]:
    """Shows a progress bar while the block runs; without a terminal, a line per minute; if quiet, nothing."""
    width = console.width
    columns: list[ProgressColumn] = [
        TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis", max_width=width // 3)),
        *([BarColumn(10 if width < 120 else 40)] if width >= 60 else []),
        MofNCompleteColumn(),
        *([TimeElapsedColumn()] if width >= 100 else []),
        TimeRemainingColumn(),
        # Takes the remaining width.
        TextColumn("[dim]{task.fields[note]}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
    ]
    hidden = console.quiet or not console.is_terminal
    with Progress(*columns, console=console, disable=hidden, transient=True, expand=True) as display:
        task = display.add_task(description, total=total, note="")
        reported = time.monotonic()

        class _Bar:
            def advance(self, amount: float = 1, note: str = "") -> None:
                nonlocal reported
                display.update(task, advance=amount, note=note)
                if description and not console.is_terminal and time.monotonic() - reported >= LINE_SECONDS:
                    reported = time.monotonic()
                    done = f"{display.tasks[0].completed:.0f} of {total:.0f}"
                    console.print(f"{description}: {done}", highlight=False, soft_wrap=True)

        yield _Bar()


def size_text(number: float) -> str:
    """A number of bytes as text.

    >>> size_text(1_234_567)
    '1.23 MB'
    """
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} GB"
