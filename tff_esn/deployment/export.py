"""Trained models as files: in Keras's format and in TensorFlow Lite's.

A model is a single file with its card inside, as the member `model.json` of a zip archive: a
`.keras` is such an archive, and a `.tflite` has one at its end, where TensorFlow Lite keeps the
files that belong to a model. Other readers of either format see no difference. A run's folder has
`model.keras`, with the card inside or beside it.

Nothing in a file is run to read it. Of a `.keras` its description and its arrays are read, without
Keras; a `.tflite` is refused unless it consists of the few operations an export has.
"""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tff_esn.deployment.keras_model import keras_model
from tff_esn.errors import ConfigError, DataError, TffEsnError
from tff_esn.parameters import from_mapping
from tff_esn.readout.model import ModelCard, TrainedESN
from tff_esn.readout.readout import Activation, Readout, output_layer
from tff_esn.reservoir.esn import ESN
from tff_esn.reservoir.states import carried_states
from tff_esn.reservoir.weights import ReservoirWeights
from tff_esn.store.files import atomic_write

MODEL, CARD = "model.keras", "model.json"
KERAS, TFLITE = ".keras", ".tflite"
#: The operations of an exported step, all of TensorFlow Lite's built-in ones.
OPERATIONS = {"FULLY_CONNECTED", "ADD", "MUL", "TANH", "LOGISTIC", "SOFTMAX"}
SIGNATURE = {"inputs": ["features", "state"], "outputs": ["probability", "state"]}

_ACTIVATIONS: dict[str, Activation] = {"LOGISTIC": "sigmoid", "SOFTMAX": "softmax"}
_METADATA, _CONFIG, _WEIGHTS = "metadata.json", "config.json", "model.weights.h5"
_MEMBERS = (_METADATA, _CONFIG, _WEIGHTS)
_EXPECTED = {
    KERAS: "a trained model: the folder of its run, or what `tff-esn export` writes",
    TFLITE: "a step model that `tff-esn export --format tflite` writes",
}
_LAYERS = [("InputLayer", None), ("Reservoir", "tff_esn>Reservoir"), ("Dense", None)]
#: Settings of the layers with which a model is fully described by its weights.
_RESERVOIR_SETTINGS = {
    "activation": "tanh",
    "dtype": "float32",
    "return_sequences": False,
    "return_state": False,
    "go_backwards": False,
    "stateful": False,
    "time_major": False,
}
_READOUT_SETTINGS = {"dtype": "float32", "use_bias": True}
_SHOWN_LAYERS = 6
#: Largest error of a `.tflite` step relative to the step computed here from its weights.
_TOLERANCE = 1e-4
#: Additional error per unit of weight of the readout: rounding in float32.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class _KerasFile:
    """The members of a `.keras` archive that matter, as bytes."""

    path: Path
    members: Mapping[str, bytes]

    @classmethod
    def read(cls, source: Path) -> _KerasFile:
        path = source / MODEL if source.is_dir() else source
        with _reading(path, _EXPECTED[KERAS]), zipfile.ZipFile(path) as archive:
            found = {info.filename: info for info in archive.infolist()}
            for name in _MEMBERS:
                if name not in found:
                    raise DataError(path, f"no {name} in the archive", _EXPECTED[KERAS])
            wanted = [found[name] for name in (*_MEMBERS, CARD) if name in found]
            for info in wanted:
                # Keras does not compress, so that nothing in an archive is larger than the archive.
                if info.compress_type != zipfile.ZIP_STORED:
                    raise DataError(path, f"{info.filename} is compressed", "an archive as Keras saves it")
            return cls(path, {info.filename: archive.read(info) for info in wanted})

    def card(self) -> ModelCard:
        """The card inside an exported file, or beside a run's model."""
        if CARD in self.members:
            with _reading(self.path, f"a card, {CARD}, in it"):
                return _parsed_card(f"{self.path}: {CARD}", self.members[CARD])
        beside = self.path.with_name(CARD)
        with _reading(beside, "the model's card, in the model's file or beside it"):
            return _parsed_card(str(beside), beside.read_bytes())

    def model(self) -> TrainedESN:
        """The model, after checks that there is nothing to it but its weights."""
        path = self.path
        with _reading(path, _EXPECTED[KERAS]):
            description = json.loads(self.members[_CONFIG])
            entries = description["config"]["layers"]
            found = [(entry["class_name"], entry["registered_name"]) for entry in entries]
            if description["class_name"] != "Sequential" or found != _LAYERS:
                raise DataError(path, _described(description["class_name"], found), "one Reservoir and one Dense layer")
            shape, reservoir, readout = (entry["config"] for entry in entries)
            _require(path, "reservoir", reservoir, _RESERVOIR_SETTINGS)
            _require(path, "readout", readout, _READOUT_SETTINGS)
            # A layer of given weights has no seed.
            settings = {field.name: reservoir[field.name] for field in fields(ESN) if field.name != "seed"}
            config = from_mapping(ESN, settings, str(path))
            inputs, units, outputs = shape["batch_input_shape"][-1], config.units, readout["units"]
            shapes = {
                "reservoir/cell/vars/0": (inputs, units),
                "reservoir/cell/vars/1": (units, units),
                "reservoir/cell/vars/2": (units,),
                "reservoir/cell/vars/3": (units,),
                "dense/vars/0": (units, outputs),
                "dense/vars/1": (outputs,),
            }
            arrays = _arrays(path, self.members[_WEIGHTS], shapes)
            kernel, recurrent_kernel, bias, gain, readout_kernel, readout_bias = arrays
            weights = ReservoirWeights(kernel, recurrent_kernel, bias, gain, config.leaking_rate)
            # As they were trained: by gradients in float32, or solved in float64.
            dtype = np.float64 if readout["activation"] == "linear" else np.float32
            dense = Readout(readout_kernel.astype(dtype), readout_bias.astype(dtype), readout["activation"])
        return _checked(path, TrainedESN(weights, dense, self.card()))


