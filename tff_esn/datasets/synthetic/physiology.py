"""Generated subjects: WESAD's protocol, the body's response to it, and the sensors on it.

A subject is drawn in three steps: the protocol, the body's response to it (arousal, movement,
breathing and heartbeats on one clock), and the signal of each sensor.
Wave shapes come from NeuroKit2's simulators. Those keep one rate for a whole call, so beats and
breaths are simulated one per unit of time and then stretched to the rate the body has at each
moment: rates change smoothly and no stretch of the protocol has a seam.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tff_esn.datasets.recording import BASELINE, STRESS_CODE, Recording, Signal
from tff_esn.datasets.wesad import CHEST_RATES, LABEL_RATE, WRIST_RATES
from tff_esn.errors import ConfigError
from tff_esn.lazy import LazyModule
from tff_esn.seeds import generator_for, seed_for

nk, filters, stats = LazyModule("neurokit2"), LazyModule("scipy.signal"), LazyModule("scipy.stats")

#: Raised whenever the same options give other signals, so that caches are made anew.
VERSION = 1
MINUTES_AT_LEAST = 1.0
DECIMALS = {"ACC": 0, "BVP": 2, "EDA": 6, "TEMP": 2}

_TRANSIENT, _AMUSEMENT, _MEDITATION, _READING = 0, 3, 4, (5, 6, 7)
_BODY_RATE = 16
_WAVE_RATE = 256

Array = NDArray[np.float64]


def subject_names(count: int) -> tuple[str, ...]:
    """The first `count` subjects; WESAD has no S1 and no S12."""
    if count < 1:
        raise ConfigError(f"subjects is {count}; expected at least 1")
    return tuple(f"S{number}" for number in range(2, count + 3) if number != 12)[:count]


SUBJECTS = subject_names(15)


@dataclass(frozen=True)
class Streams:
    """Randomness of one subject, a stream for each purpose."""

    seed: int
    subject: str

    def generator(self, purpose: str) -> Generator:
        """A NumPy generator."""
        return generator_for(self.seed, "wesad", self.subject, purpose)

    def integer(self, purpose: str) -> int:
        """A seed for NeuroKit's simulators."""
        return seed_for(self.seed, "wesad", self.subject, purpose)


# --- protocol ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Stretch:
    """A part of the protocol, from `start` to `end` in whole seconds."""

    code: int
    start: int
    end: int


# Typical lengths in seconds, as (code, length); scaled to the length asked for.
_STRESS_FIRST = (
    *((0, 350), (1, 1150), (0, 45), (5, 65), (0, 650), (2, 640), (0, 300), (6, 60), (0, 1050)),
    *((4, 395), (0, 310), (3, 372), (0, 160), (7, 60), (0, 210), (4, 385), (0, 290)),
)
_AMUSEMENT_FIRST = (
    *((0, 300), (1, 1150), (0, 45), (5, 60), (0, 290), (3, 372), (0, 240), (7, 60), (0, 180)),
    *((4, 400), (0, 530), (2, 640), (0, 250), (6, 60), (0, 1150), (4, 390), (0, 340)),
)


def _position(subject: str) -> int:
    number = int(subject[1:]) if re.fullmatch(r"S[1-9]\d*", subject) else 0
    if number < 2 or number == 12:
        raise ConfigError(f"subject is {subject!r}; expected S and a number from 2 on, other than 12")
    return number - 2 - (number > 12)


def draw_protocol(streams: Streams, minutes: float) -> tuple[_Stretch, ...]:
    """The protocol: WESAD's stretches in one of its two orders, scaled to `minutes`."""
    if not (math.isfinite(minutes) and minutes >= MINUTES_AT_LEAST):
        raise ConfigError(f"minutes is {minutes:g}; expected at least {MINUTES_AT_LEAST:g}")
    seconds = round(minutes * 60)
    codes, typical = zip(*(_STRESS_FIRST, _AMUSEMENT_FIRST)[_position(streams.subject) % 2])
    jitter = np.where(np.array(codes) == _TRANSIENT, 0.25, 0.06)
    lengths = np.array(typical) * streams.generator("protocol").uniform(1 - jitter, 1 + jitter)
    # Keeps every stretch at a second or more in the shortest of recordings.
    lengths = np.maximum(lengths, 1.6 * lengths.sum() / seconds)
    bounds = np.rint(np.cumsum([0, *lengths]) / lengths.sum() * seconds).astype(int).tolist()
    return tuple(_Stretch(*stretch) for stretch in zip(codes, bounds, bounds[1:]))


