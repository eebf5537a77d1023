"""Kinds of named runs, each in its own file in `runs/kinds/`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tff_esn.features.study import DataSettings, Study
from tff_esn.registry import Registry
from tff_esn.runs.result import ResultFigure
from tff_esn.store.tasks import Arrays, Task
from tff_esn.tables import Table


@dataclass(frozen=True)
class RunKind:
    """A run of a study, in parts that are kept as soon as they are done.

    Attributes:
        run: Name of the run.
        config: Its configuration, a dataclass of the type `settings`.
        study: The study.
        seeds: One for each repetition.
        quick: Whether it is a quick run, which is also compared with the printed numbers.
    """

    run: str
    config: Any
    study: Study
    seeds: Sequence[int]
    quick: bool = False

    name: ClassVar[str]
    #: Type of its configuration.
    settings: ClassVar[type]

    @property
    @abstractmethod
    def datasets(self) -> Iterable[DataSettings]:
        """Features, task and split of its data sets."""

    @property
    @abstractmethod
    def parts(self) -> Mapping[Any, Task]:
        """Its parts by name."""

    def prepare(self, jobs: int | None) -> None:
        """Computes what its parts read of the study."""
        for data in set(self.datasets):
            self.study.prepare(data, jobs)

    def tasks(self) -> list[Task]:
        """Its parts."""
        return list(self.parts.values())

    @abstractmethod
    def outcome(self, results: Mapping[str, Arrays]) -> tuple[list[Table], list[ResultFigure]]:
        """Tables and figures, of the parts' results by key."""


KINDS: Registry[type[RunKind]] = Registry("kinds", ["tff_esn.runs.kinds"])