def load_model(source: str | PathLike[str]) -> TrainedESN:
    """Reads a model from a run's folder or from a file, without running anything in it.

    Args:
        source: A run's folder, a `.keras` file (with its card inside or beside it) or a `.tflite` file.

    Raises:
        DataError: The file is missing, damaged or not such a model.
        ConfigError: The card has a wrong or unknown key.
    """
    path = Path(source)
    if path.suffix == TFLITE:
        return open_tflite(path)[1]
    if path.suffix != KERAS and not path.is_dir():
        raise DataError(path, "no model" if path.exists() else "no such file or folder", _EXPECTED[KERAS])
    return _KerasFile.read(path).model()


def save_model(model: TrainedESN, path: Path) -> None:
    """Writes a model as one file with its card inside, whole or not at all.

    A `.keras` holds the whole model: `(batch, steps, features)` to the outputs at the last step. A `.tflite` holds one
    step, with inputs `features` `(1, n)` and `state` `(1, units)` and outputs `probability` `(1, outputs)` and `state`,
    in float32, made of built-in operations only. A sequence begins with a state of zeros, and the caller passes each
    state to the next step. Outputs of a ridge readout are as `TrainedESN.decision_scores` takes them.

    Args:
        model: The model.
        path: A name that ends in `.keras` or `.tflite`.
    """
    if path.suffix not in (KERAS, TFLITE):
        raise ConfigError(f"{path}: a name that ends in {path.suffix!r}; expected {KERAS!r} or {TFLITE!r}")
    if path.suffix == KERAS:
        members = _keras_members(model)
        with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
            for name, content in members.items():
                archive.writestr(zipfile.ZipInfo(name), content)
            _add_card(archive, model.card)
        return
    step = _converted(model)
    with atomic_write(path) as file:
        file.write(step)
        with zipfile.ZipFile(file, "w") as archive:
            _add_card(archive, model.card)
            # The archive's checksum is of the card alone.
            archive.comment = hashlib.sha256(step).hexdigest().encode()


def open_tflite(path: Path) -> tuple[Any, TrainedESN]:
    """An interpreter of a saved step, on one thread, and the model.

    Raises:
        DataError: The file is missing, damaged or not such a model.
        ConfigError: The card has a wrong or unknown key.
    """
    with _reading(path, _EXPECTED[TFLITE]):
        content = path.read_bytes()
        step, card_text = _split_tflite(path, content)
        card = _parsed_card(f"{path}: {CARD}", card_text)
        interpreter = _interpreter(path, step)
        model = TrainedESN(*_tflite_weights(interpreter), card)
        _check_step(path, interpreter, model)
    return interpreter, _checked(path, model)


@contextmanager
def _reading(path: Path, expected: str) -> Iterator[None]:
    """Turns any error while reading a file into one line about it."""
    try:
        yield
    except TffEsnError:
        raise
    except OSError as error:
        raise DataError(path, error.strerror or str(error), expected) from None
    # A damaged or hostile file can raise almost anything, from BadZipFile to RecursionError.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(path, f"cannot be read ({reason})", expected) from None