def _over_time(protocol: Sequence[_Stretch], values: Sequence[float] | Array, rate: int) -> NDArray:
    """One value per stretch, at `rate` Hz."""
    return np.repeat(values, [(stretch.end - stretch.start) * rate for stretch in protocol])


# --- body -------------------------------------------------------------------------------------

# Mean and spread of the arousal in each part; baseline is 0 and the stressor 1.
_AROUSAL = {
    _TRANSIENT: (0.15, 0.25),
    BASELINE: (0.0, 0.05),
    STRESS_CODE: (1.0, 0.2),
    _AMUSEMENT: (0.15, 0.15),
    _MEDITATION: (-0.05, 0.08),
    **{code: (0.15, 0.1) for code in _READING},
}
# Share of the time with an arm in motion.
_MOVING = {
    _TRANSIENT: 0.3,
    BASELINE: 0.06,
    STRESS_CODE: 0.12,
    _AMUSEMENT: 0.03,
    _MEDITATION: 0.01,
    **{code: 0.12 for code in _READING},
}


@dataclass(frozen=True)
class _Traits:
    """Parameters that differ between subjects."""

    heart_rate: float
    heart_response: float
    conductance: float
    reactivity: float
    settling: float
    response_rate: float
    breathing_rate: float
    temperature: float
    pulse: float
    noise: float

    @classmethod
    def draw(cls, random: Generator) -> _Traits:
        """Draws a subject; one in eight hardly sweats under stress."""
        responds = random.random() > 1 / 8
        return cls(
            heart_rate=float(np.clip(random.normal(72, 7), 58, 88)),
            heart_response=random.normal(14, 8),
            conductance=float(np.clip(random.lognormal(0.0, 0.7), 0.3, 4.0)),
            reactivity=float(np.clip(random.lognormal(0.4, 0.7), 0.3, 5.0)) * (1.0 if responds else 0.06),
            settling=random.uniform(0.0, 0.8),
            response_rate=random.uniform(1.0, 4.0),
            breathing_rate=random.normal(15, 2),
            temperature=random.normal(33, 0.8),
            pulse=random.uniform(30, 70),
            noise=random.lognormal(0, 0.4),
        )


@dataclass(frozen=True)
class _Body:
    """The body's course, at `_BODY_RATE` Hz.

    Attributes:
        arousal: What skin vessels and muscles follow; about 1 under stress.
        sweat: Skin conductance in microsiemens.
        beats: Heartbeats since the start, as a real number.
        breath: Chest expansion, about -0.4 to 0.4.
        motion: How strongly the arm moves; 0 at rest, about 1 in motion.
    """

    arousal: Array
    sweat: Array
    beats: Array
    breath: Array
    motion: Array


def _wander(random: Generator, steps: int, seconds: float, rate: float = _BODY_RATE) -> Array:
    """A smooth stationary process of mean 0 and deviation 1 that forgets in about `seconds`."""
    pole = math.exp(-2 / (seconds * rate))
    before = math.ceil(4 * seconds * rate)
    drive = random.normal(size=before + steps) * math.sqrt((1 - pole**2) ** 3 / (1 + pole**2))
    return filters.lfilter([1.0], [1.0, -2 * pole, pole**2], drive)[before:]


def _follow(target: Array, rise: float, fall: float, start: float) -> Array:
    """Approaches `target` with time constants `rise` and `fall` in seconds."""
    up, down = (1 - math.exp(-1 / (seconds * _BODY_RATE)) for seconds in (rise, fall))
    path, value = [], start
    for goal in target.tolist():
        value += (goal - value) * (up if goal > value else down)
        path.append(value)
    return np.array(path)


