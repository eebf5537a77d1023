"""`tff-esn export` and `tff-esn predict`: write a trained model to a file, and predict with it."""

# No `from __future__ import annotations`: on Python 3.9 Typer reads options from real annotations only.

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import typer

from tff_esn.cli.runs import Runs

if TYPE_CHECKING:
    from tff_esn.deployment.predict import Predictor
    from tff_esn.readout.model import TrainedESN

STREAM = "-"
_INTERRUPTED = 130
#: Longest line of input, in characters, so that a binary file is not read whole.
_LINE_BYTES = 1 << 16


def export(
    context: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder or name, or the beginning of its name.")],
    format_: Annotated[
        Literal["keras", "tflite"],
        typer.Option("--format", help="The whole model for Keras, or one step of it for TensorFlow Lite."),
    ],
    out: Annotated[
        Optional[Path], typer.Option(metavar="FILE", help="File to write.", show_default="RUN.keras or RUN.tflite")
    ] = None,
    runs: Runs = None,
) -> None:
    """Write a run's model as one file.

    The file also holds the model card: features, window, threshold.

    A .tflite model computes one step with explicit state: inputs features (1, n) and
    state (1, units), outputs probability and state, in float32, with built-in
    operations only. A sequence begins with a state of zeros.
    """
    from tff_esn.deployment.export import load_model, save_model
    from tff_esn.errors import ConfigError

    source = _model_path(run, runs)
    name = source.stem if source.is_file() else source.resolve().name
    target = out or Path(f"{name}.{format_}")
    if target.suffix != f".{format_}":
        raise ConfigError(f"{target}: a name that ends in {target.suffix!r}; expected '.{format_}'")
    save_model(load_model(source), target)
    print(f"{format_} model written to {target} ({target.stat().st_size:,} bytes)")


def predict(
    context: typer.Context,
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A run's folder or name, or an exported .keras or .tflite file.")
    ],
    source: Annotated[
        str, typer.Argument(metavar="INPUT", help="A WESAD pickle, a subject's folder, an E4 folder or a study; or -.")
    ],
    subject: Annotated[Optional[str], typer.Option(metavar="S", help="Which subject of a study.")] = None,
    labels: Annotated[
        Optional[Path],
        typer.Option(
            metavar="CSV", help="Labelled intervals of E4 folders, for the baseline: subject,start,end,label."
        ),
    ] = None,
    baseline: Annotated[
        Optional[str],
        typer.Option(metavar="START-END", help="Interval of the baseline, in seconds.", show_default="from the labels"),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object per line, all digits.")] = False,
    runs: Runs = None,
) -> None:
    """Print a model's prediction at each step of a recording or a stream.

    A recording's features are computed as for training: standardised on its baseline,
    or raw channels. Prints lines of time_seconds,probability,answer.

    With - as INPUT, each line of standard input has the model's inputs, already
    standardised and normalised, separated by commas or spaces; it is followed at once
    by a line step,probability,answer, a header by a header. With windows, predictions
    are empty until the first window is full.
    """
    from threadpoolctl import threadpool_limits

    from tff_esn.deployment.predict import open_predictor
    from tff_esn.errors import ConfigError

    given = {"--subject": subject, "--labels": labels, "--baseline": baseline}
    if source == STREAM and any(given.values()):
        names = ", ".join(name for name, value in given.items() if value)
        raise ConfigError(
            f"{names} with a stream, whose lines are a model's inputs already; expected it with a recording"
        )
    with _ending_quietly():
        predictor = open_predictor(_model_path(model, runs))
        # A step's product is too small for threads: they would wait for each other.
        with threadpool_limits(1):
            if source == STREAM:
                _predict_stream(predictor, json_)
            else:
                _predict_recording(predictor, Path(source), subject, labels, baseline, json_)


def _model_path(which: str, runs: Optional[Path]) -> Path:
    """The path of a model file, or the folder of the run of that name."""
    from tff_esn.deployment.export import KERAS, TFLITE
    from tff_esn.store.run_folders import RunStore

    path = Path(which)
    return path if path.exists() or path.suffix in (KERAS, TFLITE) else RunStore(runs).find(which).folder


@contextmanager
def _ending_quietly() -> Iterator[None]:
    """Ends without a message when the reader of the pipe closes it, as `head` does, or on Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except BrokenPipeError:
        # Otherwise the interpreter would try to write the rest of the buffer when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Lines:
    """Predictions as lines of CSV or JSON.

    Args:
        model: The model.
        moment: Name of the first column.
        as_json: JSON rather than CSV.
    """

    def __init__(self, model: "TrainedESN", moment: str, as_json: bool) -> None:
        import json

        self._model, self._json = model, json.dumps if as_json else None
        self._columns = (moment, "probability", "answer")
        self._classes = model.classes if as_json else [_csv_cell(name) for name in model.classes]

    def header(self) -> str:
        """The names of the columns; empty for JSON."""
        return "" if self._json else ",".join(self._columns) + "\n"

    def lines(self, moments: Sequence[Any], scores: Any) -> Iterator[str]:
        """A line per score; of two classes the probability of class 1, of more that of the predicted class."""
        predicted, probabilities = self._model.predicted(scores), self._model.probabilities(scores)
        shown = probabilities[:, 1] if scores.ndim == 1 else probabilities.max(axis=1)
        for moment, number, probability in zip(moments, predicted.tolist(), shown.tolist()):
            known = not isnan(probability)  # NaN until a window is full
            if self._json:
                facts = (moment, probability, self._classes[number]) if known else (moment, None, None)
                yield self._json(dict(zip(self._columns, facts))) + "\n"
            else:
                yield f"{moment},{probability:.6f},{self._classes[number]}\n" if known else f"{moment},,\n"


def _csv_cell(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\n') else text


def _predict_stream(predictor: "Predictor", as_json: bool) -> None:
    from functools import partial

    from tff_esn.deployment.predict import stream_inputs

    model, step = predictor.model, 0
    lines = _Lines(model, "step", as_json)
    for features in stream_inputs(iter(partial(sys.stdin.buffer.readline, _LINE_BYTES), b""), model.card.features):
        if features is None:
            sys.stdout.write(lines.header())
        else:
            step += 1
            sys.stdout.writelines(lines.lines([step], predictor.run(features[None])))
        sys.stdout.flush()


def _predict_recording(
    predictor: "Predictor",
    source: Path,
    subject: Optional[str],
    labels: Optional[Path],
    baseline: Optional[str],
    as_json: bool,
) -> None:
    from tff_esn.console import console
    from tff_esn.deployment.predict import predict_recording, read_recording, recording_inputs

    model, interval = predictor.model, None if baseline is None else _interval(baseline)
    inputs = recording_inputs(read_recording(source, subject, labels), model.card, interval)
    if inputs.note is not None:
        console.print(inputs.note, highlight=False, soft_wrap=True)
    lines = _Lines(model, "time_seconds", as_json)
    sys.stdout.write(lines.header())
    sys.stdout.writelines(lines.lines(inputs.times.round(3).tolist(), predict_recording(predictor, inputs)))
    sys.stdout.flush()


def _interval(text: str) -> tuple[float, float]:
    from tff_esn.errors import ConfigError

    try:
        start, end = map(float, text.split("-"))
    except ValueError:
        raise ConfigError(f"--baseline {text!r}; expected START-END in seconds, such as 60-300") from None
    return start, end
