"""A study on disk: which kind it is, who is in it, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tff_esn.datasets.e4 import E4Study
from tff_esn.datasets.recording import Recording, Signal
from tff_esn.datasets.wesad import BASELINE, CODES, STRESS_CODE, WesadStudy
from tff_esn.errors import DataError


class Study(Protocol):
    """Recordings on disk, one a subject. A study of one's own has the same."""

    @property
    def name(self) -> str:
        """What kind of study it is."""

    @property
    def root(self) -> Path:
        """Its folder."""

    @property
    def subjects(self) -> tuple[str, ...]:
        """Names of the subjects, in order."""

    def files(self, subject: str) -> tuple[Path, ...]:
        """What a subject's recording is read from: their content is part of the cache's keys."""

    def read(self, subject: str) -> Recording:
        """Reads one subject."""


def open_study(root: Path, labels: Path | None = None) -> WesadStudy | E4Study:
    """Recognises WESAD's pickles or a folder of E4 folders, in that order.

    Args:
        root: The study's folder.
        labels: CSV of labelled intervals; asks for the E4 folders even beside pickles.
    """
    if not root.is_dir():
        raise DataError(root, "no such folder", "a folder with WESAD subjects (S2/S2.pkl, ...) or E4 folders")
    if labels is None and WesadStudy(root).subjects:
        return WesadStudy(root)
    study = E4Study(root, labels or root / "labels.csv")
    if study.subjects:
        return study
    raise DataError(root, "no recording", "WESAD subjects (S2/S2.pkl, ...) or E4 folders (S2/EDA.csv, ...)")


def chosen_subjects(study: Study, subjects: Sequence[str] | None) -> tuple[str, ...]:
    """The study's subjects, or those asked for after a check that they exist."""
    available = study.subjects
    unknown = [subject for subject in subjects or () if subject not in available]
    if unknown:
        raise DataError(study.root, f"no subject {', '.join(unknown)}", f"subjects out of {', '.join(available)}")
    return tuple(subjects) if subjects else available


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
    """Everything about a recording that keeps it from being used, one error each.

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
