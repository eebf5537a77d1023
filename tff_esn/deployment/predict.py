"""Answers of a trained model, step by step or for a whole recording.

A model with reading `carried` keeps its state from step to step. One with reading `window` answers
from the last inputs alone, read from a zero state, and has no answer (NaN) until there are enough
of them. Either way the answers are those of the Keras model.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Union

import numpy as np
from numpy.typing import NDArray

from tff_esn.config import ExtractionConfig
from tff_esn.datasets.e4 import CODE_RATE, codes_from_intervals, read_e4_folder, read_label_intervals
from tff_esn.datasets.recording import Recording, Signal
from tff_esn.datasets.study import Study, chosen_subjects, open_study
from tff_esn.datasets.wesad import BASELINE, WesadStudy, read_wesad_subject
from tff_esn.deployment.export import TFLITE, load_model, open_tflite
from tff_esn.deployment.keras_model import ModelCard, TrainedEsn
from tff_esn.errors import ConfigError, DataError
from tff_esn.features.extraction import extract, standardize
from tff_esn.features.inputs import carried_input
from tff_esn.features.windows import normalized_windows
from tff_esn.presets import PRESETS
from tff_esn.readout.readout import squeeze_single
from tff_esn.reservoir.states import joint_kernel, last_states

#: A probability, or one for each class of more than two.
Answer = Union[np.floating, NDArray]
_LARGEST = float(np.finfo(np.float32).max)
_SHOWN_CHARACTERS = 60


class Predictor(Protocol):
    """A model that is fed step by step."""

    def step(self, features: NDArray) -> Answer:
        """The answer after one more input `(n,)`."""

    def run(self, series: NDArray) -> NDArray:
        """The answers after each of `(steps, n)` inputs: those of as many calls of `step`, to the last bit."""

    def windows(self, values: NDArray) -> NDArray:
        """The answers to whole sequences `(sequences, steps, n)`, each read from a zero state."""

    def reset(self) -> None:
        """Forgets all inputs so far."""


def open_predictor(source: Path) -> tuple[Predictor, ModelCard]:
    """A predictor of a run's folder or an exported file: TensorFlow Lite's for a `.tflite`, else NumPy's."""
    if source.suffix == TFLITE:
        interpreter, card = open_tflite(source)
        return TflitePredictor(interpreter, card), card
    trained, card = load_model(source)
    return NumpyPredictor(trained, card), card


class NumpyPredictor:
    """A model on NumPy alone, in buffers made once.

    With reading `window` and T steps, T states advance side by side, one begun at each of the last T
    inputs: at each step one of them has seen exactly the last T inputs, and one product has
    advanced all.
    """

    def __init__(self, trained: TrainedEsn, card: ModelCard) -> None:
        weights = trained.weights
        self._trained = trained
        self._rows = card.steps if card.inputs.reading == "window" else 1
        self._restarts = card.inputs.reading == "window"
        # Columns: state, input, and 1 for the bias, so that one product is the whole drive.
        self._kernel = joint_kernel(weights)
        self._joint = np.zeros((self._rows, len(self._kernel)), np.float32)
        self._joint[:, -1] = 1
        self._states, self._inputs = self._joint[:, : weights.units], self._joint[:, weights.units : -1]
        self._drive = np.empty((self._rows, weights.units), np.float32)
        self._keep, self._take = np.float32(1 - weights.leaking_rate), np.float32(weights.leaking_rate)
        self._readout_kernel = trained.readout.kernel.astype(np.float32)
        self._count = 0

    def step(self, features: NDArray) -> Answer:
        """The answer after one more input `(n,)`."""
        return self.run(np.asarray(features)[None])[0]

    def run(self, series: NDArray) -> NDArray:
        """The answers after each of `(steps, n)` inputs."""
        series = _checked(series, ("steps",), self._trained.weights.inputs)
        products = np.empty((len(series), self._readout_kernel.shape[1]), np.float32)
        for features, product in zip(series, products):
            self._advance(features, product)
        return self._trained.readout.activate(products)

    def windows(self, values: NDArray) -> NDArray:
        """The answers to whole sequences `(sequences, steps, n)`, each read from a zero state."""
        return self._trained.readout.outputs(last_states(values, self._trained.weights))

    def reset(self) -> None:
        """Forgets all inputs so far."""
        self._states[:] = 0
        self._count = 0

    def _advance(self, features: NDArray, product: NDArray) -> None:
        if self._restarts:
            self._states[self._count % self._rows] = 0
        self._inputs[:] = features
        np.dot(self._joint, self._kernel, out=self._drive)
        np.tanh(self._drive, out=self._drive)
        np.multiply(self._drive, self._take, out=self._drive)
        np.multiply(self._states, self._keep, out=self._states)
        np.add(self._states, self._drive, out=self._states)
        self._count += 1
        if self._count < self._rows:
            product[:] = np.nan
        else:
            np.dot(self._states[self._count % self._rows], self._readout_kernel, out=product)


