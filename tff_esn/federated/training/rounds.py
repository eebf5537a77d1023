"""The program that runs the rounds of every algorithm, on `tff.program`.

The clients drawn in a round, the order of a client's examples and its noise depend on the seed and the round only. A
run that was stopped and resumed therefore ends with the same numbers, bit for bit.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tff_esn.console import Bar, log, progress
from tff_esn.errors import TffEsnError
from tff_esn.federated.training.client_states import drawn_clients
from tff_esn.federated.training.federation import Federation, RoundReport
from tff_esn.interrupts import deferred_interrupts
from tff_esn.metrics import Scores, score
from tff_esn.readout.readout import Readout
from tff_esn.reservoir.samples import Samples
from tff_esn.store.checkpoint import Checkpoint
from tff_esn.store.metrics_file import MetricsFile

if TYPE_CHECKING:
    import tensorflow_federated as tff

    from tff_esn.datasets.splits import ClientSplit

PARTS = ("train", "validation", "test")
#: Seconds of work that a killed run may lose at most, beside the round it was in.
SAVE_SECONDS = 2.0


class Evaluator:
    """Scores of a readout on the parts of a split, on states in the server's reservoir."""

    def __init__(self, examples: Mapping[str, Samples], split: ClientSplit) -> None:
        parts = {part: getattr(split, part) for part in PARTS if getattr(split, part)}
        everyone = [examples[subject] for subjects in parts.values() for subject in subjects]
        joined = Samples.concatenate(everyone)
        self.states, self._labels = joined.values, joined.labels
        sizes = [sum(len(examples[subject].labels) for subject in subjects) for subjects in parts.values()]
        ends = np.cumsum(sizes)
        self._slices = {part: slice(end - size, end) for part, end, size in zip(parts, ends, sizes)}

    @property
    def parts(self) -> tuple[str, ...]:
        """Those that have subjects."""
        return tuple(self._slices)

    def labels(self, part: str) -> NDArray[np.int64]:
        """Of the examples of a part."""
        return self._labels[self._slices[part]]

    def __call__(self, readout: Readout) -> dict[str, Scores]:
        """The scores on each part."""
        probabilities = readout.outputs(self.states)
        return {part: score(self._labels[own], probabilities[own]) for part, own in self._slices.items()}


@dataclass(frozen=True)
class RoundRecord:
    """A finished round.

    Attributes:
        number: From 1 on; 0 is before the first round.
        drawn: Its clients.
        report: How it went; None before the first round.
        scores: Of the server's readout, on each part; None in rounds without an evaluation.
        seconds: That the round took, without its evaluation.
    """

    number: int
    drawn: tuple[str, ...]
    report: RoundReport | None
    scores: Mapping[str, Scores] | None
    seconds: float = 0.0

    def values(self) -> dict[str, float]:
        """All its numbers by name."""
        values: dict[str, float] = {}
        if self.scores is not None:
            for part, scores in self.scores.items():
                values.update({f"{part}/{metric}": value for metric, value in scores.values.items()})
                values[f"{part}/single_class"] = float(scores.single_class is not None)
        if self.report is not None:
            values.update({"round/loss": self.report.loss, "round/examples": self.report.examples})
            values["round/left_out"] = len(self.report.left_out)
            for client, own in self.report.clients.items():
                values.update({f"{client}/{name}": float(value) for name, value in own._asdict().items()})
            for client, accepted in self.report.accepted.items():
                values.update({f"{client}/accepted": float(accepted), f"{client}/fake": client in self.report.fake})
            if self.report.accepted:
                values["round/accepted"] = sum(self.report.accepted.values())
                values["round/fake"] = len(self.report.fake)
        return values

    def note(self) -> str:
        """The scores in a few words, for a progress bar."""
        parts = self.scores or {}
        shown = ", ".join(f"{part} {scores.balanced_accuracy:.2f}" for part, scores in parts.items())
        return f"balanced accuracy: {shown}" if shown else ""