def _keras_members(model: TrainedESN) -> dict[str, bytes]:
    """The members of the archive that Keras saves, by name."""
    with tempfile.TemporaryDirectory() as scratch:
        keras_model(model).save(Path(scratch) / MODEL)
        with zipfile.ZipFile(Path(scratch) / MODEL) as archive:
            members = {name: archive.read(name) for name in _MEMBERS}
    # Without the time: the same model makes the same file.
    metadata = json.loads(members[_METADATA])
    del metadata["date_saved"]
    return {**members, _METADATA: json.dumps(metadata).encode()}


def _add_card(archive: zipfile.ZipFile, card: ModelCard) -> None:
    archive.writestr(zipfile.ZipInfo(CARD), json.dumps(card.to_json(), indent=1))


def _parsed_card(source: str, text: bytes) -> ModelCard:
    values = json.loads(text)
    if not isinstance(values, dict):
        raise ConfigError(f"{source}: a {type(values).__name__}; expected a model's card")
    try:
        return from_mapping(ModelCard, values, source)
    except ConfigError as error:  # A recipe's error does not know the file.
        raise error if str(error).startswith(source) else ConfigError(f"{source}: {error}") from None


def _checked(path: Path, model: TrainedESN) -> TrainedESN:
    """The model, after a check that its card fits."""
    card, readout = model.card, model.readout
    outputs, classes = len(readout.bias), len(card.classes)
    if len(card.features) != model.weights.inputs:
        raise DataError(path, f"{model.weights.inputs} inputs", f"the {len(card.features)} features of its card")
    # Closed forms have an output for each of two classes too.
    if outputs != output_layer(classes)[0] and (readout.activation, outputs) != ("linear", classes):
        raise DataError(path, f"{outputs} output(s)", f"those of the {classes} classes of its card")
    if not np.isfinite(card.threshold):
        raise DataError(path, f"threshold {card.threshold}", "a finite one")
    return model


def _described(kind: str, layers: list[tuple[str, str | None]]) -> str:
    names = [str(registered or name) for name, registered in layers]
    more = ", ..." if len(names) > _SHOWN_LAYERS else ""
    return f"a {kind} model of {', '.join(names[:_SHOWN_LAYERS])}{more}"


