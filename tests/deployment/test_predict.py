from __future__ import annotations

import math
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from tests.datasets.test_e4 import write_e4
from tests.deployment.test_export import random_card, random_model, with_gain
from tff_esn.algorithm import Algorithm
from tff_esn.central.esn import CentralESN
from tff_esn.closed_form.fedip import FedIP
from tff_esn.closed_form.incfed import IncFed
from tff_esn.datasets.federated import FederatedDataset
from tff_esn.deployment.export import load_model
from tff_esn.deployment.predict import (
    Predictor,
    open_predictor,
    predict_recording,
    read_recording,
    recording_inputs,
    stream_inputs,
)
from tff_esn.errors import ConfigError, DataError
from tff_esn.features.channels import Channels
from tff_esn.features.corrected import CorrectedFeatures
from tff_esn.features.recipe import RecordingInputs
from tff_esn.features.study import load_study
from tff_esn.features.thesis import ThesisFeatures
from tff_esn.federated.fedavg import FedAvg
from tff_esn.readout.model import ModelCard, TrainedESN
from tff_esn.reservoir.esn import ESN

STEPS = 20
#: The three ways to read inputs, as cards.
CARDS = {
    "window": random_card(steps=STEPS),
    "carried": random_card(reading="carried"),
    "chunks": replace(random_card(), per_step=True, steps=STEPS, recipe=None),
}
READOUTS: dict[str, dict[str, Any]] = {
    "one output": {},
    "no leak": {"leaking_rate": 1.0},
    "three classes": {"outputs": 3},
    "ridge": {"linear": True},
    "ridge, an output for each of two classes": {"linear": True, "outputs": 2},
}


def model_of(reading: str, **settings: Any) -> TrainedESN:
    card = CARDS[reading] if settings.get("outputs") != 3 else replace(CARDS[reading], classes=("a", "b", "c"))
    return with_gain(random_model(card=card, **settings))


def windows_of(series: NDArray, steps: int) -> NDArray:
    return np.moveaxis(sliding_window_view(series, steps, axis=0), -1, 1)


def data_of(model: TrainedESN, series: NDArray) -> FederatedDataset:
    """A series as the model's data set, every one of its samples labelled."""
    card = model.card
    values: Any = series
    if not card.per_step:
        values = windows_of(series, STEPS)
    elif card.steps is not None:
        values = series.reshape(-1, card.steps, series.shape[-1])
    else:
        values = [series, series[:1]]  # of different lengths
    labels: Any = [np.zeros(len(own), int) for own in values] if card.per_step else np.zeros(len(values), int)
    arrays = {"one": (values, labels)}
    return FederatedDataset.from_arrays(arrays, classes=card.classes, features=card.features)


@pytest.mark.parametrize("ending", ["keras", "tflite"])
@pytest.mark.parametrize("reading", CARDS)
@pytest.mark.parametrize("readout", READOUTS)
def test_predictors_score_as_the_model(readout: str, reading: str, ending: str, tmp_path: Path) -> None:
    model = model_of(reading, **READOUTS[readout])
    model.save(tmp_path / f"out.{ending}")
    predictor = open_predictor(tmp_path / f"out.{ending}")
    series = np.random.default_rng(0).normal(size=(500, 2)).astype(np.float32)
    expected = model.decision_function(data_of(model, series))["one"][: len(series)]
    scores = predictor.run(series)
    missing = len(series) - len(expected)
    assert missing == (STEPS - 1 if reading == "window" else 0)
    assert np.isnan(scores[:missing]).all()
    np.testing.assert_allclose(scores[missing:], expected, atol=1e-5)
    windows = windows_of(series, STEPS)[:50]
    expected = replace(model, card=replace(model.card, per_step=False)).decision_function(
        FederatedDataset.from_arrays(
            {"one": (windows, np.zeros(50, int))}, classes=model.classes, features=model.card.features
        )
    )["one"]
    np.testing.assert_allclose(predictor.windows(windows), expected, atol=1e-5)


