"""The public HHAR release: nine users, six activities, phones and watches.

Stisen et al., "Smart Devices are Different: Assessing and Mitigating Mobile Sensing
Heterogeneities for Activity Recognition", SenSys 2015 (UCI data set 344). Each of the
four CSV files holds one sensor of one kind of device, user after user and device after
device; a row is one sample. Accelerometer and gyroscope run on clocks of their own and
are joined here by arrival time.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from tff_esn.console import Bar, log, progress
from tff_esn.datasets.study import STUDIES, Inventory, StudyFolder
from tff_esn.datasets.tables import ACTIVITY, FeatureTable
from tff_esn.errors import ConfigError, DataError
from tff_esn.lazy import LazyModule

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = LazyModule("pandas")

Kind = Literal["phones", "watches"]
Sensor = Literal["accelerometer", "gyroscope"]

COLUMNS = ("Index", "Arrival_Time", "Creation_Time", "x", "y", "z", "User", "Model", "Device", "gt")
USERS = tuple("abcdefghi")
MODELS: Mapping[Kind, tuple[str, ...]] = {
    "phones": ("nexus4", "s3", "s3mini", "samsungold"),
    "watches": ("gear", "lgwatch"),
}
SENSORS: tuple[Sensor, Sensor] = ("accelerometer", "gyroscope")
CHANNELS = ("acc_x", "acc_y", "acc_z", "gyr_x", "gyr_y", "gyr_z")
CODES: Mapping[str, int] = {
    "null": 0,
    **{ACTIVITY.classes[label]: code for code, label in ACTIVITY.class_of_code.items()},
}
# The Samsung Galaxy S+ has no rows in the release's gyroscope file.
WITHOUT_GYROSCOPE = frozenset({"samsungold"})

_AXES = ["x", "y", "z"]
_NAMES = ["User", "Model", "Device", "gt"]
_TYPES = {
    "Arrival_Time": np.int64,
    **dict.fromkeys(_AXES, np.float32),
    **dict.fromkeys(_NAMES, "category"),
}
# Large enough for pandas to work at full speed, small beside what is kept.
_BLOCK_BYTES = 32 << 20
# A line whose second field is none of `_is_integer`.
_NO_TIME = re.compile(rb"\n[^,]*,(?![+-]?\d{1,18},)")
_LISTED_DEFECTS = 20

_Report = Callable[[DataError], None]


@dataclass(frozen=True)
class HharPart:
    """Contents of one file for one user and device.

    Attributes:
        file: Name of the file.
        user: The user.
        device: The device.
        samples: Number of samples.
        rate: Samples per second: the median over all seconds with any sample.
        duration: Seconds recorded, pauses of more than a second left out.
        shares: Share of the samples by activity, `null` included.
    """

    file: str
    user: str
    device: str
    samples: int
    rate: float
    duration: float
    shares: Mapping[str, float]


@dataclass(frozen=True)
class HharReport:
    """Contents and defects of a release."""

    parts: tuple[HharPart, ...]
    defects: tuple[DataError, ...]


@dataclass(frozen=True)
class _Series:
    """Samples of one user and device, by arrival time in milliseconds."""

    times: NDArray[np.int64]
    values: NDArray[np.float32]
    codes: NDArray[np.int8]

    def __getitem__(self, rows: slice | NDArray) -> _Series:
        return _Series(self.times[rows], self.values[rows], self.codes[rows])


_Parts = dict[tuple[str, str], _Series]


def sensor_file(kind: Kind, sensor: Sensor) -> str:
    """The file of the release that holds `sensor` of all devices of `kind`.

    >>> sensor_file("watches", "gyroscope")
    'Watch_gyroscope.csv'
    """
    return f"{'Phones' if kind == 'phones' else 'Watch'}_{sensor}.csv"


@STUDIES.register
class HharStudy(StudyFolder):
    """The release's folder: at least one of its files."""

    name = "hhar"
    holds = "HHAR's CSV files (Phones_accelerometer.csv, ...)"
    tasks = (ACTIVITY,)
    features = ("channels",)
    devices = ("phones", "watches")
    growing_split = "hhar-5-2-2"

    @classmethod
    def recognize(cls, root: Path, labels: Path | None) -> HharStudy | None:
        """Any of the release's files."""
        found = any(path.is_file() for kind in MODELS for path in _paths(root, kind))
        return cls(root) if found else None

    @property
    def subjects(self) -> tuple[str, ...]:
        """The release's users; a folder that lacks some says so when it is read."""
        return USERS

    def files(self, subject: str) -> tuple[Path, ...]:
        """The files that are there, each of which holds all users."""
        return tuple(path for kind in MODELS for path in _paths(self.root, kind) if path.is_file())

    def tables(self, recipe: Any) -> dict[str, FeatureTable]:
        """Every user's channels, z-scored."""
        return read_hhar(
            self.root,
            kind=recipe.device,
            models=recipe.models,
            rate=recipe.rate,
            tolerance=recipe.tolerance,
            max_gap=recipe.max_gap,
        )

    def inventory(self, jobs: int | None = 1) -> Inventory:
        """Reads the files of those kinds of devices, phones and watches, that are there."""
        kinds = [kind for kind in MODELS if any(path.is_file() for path in _paths(self.root, kind))]
        reports = [check_hhar(self.root, kind) for kind in kinds]
        rows = tuple(
            (
                part.file,
                part.user,
                part.device,
                part.samples,
                f"{part.rate:.0f}",
                f"{part.duration:.0f} s",
                ", ".join(f"{name} {share:.0%}" for name, share in part.shares.items()),
            )
            for report in reports
            for part in report.parts
        )
        headings = ("File", "User", "Device", "Samples", "Rate (Hz)", "Duration", "Activities")
        defects = tuple(defect for report in reports for defect in report.defects)
        return Inventory(headings, rows, ("Samples", "Rate (Hz)", "Duration"), defects)


