"""Recordings of Empatica E4 wristbands, of WESAD or of any other study.

An E4 folder holds `ACC.csv`, `BVP.csv`, `EDA.csv` and `TEMP.csv`; the first line
of each is the start in Unix time, the second the rate in Hz, one value per column.
The labels of a study come from one CSV of intervals with the columns
`subject,start,end,label`.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tff_esn.datasets.recording import CODES, Recording, Signal
from tff_esn.datasets.study import STUDIES, StudyFolder
from tff_esn.datasets.wesad import WesadStudy
from tff_esn.errors import DataError

SENSORS = {"ACC": 3, "BVP": 1, "EDA": 1, "TEMP": 1}
LABEL_COLUMNS = ("subject", "start", "end", "label")
#: Interval times from here on are Unix times, below it seconds since the recording's start.
UNIX_TIME_FROM = 1e8
#: Codes are kept at the fastest sensor's rate.
CODE_RATE = 64.0
_CODE_OF_NAME = {name: code for code, name in reversed(CODES.items())}
_CODE_OF_TEXT = {**_CODE_OF_NAME, **{str(code): code for code in CODES}}


@dataclass(frozen=True)
class LabelInterval:
    """A stretch of a subject's recording with one protocol code."""

    subject: str
    start: float
    end: float
    code: int
    line: int


def _read_sensor(path: Path, columns: int) -> tuple[float, Signal]:
    expected = f"a start time, a rate and then numbers, in {columns} column(s)"
    import pandas as pd

    try:
        content = path.read_bytes()
        if b"\0" in content:
            raise ValueError("a NUL byte")  # pandas drops all that follows it in its field.
        # A line without a value is a value that is missing: skipped, it would move all that follow.
        table = pd.read_csv(
            io.BytesIO(content),
            header=None,
            dtype=np.float64,
            encoding="latin1",
            skipinitialspace=True,
            skip_blank_lines=False,
        ).to_numpy()
    except FileNotFoundError:
        raise DataError(path, "no such file", "an E4 folder with ACC.csv, BVP.csv, EDA.csv and TEMP.csv") from None
    except OSError as error:
        raise DataError(path, f"cannot be read ({error.strerror})", expected) from None
    except (ValueError, OverflowError) as error:
        raise DataError(path, " ".join(str(error).split()), expected) from None
    if table.shape[1] != columns or len(table) < 3:
        raise DataError(path, f"{len(table)} lines of {table.shape[1]} column(s)", expected)
    start, rate = float(table[0, 0]), float(table[1, 0])
    if not (math.isfinite(start) and math.isfinite(rate) and 0 < rate <= 10_000):
        raise DataError(path, f"start {start} and rate {rate}", "a Unix time and a rate in Hz above 0")
    values = table[2:]
    return start, Signal(values[:, 0] if columns == 1 else values, rate)


def read_e4_folder(folder: Path) -> tuple[float, dict[str, Signal]]:
    """Reads an E4 folder: its start in Unix time, and the signals cut to the time they share."""
    sensors = {name: _read_sensor(folder / f"{name}.csv", columns) for name, columns in SENSORS.items()}
    start = max(begin for begin, _ in sensors.values())
    end = min(begin + signal.duration for begin, signal in sensors.values())
    if end - start < 1:
        raise DataError(folder, f"sensors that share {max(end - start, 0):g} s", "signals of the same time")
    signals = {}
    for name, (begin, signal) in sensors.items():
        first = round((start - begin) * signal.rate)
        count = round((end - start) * signal.rate)
        signals[f"wrist/{name}"] = Signal(signal.values[first : first + count], signal.rate)
    return start, signals


def _code(path: Path, line: int, text: str) -> int:
    code = _CODE_OF_TEXT.get(text.strip().lower())
    if code is None:
        expected = f"a code from 0 to {max(CODES)} or one of {', '.join(_CODE_OF_NAME)}"
        raise DataError(f"{path}:{line}", f"label {text.strip().lower()!r}", expected)
    return code


def _seconds(path: Path, line: int, column: str, text: str) -> float:
    try:
        value = float(text) if "_" not in text else math.nan  # Python's own way to write 1_000
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(f"{path}:{line}", f"{column} {text!r}", "a number of seconds or a Unix time")
    return value