def _drive(random: Generator, protocol: Sequence[_Stretch]) -> Array:
    """Arousal asked for by the protocol: a level per stretch, rising before the stressor."""
    levels = [random.normal(*_AROUSAL[stretch.code]) for stretch in protocol]
    drive = _over_time(protocol, levels, _BODY_RATE)
    before = protocol[[stretch.code for stretch in protocol].index(STRESS_CODE) - 1]
    waiting = slice(before.start * _BODY_RATE, before.end * _BODY_RATE)
    drive[waiting] += np.linspace(0, random.uniform(0, 0.6), drive[waiting].size)
    return drive


def _waves(simulate: Callable[..., Array], cycles: Array, **options: Any) -> Array:
    """A rhythmic signal at the moments given as cycles since the start.

    Args:
        simulate: A NeuroKit simulator, asked for one cycle per second.
        cycles: Rising, at whatever rate the signal is wanted.
        options: The simulator's other arguments.
    """
    # A few more than needed, because simulators leave the last cycles unfinished.
    wave = simulate(duration=math.ceil(cycles[-1]) + 5, sampling_rate=_WAVE_RATE, **options)
    return np.interp(cycles * _WAVE_RATE, np.arange(len(wave)), wave)


def _sweat(streams: Streams, traits: _Traits, arousal: Array) -> Array:
    """Skin conductance: a level and, the more often the higher the arousal, responses on top."""
    random = streams.generator("sweat")
    drift = 0.15 * _wander(random, len(arousal), len(arousal) / _BODY_RATE / 6)
    sweat = traits.conductance * np.exp(drift + np.minimum(arousal, 0)) + traits.reactivity * np.maximum(arousal, 0)
    rate = traits.response_rate * (1 + 3 * np.clip(arousal, 0, 1.5))
    onsets = np.flatnonzero(random.random(len(arousal)) < rate / 60 / _BODY_RATE)
    sizes = random.lognormal(-2.7, 0.6, len(onsets)) * (0.4 * traits.conductance + traits.reactivity)
    for onset, size, shape in zip(onsets, sizes, random.integers(2**31, size=len(onsets)).tolist()):
        # One at a time, because the simulator would space them evenly; read at a quarter of
        # the rate it was made for, because its response is that much shorter than a hand's.
        response = nk.eda_simulate(
            duration=9, sampling_rate=4 * _BODY_RATE, scr_number=1, noise=0, drift=0, random_state=shape
        )
        part = sweat[onset : onset + len(response)]
        part += size * (response[: len(part)] - 1)
    return sweat


def _body(streams: Streams, traits: _Traits, protocol: Sequence[_Stretch]) -> _Body:
    random = streams.generator("body")
    steps = protocol[-1].end * _BODY_RATE
    # The shorter the protocol, the faster the body, so that a short recording shows the same picture.
    pace = protocol[-1].end / 6400
    arousal = _drive(random, protocol) + 0.08 * _wander(random, steps, 120 * pace)
    arousal = _follow(arousal, 90 * pace, 350 * pace, start=traits.settling)

    heart_drive = _follow(_drive(random, protocol), 25 * pace, 50 * pace, start=0.3)
    breathing_rate = traits.breathing_rate + 2 * heart_drive + 1.5 * _wander(random, steps, 30)
    breaths = np.cumsum(np.clip(breathing_rate, 7, 26)) / 60 / _BODY_RATE
    shapes = streams.integer("breathing")
    breath = _waves(nk.rsp_simulate, breaths, respiratory_rate=60, noise=0, random_state=shapes)

    share = _over_time(protocol, [_MOVING[stretch.code] for stretch in protocol], _BODY_RATE)
    motion = np.maximum(0, _wander(random, steps, 4) - stats.norm.ppf(1 - share))

    # The heart beats faster while breathing in (respiratory sinus arrhythmia) and when moving.
    heart_rate = traits.heart_rate + traits.heart_response * heart_drive + 8 * breath
    heart_rate += 4 * _wander(random, steps, 40) + 4 * _follow(motion, 5, 20, start=0.0)
    beats = np.cumsum(np.clip(heart_rate, 45, 150)) / 60 / _BODY_RATE
    return _Body(arousal, _sweat(streams, traits, arousal), beats, breath, motion)


