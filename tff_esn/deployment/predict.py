"""Predictions of a trained model, step by step or for a whole recording.

A model of windows predicts from the last inputs alone, read from a zero state, and has no score (NaN) until there are
enough of them. A model that predicts at each step keeps its state, and starts from zero again with every chunk if it
was trained on chunks. The scores are those of `TrainedESN.decision_function`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from tff_esn.datasets.e4 import CODE_RATE, E4Study, codes_from_intervals, read_e4_folder, read_label_intervals
from tff_esn.datasets.recording import Recording, Signal
from tff_esn.datasets.study import StudyFolder, chosen_subjects, open_study
from tff_esn.datasets.wesad import WesadStudy, read_wesad_subject
from tff_esn.deployment.export import TFLITE, load_model, open_tflite
from tff_esn.errors import ConfigError, DataError
from tff_esn.features.recipe import RecordingInputs
from tff_esn.readout.model import ModelCard, TrainedESN
from tff_esn.readout.readout import squeeze_single
from tff_esn.reservoir.states import joint_kernel, last_states

#: The score of class 1, or one for each class of more than two.
Score = Union[np.floating, NDArray]
_LARGEST = float(np.finfo(np.float32).max)
_SHOWN_CHARACTERS = 60


class Predictor(ABC):
    """A model that is fed step by step.

    Args:
        model: The model.
    """

    def __init__(self, model: TrainedESN) -> None:
        self.model = model

    def step(self, features: NDArray) -> Score:
        """The score after one more input `(n,)`."""
        return self.run(np.asarray(features)[None])[0]

    def run(self, series: NDArray) -> NDArray:
        """The scores after each of `(steps, n)` inputs: those of as many calls of `step`, to the last bit."""
        outputs = self._no_outputs(len(series))
        for features, output in zip(_inputs(series, ("steps",), self.model), outputs):
            self._advance(features, output)
        return self.model.decision_scores(self._activated(outputs))

    @abstractmethod
    def windows(self, values: NDArray) -> NDArray:
        """The scores of whole sequences `(sequences, steps, n)`, each read from a zero state."""

    @abstractmethod
    def reset(self) -> None:
        """Resets the state, as before the first input."""

    @abstractmethod
    def _advance(self, features: NDArray, output: NDArray) -> None:
        """Reads one input and writes the output after it, NaN if there is none yet."""

    @abstractmethod
    def _activated(self, outputs: NDArray) -> NDArray:
        """The readout's outputs, of what `_advance` wrote."""

    def _no_outputs(self, count: int) -> NDArray[np.float32]:
        return np.empty((count, len(self.model.readout.bias)), np.float32)


def open_predictor(source: Path) -> Predictor:
    """A predictor of a run's folder or a model's file: TensorFlow Lite's for a `.tflite`, else NumPy's."""
    return TflitePredictor(*open_tflite(source)) if source.suffix == TFLITE else NumpyPredictor(load_model(source))


class NumpyPredictor(Predictor):
    """A model on NumPy alone, in buffers made once.

    With windows of T steps, T states advance side by side, one begun at each of the last T inputs: at each step one of
    them has seen exactly the last T inputs, and one product has advanced all.

    Args:
        model: The model.
    """

    def __init__(self, model: TrainedESN) -> None:
        super().__init__(model)
        weights, self._steps = model.weights, model.card.steps
        self._rows = self._steps if self._steps and not model.card.per_step else 1
        # Columns: state, input, and 1 for the bias, so that one product is the whole drive.
        self._kernel = joint_kernel(weights)
        self._joint = np.zeros((self._rows, len(self._kernel)), np.float32)
        self._joint[:, -1] = 1
        self._states, self._inputs = self._joint[:, : weights.units], self._joint[:, weights.units : -1]
        self._drive = np.empty((self._rows, weights.units), np.float32)
        self._keep, self._take = np.float32(1 - weights.leaking_rate), np.float32(weights.leaking_rate)
        self._readout_kernel = model.readout.kernel.astype(np.float32)
        self._count = 0

    def windows(self, values: NDArray) -> NDArray:
        """The scores of whole sequences `(sequences, steps, n)`, each read from a zero state."""
        return self.model.scored(last_states(values, self.model.weights))

    def reset(self) -> None:
        """Resets the state, as before the first input."""
        self._states[:] = 0
        self._count = 0

    def _advance(self, features: NDArray, output: NDArray) -> None:
        # With windows the oldest state starts anew at each step, with chunks the only one at each chunk's first.
        if self._steps and self._count % self._steps < self._rows:
            self._states[self._count % self._steps] = 0
        self._inputs[:] = features
        np.dot(self._joint, self._kernel, out=self._drive)
        np.tanh(self._drive, out=self._drive)
        np.multiply(self._drive, self._take, out=self._drive)
        np.multiply(self._states, self._keep, out=self._states)
        np.add(self._states, self._drive, out=self._states)
        self._count += 1
        if self._count < self._rows:
            output[:] = np.nan
        else:
            np.dot(self._states[self._count % self._rows], self._readout_kernel, out=output)

    def _activated(self, outputs: NDArray) -> NDArray:
        return self.model.readout.activate(outputs)


