from __future__ import annotations

import time
from pathlib import Path
from typing import Callable

import numpy as np
import pytest
import tensorflow as tf
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from tests.datasets.test_e4 import write_e4
from tests.deployment.test_export import random_card, random_model, with_gain, write_run
from tff_esn.datasets.splits import ClientSplit
from tff_esn.datasets.study import open_study
from tff_esn.deployment.export import export_tflite
from tff_esn.deployment.predict import (
    Predictor,
    RecordingInputs,
    open_predictor,
    predict_recording,
    read_recording,
    recording_inputs,
    stream_inputs,
)
from tff_esn.errors import ConfigError, DataError
from tff_esn.features.inputs import model_inputs, prepared_features
from tff_esn.reservoir.layer import Reservoir
from tff_esn.store.cache import Cache

MODELS = {
    "plain": random_model,
    "gain": lambda: with_gain(random_model()),
    "no leak": lambda: random_model(leaking_rate=1.0),
    "three classes": lambda: random_model(outputs=3),
    "ridge": lambda: random_model(linear=True),
}


def windows_of(series: NDArray, steps: int) -> NDArray:
    return np.moveaxis(sliding_window_view(series, steps, axis=0), -1, 1)


def keras_answers(model: tf.keras.Model, series: NDArray, reading: str) -> NDArray:
    """What the Keras model itself answers, in one batch."""
    if reading == "window":
        answers = model.predict(windows_of(series, 20), verbose=0)
    else:
        # The same weights, with the state of every step.
        layer = Reservoir.from_weights(model.get_layer("reservoir").reservoir_weights(), return_sequences=True)
        every_step = tf.keras.Sequential([tf.keras.Input((None, 2)), layer, model.get_layer("readout")])
        answers = every_step.predict(series[None], verbose=0)[0]
    return answers[:, 0] if answers.shape[1] == 1 else answers


@pytest.mark.parametrize("reading", ["window", "carried"])
@pytest.mark.parametrize("name", MODELS)
def test_predictors_answer_as_the_keras_model(name: str, reading: str, tmp_path: Path) -> None:
    model = write_run(tmp_path / "run", MODELS[name](), reading)
    export_tflite(tmp_path / "run", tmp_path / "out.tflite")
    series = np.random.default_rng(0).normal(size=(2000, 2)).astype(np.float32)
    expected = keras_answers(model, series, reading)
    for source in (tmp_path / "run", tmp_path / "out.tflite"):
        predictor, card = open_predictor(source)
        answers = predictor.run(series)
        assert len(answers) == len(series)
        missing = card.steps - 1 if reading == "window" else 0
        assert np.isnan(answers[:missing]).all()
        np.testing.assert_allclose(answers[missing:], expected, atol=1e-5)
        np.testing.assert_allclose(
            predictor.windows(windows_of(series, 20)[:50]),
            model(windows_of(series, 20)[:50]).numpy().squeeze(),
            atol=1e-5,
        )


@pytest.fixture(scope="module", params=["window numpy", "carried numpy", "window tflite", "carried tflite"])
def predictor(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    reading, kind = request.param.split()
    folder = tmp_path_factory.mktemp("model") / "run"
    write_run(folder, random_model(), reading)
    if kind == "numpy":
        return open_predictor(folder)[0]
    export_tflite(folder, folder / "out.tflite")
    return open_predictor(folder / "out.tflite")[0]


def test_steps_and_runs_are_the_same_to_the_last_bit(predictor: Predictor) -> None:
    series = np.random.default_rng(0).normal(size=(200, 2))
    predictor.reset()
    whole = predictor.run(series)
    predictor.reset()
    steps = [predictor.step(features) for features in series[:70]]
    rest = predictor.run(series[70:])
    np.testing.assert_array_equal(np.concatenate((steps, rest)), whole)


def test_a_predictor_forgets_when_told_and_keeps_no_array_of_its_caller(predictor: Predictor) -> None:
    series = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    predictor.reset()
    first = predictor.run(series)
    predictor.windows(series[None])
    predictor.reset()
    buffer = np.empty(2, np.float32)
    again = []
    for features in series:
        buffer[:] = features
        again.append(predictor.step(buffer))
    np.testing.assert_array_equal(again, first)


def test_inputs_of_another_shape_are_refused(predictor: Predictor) -> None:
    with pytest.raises(ConfigError, match=r"input of shape \(5, 3\); expected \(steps, 2\)"):
        predictor.run(np.zeros((5, 3)))
    with pytest.raises(ConfigError, match=r"input of shape \(1,\)"):
        predictor.step(np.float64(1.0))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"input of shape \(5, 2\)"):
        predictor.windows(np.zeros((5, 2)))