def _require(path: Path, layer: str, config: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    for key, value in settings.items():
        if config[key] != value:
            raise DataError(path, f"{layer} with {key} = {config[key]!r}", f"{key} = {value!r}")


def _arrays(path: Path, content: bytes, shapes: Mapping[str, tuple[int, ...]]) -> list[NDArray[np.float32]]:
    """Arrays by their names in Keras's file of weights."""
    import h5py  # type: ignore[import-untyped]

    arrays = []
    with h5py.File(io.BytesIO(content), "r") as file:
        for name, shape in shapes.items():
            dataset = file
            for part in ("_layer_checkpoint_dependencies", *name.split("/")):
                # Links of other kinds lead out of the file.
                if not isinstance(dataset.get(part, getlink=True), h5py.HardLink):
                    raise DataError(path, f"no weights {name}", _EXPECTED[KERAS])
                dataset = dataset[part]
            if not isinstance(dataset, h5py.Dataset) or dataset.shape != shape or dataset.dtype != np.dtype("<f4"):
                raise DataError(path, f"weights {name} are {dataset}", f"32-bit numbers of shape {shape}")
            # As Keras writes them: whole and inside the file, which bounds their size by the file's.
            if dataset.external or dataset.is_virtual or dataset.id.get_storage_size() != dataset.nbytes:
                raise DataError(path, f"weights {name} are not stored as they are", "weights as Keras saves them")
            arrays.append(dataset[()])
            if not np.isfinite(arrays[-1]).all():
                raise DataError(path, f"weights {name} are not all finite", "finite numbers")
    return arrays


def _converted(model: TrainedESN) -> bytes:
    import tensorflow as tf

    weights, readout = model.weights, model.readout
    # The gain goes into the kernels: g (W_in u + W x) = (g W_in) u + (g W) x.
    input_kernel, recurrent_kernel = weights.input_kernel * weights.gain, weights.recurrent_kernel * weights.gain
    kernel, bias = readout.kernel.astype(np.float32), readout.bias.astype(np.float32)
    rate = weights.leaking_rate

    def step(features: tf.Tensor, state: tf.Tensor) -> dict[str, tf.Tensor]:
        drive = tf.matmul(features, input_kernel) + weights.bias + tf.matmul(state, recurrent_kernel)
        active = tf.tanh(drive)
        following = active if rate == 1 else (1 - rate) * state + rate * active
        output = tf.keras.activations.get(readout.activation)(tf.matmul(following, kernel) + bias)
        return {"probability": output, "state": following}

    module = tf.Module()
    shapes = {"features": weights.inputs, "state": weights.units}
    signature = [tf.TensorSpec((1, size), tf.float32, name) for name, size in shapes.items()]
    module.step = tf.function(step, input_signature=signature, autograph=False)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([module.step.get_concrete_function()], module)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    return converter.convert()


def _split_tflite(path: Path, content: bytes) -> tuple[bytes, bytes]:
    """The model and its card, after a check that the model is what was written."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise DataError(path, "no card at its end", _EXPECTED[TFLITE])
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = archive.namelist()
        if names != [CARD] or archive.getinfo(CARD).compress_type != zipfile.ZIP_STORED:
            raise DataError(path, f"{', '.join(names) or 'nothing'} at its end", f"a {CARD}, not compressed")
        model = content[: archive.getinfo(CARD).header_offset]
        if hashlib.sha256(model).hexdigest().encode() != archive.comment:
            raise DataError(path, "the model was changed or damaged after it was written", _EXPECTED[TFLITE])
        return model, archive.read(CARD)


def _interpreter(path: Path, model: bytes) -> Any:
    import tensorflow as tf

    interpreter = tf.lite.Interpreter(
        model_content=model,
        num_threads=1,
        # Without XNNPACK, which announces itself on standard error and is no faster on one row.
        experimental_op_resolver_type=tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    # Before anything is run: the interpreter can run all of TensorFlow's operations, those on files too.
    foreign = sorted({operation["op_name"] for operation in interpreter._get_ops_details()} - OPERATIONS)
    if foreign:
        raise DataError(path, f"operations {', '.join(foreign)}", f"only {', '.join(sorted(OPERATIONS))}")
    signatures = interpreter.get_signature_list()
    if list(signatures.values()) != [SIGNATURE]:
        raise DataError(path, f"signatures {signatures}", f"one with {SIGNATURE}")
    interpreter.allocate_tensors()
    return interpreter


def _tflite_weights(interpreter: Any) -> tuple[ReservoirWeights, Readout]:
    """The weights of an exported step, with the gain in its kernels."""
    given = interpreter.get_signature_runner().get_input_details()
    features, state = given["features"]["index"], given["state"]["index"]
    layers: dict[str, tuple[NDArray, NDArray]] = {}
    rate, operations = 1.0, interpreter._get_ops_details()
    for operation in operations:
        source, *constants = operation["inputs"]
        if operation["op_name"] == "FULLY_CONNECTED":
            layer = {features: "input", state: "recurrent"}.get(source, "readout")
            kernel = interpreter.get_tensor(constants[0]).T
            # The index of a bias that is left out is -1.
            bias = interpreter.get_tensor(constants[1]) if constants[1] >= 0 else np.zeros(kernel.shape[1], np.float32)
            layers[layer] = (kernel, bias)
        elif operation["op_name"] == "MUL" and source != state:
            rate = float(interpreter.get_tensor(constants[0]))
    if set(layers) != {"input", "recurrent", "readout"}:
        raise ValueError("no reservoir with a readout among its operations")
    (input_kernel, bias), (recurrent_kernel, _) = layers["input"], layers["recurrent"]
    weights = ReservoirWeights(input_kernel, recurrent_kernel, bias, np.ones(len(bias), np.float32), rate)
    activations = [_ACTIVATIONS[name] for name in (own["op_name"] for own in operations) if name in _ACTIVATIONS]
    return weights, Readout(*layers["readout"], activations[0] if activations else "linear")


def _check_step(path: Path, interpreter: Any, model: TrainedESN) -> None:
    """Checks by one step that a `.tflite` is the model its weights say."""
    random, weights, readout = np.random.default_rng(0), model.weights, model.readout
    features = random.normal(size=(1, weights.inputs)).astype(np.float32)
    state = random.uniform(-1, 1, (1, weights.units)).astype(np.float32)
    found = interpreter.get_signature_runner()(features=features, state=state)
    (following,) = carried_states([features], weights, state)
    rounding = _ROUNDING * np.abs(readout.kernel).sum(axis=0).max()
    for name, value, margin in (("state", following, 0.0), ("probability", readout.outputs(following), rounding)):
        if not np.allclose(found[name].reshape(value.shape), value, atol=_TOLERANCE + margin):
            raise DataError(path, f"a {name} that is not a reservoir's with a readout", _EXPECTED[TFLITE])
