"""A study on disk: its kind, its subjects, and its defects."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tff_esn.datasets.recording import BASELINE, CODES, STRESS_CODE, Recording, Signal
from tff_esn.datasets.tables import AFFECT, STRESS, FeatureTable, Task
from tff_esn.errors import DataError, TffEsnError
from tff_esn.parallel import map_unordered
from tff_esn.registry import Registry

#: Stands in the inventory for the signals of a subject that cannot be read.
UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Inventory:
    """Contents and defects of a study.

    Attributes:
        headings: Headings of the columns.
        rows: A value for each column.
        numeric: Headings of columns of numbers.
        defects: The defects found.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    numeric: tuple[str, ...]
    defects: tuple[TffEsnError, ...]


@dataclass(frozen=True)
class StudyFolder:
    """A study on disk. New kinds of studies are subclasses, registered with `STUDIES.register`.

    Attributes:
        root: Its folder.
        labels: CSV of labelled intervals, for kinds that have one.
    """

    root: Path
    labels: Path | None = None

    name: ClassVar[str]
    #: What a folder of this kind holds, for messages.
    holds: ClassVar[str]
    #: What can be predicted, the usual task first.
    tasks: ClassVar[tuple[Task, ...]] = (STRESS, AFFECT)
    #: Recipes of features that fit, the usual one first.
    features: ClassVar[tuple[str, ...]] = ("corrected", "thesis", "channels")
    #: Devices of its raw channels.
    devices: ClassVar[tuple[str, ...]] = ("wrist",)
    #: The documents' split with 25-100 % subsets, for its own subjects.
    growing_split: ClassVar[str] = "wesad-9-3-3"

    @classmethod
    @abstractmethod
    def recognize(cls, root: Path, labels: Path | None) -> StudyFolder | None:
        """The study in a folder, if it is of this kind."""

    @classmethod
    def is_subject(cls, folder: Path) -> bool:
        """Whether a folder is that of a single subject, often given by mistake instead of the study's."""
        return False

    @property
    @abstractmethod
    def subjects(self) -> tuple[str, ...]:
        """Names of the subjects, in order."""

    @abstractmethod
    def files(self, subject: str) -> tuple[Path, ...]:
        """The files of a subject, whose content is part of the cache's keys."""

    def read(self, subject: str) -> Recording:
        """Reads one subject's recording."""
        raise DataError(self.root, f"a study of kind {self.name}, which has no recordings", self.holds)

    def tables(self, recipe: Any) -> Mapping[str, FeatureTable] | None:
        """All subjects' tables, of a study that is read in one pass; None for one that is read subject by subject."""
        return None

    def inventory(self, jobs: int | None = 1) -> Inventory:
        """Reads every subject and lists its signals, rates, durations, label shares and defects.

        Args:
            jobs: Processes; None for one per processor.
        """
        found = dict(map_unordered(partial(_subject_inventory, self), self.subjects, jobs=jobs, description="Checking"))
        rows: list[tuple[str, ...]] = []
        defects: list[TffEsnError] = []
        for subject in self.subjects:
            own = found[subject]
            if isinstance(own, TffEsnError):
                own = ((UNREADABLE, "", ""), (own,))
            rows.append((subject, *own[0]))
            defects.extend(own[1])
        return Inventory(("Subject", "Signals (Hz)", "Duration", "Labels"), tuple(rows), ("Duration",), tuple(defects))


STUDIES: Registry[type[StudyFolder]] = Registry("studies", ["tff_esn.datasets"])


def open_study(root: Path, labels: Path | None = None) -> StudyFolder:
    """The study in a folder, of whatever kind.

    Args:
        root: The study's folder.
        labels: CSV of labelled intervals; asks for a kind that has one, even beside WESAD's pickles.
    """
    kinds = STUDIES.items().values()
    holds = "; ".join(kind.holds for kind in kinds)
    if not root.is_dir():
        raise DataError(root, "no such folder", f"a study: {holds}")
    if any(kind.is_subject(root.resolve()) for kind in kinds):
        raise DataError(root, "a subject's folder, not a study's", f"the study: {root.resolve().parent}")
    found = next((study for kind in kinds if (study := kind.recognize(root, labels)) is not None), None)
    if found is None:
        raise DataError(root, "no recording", f"a study: {holds}")
    return found