def read_hhar(
    root: Path,
    *,
    kind: Kind = "phones",
    models: Sequence[str] | None = ("nexus4",),
    rate: float | None = None,
    tolerance: float = 0.02,
    max_gap: float = 1.0,
    standardize: bool = True,
) -> dict[str, FeatureTable]:
    """Reads accelerometer and gyroscope of every user.

    Each accelerometer sample is joined with the gyroscope sample of the same user and
    device that arrived nearest to it, the earlier of two equally near ones; one
    gyroscope sample may serve several. A device of which only one of the two sensors
    was recorded is left out, with a warning unless its model has no gyroscope.

    Args:
        root: The folder with the CSV files.
        kind: The devices to read.
        models: The models to keep; None keeps all.
        rate: Samples per second to resample to, linearly (the activity: from the
            nearest sample) within each stretch without a break; None keeps the samples
            as they arrived.
        tolerance: Longest time in seconds between joined samples; accelerometer
            samples without such a partner are dropped.
        max_gap: Longest time in seconds between joined samples that is no break.
        standardize: Whether to give each channel of each user mean 0 and standard
            deviation 1 over the samples that have an activity.

    Returns:
        A table per user, sorted by name: the channels `CHANNELS` in float32, the
        activity codes of `ACTIVITY` with 0 for a transition, and a break wherever a
        device other than the first starts or a gap ends.

    Raises:
        ConfigError: A setting is out of its range.
        DataError: A file is missing or malformed, a model has no samples, or a user
            has no joined or no labelled samples.
    """
    _check_settings(models, rate, tolerance, max_gap)
    paths = _paths(root, kind)
    with _bar(paths) as bar, ThreadPoolExecutor(len(paths)) as pool:
        accelerometer, gyroscope = pool.map(lambda path: _read_file(path, models, _stop, bar), paths)
    for defect in _unpaired(paths, accelerometer, gyroscope):
        log.warning("%s; the device is left out", defect)
    tables = {}
    for user in sorted({user for user, _ in accelerometer}):
        stretches: list[_Series] = []
        for key in [key for key in sorted(accelerometer) if key[0] == user and key in gyroscope]:
            # Popping frees the samples of a device as soon as they are joined.
            joined = _join(accelerometer.pop(key), gyroscope.pop(key), tolerance)
            stretches += _stretches(joined, max_gap)
        if not stretches:
            found = f"no sample that fits one of user {user} in {paths[0].name}"
            raise DataError(paths[1], found, f"some within {tolerance} s")
        if rate is not None:
            stretches = [_resample(stretch, rate) for stretch in stretches]
        if standardize and not any(stretch.codes.any() for stretch in stretches):
            raise DataError(paths[0], f"no activity of user {user}", "at least one")
        tables[user] = _table(user, stretches, standardize)
    return tables