@pytest.mark.parametrize("reading", ["window", "carried"])
def test_a_recording_is_prepared_as_for_training(reading: str, generated: Path, tmp_path: Path) -> None:
    trained = random_model()
    card = random_card(trained, reading, split=ClientSplit(("S2",), ("S3",), ("S4",)))
    prepared = prepared_features(open_study(generated), card.inputs, Cache(tmp_path / "cache"))
    expected = model_inputs(prepared, card.inputs).windows["S3"].values
    inputs = recording_inputs(read_recording(generated, "S3"), card)
    np.testing.assert_array_equal(inputs.windows, expected)
    # One step a second, the last of them the recording's last second.
    np.testing.assert_array_equal(np.diff(inputs.times), 1)
    assert inputs.times[-1] == 599
    model = write_run(tmp_path / "run", trained, reading)
    predictor, card = open_predictor(tmp_path / "run")
    answers = predict_recording(predictor, card, inputs)
    if reading == "window":
        np.testing.assert_allclose(answers, model.predict(expected, verbose=0)[:, 0], atol=1e-5)
    else:
        np.testing.assert_allclose(answers, keras_answers(model, expected[:, -1], reading), atol=1e-5)
        np.testing.assert_array_equal(answers, predict_recording(predictor, card, inputs))


def test_a_stretched_recording_has_times_from_start_to_end(generated: Path) -> None:
    card = random_card(random_model(), preset="thesis", hrv_window=2.0)
    inputs = recording_inputs(read_recording(generated, "S2"), card)
    assert len(inputs.times) == len(inputs.windows)
    assert 0 < inputs.times[0] < 60
    assert inputs.times[-1] == pytest.approx(600, abs=0.01)
    assert np.ptp(np.diff(inputs.times)) < 1e-9


def test_the_same_recording_in_every_form(generated: Path) -> None:
    card = random_card(random_model())
    expected = recording_inputs(read_recording(generated, "S3"), card)
    labels = generated / "labels.csv"
    for recording in (
        read_recording(generated / "S3" / "S3.pkl"),
        read_recording(generated / "S3"),
        read_recording(generated, "S3", labels),
        read_recording(generated / "S3", None, labels),
        read_recording(generated / "S3" / "S3_E4_Data", None, labels),
        read_recording(generated / "S3" / "S3_E4_Data", "S3", labels),
    ):
        assert recording.subject == "S3"
        inputs = recording_inputs(recording, card)
        np.testing.assert_array_equal(inputs.times, expected.times)
        np.testing.assert_allclose(inputs.windows, expected.windows, atol=1e-3)


def test_a_baseline_that_is_told_takes_the_place_of_labels(generated: Path) -> None:
    card = random_card(random_model())
    labelled = read_recording(generated, "S3")
    seconds = np.flatnonzero(labelled.codes.values == 1)[[0, -1]] / labelled.codes.rate
    baseline = (float(seconds[0]), float(seconds[1]))
    unlabelled = read_recording(generated / "S3" / "S3_E4_Data")
    assert not unlabelled.codes.values.any()
    told = recording_inputs(unlabelled, card, baseline)
    np.testing.assert_allclose(told.windows, recording_inputs(labelled, card).windows, atol=1e-2)
    other = recording_inputs(labelled, card, (0.0, 100.0))
    assert not np.allclose(other.windows, told.windows, atol=0.1)


@pytest.mark.parametrize(
    ("baseline", "complaint"),
    [
        (None, "no labelled baseline; expected --baseline START-END in seconds, or labels"),
        ((10.0, 5.0), "a baseline from 10 s to 5 s; expected a stretch of its 20 s"),
        ((0.0, 21.0), "a baseline from 0 s to 21 s; expected a stretch of its 20 s"),
        ((float("nan"), 2.0), "a baseline from nan s"),
        ((0.0, 20.0), "a baseline that is all of the recording; expected a part to predict beside it"),
    ],
)
def test_a_baseline_that_cannot_be_used(baseline: tuple[float, float] | None, complaint: str, tmp_path: Path) -> None:
    write_e4(tmp_path / "E4", seconds=20)
    with pytest.raises(DataError) as caught:
        recording_inputs(read_recording(tmp_path / "E4"), random_card(random_model()), baseline)
    assert complaint in str(caught.value)


