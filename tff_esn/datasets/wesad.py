"""WESAD in the layout of its public release (Schmidt et al., ICMI 2018).

Each subject is a Python-2 pickle `S2/S2.pkl`:
`{'subject', 'signal': {'wrist': {...}, 'chest': {...}}, 'label'}`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tff_esn.datasets.recording import Recording, Signal
from tff_esn.datasets.study import STUDIES, StudyFolder
from tff_esn.errors import DataError

WRIST_RATES = {"ACC": 32, "BVP": 64, "EDA": 4, "TEMP": 4}
CHEST_RATES = {"ACC": 700, "ECG": 700, "EMG": 700, "EDA": 700, "Temp": 700, "Resp": 700}
LABEL_RATE = 700
_DEVICES = {"wrist": WRIST_RATES, "chest": CHEST_RATES}


def _latin1_bytes(text: str, encoding: str) -> bytes:
    """Stands in for `_codecs.encode`, by which Python 3 pickles bytes at protocols 0 to 2."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes encoded as {encoding!r}")
    return text.encode("latin1")


class _ArrayType:
    """Stands in for `ndarray`, which a pickle only names."""


def _empty_array(kind: type, shape: tuple[int, ...], code: bytes | str) -> NDArray:
    """Stands in for `_reconstruct`: what an array holds comes later, and none is left with what memory held before."""
    if kind is not _ArrayType or shape != (0,) or code not in (b"b", "b"):
        raise pickle.UnpicklingError(f"an array that begins with {kind}, {shape} and {code!r}")
    return np.empty(0, np.int8)


_ADMITTED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy._core.multiarray", "_reconstruct"): _empty_array,
    ("numpy", "ndarray"): _ArrayType,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _latin1_bytes,
}
#: The one written in Python, no slower on a few large arrays: the other allots as much memory as a number in the
#: file says, however large. Type stubs leave it out.
_PythonUnpickler: Any = pickle._Unpickler


class _ArraysOnlyUnpickler(_PythonUnpickler):
    """Builds NumPy arrays and plain containers, and refuses to import anything else."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None


def load_arrays(path: Path) -> Any:
    """Loads a pickle that may hold NumPy arrays and plain containers and nothing else.

    Nothing in the file is executed. Strings of Python 2 come back as bytes: arrays
    then share the memory of the string they were read from, which halves the peak.
    """
    expected = "a pickle of NumPy arrays in plain containers, as WESAD's SX.pkl is"
    try:
        with path.open("rb") as file:
            return _ArraysOnlyUnpickler(file, encoding="bytes").load()
    except FileNotFoundError:
        raise DataError(path, "no such file", "a WESAD pickle") from None
    except OSError as error:
        raise DataError(path, f"cannot be read ({error.strerror})", "a WESAD pickle") from None
    # A damaged or hostile pickle can raise almost anything, from EOFError to MemoryError.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(path, f"not a usable pickle ({reason})", expected) from None


def _with_text_keys(path: Path, value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(path, f"{what} is a {type(value).__name__}", "a dictionary")
    return {key.decode("latin1") if isinstance(key, bytes) else str(key): item for key, item in value.items()}


def _numbers(path: Path, value: Any, what: str) -> NDArray:
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiu" or value.ndim not in (1, 2):
        found = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        raise DataError(path, f"{what} is {found}", "a numeric array of one or two dimensions")
    return value[:, 0] if value.ndim == 2 and value.shape[1] == 1 else value


def _signals(path: Path, device: str, arrays: Mapping[str, Any]) -> Iterator[tuple[str, Signal]]:
    rates = _DEVICES[device]
    for sensor, value in arrays.items():
        name = f"{device}/{sensor}"
        if sensor not in rates:
            raise DataError(path, f"signal {name}", f"signals {', '.join(rates)} of the {device} device")
        values = _numbers(path, value, name)
        axes = 3 if sensor == "ACC" else 1
        if (values.shape[1] if values.ndim == 2 else 1) != axes:
            raise DataError(path, f"{name} of shape {values.shape}", f"{axes} column(s)")
        yield name, Signal(values, rates[sensor])


def read_wesad_subject(path: Path) -> Recording:
    """Reads one `SX.pkl`; memory stays near the size of its arrays."""
    content = _with_text_keys(path, load_arrays(path), "the pickle")
    for key in ("signal", "label"):
        if key not in content:
            raise DataError(path, f"keys {', '.join(content) or 'none'}", f"a key {key!r}")
    devices = _with_text_keys(path, content["signal"], "'signal'")
    signals: dict[str, Signal] = {}
    for device in _DEVICES:
        signals.update(_signals(path, device, _with_text_keys(path, devices.get(device, {}), f"'{device}'")))
    codes = _numbers(path, content["label"], "label")
    if codes.ndim != 1 or codes.dtype.kind not in "iu" or not len(codes):
        raise DataError(path, f"label is {codes.dtype} {codes.shape}", "one column of integers")
    return Recording(path.stem, signals, Signal(codes, LABEL_RATE), path)


@STUDIES.register
class WesadStudy(StudyFolder):
    """A folder of WESAD subjects, `SX/SX.pkl` each."""

    name = "wesad"
    holds = "WESAD subjects (S2/S2.pkl, ...)"
    devices = ("chest", "wrist")

    @classmethod
    def recognize(cls, root: Path, labels: Path | None) -> WesadStudy | None:
        """Pickles, unless labels ask for the E4 folders beside them."""
        study = cls(root)
        return study if labels is None and study.subjects else None

    @property
    def subjects(self) -> tuple[str, ...]:
        """Subjects in the order of their numbers."""
        found = [folder.name for folder in self.root.iterdir() if self.is_subject(folder)]
        return tuple(sorted(found, key=lambda subject: (len(subject), subject)))

    @classmethod
    def is_subject(cls, folder: Path) -> bool:
        """Whether a folder looks like a subject of the release."""
        return (folder / f"{folder.name}.pkl").is_file()

    def files(self, subject: str) -> tuple[Path, ...]:
        """The files that a subject's recording is read from."""
        return (self.root / subject / f"{subject}.pkl",)

    def read(self, subject: str) -> Recording:
        """Reads one subject."""
        return read_wesad_subject(*self.files(subject))
