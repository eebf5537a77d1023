from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable

import h5py
import numpy as np
import pytest
import tensorflow as tf

from tff_esn.deployment import export
from tff_esn.deployment.export import CARD, MODEL, load_model, open_tflite, save_model
from tff_esn.deployment.keras_model import keras_model
from tff_esn.errors import ConfigError, DataError
from tff_esn.features.extraction import FEATURES
from tff_esn.features.recipe import FEATURE_RECIPES
from tff_esn.readout.model import ModelCard, TrainedESN
from tff_esn.readout.readout import Readout
from tff_esn.reservoir.esn import ESN
from tff_esn.reservoir.layer import Reservoir
from tff_esn.reservoir.weights import draw_weights

CLASSES = {1: ("not stressed", "stressed"), 2: ("not stressed", "stressed"), 3: ("a", "b", "c")}


def random_card(inputs: int = 2, outputs: int = 1, recipe: str = "corrected", **settings: Any) -> ModelCard:
    """The card of a model of so many features of a recording."""
    made = FEATURE_RECIPES[recipe](columns=FEATURES[:inputs], **settings)
    carried = made.reading == "carried"
    steps = None if carried else made.steps
    return ModelCard("central", FEATURES[:inputs], CLASSES[outputs], carried, steps, 0.5, ("S2", "S3"), made)


def random_model(
    inputs: int = 2, outputs: int = 1, linear: bool = False, card: ModelCard | None = None, **settings: Any
) -> TrainedESN:
    config = {"units": 20, "leaking_rate": 0.3, "bias_scaling": 0.2, "spectral_radius": 0.9, **settings}
    weights = draw_weights(ESN(**config), inputs, seed=1)
    random = np.random.default_rng(2)
    kernel, bias = (random.normal(size=size).astype(np.float32) for size in ((weights.units, outputs), outputs))
    readout = Readout(kernel, bias, "sigmoid" if outputs == 1 else "softmax")
    if linear:
        readout = Readout(kernel.astype(np.float64), bias.astype(np.float64), "linear")
    return TrainedESN(weights, readout, card or random_card(inputs, outputs))


def with_gain(model: TrainedESN) -> TrainedESN:
    """As after intrinsic plasticity."""
    gain = np.random.default_rng(3).uniform(0.5, 1.5, model.weights.units).astype(np.float32)
    return replace(model, weights=replace(model.weights, gain=gain))


def large_weights() -> TrainedESN:
    """As by ridge regression with hardly any regularisation; some of so many outputs are differences of large ones."""
    card = replace(random_card(), classes=tuple(map(str, range(300))))
    model = random_model(outputs=300, linear=True, card=card)
    return replace(model, readout=replace(model.readout, kernel=model.readout.kernel * 2.0**20))


