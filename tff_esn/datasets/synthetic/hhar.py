"""Generated users in the layout of the public HHAR release.

Every user carries the same devices through six activities, with transitions between
them and one pause. A movement is a periodic swing about the direction of gravity; its
tempo and strength depend on the activity and the user, how it shows on the three axes
on the device. Walking and the two directions on stairs overlap between users, as do
sitting and standing in posture, so that no threshold separates them.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tff_esn.console import progress
from tff_esn.datasets.hhar import COLUMNS, MODELS, SENSORS, USERS, WITHOUT_GYROSCOPE, Kind, Sensor, sensor_file
from tff_esn.datasets.synthetic import is_generated, mark_generated
from tff_esn.datasets.tables import ACTIVITY
from tff_esn.errors import ConfigError
from tff_esn.lazy import LazyModule
from tff_esn.seeds import generator_for
from tff_esn.store.files import atomic_write
from tff_esn.store.json_values import fingerprint

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = LazyModule("pandas")

RATES = {"nexus4": 200.0, "s3": 150.0, "s3mini": 100.0, "samsungold": 50.0, "gear": 100.0, "lgwatch": 200.0}

_EPOCH_MS = 1_424_696_633_908  # the first arrival time of the release
_DAY_MS = 86_400_000
_PAUSE_SECONDS = 30.0
_CHUNK_ROWS = 100_000
_GRAVITY = 9.81


@dataclass(frozen=True)
class _Motion:
    """An activity: cycles per second, swing in m/s^2, turn in rad/s, posture in rad."""

    tempo: float
    swing: float
    turn: float
    tilt: float


_MOTIONS = {
    "bike": _Motion(tempo=1.2, swing=1.4, turn=0.9, tilt=0.6),
    "sit": _Motion(tempo=0.25, swing=0.08, turn=0.03, tilt=0.8),
    "stand": _Motion(tempo=0.3, swing=0.12, turn=0.05, tilt=0.2),
    "walk": _Motion(tempo=1.8, swing=2.4, turn=1.0, tilt=0.25),
    "stairsup": _Motion(tempo=1.5, swing=2.1, turn=1.2, tilt=0.4),
    "stairsdown": _Motion(tempo=2.0, swing=3.0, turn=1.1, tilt=0.15),
    "null": _Motion(tempo=0.7, swing=0.8, turn=0.5, tilt=0.4),
}
_NOISE: dict[Sensor, float] = {"accelerometer": 0.3, "gyroscope": 0.08}


@dataclass(frozen=True)
class _Bout:
    """A stay in one activity, in seconds since the user's recording began."""

    activity: str
    start: float
    stop: float


@dataclass(frozen=True)
class _Wearer:
    """What all devices of a user have in common."""

    name: str
    bouts: tuple[_Bout, ...]
    motions: dict[str, _Motion]
    phase: float


@dataclass(frozen=True)
class _Unit:
    """One sensor of one device: where it is worn, how well it is made, how its clock runs."""

    sensor: Sensor
    rate: float
    offset: float
    weights: NDArray[np.float64]
    lags: NDArray[np.float64]
    gain: float
    bias: NDArray[np.float64]
    tilt: float


def write_hhar(
    out: Path,
    *,
    users: int = 9,
    seconds: float = 20.0,
    seed: int = 0,
    models: Sequence[str] = tuple(RATES),
    devices: int = 1,
) -> None:
    """Writes generated recordings as the CSV files of the release.

    The same seed gives the same rows for a user and device whatever else is written.
    The files of a kind of device (phones, watches) are written if `models` has one of
    that kind; each replaces an older file only when it is complete.

    Args:
        out: The folder to write to; it is made if need be.
        users: Number of users, from `a` on.
        seconds: Length of each activity; a transition between two takes a tenth of it.
        seed: Seed of all random choices.
        models: Models of the devices that every user carries.
        devices: Devices of each model; the release has two.

    Raises:
        ConfigError: A setting is out of its range.
    """
    _check_settings(users, seconds, models, devices)
    for kind, known in MODELS.items():
        names = [f"{model}_{number + 1}" for model in known if model in models for number in range(devices)]
        if names:
            _write_kind(out, kind, [_wearer(seed, user, seconds) for user in USERS[:users]], names, seed)
    mark_generated(out, {"users": users, "seconds": seconds, "seed": seed, "models": list(models), "devices": devices})