def test_recordings_that_cannot_be_read(generated: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("subject,start,end,label\nP9,0,5,1\n")
    for arguments, complaint in (
        ((generated,), "3 subjects; expected --subject with one of S2, S3, S4"),
        ((generated, "S9"), "no subject S9; expected subjects out of S2, S3, S4"),
        ((generated / "S3", "S4"), "subject S3; expected subject S4"),
        ((generated / "S3" / "S3.pkl", None, labels), "labels for"),
        ((generated / "S3" / "S3_E4_Data", None, labels), "no interval of subject S3_E4_Data or S3; expected"),
        ((tmp_path / "nowhere",), "no such folder"),
        ((labels,), "not a usable pickle"),
    ):
        with pytest.raises((DataError, ConfigError)) as caught:
            read_recording(*arguments)
        assert complaint in str(caught.value)


def test_a_study_of_one_unlabelled_subject(tmp_path: Path) -> None:
    write_e4(tmp_path / "P1", seconds=20)
    assert read_recording(tmp_path).source == tmp_path / "P1"
    (tmp_path / "labels.csv").write_text("subject,start,end,label\nP1,0,5,baseline\n")
    assert read_recording(tmp_path).code_shares() == pytest.approx({0: 0.75, 1: 0.25})


def test_a_stream_has_numbers_separated_by_commas_or_spaces() -> None:
    lines = [b"pEDA, HR\n", b"1,2\n", b" 1e-3\t-2.5 \r\n", b"3 , 4"]
    first, *rest = stream_inputs(lines, ("pEDA", "HR"))
    assert first is None
    np.testing.assert_array_equal(rest, np.array([[1, 2], [1e-3, -2.5], [3, 4]], np.float32))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"1,x\n", "standard input:2: HR is 'x'; expected a finite number"),
        (b"nan 1\n", "standard input:2: pEDA is 'nan'; expected a finite number"),
        (b"1,-inf\n", "HR is '-inf'; expected"),
        (b"1,1e39\n", "HR is '1e39'; expected"),
        (b"1,\n", "HR is ''; expected"),
        (b"1\n", "1 column(s) in '1'; expected 2: pEDA,HR"),
        (b"1,2,3\n", "3 column(s) in '1,2,3'; expected 2: pEDA,HR"),
        (b"\n", "0 column(s) in ''; expected 2"),
        (b"pEDA,HR\n", "pEDA is 'pEDA'; expected a finite number"),
        (b"\xff\xfe\x00,1\n", "pEDA is "),
        (b"9" * 200 + b"\n", "1 column(s) in '" + "9" * 60 + "...'; expected"),
    ],
)
def test_a_malformed_line_is_named_after_those_before_it(line: bytes, complaint: str) -> None:
    stream = stream_inputs([b"1,2\n", line, b"1,2\n"], ("pEDA", "HR"))
    assert next(stream) is not None
    with pytest.raises(DataError) as caught:
        next(stream)
    assert complaint in str(caught.value)


def test_a_header_of_other_features_is_refused() -> None:
    with pytest.raises(
        DataError, match="standard input:1: pEDA is 'HR'; expected a finite number, or the header pEDA,HR"
    ):
        next(stream_inputs([b"HR,pEDA\n"], ("pEDA", "HR")))


#: Steps a second of the features, and of the fastest sensor.
FEATURE_RATE, SENSOR_RATE = 1.0, 64.0


def steps_a_second(work: Callable[[], object], steps: int) -> float:
    """The better of two, on one thread."""
    seconds = []
    with threadpool_limits(1):
        for _ in range(2):
            start = time.process_time()  # which others' work does not change
            work()
            seconds.append(time.process_time() - start)
    return steps / min(seconds)


@pytest.mark.parametrize("kind", ["numpy", "tflite"])
@pytest.mark.parametrize("reading", ["window", "carried"])
def test_200_units_keep_far_ahead_of_the_sensors(reading: str, kind: str, tmp_path: Path) -> None:
    write_run(tmp_path / "run", random_model(units=200), reading)
    source = tmp_path / "run"
    if kind == "tflite":
        source = tmp_path / "out.tflite"
        export_tflite(tmp_path / "run", source)
    predictor, card = open_predictor(source)
    series = np.random.default_rng(0).normal(size=(5400, 2)).astype(np.float32)
    # A WESAD subject's hour and a half, at one step a second.
    recording = RecordingInputs(np.arange(len(series) - 19.0), windows_of(series, 20), series[19:])
    speeds = {
        "stream": steps_a_second(lambda: [predictor.step(features) for features in series[:500]], 500),
        "recording": steps_a_second(lambda: predict_recording(predictor, card, recording), len(series)),
    }
    for name, speed in speeds.items():
        print(
            f"{kind}, {reading}, {name}: {speed:,.0f} steps/s, {speed / FEATURE_RATE:,.0f} times real time at 1 Hz, "
            f"{speed / SENSOR_RATE:,.0f} at 64 Hz"
        )
        assert speed > 1000 * FEATURE_RATE
        assert speed > SENSOR_RATE