@dataclass(frozen=True)
class Program:
    """A run of a federation.

    Attributes:
        federation: The algorithm on its clients.
        evaluator: What scores its readout.
        rounds: How many.
        clients_per_round: Drawn each round.
        evaluate_every: Rounds between evaluations.
        seed: Of the drawing.
    """

    federation: Federation
    evaluator: Evaluator
    rounds: int
    clients_per_round: int
    evaluate_every: int
    seed: int

    def run(
        self,
        checkpoint: Checkpoint | None = None,
        release_managers: Sequence[tff.program.ReleaseManager] = (),
        description: str = "Rounds",
    ) -> tuple[Readout, list[RoundRecord]]:
        """Runs to the last round, from the last state that was saved.

        Args:
            checkpoint: Where states are kept, to resume the run.
            release_managers: Receive the numbers of a round.
            description: Shown beside the progress bar.

        Returns:
            The last readout, and the records of the rounds that ran now.
        """
        with deferred_interrupts() as check, progress(description, self.rounds) as bar:
            records: list[RoundRecord] = []
            return self._run(checkpoint, release_managers, check, bar, records.append), records

    def run_in(self, folder: Path, description: str = "Rounds") -> Readout:
        """Runs in a folder, from where an earlier run in it stopped.

        Writes the last state, `state.npz`, and the numbers of every round, `metrics.csv` and TensorBoard's events.
        Nothing of a round stays in memory.
        """
        with deferred_interrupts() as check, progress(description, self.rounds) as bar:
            checkpoint = Checkpoint(folder / "state.npz")
            return self._run(checkpoint, [MetricsFile(folder)], check, bar, lambda record: None)

    def _run(
        self,
        checkpoint: Checkpoint | None,
        release_managers: Sequence[Any],
        check: Callable[[], None],
        bar: Bar,
        keep: Callable[[RoundRecord], None],
    ) -> Readout:
        state, done = self.federation.initial_state(), 0
        if checkpoint is not None:
            state, done = checkpoint.load(state)
        if not done:
            keep(self._finish(RoundRecord(0, (), None, self._scores(state, 0)), release_managers))
        bar.advance(done)
        saved, saved_at = done, time.monotonic()
        for number in range(done + 1, self.rounds + 1):
            drawn = drawn_clients(self.federation.clients, self.clients_per_round, self.seed, number)
            start = time.perf_counter()
            try:
                state, report = self.federation.next(state, drawn, number)
            except TffEsnError:  # such as that no worker is left
                if checkpoint is not None and saved < number - 1:
                    checkpoint.save(state, number - 1)
                raise
            seconds = time.perf_counter() - start
            record = RoundRecord(number, tuple(drawn), report, self._scores(state, number), seconds)
            keep(self._finish(record, release_managers))
            bar.advance(note=record.note())
            try:
                check()
            finally:
                stopping = sys.exc_info()[0] is not None
                due = number == self.rounds or time.monotonic() - saved_at > SAVE_SECONDS
                if checkpoint is not None and (stopping or due) and saved < number:
                    checkpoint.save(state, number)
                    saved, saved_at = number, time.monotonic()
        return self.federation.readout(state)

    def _finish(self, record: RoundRecord, release_managers: Sequence[Any]) -> RoundRecord:
        for client in record.report.left_out if record.report else ():
            log.warning("round %d leaves out %s: an update that is not finite", record.number, client)
        if release_managers:

            async def release() -> None:
                await asyncio.gather(*(one.release(record.values(), record.number) for one in release_managers))

            # In a thread of its own: in a notebook's an event loop is running already.
            with ThreadPoolExecutor(1) as thread:
                thread.submit(asyncio.run, release()).result()
        return record

    def _scores(self, state: Any, number: int) -> dict[str, Scores] | None:
        if number % self.evaluate_every and number != self.rounds:
            return None
        return self.evaluator(self.federation.readout(state))