class TflitePredictor:
    """A model on TensorFlow Lite's interpreter.

    Args:
        interpreter: An exported step, from `tff_esn.deployment.export.open_tflite`.
        card: The model's card.
    """

    def __init__(self, interpreter: Any, card: ModelCard) -> None:
        self._invoke = interpreter.get_signature_runner()
        self._zero = np.zeros(self._invoke.get_input_details()["state"]["shape"], np.float32)
        self._outputs = self._invoke.get_output_details()["probability"]["shape"][1]
        self._features = len(card.inputs.features)
        self._carried = card.inputs.reading == "carried"
        self._recent: deque[NDArray] = deque(maxlen=card.steps)
        self.reset()

    def step(self, features: NDArray) -> Answer:
        """The answer after one more input `(n,)`."""
        return self.run(np.asarray(features)[None])[0]

    def run(self, series: NDArray) -> NDArray:
        """The answers after each of `(steps, n)` inputs."""
        series = _checked(series, ("steps",), self._features)
        return self._collected(len(series), map(self._next, series))

    def windows(self, values: NDArray) -> NDArray:
        """The answers to whole sequences `(sequences, steps, n)`, each read from a zero state."""
        values = _checked(values, ("sequences", "steps"), self._features)
        return self._collected(len(values), (self._read(window, self._zero)[0] for window in values))

    def reset(self) -> None:
        """Forgets all inputs so far."""
        self._state = self._zero
        self._recent.clear()

    def _next(self, features: NDArray) -> Any:
        if self._carried:
            answer, self._state = self._read([features], self._state)
            return answer
        self._recent.append(features)
        return self._read(self._recent, self._zero)[0] if len(self._recent) == self._recent.maxlen else np.nan

    def _read(self, sequence: Iterable[NDArray], state: NDArray) -> tuple[NDArray, NDArray]:
        """The answer and the state after a sequence."""
        for features in sequence:
            found = self._invoke(features=features[None], state=state)
            state = found["state"]
        return found["probability"], state

    def _collected(self, count: int, answers: Iterable[Any]) -> NDArray:
        collected = np.empty((count, self._outputs), np.float32)
        for row, answer in zip(collected, answers):
            row[:] = answer
        return squeeze_single(collected)


def _checked(values: NDArray, axes: tuple[str, ...], features: int) -> NDArray[np.float32]:
    if values.ndim != len(axes) + 1 or values.shape[-1] != features:
        raise ConfigError(f"input of shape {values.shape}; expected ({', '.join(axes)}, {features})")
    # A copy: a predictor may keep its inputs, and the caller may use the array again.
    return np.array(values, np.float32)


@dataclass(frozen=True)
class RecordingInputs:
    """What a model sees of a recording.

    Attributes:
        times: `(windows,)`, the last step of each window in seconds from the start of the recording.
        windows: `(windows, steps, features)`, normalised.
        series: `(windows, features)`, the input at each window's last step when the state is carried.
    """

    times: NDArray[np.float64]
    windows: NDArray
    series: NDArray


def recording_inputs(
    recording: Recording, card: ModelCard, baseline: tuple[float, float] | None = None
) -> RecordingInputs:
    """The features of a recording as the model's preset makes them.

    Of the recording's labels only the baseline is used, to standardise on. The running normalisation
    starts with the recording, under a preset whose statistics run through a study too.

    Args:
        recording: The recording.
        card: The model's card.
        baseline: Start and end of the baseline in seconds; None for where the labels have it.
    """
    preset = PRESETS[card.inputs.preset]
    extraction = replace(preset.extraction, hrv_window=card.inputs.hrv_window)
    marked = _marked_baseline(recording, baseline)
    table = standardize(extract(marked, extraction, required=(BASELINE,)).table)
    config = replace(preset.windows, scope="subject", steps=card.steps)
    sequences = normalized_windows([table], config)[table.subject].select(card.inputs.features)
    times = _step_times(len(table), marked.codes, extraction)
    series = carried_input(table, sequences, preset.windows)
    return RecordingInputs(times[card.steps - 1 :], sequences.values, series)


def predict_recording(predictor: Predictor, card: ModelCard, inputs: RecordingInputs) -> NDArray:
    """The answer at the end of each window."""
    if card.inputs.reading == "window":
        return predictor.windows(inputs.windows)
    predictor.reset()
    return predictor.run(inputs.series)