def check_hhar(root: Path, kind: Kind | None = None) -> HharReport:
    """Reads the files of the release (those of `kind`, or all four) and reports on them.

    Of the malformed rows of a file the first few are listed and the others counted.
    """
    parts: list[HharPart] = []
    defects: list[DataError] = []
    for each in MODELS if kind is None else (kind,):
        paths = _paths(root, each)
        with _bar(paths) as bar, ThreadPoolExecutor(len(paths)) as pool:
            accelerometer, gyroscope = pool.map(lambda path, bar=bar: _check_file(path, bar), paths)
        parts += accelerometer.parts + gyroscope.parts
        defects += accelerometer.defects + gyroscope.defects
        if accelerometer.parts and gyroscope.parts:
            defects += _unpaired(paths, _keys(accelerometer), _keys(gyroscope))
    return HharReport(tuple(parts), tuple(defects))


def _check_settings(models: Sequence[str] | None, rate: float | None, tolerance: float, max_gap: float) -> None:
    if models is not None and not models:
        raise ConfigError("models: none; expected at least one")
    if rate is not None and not 0 < rate < math.inf:
        raise ConfigError(f"rate: {rate}; expected a positive number of samples per second")
    for name, seconds in (("tolerance", tolerance), ("max_gap", max_gap)):
        if not seconds >= 0:
            raise ConfigError(f"{name}: {seconds}; expected a number of seconds")


def _paths(root: Path, kind: Kind) -> list[Path]:
    return [root / sensor_file(kind, sensor) for sensor in SENSORS]


def _bar(paths: Sequence[Path]) -> AbstractContextManager[Bar]:
    return progress("Reading HHAR (MB)", sum(path.stat().st_size for path in paths if path.is_file()) / 1e6)


def _stop(defect: DataError) -> NoReturn:
    raise defect


# From a file to the samples of each user and device.


def _read_file(path: Path, models: Sequence[str] | None, report: _Report, bar: Bar) -> _Parts:
    """The samples of `models` in a file, by user and device, each in order of arrival."""
    pieces: dict[tuple[str, str], list[_Series]] = defaultdict(list)
    seen: set[str] = set()
    for frame in _frames(path, report, bar):
        seen.update(frame["Model"].cat.categories)
        if models is not None:
            frame = frame[frame["Model"].isin(models)]
        series = _series(frame)
        for user, device in frame[["User", "Device"]].drop_duplicates().itertuples(index=False):
            rows = (frame["User"] == user) & (frame["Device"] == device)
            pieces[user, device].append(series[rows.to_numpy()])
    if not seen.issuperset(models or ()) or not seen:
        found = f"samples of {', '.join(sorted(seen))}" if seen else "no samples"
        report(DataError(path, found, f"samples of {', '.join(models)}" if models else "some"))
    return {key: _in_order(pieces.pop(key)) for key in list(pieces)}


def _series(frame: pd.DataFrame) -> _Series:
    activities = frame["gt"].cat
    code_of_category = np.array([CODES[name] for name in activities.categories], np.int8)
    return _Series(frame["Arrival_Time"].to_numpy(), frame[_AXES].to_numpy(), code_of_category[activities.codes])


def _in_order(pieces: Sequence[_Series]) -> _Series:
    whole = _concatenate(pieces)
    return whole[np.argsort(whole.times, kind="stable")]


def _concatenate(pieces: Sequence[_Series]) -> _Series:
    return _Series(
        np.concatenate([piece.times for piece in pieces]),
        np.concatenate([piece.values for piece in pieces]),
        np.concatenate([piece.codes for piece in pieces]),
    )


def _frames(path: Path, report: _Report, bar: Bar) -> Iterator[pd.DataFrame]:
    """The well-formed rows of a file, block by block; `report` gets the others."""
    for line, block in _blocks(path, bar):
        try:
            frame = _parse(block)
        except _PARSE_ERRORS:
            frame = _salvage(path, line, block, report)
        if frame is not None:
            yield frame