@pytest.fixture(scope="module", params=[f"{reading} {ending}" for reading in CARDS for ending in ("keras", "tflite")])
def predictor(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    reading, ending = request.param.split()
    path = tmp_path_factory.mktemp("model") / f"out.{ending}"
    model_of(reading).save(path)
    return open_predictor(path)


def test_a_model_of_sequences_of_any_length_scores_each_beginning(tmp_path: Path) -> None:
    model = random_model(card=replace(random_card(), steps=None, recipe=None))
    series = np.random.default_rng(0).normal(size=(30, 2))
    beginnings = [series[:end] for end in range(1, 31)]
    arrays = {"one": (beginnings, np.zeros(30, int))}
    data = FederatedDataset.from_arrays(arrays, classes=model.classes, features=model.card.features)
    for ending in ("keras", "tflite"):
        model.save(tmp_path / f"out.{ending}")
        scores = open_predictor(tmp_path / f"out.{ending}").run(series)
        np.testing.assert_allclose(scores, model.decision_function(data)["one"], atol=1e-5)


def arrays(kind: str, classes: int = 2) -> FederatedDataset:
    """Three clients whose classes differ in their mean."""
    random = np.random.default_rng(4)

    def client() -> tuple[Any, Any]:
        labels = random.permutation(np.arange(12) % classes)
        values = random.normal(size=(12, 30, 3)) + labels[:, None, None]
        if kind == "windows":
            return values, labels
        steps = np.repeat(labels[:, None], 30, axis=1)
        if kind == "chunks":
            return values, steps
        return [values[:7].reshape(-1, 3), values[7:].reshape(-1, 3)], [steps[:7].ravel(), steps[7:].ravel()]

    return FederatedDataset.from_arrays({name: client() for name in "abc"})


SMALL = ESN(units=30, leaking_rate=0.5, bias_scaling=0.1)
ALGORITHMS: dict[str, Algorithm] = {
    "central": CentralESN(SMALL, epochs=2),
    "fedavg": FedAvg(SMALL, rounds=2),
    "incfed": IncFed(SMALL, ridge=0.1, bias=True),
    "fedip": FedIP(SMALL, ridge=0.1),
}


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize(
    ("kind", "classes"), [("windows", 2), ("windows", 6), ("carried", 2), ("chunks", 2), ("chunks", 6)]
)
def test_files_of_every_family_of_algorithms_predict_as_the_model(
    name: str, kind: str, classes: int, tmp_path: Path
) -> None:
    data = arrays(kind, classes)
    model = ALGORITHMS[name].fit(data)
    assert (model.card.algorithm, model.card.steps) == (name, None if kind == "carried" else 30)
    expected = model.predict_proba(data)
    np.testing.assert_allclose(expected.sum(axis=1), 1, atol=1e-6)
    for ending in ("keras", "tflite"):
        model.save(tmp_path / f"out.{ending}")
        loaded = load_model(tmp_path / f"out.{ending}")
        assert loaded.card == model.card
        np.testing.assert_allclose(loaded.predict_proba(data), expected, atol=1e-5)
        predictor = open_predictor(tmp_path / f"out.{ending}")
        scores = []
        for own in data.sequences.values():
            if kind == "windows":
                scores.append(predictor.windows(own.values))
                continue
            predictor.reset()
            for sequence in own.values:
                if kind == "carried":
                    predictor.reset()
                scores.append(predictor.run(sequence))
        np.testing.assert_allclose(model.probabilities(np.concatenate(scores)), expected, atol=1e-5)


def test_clients_with_a_recording_each_keep_the_state_through_it() -> None:
    random = np.random.default_rng(0)
    recordings = {name: (random.normal(size=(n, 2)), np.arange(n) % 2) for name, n in (("a", 50), ("b", 60))}
    assert IncFed(SMALL).fit(FederatedDataset.from_arrays(recordings)).card.steps is None


def test_a_keras_file_predicts_where_tensorflow_is_not_installed(tmp_path: Path) -> None:
    model = ALGORITHMS["incfed"].fit(arrays("windows"))
    model.save(tmp_path / "out.keras")
    np.save(tmp_path / "windows.npy", arrays("windows")["a"].values)
    program = """
import sys
from pathlib import Path
sys.modules.update(dict.fromkeys(["tensorflow", "keras", "tensorflow_addons", "tensorflow_federated"]))
import numpy as np
import tff_esn as te
from tff_esn.deployment.predict import open_predictor
folder = Path(sys.argv[1])
values = np.load(folder / "windows.npy")
data = te.FederatedDataset.from_arrays({"a": (values, np.zeros(len(values), int))}, classes=["0", "1"])
np.save(folder / "found.npy", te.load_model(folder / "out.keras").predict_proba(data))
assert np.isfinite(open_predictor(folder / "out.keras").run(values[0])[-1])
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    expected = model.predict_proba(arrays("windows").of(["a"]))
    np.testing.assert_allclose(np.load(tmp_path / "found.npy"), expected, atol=1e-5)


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


def card_of(data: FederatedDataset, per_step: bool, steps: int | None) -> ModelCard:
    return ModelCard("central", data.features, data.classes, per_step, steps, 0.5, data.clients, data.recipe)


@pytest.mark.parametrize("recipe", [CorrectedFeatures, ThesisFeatures])
@pytest.mark.parametrize("reading", ["window", "carried"])
def test_a_recording_is_prepared_as_for_training(
    reading: str, recipe: type[CorrectedFeatures | ThesisFeatures], generated: Path, tmp_path: Path
) -> None:
    beats_or_seconds = 2.0 if recipe is ThesisFeatures else 25.0
    chosen = recipe(columns=("tEDA", "pEDA"), reading=reading, steps=STEPS, hrv_window=beats_or_seconds)
    # The first of a study, where running statistics start with the recording under either recipe.
    data = load_study(generated, cache=tmp_path).clients(chosen, split=None).of(["S2"])
    card = card_of(data, reading == "carried", STEPS if reading == "window" else None)
    inputs = recording_inputs(read_recording(generated, "S2"), card)
    expected = data["S2"].values if reading == "window" else data["S2"].values[0]
    np.testing.assert_array_equal(inputs.values, expected)
    assert len(inputs.times) == len(inputs.values)
    assert (inputs.note is not None) == (recipe is ThesisFeatures and reading == "window")
    model = random_model(card=card)
    model.save(tmp_path / "out.keras")
    predictor = open_predictor(tmp_path / "out.keras")
    scores = predict_recording(predictor, inputs)
    np.testing.assert_allclose(scores, model.decision_function(data)["S2"], atol=1e-5)
    np.testing.assert_array_equal(scores, predict_recording(predictor, inputs))


def test_a_recording_by_the_clock_has_a_step_each_second(generated: Path) -> None:
    inputs = recording_inputs(read_recording(generated, "S3"), random_card())
    np.testing.assert_array_equal(np.diff(inputs.times), 1)
    assert inputs.times[-1] == 599


def channels_card(**settings: Any) -> ModelCard:
    recipe = Channels(device="wrist", rate=4.0, steps=30, **settings)
    features = ("ACCx", "ACCy", "ACCz", "BVP", "EDA", "TEMP")
    return ModelCard("incfed", features, ("not stressed", "stressed"), True, 30, 0.5, ("S2",), recipe)


def test_channels_of_a_recording_continue_in_chunks_through_all_of_it(generated: Path, tmp_path: Path) -> None:
    card = channels_card()
    recording = read_recording(generated, "S3")
    inputs = recording_inputs(recording, card)
    assert inputs.note is None
    np.testing.assert_array_equal(inputs.times, np.arange(2400) / 4)
    # The same values as in training, whose chunks lie inside labelled stretches.
    data = load_study(generated, cache=tmp_path).clients(card.recipe, task="affect").of(["S3"])
    assert data.features == inputs.features
    first = math.ceil(np.flatnonzero(np.isin(recording.codes.values, (1, 2, 3, 4)))[0] * 4 / 700)
    np.testing.assert_array_equal(data["S3"].values[0], inputs.values[first : first + 30])
    model = random_model(inputs=6, card=card)
    model.save(tmp_path / "out.keras")
    scores = predict_recording(open_predictor(tmp_path / "out.keras"), inputs)
    arrays = {"S3": (inputs.values.reshape(-1, 30, 6), np.zeros((80, 30), int))}
    data = FederatedDataset.from_arrays(arrays, classes=model.classes, features=card.features)
    np.testing.assert_allclose(scores, model.decision_function(data)["S3"], atol=1e-5)


def test_channels_of_an_unlabelled_recording_are_scaled_by_all_of_it(generated: Path) -> None:
    unlabelled = read_recording(generated / "S3" / "S3_E4_Data")
    inputs = recording_inputs(unlabelled, channels_card())
    assert inputs.note == "No step is labelled: channels are z-scored over the whole recording."
    np.testing.assert_allclose(inputs.values.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(inputs.values.std(axis=0), 1, atol=1e-4)


@pytest.mark.parametrize(
    ("card", "baseline", "complaint"),
    [
        (channels_card(), (0.0, 9.0), "a baseline for raw channels, which are z-scored over all labelled steps"),
        (
            replace(channels_card(), recipe=Channels(device="watches")),
            None,
            "features 'channels' of a single recording; expected a stream of the model's inputs",
        ),
        (CARDS["chunks"], None, "trained on arrays, which has no recipe for features; expected a stream of its inputs"),
        (
            replace(CARDS["window"], features=("tEDA", "pEDA")),
            (0.0, 100.0),
            "pEDA, tEDA of shape (20, 2) by recipe CorrectedFeatures(columns=('pEDA', 'tEDA')); "
            "expected tEDA, pEDA of shape (20, 2)",
        ),
        (replace(CARDS["window"], steps=10), (0.0, 100.0), "expected pEDA, tEDA of shape (10, 2)"),
    ],
)
def test_a_model_that_a_recording_does_not_fit(
    card: ModelCard, baseline: tuple[float, float] | None, complaint: str, generated: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        recording_inputs(read_recording(generated / "S3" / "S3_E4_Data"), card, baseline)
    assert complaint in str(caught.value)


def test_a_stretched_recording_has_times_from_start_to_end(generated: Path) -> None:
    inputs = recording_inputs(read_recording(generated, "S2"), random_card(recipe="thesis", hrv_window=2.0))
    assert len(inputs.times) == len(inputs.values)
    assert 0 < inputs.times[0] < 60
    assert inputs.times[-1] == pytest.approx(600, abs=0.01)
    assert np.ptp(np.diff(inputs.times)) < 1e-9


def test_the_same_recording_in_every_form(generated: Path) -> None:
    card = random_card()
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
        np.testing.assert_allclose(inputs.values, expected.values, atol=1e-3)


def test_a_baseline_that_is_told_takes_the_place_of_labels(generated: Path) -> None:
    card = random_card()
    labelled = read_recording(generated, "S3")
    seconds = np.flatnonzero(labelled.codes.values == 1)[[0, -1]] / labelled.codes.rate
    baseline = (float(seconds[0]), float(seconds[1]))
    unlabelled = read_recording(generated / "S3" / "S3_E4_Data")
    assert not unlabelled.codes.values.any()
    told = recording_inputs(unlabelled, card, baseline)
    np.testing.assert_allclose(told.values, recording_inputs(labelled, card).values, atol=1e-2)
    other = recording_inputs(labelled, card, (0.0, 100.0))
    assert not np.allclose(other.values, told.values, atol=0.1)


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
        recording_inputs(read_recording(tmp_path / "E4"), random_card(), baseline)
    assert complaint in str(caught.value)


def test_recordings_that_cannot_be_read(generated: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("subject,start,end,label\nP9,0,5,1\n")
    for arguments, complaint in (
        ((generated,), "3 subjects; expected --subject with one of S2, S3, S4"),
        ((generated, "S9"), "no subject S9; expected subjects out of S2, S3, S4"),
        ((generated / "S3", "S4"), "subject S3; expected subject S4"),
        ((generated / "S3", "S4", labels), "subject S3; expected subject S4"),
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


@pytest.mark.parametrize("ending", ["keras", "tflite"])
@pytest.mark.parametrize("reading", CARDS)
def test_200_units_keep_far_ahead_of_the_sensors(reading: str, ending: str, tmp_path: Path) -> None:
    model_of(reading, units=200).save(tmp_path / f"out.{ending}")
    predictor = open_predictor(tmp_path / f"out.{ending}")
    series = np.random.default_rng(0).normal(size=(5400, 2)).astype(np.float32)
    # A WESAD subject's hour and a half, at one step a second.
    values = windows_of(series, STEPS) if reading == "window" else series
    recording = RecordingInputs(predictor.model.card.features, np.arange(float(len(values))), values)
    speeds = {
        "stream": steps_a_second(lambda: [predictor.step(features) for features in series[:500]], 500),
        "recording": steps_a_second(lambda: predict_recording(predictor, recording), len(series)),
    }
    for name, speed in speeds.items():
        print(
            f"{ending}, {reading}, {name}: {speed:,.0f} steps/s, {speed / FEATURE_RATE:,.0f} times real time at 1 Hz, "
            f"{speed / SENSOR_RATE:,.0f} at 64 Hz"
        )
        assert speed > 1000 * FEATURE_RATE
        assert speed > SENSOR_RATE