def read_label_intervals(path: Path) -> list[LabelInterval]:
    """Reads `subject,start,end,label` intervals; columns may come in any order."""
    try:
        reader = csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig")))
        rows = [(reader.line_num, row) for row in reader]
    except FileNotFoundError:
        raise DataError(path, "no such file", f"a CSV of labelled intervals: {','.join(LABEL_COLUMNS)}") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(path, f"cannot be read ({error})", "a CSV of labelled intervals in UTF-8") from None
    header = [name.strip().lower() for name in rows[0][1]] if rows else []
    if sorted(header) != sorted(LABEL_COLUMNS):
        raise DataError(
            path, f"columns {', '.join(map(repr, header)) or 'none'}", f"columns {', '.join(LABEL_COLUMNS)}"
        )
    intervals = []
    for line, row in rows[1:]:
        if not any(cell.strip() for cell in row):
            continue
        if len(row) != len(header):
            raise DataError(f"{path}:{line}", f"{len(row)} fields", f"{len(header)} fields")
        cells = dict(zip(header, row))
        start = _seconds(path, line, "start", cells["start"])
        end = _seconds(path, line, "end", cells["end"])
        if end <= start:
            raise DataError(f"{path}:{line}", f"end {end:g} before start {start:g}", "an end after the start")
        code = _code(path, line, cells["label"])
        intervals.append(LabelInterval(cells["subject"].strip(), start, end, code, line))
    return intervals


def codes_from_intervals(
    path: Path, intervals: list[LabelInterval], recording_start: float, duration: float
) -> NDArray[np.int8]:
    """The code at each moment of a recording, at `CODE_RATE`; 0 outside all intervals."""
    codes = np.zeros(round(duration * CODE_RATE), np.int8)
    labelled = np.zeros(len(codes), bool)
    for interval in intervals:
        offset = recording_start if interval.start >= UNIX_TIME_FROM else 0.0
        start, end = interval.start - offset, interval.end - offset
        if start < -1 or end > duration + 1:
            raise DataError(
                f"{path}:{interval.line}",
                f"interval from {start:g} s to {end:g} s of subject {interval.subject}",
                f"an interval inside its recording of {duration:g} s",
            )
        stretch = slice(max(0, round(start * CODE_RATE)), round(end * CODE_RATE))
        if labelled[stretch].any():
            raise DataError(
                f"{path}:{interval.line}",
                f"interval from {start:g} s to {end:g} s of subject {interval.subject} overlaps another",
                "intervals apart",
            )
        codes[stretch] = interval.code
        labelled[stretch] = True
    return codes


def _e4_folders(root: Path) -> Mapping[str, Path]:
    """E4 folders by subject: `root/SUBJECT/` itself or any folder directly inside it."""
    folders = {}
    for folder in sorted(root.iterdir()):
        for candidate in (folder, *sorted(folder.glob("*/"))):
            if E4Study.is_subject(candidate):
                folders[folder.name] = candidate
                break
    return folders


@STUDIES.register
class E4Study(StudyFolder):
    """A folder of E4 folders, one per subject, and a CSV of labelled intervals, by default `labels.csv` in it."""

    name = "e4"
    holds = "E4 folders (S2/EDA.csv, ...) with a labels.csv"

    @classmethod
    def recognize(cls, root: Path, labels: Path | None) -> E4Study | None:
        """E4 folders, those beside WESAD's pickles only if their labels are named."""
        if labels is None and WesadStudy(root).subjects:
            return None
        study = cls(root, labels or root / "labels.csv")
        return study if study.subjects else None

    @classmethod
    def is_subject(cls, folder: Path) -> bool:
        """A single E4 folder."""
        return (folder / "EDA.csv").is_file()

    @property
    def subjects(self) -> tuple[str, ...]:
        """Subjects, named after their folders."""
        return tuple(sorted(_e4_folders(self.root), key=lambda subject: (len(subject), subject)))

    @property
    def intervals(self) -> Path:
        """The CSV of labelled intervals."""
        return self.labels or self.root / "labels.csv"

    def files(self, subject: str) -> tuple[Path, ...]:
        """The files that a subject's recording is read from."""
        folder = _e4_folders(self.root)[subject]
        return (*(folder / f"{sensor}.csv" for sensor in SENSORS), self.intervals)

    def read(self, subject: str) -> Recording:
        """Reads one subject and its intervals."""
        folder = _e4_folders(self.root)[subject]
        start, signals = read_e4_folder(folder)
        intervals = read_label_intervals(self.intervals)
        known = set(self.subjects)
        for interval in intervals:
            if interval.subject not in known:
                raise DataError(
                    f"{self.intervals}:{interval.line}",
                    f"subject {interval.subject!r}",
                    f"one of the folders in {self.root}: {', '.join(sorted(known))}",
                )
        duration = min(signal.duration for signal in signals.values())
        own = [interval for interval in intervals if interval.subject == subject]
        codes = codes_from_intervals(self.intervals, own, start, duration)
        return Recording(subject, signals, Signal(codes, CODE_RATE), folder)