def _blocks(path: Path, bar: Bar) -> Iterator[tuple[int, bytes]]:
    """Whole lines of a file after its header, and the number of the first of them."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise DataError(path, error.strerror or str(error), "a file of the HHAR release") from None
    with file:
        header = file.readline(1000)
        if header.rstrip(b"\r\n") != ",".join(COLUMNS).encode():
            found = f"the header {_short(header.decode(errors='replace'))}" if header else "an empty file"
            raise DataError(path, found, f"the header {','.join(COLUMNS)}")
        line = 2
        while block := file.read(_BLOCK_BYTES) + file.readline():
            yield line, block
            line += block.count(b"\n")
            bar.advance(len(block) / 1e6, path.name)


# UnicodeDecodeError and pandas' own errors are ValueErrors.
_PARSE_ERRORS = (ValueError, OverflowError)


def _parse(block: bytes) -> pd.DataFrame:
    """The rows of a block; an error of some kind if any of them is malformed."""
    lines = block.count(b"\n") + (not block.endswith(b"\n"))
    # pandas silently drops surplus fields and everything after a NUL.
    if block.count(b",") != lines * (len(COLUMNS) - 1) or b"\0" in block:
        raise ValueError("wrong number of fields")
    # pandas takes 14e-2 for a whole number, and rounds it.
    if _NO_TIME.search(b"\n" + block):
        raise ValueError("a time that is no whole number")
    with np.errstate(over="ignore"):
        frame = pd.read_csv(
            io.BytesIO(block),
            header=None,
            names=COLUMNS,
            usecols=list(_TYPES),
            dtype=_TYPES,
            keep_default_na=False,  # "null" is an activity
            quoting=csv.QUOTE_NONE,
        )
    known = all(_RULES[column][0](name) for column in _NAMES for name in frame[column].cat.categories)
    if not known or not np.isfinite(frame[_AXES].to_numpy()).all():
        raise ValueError("unknown names or numbers that are not finite")
    return frame


def _salvage(path: Path, first_line: int, block: bytes, report: _Report) -> pd.DataFrame | None:
    """Reports the malformed rows of a block and returns the others, if there are any."""
    good = []
    for line, row in enumerate(io.BytesIO(block), first_line):
        fault = _fault(row)
        if fault is None:
            good.append(row)
        else:
            report(DataError(f"{path}, line {line}", *fault))
    try:
        return _parse(b"".join(good)) if good else None
    except _PARSE_ERRORS as error:
        report(DataError(f"{path}, from line {first_line}", f"rows that cannot be read ({error})", "rows of numbers"))
        return None


def _fault(row: bytes) -> tuple[str, str] | None:
    """What a malformed row holds and what it should hold; None if it is well-formed."""
    try:
        fields = row.decode().rstrip("\r\n").split(",")
    except UnicodeDecodeError:
        return f"bytes that are not UTF-8 in {_short(row.decode(errors='replace'))}", "text"
    if len(fields) != len(COLUMNS):
        return f"{len(fields)} fields", str(len(COLUMNS))
    for column, field in zip(COLUMNS, fields):
        accepts, expected = _RULES.get(column, (None, ""))
        if accepts is not None and not accepts(field):
            return f"{column} {_short(field)}", expected
    return None


def _short(text: str) -> str:
    return repr(text if len(text) <= 100 else text[:100] + "...")


def _is_integer(text: str) -> bool:
    return re.fullmatch(r"[+-]?\d{1,18}", text, re.ASCII) is not None


def _is_finite(text: str) -> bool:
    is_number = re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text, re.IGNORECASE | re.ASCII) is not None
    return is_number and abs(float(text)) <= float(np.finfo(np.float32).max)


_RULES: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "Arrival_Time": (_is_integer, "whole milliseconds"),
    **dict.fromkeys(_AXES, (_is_finite, "a finite number")),
    "User": (USERS.__contains__, f"one of {', '.join(USERS)}"),
    "Model": (bool, "the name of a model"),
    "Device": (bool, "the name of a device"),
    "gt": (CODES.__contains__, f"one of {', '.join(CODES)}"),
}


# From samples to tables.


def _nearest(times: NDArray, moments: NDArray) -> NDArray[np.intp]:
    """Index of the entry of the sorted `times` nearest to each moment; the earlier one if two are."""
    after = np.searchsorted(times, moments)
    before = np.maximum(after - 1, 0)
    after = np.minimum(after, len(times) - 1)
    return np.where(moments - times[before] <= times[after] - moments, before, after)


def _join(accelerometer: _Series, gyroscope: _Series, tolerance: float) -> _Series:
    """Accelerometer samples with the nearest gyroscope sample, where one is near enough."""
    partner = _nearest(gyroscope.times, accelerometer.times)
    near = np.abs(gyroscope.times[partner] - accelerometer.times) / 1000 <= tolerance
    values = np.hstack([accelerometer.values[near], gyroscope.values[partner[near]]])
    return _Series(accelerometer.times[near], values, accelerometer.codes[near])


def _stretches(series: _Series, max_gap: float) -> list[_Series]:
    """The series cut at every gap of more than `max_gap` seconds."""
    cuts = np.flatnonzero(np.diff(series.times) / 1000 > max_gap) + 1
    bounds = [0, *cuts, len(series.times)]
    return [series[start:stop] for start, stop in zip(bounds, bounds[1:]) if start < stop]


def _resample(stretch: _Series, rate: float) -> _Series:
    """The stretch on an even grid of `rate` Hz that starts with its first sample."""
    # Samples that arrived in the same millisecond count as one, their mean.
    times, first, count = np.unique(stretch.times, return_index=True, return_counts=True)
    values = np.add.reduceat(stretch.values, first) / count[:, None]
    elapsed = times - times[0]
    grid = np.arange(math.floor(elapsed[-1] * rate / 1000) + 1) * 1000 / rate
    resampled = np.stack([np.interp(grid, elapsed, column) for column in values.T], axis=1)
    return _Series(
        times[0] + np.rint(grid).astype(np.int64),
        resampled.astype(np.float32),
        stretch.codes[first[_nearest(elapsed, grid)]],
    )


def _table(user: str, stretches: Sequence[_Series], standardize: bool) -> FeatureTable:
    """The stretches one after another, with a break between any two."""
    whole = _concatenate(stretches)
    values = _standardized(whole) if standardize else whole.values
    breaks = np.cumsum([len(stretch.times) for stretch in stretches], dtype=np.int64)[:-1]
    return FeatureTable(user, CHANNELS, values, whole.codes, breaks)


def _standardized(series: _Series) -> NDArray[np.float32]:
    """The values with mean 0 and standard deviation 1 over the labelled samples."""
    labelled = series.values[series.codes != CODES["null"]]
    deviation = labelled.std(axis=0, dtype=np.float64)
    # Rounding leaves the deviation of a constant column just above zero.
    deviation[labelled.min(axis=0) == labelled.max(axis=0)] = 1
    return ((series.values - labelled.mean(axis=0, dtype=np.float64)) / deviation).astype(np.float32)


# Contents and defects of a release.


def _keys(report: HharReport) -> set[tuple[str, str]]:
    return {(part.user, part.device) for part in report.parts}


def _check_file(path: Path, bar: Bar) -> HharReport:
    defects: list[DataError] = []
    unlisted = 0

    def report(defect: DataError) -> None:
        nonlocal unlisted
        if len(defects) < _LISTED_DEFECTS:
            defects.append(defect)
        else:
            unlisted += 1

    try:
        samples = _read_file(path, None, report, bar)
    except DataError as defect:
        return HharReport((), (defect,))
    if unlisted:
        defects.append(DataError(path, f"{unlisted} more malformed rows", "none"))
    parts = tuple(_part(path, user, device, samples[user, device]) for user, device in sorted(samples))
    return HharReport(parts, (*defects, *_missing_activities(path, parts)))


def _part(path: Path, user: str, device: str, series: _Series) -> HharPart:
    per_second = np.unique(series.times // 1000, return_counts=True)[1]
    steps = np.diff(series.times) / 1000
    shares = np.bincount(series.codes, minlength=len(CODES)) / len(series.times)
    return HharPart(
        file=path.name,
        user=user,
        device=device,
        samples=len(series.times),
        rate=float(np.median(per_second)),
        duration=float(steps[steps <= 1].sum()),
        shares={name: float(shares[code]) for name, code in CODES.items()},
    )


def _missing_activities(path: Path, parts: Sequence[HharPart]) -> list[DataError]:
    done: dict[str, set[str]] = defaultdict(set)
    for part in parts:
        done[part.user].update(name for name, share in part.shares.items() if share)
    return [
        DataError(path, f"no {', '.join(missing)} of user {user}", "every activity of every user")
        for user, names in done.items()
        if (missing := [name for name in ACTIVITY.classes if name not in names])
    ]


def _unpaired(paths: Sequence[Path], *keys: Collection[tuple[str, str]]) -> list[DataError]:
    """An error for each user and device that only one of the two files holds."""
    defects = []
    for having, lacking in ((0, 1), (1, 0)):
        for user, device in sorted(set(keys[having]) - set(keys[lacking])):
            if device.rpartition("_")[0] not in WITHOUT_GYROSCOPE:
                found = f"no samples of user {user}, device {device}"
                defects.append(DataError(paths[lacking], found, f"some, as in {paths[having].name}"))
    return defects