def write_run(folder: Path, model: TrainedESN) -> Path:
    """The folder of a run with its model."""
    folder.mkdir(parents=True)
    model.save(folder / MODEL)
    return folder


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two features, read in windows, with its exports."""
    folder = write_run(tmp_path_factory.mktemp("model") / "run", random_model())
    for name in ("out.keras", "out.tflite"):
        save_model(load_model(folder), folder / name)
    return folder


def equal_models(one: TrainedESN, other: TrainedESN) -> None:
    assert one.card == other.card
    assert one.readout.activation == other.readout.activation
    for name in ("input_kernel", "recurrent_kernel", "bias", "gain"):
        np.testing.assert_array_equal(getattr(one.weights, name), getattr(other.weights, name))
    for name in ("kernel", "bias"):
        np.testing.assert_array_equal(getattr(one.readout, name), getattr(other.readout, name))
    assert one.weights.leaking_rate == pytest.approx(other.weights.leaking_rate, rel=1e-7)


MODELS: dict[str, Callable[[], TrainedESN]] = {
    "plain": random_model,
    "gain": lambda: with_gain(random_model()),
    "no leak, no bias": lambda: random_model(leaking_rate=1.0, bias_scaling=0.0),
    "one input": lambda: random_model(inputs=1, bias_scaling=0.0),
    "as many inputs as units": lambda: random_model(inputs=4, units=4),
    "one unit": lambda: random_model(inputs=1, units=1),
    "three classes": lambda: random_model(outputs=3),
    "ridge": lambda: random_model(linear=True),
    "ridge, three classes": lambda: random_model(outputs=3, linear=True),
    "ridge, an output for each of two classes": lambda: random_model(outputs=2, linear=True),
    "ridge, large weights": large_weights,
    "state kept": lambda: random_model(card=random_card(reading="carried")),
    "chunks of arrays": lambda: random_model(card=replace(random_card(), per_step=True, steps=7, recipe=None)),
    "sequences of any length": lambda: random_model(card=replace(random_card(), steps=None, recipe=None)),
}


@pytest.mark.parametrize("name", MODELS)
def test_files_hold_the_model_and_its_card(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    run = write_run(tmp_path / "run", model)
    beside = tmp_path / "beside"
    beside.mkdir()
    keras_model(model).save(beside / MODEL)
    (beside / CARD).write_text(json.dumps(model.card.to_json()))
    for source in (run, run / MODEL, beside, beside / MODEL):
        equal_models(load_model(source), model)
    # TensorFlow Lite's step has the gain in its kernels.
    weights, gain = model.weights, model.weights.gain
    kernels = {"input_kernel": weights.input_kernel * gain, "recurrent_kernel": weights.recurrent_kernel * gain}
    folded = replace(weights, **kernels, gain=np.ones_like(gain))
    save_model(load_model(run), tmp_path / "out.tflite")
    equal_models(load_model(str(tmp_path / "out.tflite")), replace(model, weights=folded))


def test_keras_loads_a_saved_model(run: Path) -> None:
    windows = np.random.default_rng(0).normal(size=(5, 20, 2)).astype(np.float32)
    loaded = tf.keras.models.load_model(run / "out.keras", safe_mode=True)
    np.testing.assert_array_equal(loaded(windows), keras_model(load_model(run))(windows))


def test_the_step_model_is_plain_tensorflow_lite(run: Path) -> None:
    """Anybody's interpreter runs it, the card at its end notwithstanding."""
    interpreter = tf.lite.Interpreter(model_path=str(run / "out.tflite"))
    step = interpreter.get_signature_runner()
    shapes = {name: tuple(details["shape"]) for name, details in step.get_input_details().items()}
    assert shapes == {"features": (1, 2), "state": (1, 20)}
    for details in (*step.get_input_details().values(), *step.get_output_details().values()):
        assert details["dtype"] is np.float32
    found = step(features=np.ones((1, 2), np.float32), state=np.zeros((1, 20), np.float32))
    assert {name: value.shape for name, value in found.items()} == {"probability": (1, 1), "state": (1, 20)}
    own, _ = open_tflite(run / "out.tflite")
    assert {operation["op_name"] for operation in own._get_ops_details()} <= export.OPERATIONS