# --- sensors ----------------------------------------------------------------------------------


def _sampled(course: Array, rate: int) -> Array:
    """A course of the body at a sensor's rate."""
    steps = len(course) * rate // _BODY_RATE
    return np.interp(np.arange(steps) / rate, np.arange(len(course)) / _BODY_RATE, course)


def _shaking(random: Generator, motion: Array, rate: int) -> Array:
    """What a sensor picks up of the motion around it: swings of less than a second."""
    return motion * _wander(random, len(motion), 0.1, rate)


def _gravity(random: Generator, motion: Array, rate: int, spread: float) -> NDArray:
    """Direction of gravity, `(samples, 3)`: it turns as far as the body moves, and rests with it."""
    distance = np.cumsum(motion) / rate
    grid = np.arange(0, distance[-1] + 1, 0.1)
    turns = [np.interp(distance, grid, _wander(random, len(grid), 15, rate=10)) for _ in range(3)]
    direction = spread * np.stack(turns, axis=1)
    direction[:, 0] += random.choice([-1, 1])
    return direction / np.linalg.norm(direction, axis=1, keepdims=True)


def _acceleration(random: Generator, motion: Array, rate: int, spread: float, noise: float) -> NDArray:
    """Acceleration in g, `(samples, 3)`."""
    shaking = np.stack([_shaking(random, motion, rate) for _ in range(3)], axis=1)
    return _gravity(random, motion, rate, spread) + 0.25 * shaking + random.normal(0, noise, shaking.shape)


def _blood_volume_pulse(streams: Streams, traits: _Traits, body: _Body) -> Array:
    random, rate = streams.generator("wrist/BVP"), WRIST_RATES["BVP"]
    # All that NeuroKit would vary or add is left to the body and the motion.
    plain = dict.fromkeys(("frequency_modulation", "ibi_randomness", "drift", "motion_amplitude"), 0)
    plain.update(powerline_amplitude=0, burst_amplitude=0, random_state=streams.integer("pulse"))
    pulse = _waves(nk.ppg_simulate, _sampled(body.beats, rate), heart_rate=60, **plain)
    # Vessels narrow under stress, and the waves get smaller.
    size = traits.pulse * (1 - 0.3 * np.clip(_sampled(body.arousal, rate), 0, 1.5))
    motion = 60 * _shaking(random, _sampled(body.motion, rate), rate)
    return size * (pulse - pulse.mean()) + motion + random.normal(0, traits.noise, len(pulse))


def _skin_conductance(streams: Streams, traits: _Traits, body: _Body) -> Array:
    random = streams.generator("wrist/EDA")
    artefacts = 1 + 0.03 * _shaking(random, body.motion, _BODY_RATE)
    eda = _sampled(body.sweat * artefacts, WRIST_RATES["EDA"])
    return eda + random.normal(0, 0.004 * traits.noise, len(eda))


def _skin_temperature(streams: Streams, traits: _Traits, body: _Body) -> Array:
    random = streams.generator("wrist/TEMP")
    seconds = len(body.arousal) / _BODY_RATE
    cooling = 0.9 * _follow(body.arousal, seconds / 10, seconds / 10, start=0.0)
    temp = traits.temperature - cooling + 0.4 * _wander(random, len(cooling), seconds / 3)
    temp = _sampled(temp, WRIST_RATES["TEMP"])
    return temp + random.normal(0, 0.01, len(temp))


def _wrist(streams: Streams, traits: _Traits, body: _Body) -> dict[str, NDArray]:
    """The Empatica E4: acceleration in 1/64 g, pulse in its own unit, microsiemens and degrees Celsius."""
    rate = WRIST_RATES["ACC"]
    acc = 64 * _acceleration(streams.generator("wrist/ACC"), _sampled(body.motion, rate), rate, 0.6, noise=0.008)
    values = {
        "ACC": np.clip(acc, -128, 127),
        "BVP": _blood_volume_pulse(streams, traits, body),
        "EDA": _skin_conductance(streams, traits, body),
        "TEMP": _skin_temperature(streams, traits, body),
    }
    # Adding 0 turns the -0.0 of rounding into 0.
    return {sensor: np.round(values[sensor], decimals) + 0.0 for sensor, decimals in DECIMALS.items()}