def ensure_hhar(cache: Path, *, users: int = 9, seconds: float = 20.0, make: bool = True, seed: int = 0) -> Path:
    """The folder of generated users below `cache`, with the phones that the documents use, written once.

    Args:
        cache: Where such folders lie.
        users: Number of users.
        seconds: Length of each activity.
        make: Whether they are written if they are not there.
        seed: Seed of everything generated.
    """
    folder = cache / f"hhar-{fingerprint(['nexus4', users, float(seconds), seed])[:12]}"
    if make and not is_generated(folder):
        write_hhar(folder, users=users, seconds=seconds, seed=seed, models=("nexus4",))
    return folder


def _check_settings(users: int, seconds: float, models: Sequence[str], devices: int) -> None:
    if not 1 <= users <= len(USERS):
        raise ConfigError(f"users: {users}; expected 1 to {len(USERS)}")
    if not 0 < seconds < math.inf:
        raise ConfigError(f"seconds: {seconds}; expected a positive number")
    if not models or not RATES.keys() >= set(models):
        raise ConfigError(f"models: {', '.join(models) or 'none'}; expected some of {', '.join(RATES)}")
    if devices < 1:
        raise ConfigError(f"devices: {devices}; expected 1 or more")


def _write_kind(out: Path, kind: Kind, wearers: Sequence[_Wearer], devices: Sequence[str], seed: int) -> None:
    """Writes both sensors of all devices of a kind, user after user and device after device."""
    parts = [(wearer, device) for wearer in wearers for device in devices]
    with progress(f"Writing HHAR {kind}", len(parts)) as bar, ExitStack() as stack:
        files = {sensor: stack.enter_context(_replacing(out / sensor_file(kind, sensor))) for sensor in SENSORS}
        for file in files.values():
            file.write(",".join(COLUMNS) + "\n")
        for wearer, device in parts:
            rng = generator_for(seed, "hhar", wearer.name, device)
            for sensor, file in files.items():
                for rows in _recorded(wearer, device, sensor, rng):
                    rows.to_csv(file, header=False, index=False)
            bar.advance(note=f"{wearer.name} {device}")


@contextmanager
def _replacing(path: Path) -> Iterator[IO[str]]:
    """Opens a text file that takes the place of `path` only if the block succeeds."""
    with atomic_write(path) as binary:
        file = io.TextIOWrapper(binary, encoding="utf-8", newline="")
        yield file
        file.detach()  # Flushed, and still open: it is not complete before it has its name.


def _wearer(seed: int, name: str, seconds: float) -> _Wearer:
    rng = generator_for(seed, "hhar", name)
    order = [ACTIVITY.classes[label] for label in rng.permutation(len(ACTIVITY.classes))]
    motions = {
        activity: _Motion(
            tempo=motion.tempo * rng.lognormal(0, 0.08),
            swing=motion.swing * rng.lognormal(0, 0.2),
            turn=motion.turn * rng.lognormal(0, 0.2),
            tilt=motion.tilt + rng.normal(0, 0.2),
        )
        for activity, motion in _MOTIONS.items()
    }
    return _Wearer(name, _bouts(order, seconds), motions, phase=rng.uniform(0, 2 * np.pi))