@pytest.mark.parametrize("suffix", ["keras", "tflite"])
def test_the_same_model_makes_the_same_file_and_half_a_file_is_never_seen(
    run: Path, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / f"out.{suffix}"
    save_model(load_model(run), out)
    assert out.read_bytes() == (run / f"out.{suffix}").read_bytes()
    out.write_bytes(b"before")
    monkeypatch.setattr(export, "_add_card", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save_model(load_model(run), out)
    assert out.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [out]


def test_a_wrong_ending_is_refused(tmp_path: Path) -> None:
    for name in ("out", "out.h5"):
        with pytest.raises(ConfigError, match=rf"{name}: a name that ends in .*; expected '\.keras' or '\.tflite'"):
            random_model().save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def rewritten(source: Path, target: Path, **replaced: bytes) -> Path:
    """A `.keras` with some members replaced; underscores stand for dots."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            new.writestr(name, replaced.get(name.replace(".", "_"), old.read(name)))
    return target


def without_card(run: Path, folder: Path) -> None:
    """Writes a run's model alone."""
    with zipfile.ZipFile(run / MODEL) as old, zipfile.ZipFile(folder / MODEL, "w") as new:
        for name in set(old.namelist()) - {CARD}:
            new.writestr(name, old.read(name))


def refused(source: Path) -> str:
    with pytest.raises((DataError, ConfigError)) as caught:
        load_model(source)
    assert str(source) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def layers(*chosen: tf.keras.layers.Layer) -> tf.keras.Model:
    return tf.keras.Sequential([tf.keras.Input((20, 2)), *chosen])


def functional() -> tf.keras.Model:
    inputs = tf.keras.Input((20, 2))
    return tf.keras.Model(inputs, tf.keras.layers.Dense(1, activation="sigmoid")(Reservoir(units=5)(inputs)))


@tf.keras.utils.register_keras_serializable("theirs")
class Dense(tf.keras.layers.Dense):
    """Somebody's layer of a familiar name."""


@pytest.mark.parametrize(
    ("build", "complaint"),
    [
        (
            lambda: layers(Reservoir(units=5), tf.keras.layers.Lambda(lambda x: x / 0), tf.keras.layers.Dense(1)),
            "a Sequential model of InputLayer, tff_esn>Reservoir, Lambda, Dense; expected one Reservoir and one Dense",
        ),
        (lambda: layers(tf.keras.layers.GRU(5), tf.keras.layers.Dense(1)), "InputLayer, GRU, Dense; expected"),
        (lambda: layers(Reservoir(units=5)), "InputLayer, tff_esn>Reservoir; expected"),
        (lambda: layers(Reservoir(units=5), Dense(1)), "tff_esn>Reservoir, theirs>Dense; expected"),
        (
            lambda: layers(*(tf.keras.layers.Dense(3) for _ in range(20))),
            "InputLayer, Dense, Dense, Dense, Dense, Dense, ...; expected",
        ),
        (functional, "a Functional model of InputLayer, tff_esn>Reservoir, Dense; expected"),
        (
            lambda: layers(Reservoir(units=5, return_sequences=True), tf.keras.layers.Dense(1, activation="sigmoid")),
            "reservoir with return_sequences = True; expected return_sequences = False",
        ),
        (
            lambda: layers(Reservoir(units=5, activation="relu"), tf.keras.layers.Dense(1, activation="sigmoid")),
            "reservoir with activation = 'relu'; expected activation = 'tanh'",
        ),
        (
            lambda: layers(Reservoir(units=5), tf.keras.layers.Dense(1, use_bias=False)),
            "readout with use_bias = False; expected use_bias = True",
        ),
        (
            lambda: layers(Reservoir(units=5), tf.keras.layers.Dense(1, activation="relu")),
            "readout with activation 'relu'; expected 'sigmoid' or 'linear'",
        ),
    ],
)
def test_another_model_is_refused(build: Callable[[], tf.keras.Model], complaint: str, tmp_path: Path) -> None:
    (tmp_path / CARD).write_text(json.dumps(random_card().to_json()))
    build().save(tmp_path / MODEL)
    assert complaint in refused(tmp_path)


@pytest.mark.parametrize("suffix", ["keras", "tflite"])
def test_a_damaged_file_is_one_clear_line(run: Path, suffix: str, tmp_path: Path) -> None:
    whole = (run / f"out.{suffix}").read_bytes()
    path = tmp_path / f"out.{suffix}"
    for content in (
        b"",
        b"no model",
        b"\x89HDF\r\n\x1a\n",
        bytes(1000),
        *(whole[: len(whole) * i // 20] for i in range(20)),
    ):
        path.write_bytes(content)
        refused(path)
    good = load_model(run / f"out.{suffix}")
    for position in np.linspace(0, len(whole) - 1, 100).astype(int):
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        path.write_bytes(damaged)
        try:
            found = load_model(path)
        except (DataError, ConfigError):
            continue
        # What a zip archive says about times and systems does not matter.
        equal_models(found, good)


def test_missing_files_are_named(run: Path, tmp_path: Path) -> None:
    assert "model.keras: No such file or directory; expected a trained model" in refused(tmp_path)
    assert "no such file or folder; expected a trained model" in refused(tmp_path / "nothing")
    assert "No such file" in refused(tmp_path / "nothing.tflite")
    without_card(run, tmp_path)
    assert "model.json: No such file or directory; expected the model's card" in refused(tmp_path)
    (tmp_path / "text.txt").write_text("text")
    assert "text.txt: no model; expected" in refused(tmp_path / "text.txt")


def test_what_would_grow_is_refused_unread(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "bomb.keras"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("metadata.json", "config.json", "model.weights.h5"):
            archive.writestr(name, b" " * 100_000_000)
    assert "metadata.json is compressed; expected" in refused(path)
    assert "maximum recursion depth" in refused(rewritten(run / "out.keras", path, config_json=b"[" * 100_000))

    def hollow(group: h5py.Group) -> None:
        for name, shape in {"0": (2, 100_000), "1": (100_000, 100_000)}.items():
            del group[name]
            group.create_dataset(name, shape, "<f4", chunks=(1, 1000))

    config = zipfile.ZipFile(run / MODEL).read("config.json").replace(b'"units": 20', b'"units": 100000')
    weights = changed_weights(run, hollow)
    assert "vars/0 are not stored as they are; expected" in refused(
        rewritten(run / "out.keras", path, config_json=config, model_weights_h5=weights)
    )


def changed_weights(run: Path, change: Callable[[h5py.Group], None]) -> bytes:
    """The weights of a run's model after a change among those of its reservoir."""
    with zipfile.ZipFile(run / MODEL) as archive:
        content = io.BytesIO(archive.read("model.weights.h5"))
    with h5py.File(content, "r+") as file:
        change(file["_layer_checkpoint_dependencies/reservoir/cell/vars"])
    return content.getvalue()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda group: group.pop("2"), "no weights reservoir/cell/vars/2"),
        (lambda group: group["2"].write_direct(np.full(20, np.nan, np.float32)), "vars/2 are not all finite"),
    ],
)
def test_wrong_weights_are_refused(
    change: Callable[[h5py.Group], None], complaint: str, run: Path, tmp_path: Path
) -> None:
    weights = changed_weights(run, change)
    assert complaint in refused(rewritten(run / "out.keras", tmp_path / "out.keras", model_weights_h5=weights))


def test_weights_in_another_file_are_refused(run: Path, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["bias"] = np.zeros(20, np.float32)

    def link(group: h5py.Group) -> None:
        del group["2"]
        group["2"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "bias")

    weights = changed_weights(run, link)
    message = refused(rewritten(run / "out.keras", tmp_path / "out.keras", model_weights_h5=weights))
    assert "no weights reservoir/cell/vars/2" in message


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"colour": "red"}, "no setting 'colour'; expected one of algorithm, classes, features, per_step, recipe"),
        ({"recipe": {"name": "corrected", "colour": "red"}}, "no setting 'colour'"),
        ({"recipe": {"name": "corrected", "columns": ["EEG"]}}, "columns.0 = 'EEG'"),
        ({"recipe": {"name": "correct"}}, "did you mean 'corrected'?"),
        ({"recipe": {"columns": ["HR"]}}, "no name among columns; expected one of channels, corrected, thesis"),
        ({"recipe": 3}, "recipe = 3"),
        ({"features": ["pEDA"]}, "2 inputs; expected the 1 features of its card"),
        ({"classes": ["a", "b", "c"]}, "1 output(s); expected those of the 3 classes of its card"),
        ({"steps": 0}, "steps = 0"),
        ({"threshold": "Infinity"}, "threshold inf; expected a finite one"),
        ({"threshold": None}, "threshold = None"),
    ],
)
def test_a_wrong_card_is_refused(changes: dict[str, Any], complaint: str, run: Path, tmp_path: Path) -> None:
    card = json.dumps({**random_card().to_json(), **changes})
    without_card(run, tmp_path)
    (tmp_path / CARD).write_text(card)
    with pytest.raises((DataError, ConfigError)) as caught:
        load_model(tmp_path)
    assert complaint in str(caught.value)
    inside = rewritten(run / "out.keras", tmp_path / "out.keras", model_json=card.encode())
    assert complaint in refused(inside)