def chosen_subjects(study: StudyFolder, subjects: Sequence[str] | None) -> tuple[str, ...]:
    """The study's subjects, or the chosen ones after a check that they exist."""
    available = study.subjects
    unknown = [subject for subject in subjects or () if subject not in available]
    if unknown:
        raise DataError(study.root, f"no subject {', '.join(unknown)}", f"subjects out of {', '.join(available)}")
    return tuple(subjects) if subjects else available


def _subject_inventory(study: StudyFolder, subject: str) -> tuple[tuple[str, ...], tuple[TffEsnError, ...]]:
    """Signals, duration and label shares of a subject, and its defects."""
    recording = study.read(subject)
    devices: dict[str, list[str]] = {}
    for name, signal in recording.signals.items():
        device, sensor = name.split("/")
        devices.setdefault(device, []).append(f"{sensor} {signal.rate:g}")
    names: dict[str, float] = {}
    for code, share in recording.code_shares().items():
        name = CODES.get(code, f"code {code}")
        names[name] = names.get(name, 0.0) + share
    row = (
        "\n".join(f"{device}: {', '.join(sensors)}" for device, sensors in devices.items()),
        f"{recording.codes.duration:.0f} s",
        ", ".join(f"{name} {share:.1%}" for name, share in names.items()),
    )
    return row, tuple(find_defects(recording))


def longest_run(mask: NDArray[np.bool_]) -> int:
    """Length of the longest stretch of true values.

    >>> longest_run(np.array([True, False, True, True]))
    2
    """
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.astype(np.int8), [0]))))
    return int((edges[1::2] - edges[::2]).max(initial=0))


def _signal_defects(source: Path, name: str, signal: Signal, seconds: float, max_gap: float) -> Iterator[DataError]:
    if abs(signal.duration - seconds) > 1:
        yield DataError(
            source,
            f"{name} has {len(signal.values)} samples, {signal.duration:.1f} s at {signal.rate:g} Hz",
            f"{seconds:.1f} s as its labels have",
        )
    # One column at a time: a mask of all of a chest signal is not small.
    for column in signal.values.T if signal.values.ndim == 2 else (signal.values,):
        broken = ~np.isfinite(column)
        if longest_run(broken) > max_gap * signal.rate:
            yield DataError(
                source,
                f"{name} has {np.count_nonzero(broken)} values that are not finite, first at sample {broken.argmax()}",
                f"gaps of at most {max_gap:g} s" if max_gap else "finite numbers",
            )
        elif broken.all() or np.ptp(column[~broken]) == 0:
            yield DataError(source, f"{name} is constant or empty", "a signal that varies")


def find_defects(
    recording: Recording,
    signals: Sequence[str] | None = None,
    max_gap: float = 0.0,
    required: Sequence[int] = (BASELINE, STRESS_CODE),
) -> Iterator[DataError]:
    """All defects that make a recording unusable, one error each.

    Args:
        recording: The recording.
        signals: The signals that matter; all by default.
        max_gap: Seconds of missing values in a row that are still usable.
        required: Protocol codes that must be there.
    """
    source, codes = recording.source, recording.codes
    for name in recording.signals if signals is None else signals:
        yield from _signal_defects(source, name, recording.signal(name), codes.duration, max_gap)
    present = set(recording.code_shares())
    for code in required:
        if code not in present:
            yield DataError(source, f"no sample of code {code} ({CODES[code]})", "baseline and stress in each subject")
    if present - set(CODES):
        yield DataError(source, f"label codes {sorted(present - set(CODES))}", f"codes 0 to {max(CODES)}")