def _muscle(streams: Streams, protocol: Sequence[_Stretch]) -> Array:
    """Electromyogram in mV: bursts as often as each part of the protocol has a subject move."""
    pieces = [
        nk.emg_simulate(
            duration=stretch.end - stretch.start,
            sampling_rate=LABEL_RATE,
            burst_number=int(_MOVING[stretch.code] * (stretch.end - stretch.start)),
            burst_duration=0.5,
            random_state=streams.integer(f"muscle {number}"),
        )
        for number, stretch in enumerate(protocol)
    ]
    # The simulator centres on 0.08.
    return 0.03 * (np.concatenate(pieces) - 0.08)


def _chest(streams: Streams, traits: _Traits, body: _Body, protocol: Sequence[_Stretch]) -> dict[str, NDArray]:
    """The RespiBAN: acceleration in g, ECG and EMG in mV, microsiemens, degrees Celsius and per cent."""
    random, rate = streams.generator("chest"), LABEL_RATE
    motion = 0.3 * _sampled(body.motion, rate)
    breath = _sampled(body.breath, rate)

    def disturbance(shaking: float, noise: float) -> Array:
        return shaking * _shaking(random, motion, rate) + random.normal(0, noise, len(motion))

    acc = _acceleration(random, motion, rate, 0.2, noise=0.003)
    acc[:, 2] += 0.02 * breath
    ecg = _waves(nk.ecg_simulate, _sampled(body.beats, rate), heart_rate=60, noise=0, method="simple")
    temp = traits.temperature + 1 + 0.2 * _wander(random, len(body.arousal), len(body.arousal) / _BODY_RATE / 3)
    return {
        "ACC": acc,
        "ECG": 0.15 * ecg + 0.05 * breath + disturbance(0.1, 0.01 * traits.noise),
        "EMG": _muscle(streams, protocol),
        "EDA": 1 + 1.5 * _sampled(body.sweat, rate) + disturbance(0, 0.01 * traits.noise),
        "Temp": (_sampled(temp, rate) + disturbance(0, 0.01)).astype(np.float32),
        "Resp": 12 * breath + disturbance(2, 0.05),
    }


@contextmanager
def _global_state_kept() -> Iterator[None]:
    """NeuroKit seeds NumPy's global generator, which is not ours to change."""
    state = np.random.get_state()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        np.random.set_state(state)


def generate_subject(subject: str, *, minutes: float = 45.0, chest: bool = True, seed: int = 0) -> Recording:
    """Generates one subject with WESAD's protocol, sensors, rates and units.

    Stress raises skin conductance, the rate of its responses and the heart rate, by amounts that
    differ from subject to subject; other parts of the protocol overlap with it, as they do in WESAD.

    Args:
        subject: `S2`, `S3` and so on; the order of the protocol alternates from one to the next.
        minutes: Length of the recording, to the second; WESAD's last about 100.
        chest: Whether to generate the 700 Hz signals of the chest as well. The wrist's do not depend on it.
        seed: Seed of everything about the subject.
    """
    streams = Streams(seed, subject)
    protocol = draw_protocol(streams, minutes)
    traits = _Traits.draw(streams.generator("traits"))
    with _global_state_kept():
        body = _body(streams, traits, protocol)
        wrist = _wrist(streams, traits, body)
        extra = _chest(streams, traits, body, protocol) if chest else {}
    signals = {f"wrist/{sensor}": Signal(values, WRIST_RATES[sensor]) for sensor, values in wrist.items()}
    signals.update({f"chest/{sensor}": Signal(values, CHEST_RATES[sensor]) for sensor, values in extra.items()})
    codes = _over_time(protocol, [stretch.code for stretch in protocol], LABEL_RATE).astype(np.int32)
    return Recording(subject, signals, Signal(codes, LABEL_RATE), Path(subject))