def test_two_outputs_of_a_softmax_are_refused(tmp_path: Path) -> None:
    model = random_model(outputs=2)
    model.save(tmp_path / "out.keras")
    assert "2 output(s); expected those of the 2 classes" in refused(tmp_path / "out.keras")


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"3", b"\xff"])
def test_a_card_that_is_none_is_refused(content: bytes, run: Path, tmp_path: Path) -> None:
    without_card(run, tmp_path)
    (tmp_path / CARD).write_bytes(content)
    assert CARD in refused(tmp_path)
    assert CARD in refused(rewritten(run / "out.keras", tmp_path / "out.keras", model_json=content))


def converted(step: Callable[..., dict[str, tf.Tensor]], custom: bool = False) -> bytes:
    module = tf.Module()
    signature = [tf.TensorSpec((1, 2), tf.float32, "features"), tf.TensorSpec((1, 20), tf.float32, "state")]
    module.step = tf.function(step, input_signature=signature, autograph=False)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([module.step.get_concrete_function()], module)
    if custom:
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
    return converter.convert()


def writes_a_file(features: tf.Tensor, state: tf.Tensor) -> dict[str, tf.Tensor]:
    tf.io.write_file("written", "by a model")
    return {"probability": features[:, :1], "state": state}


@pytest.mark.parametrize(
    ("step", "complaint"),
    [
        (lambda features, state: {"probability": tf.exp(features), "state": state}, "operations EXP; expected only"),
        (lambda features, state: {"answer": tf.tanh(features), "state": tf.tanh(state)}, "signatures"),
        (lambda features, state: {"probability": tf.tanh(features), "state": tf.tanh(state)}, "no reservoir"),
        (writes_a_file, "FlexWriteFile"),
    ],
)
def test_a_foreign_step_is_refused(
    step: Callable[..., dict[str, tf.Tensor]],
    complaint: str,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    content = converted(step, custom=step is writes_a_file)
    monkeypatch.setattr(export, "_converted", lambda _: content)
    save_model(load_model(run), tmp_path / "out.tflite")
    assert complaint in refused(tmp_path / "out.tflite")
    assert not (tmp_path / "written").exists()


def test_a_step_that_is_not_what_its_weights_say_is_refused(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_model(run)
    weights, readout = model.weights, model.readout

    def twice(features: tf.Tensor, state: tf.Tensor) -> dict[str, tf.Tensor]:
        drive = tf.matmul(features, weights.input_kernel) + tf.matmul(state, weights.recurrent_kernel)
        following = tf.tanh(tf.tanh(drive + weights.bias))
        return {"probability": tf.sigmoid(tf.matmul(following, readout.kernel) + readout.bias), "state": following}

    content = converted(twice)
    monkeypatch.setattr(export, "_converted", lambda _: content)
    save_model(load_model(run), tmp_path / "out.tflite")
    assert "a state that is not a reservoir's with a readout" in refused(tmp_path / "out.tflite")
    bare = tmp_path / "bare.tflite"
    bare.write_bytes(content)
    assert "no card at its end; expected a step model" in refused(bare)