def read_recording(source: Path, subject: str | None = None, labels: Path | None = None) -> Recording:
    """Reads one recording, labelled or not.

    Args:
        source: A WESAD pickle, a subject's folder, an E4 folder, or a study of either kind.
        subject: Which subject of a study; of an E4 folder, whose intervals in `labels` are meant.
        labels: CSV of labelled intervals; asks for the E4 folders even beside pickles.
    """
    folder = source.resolve()
    if folder.is_file() or (labels is None and WesadStudy.is_subject(folder)):
        if labels is not None:
            raise ConfigError(f"{labels}: labels for {source}, which has its own; expected them with an E4 folder only")
        recording = read_wesad_subject(folder / f"{folder.name}.pkl" if folder.is_dir() else source)
        if subject not in (None, recording.subject):
            raise DataError(source, f"subject {recording.subject}", f"subject {subject}")
        return recording
    if (folder / "EDA.csv").is_file():
        return _e4_recording(folder, subject, labels)
    study = open_study(source, labels)
    chosen = _one_subject(study, subject)
    if isinstance(study, WesadStudy):
        return study.read(chosen)
    own_labels = study.labels if labels is not None or study.labels.is_file() else None
    return _e4_recording(study.files(chosen)[0].parent, None, own_labels)


def _one_subject(study: Study, subject: str | None) -> str:
    subjects = chosen_subjects(study, None if subject is None else [subject])
    if len(subjects) > 1:
        raise DataError(study.root, f"{len(subjects)} subjects", f"--subject with one of {', '.join(subjects)}")
    return subjects[0]


def _e4_recording(folder: Path, subject: str | None, labels: Path | None) -> Recording:
    start, signals = read_e4_folder(folder)
    duration = min(signal.duration for signal in signals.values())
    if labels is None:
        codes = np.zeros(round(duration * CODE_RATE), np.int8)
        return Recording(subject or folder.name, signals, Signal(codes, CODE_RATE), folder)
    intervals = read_label_intervals(labels)
    # WESAD has E4 folders inside the subjects' folders, other studies have them in their place.
    names = [subject] if subject else [folder.name, folder.parent.name]
    named = [name for name in names if any(interval.subject == name for interval in intervals)]
    if not named:
        raise DataError(labels, f"no interval of subject {' or '.join(names)}", "intervals of the recording's subject")
    own = [interval for interval in intervals if interval.subject == named[0]]
    codes = codes_from_intervals(labels, own, start, duration)
    return Recording(named[0], signals, Signal(codes, CODE_RATE), folder)


def _marked_baseline(recording: Recording, baseline: tuple[float, float] | None) -> Recording:
    """The recording with no labels but its baseline."""
    source, codes = recording.source, recording.codes
    inside = codes.values == BASELINE
    if baseline is not None:
        start, end = baseline
        if not 0 <= start < end <= codes.duration:
            found = f"a baseline from {start:g} s to {end:g} s"
            raise DataError(source, found, f"a stretch of its {codes.duration:g} s")
        inside = np.zeros(len(inside), bool)
        inside[round(start * codes.rate) : round(end * codes.rate)] = True
    if not inside.any():
        raise DataError(source, "no labelled baseline", "--baseline START-END in seconds, or labels with a baseline")
    if inside.all():
        raise DataError(source, "a baseline that is all of the recording", "a part to predict beside it")
    return replace(recording, codes=Signal(np.where(inside, BASELINE, 0).astype(np.int8), codes.rate))


def _step_times(steps: int, codes: Signal, extraction: ExtractionConfig) -> NDArray[np.float64]:
    """When each step of a feature table is, in seconds."""
    if extraction.alignment == "stretch":
        return np.linspace(0, (len(codes.values) - 1) / codes.rate, steps)
    # The clock ends with the recording; where it begins depends on the features.
    end = math.ceil(codes.duration * extraction.step_rate)
    return np.arange(end - steps, end) / extraction.step_rate


def stream_inputs(
    lines: Iterable[bytes], names: Sequence[str], source: str = "standard input"
) -> Iterator[NDArray[np.float32] | None]:
    """The model inputs on each line, numbers separated by commas or by spaces; None for a header.

    Args:
        lines: The stream.
        names: The model's features; a header must name them in this order.
        source: The stream's name, for messages.

    Raises:
        DataError: A line that does not hold as many finite numbers, when its turn comes.
    """
    header = list(names)
    for number, line in enumerate(lines, start=1):
        text = line.decode("ascii", errors="replace").strip()
        cells = [cell.strip() for cell in text.split(",")] if "," in text else text.split()
        if number == 1 and cells == header:
            yield None
            continue
        where = f"{source}:{number}"
        if len(cells) != len(header):
            raise DataError(
                where, f"{len(cells)} column(s) in {_shortened(text)}", f"{len(header)}: {','.join(header)}"
            )
        values = [_number(cell) for cell in cells]
        for name, value, cell in zip(header, values, cells):
            if not abs(value) <= _LARGEST:  # NaN is not either.
                expected = f"a finite number, or the header {','.join(header)}" if number == 1 else "a finite number"
                raise DataError(where, f"{name} is {_shortened(cell)}", expected)
        yield np.array(values, np.float32)


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


def _shortened(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "...")