class TflitePredictor(Predictor):
    """A model on TensorFlow Lite's interpreter.

    Args:
        interpreter: A saved step, from `tff_esn.deployment.export.open_tflite`.
        model: The model.
    """

    def __init__(self, interpreter: Any, model: TrainedESN) -> None:
        super().__init__(model)
        self._invoke = interpreter.get_signature_runner()
        self._zero = np.zeros((1, model.weights.units), np.float32)
        self._recent: deque[NDArray] = deque(maxlen=model.card.steps)
        self.reset()

    def windows(self, values: NDArray) -> NDArray:
        """The scores of whole sequences `(sequences, steps, n)`, each read from a zero state."""
        outputs = self._no_outputs(len(values))
        for window, output in zip(_inputs(values, ("sequences", "steps"), self.model), outputs):
            self._read(window, self._zero, output)
        return self.model.decision_scores(self._activated(outputs))

    def reset(self) -> None:
        """Resets the state, as before the first input."""
        self._state, self._count = self._zero, 0
        self._recent.clear()

    def _advance(self, features: NDArray, output: NDArray) -> None:
        steps = self.model.card.steps
        self._count += 1
        if steps is None or self.model.card.per_step:
            starts = steps is not None and (self._count - 1) % steps == 0
            self._state = self._read([features], self._zero if starts else self._state, output)
            return
        self._recent.append(features)
        if self._count < steps:
            output[:] = np.nan
        else:
            self._read(self._recent, self._zero, output)

    def _read(self, sequence: Iterable[NDArray], state: NDArray, output: NDArray) -> NDArray:
        """Writes the output after a sequence and returns the state."""
        for features in sequence:
            found = self._invoke(features=features[None], state=state)
            state = found["state"]
        output[:] = found["probability"][0]
        return state

    def _activated(self, outputs: NDArray) -> NDArray:
        return squeeze_single(outputs)


def _inputs(values: NDArray, axes: tuple[str, ...], model: TrainedESN) -> NDArray[np.float32]:
    if values.ndim != len(axes) + 1 or values.shape[-1] != model.weights.inputs:
        raise ConfigError(f"input of shape {values.shape}; expected ({', '.join(axes)}, {model.weights.inputs})")
    # A copy: a predictor may keep its inputs, and the caller may use the array again.
    return np.array(values, np.float32)


def recording_inputs(
    recording: Recording, card: ModelCard, baseline: tuple[float, float] | None = None
) -> RecordingInputs:
    """The inputs that a model's recipe makes of a recording.

    Args:
        recording: The recording.
        card: The model's card.
        baseline: Start and end of the baseline in seconds; None for where the labels have it.
    """
    if card.recipe is None:
        raise ConfigError(
            "a recording for a model that was trained on arrays, which has no recipe for features; "
            "expected a stream of its inputs"
        )
    inputs = card.recipe.inputs_of(recording, baseline)
    shape = () if card.per_step else (card.steps,)
    if (inputs.features, inputs.values.shape[1:-1]) != (card.features, shape):
        found = f"{', '.join(inputs.features)} of shape {inputs.values.shape[1:]} by recipe {card.recipe!r}"
        raise ConfigError(f"{found}; expected {', '.join(card.features)} of shape {(*shape, len(card.features))}")
    return inputs


def predict_recording(predictor: Predictor, inputs: RecordingInputs) -> NDArray:
    """The score at each of the recording's samples."""
    if not predictor.model.card.per_step:
        return predictor.windows(inputs.values)
    predictor.reset()
    return predictor.run(inputs.values)


def read_recording(source: Path, subject: str | None = None, labels: Path | None = None) -> Recording:
    """Reads one recording, labelled or not.

    Args:
        source: A WESAD pickle, a subject's folder, an E4 folder, or a study of either kind.
        subject: Which subject of a study; of an E4 folder, whose intervals in `labels` are meant.
        labels: CSV of labelled intervals; asks for the E4 folders even beside pickles.
    """
    folder = source.resolve()
    if folder.is_file() or WesadStudy.is_subject(folder):
        own_name = source.stem if folder.is_file() else folder.name
        if subject not in (None, own_name):
            raise DataError(source, f"subject {own_name}", f"subject {subject}")
        if labels is None:
            return read_wesad_subject(source if folder.is_file() else folder / f"{own_name}.pkl")
        if folder.is_file():
            raise ConfigError(f"{labels}: labels for {source}, which has its own; expected them with an E4 folder only")
        source, subject = folder.parent, own_name  # The E4 folder inside the subject's.
    elif (folder / "EDA.csv").is_file():
        return _e4_recording(folder, subject, labels)
    study = open_study(source, labels)
    chosen = _one_subject(study, subject)
    if not isinstance(study, E4Study):
        return study.read(chosen)
    own_labels = study.intervals if labels is not None or study.intervals.is_file() else None
    return _e4_recording(study.files(chosen)[0].parent, None, own_labels)


def _one_subject(study: StudyFolder, subject: str | None) -> str:
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