def _bouts(order: Sequence[str], seconds: float) -> tuple[_Bout, ...]:
    """The activities with a transition between any two and a pause halfway."""
    bouts: list[_Bout] = []
    now = 0.0
    for number, activity in enumerate(order):
        if number:
            bouts.append(_Bout("null", now, now + seconds / 10))
            now += seconds / 10
        if number == len(order) // 2:
            now += _PAUSE_SECONDS
        bouts.append(_Bout(activity, now, now + seconds))
        now += seconds
    return tuple(bouts)


def _unit(sensor: Sensor, model: str, rng: np.random.Generator) -> _Unit:
    return _Unit(
        sensor=sensor,
        rate=RATES[model] * rng.normal(1, 0.001),
        offset=rng.uniform(),
        weights=rng.normal([0.4, 0.6, 1.0], 0.15),
        lags=rng.uniform(0, np.pi, 3),
        gain=rng.normal(1, 0.03),
        bias=rng.normal(0, 0.05, 3),
        tilt=rng.normal(0, 0.1),
    )


def _recorded(wearer: _Wearer, device: str, sensor: Sensor, rng: np.random.Generator) -> Iterator[pd.DataFrame]:
    """The rows of one sensor of a device, a part of a bout at a time."""
    model = device.rpartition("_")[0]
    if sensor == "gyroscope" and model in WITHOUT_GYROSCOPE:
        return
    unit = _unit(sensor, model, rng)
    index = 0
    for bout in wearer.bouts:
        begin, end = (math.ceil(moment * unit.rate - unit.offset) for moment in (bout.start, bout.stop))
        for tick in range(begin, end, _CHUNK_ROWS):
            times = (np.arange(tick, min(tick + _CHUNK_ROWS, end)) + unit.offset) / unit.rate
            axes = _measured(wearer, unit, wearer.motions[bout.activity], times, rng).round(7)
            arrival, creation = _stamps(wearer, times, rng)
            columns = (
                index + np.arange(len(times)),
                arrival,
                creation,
                *axes.T,
                wearer.name,
                model,
                device,
                bout.activity,
            )
            yield pd.DataFrame(dict(zip(COLUMNS, columns)))
            index += len(times)


def _measured(
    wearer: _Wearer, unit: _Unit, motion: _Motion, times: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """What a sensor measures of a motion: `(samples, 3)`."""
    # Human movement is not strictly periodic: tempo and strength drift slowly.
    wander = 0.6 * np.sin(2 * np.pi * 0.07 * times + wearer.phase)
    strength = 1 + 0.25 * np.sin(2 * np.pi * 0.11 * times + 2 * wearer.phase)
    cycles = (2 * np.pi * motion.tempo * times + wander)[:, None] + unit.lags
    # Two overtones give a step its impact.
    wave = np.sin(cycles) + np.sin(2 * cycles) / 2 + np.sin(3 * cycles) / 3
    amplitude, rest = motion.turn, np.zeros(3)
    if unit.sensor == "accelerometer":
        tilt = motion.tilt + unit.tilt
        amplitude, rest = motion.swing, _GRAVITY * np.array([np.sin(tilt), 0.0, np.cos(tilt)])
    ideal = rest + amplitude * unit.weights * strength[:, None] * wave
    return unit.gain * ideal + unit.bias + rng.normal(0, _NOISE[unit.sensor], ideal.shape)


def _stamps(
    wearer: _Wearer, times: NDArray[np.float64], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Arrival times in ms, late by a random while, and creation times in ns."""
    began = _EPOCH_MS + USERS.index(wearer.name) * _DAY_MS
    arrival = began + np.rint(1e3 * times + rng.exponential(2, len(times))).astype(np.int64)
    # Some samples are delivered together with the next one.
    held = np.flatnonzero(rng.random(len(times) - 1) < 0.02)
    arrival[held] = arrival[held + 1]
    # In the release, the sensors' clock is about two seconds behind.
    creation = (began - 1995) * 1_000_000 + np.rint(1e9 * times + rng.normal(0, 2e4, len(times))).astype(np.int64)
    return arrival, creation
