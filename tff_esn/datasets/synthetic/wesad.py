"""Generated subjects as files, in the on-disk layout of WESAD's public release."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tff_esn.datasets.recording import Recording
from tff_esn.datasets.synthetic import is_generated, mark_generated
from tff_esn.datasets.synthetic.physiology import (
    DECIMALS,
    VERSION,
    Streams,
    draw_protocol,
    generate_subject,
    subject_names,
)
from tff_esn.errors import DataError, TffEsnError
from tff_esn.parallel import map_unordered
from tff_esn.store.files import atomic_write
from tff_esn.store.json_values import fingerprint

E4_START = 1495437325.0

# The pickler written in Python, whose methods by type can be replaced; type stubs leave most of it out.
_PythonPickler: Any = pickle._Pickler


class _Python2Pickler(_PythonPickler):
    """Writes strings and bytes as Python 2 wrote its `str`, as in WESAD's files."""

    def save_string(self, value: str | bytes) -> None:
        data = value.encode("latin1") if isinstance(value, str) else value
        if not self.bin:
            self.write(pickle.STRING + repr(data)[1:].encode("ascii") + b"\n")
        elif len(data) < 256:
            self.write(pickle.SHORT_BINSTRING + bytes([len(data)]) + data)
        else:
            self.write(pickle.BINSTRING + len(data).to_bytes(4, "little") + data)
        self.memoize(value)

    dispatch: ClassVar = {**_PythonPickler.dispatch, str: save_string, bytes: save_string}


@dataclass(frozen=True)
class _Options:
    """What the files of a subject depend on, besides its name."""

    minutes: float = 45.0
    chest: bool = False
    e4_csv: bool = False
    seed: int = 0
    protocol: Literal[0, 2] = 2


def _pickle_path(out: Path, subject: str) -> Path:
    return out / subject / f"{subject}.pkl"


def _write_pickle(file: BinaryIO, recording: Recording, protocol: Literal[0, 2]) -> None:
    devices: dict[str, dict[str, NDArray]] = {"wrist": {}, "chest": {}}
    for name, signal in recording.signals.items():
        device, sensor = name.split("/")
        devices[device][sensor] = signal.values.reshape(len(signal.values), -1)
    content = {"subject": recording.subject, "signal": devices, "label": recording.codes.values}
    _Python2Pickler(file, protocol).dump(content)


def _write_e4(folder: Path, recording: Recording) -> None:
    """The raw files of the wristband, with a header of start time and rate."""
    for sensor, decimals in DECIMALS.items():
        signal = recording.signal(f"wrist/{sensor}")
        columns = signal.values.reshape(len(signal.values), -1)
        header = "\n".join(", ".join([f"{value:.6f}"] * columns.shape[1]) for value in (E4_START, signal.rate))
        with atomic_write(folder / f"{sensor}.csv") as file:
            np.savetxt(file, columns, fmt=f"%.{decimals}f", delimiter=",", header=header, comments="")


@contextmanager
def _writing(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(out, f"cannot be written ({error.strerror})", "a folder with room for the subjects") from error


def _write_subject(subject: str, out: Path, options: _Options) -> None:
    recording = generate_subject(subject, minutes=options.minutes, chest=options.chest, seed=options.seed)
    with _writing(out):
        if options.e4_csv:
            _write_e4(out / subject / f"{subject}_E4_Data", recording)
        # Last, so that a subject with a pickle is complete.
        with atomic_write(_pickle_path(out, subject)) as file:
            _write_pickle(file, recording, options.protocol)


def _write_labels(out: Path, subjects: Sequence[str], options: _Options) -> None:
    lines = ["subject,start,end,label"]
    for subject in subjects:
        for stretch in draw_protocol(Streams(options.seed, subject), options.minutes):
            lines.append(f"{subject},{stretch.start},{stretch.end},{stretch.code}")
    with _writing(out), atomic_write(out / "labels.csv") as file:
        file.write(("\n".join(lines) + "\n").encode())


def _write(out: Path, subjects: Sequence[str], missing: Sequence[str], options: _Options, jobs: int | None) -> None:
    """Writes the labels of `subjects` and the signals of those that are `missing`, and marks the folder last."""
    _write_labels(out, subjects, options)
    work = partial(_write_subject, out=out, options=options)
    with closing(map_unordered(work, missing, jobs=jobs, description="Generating")) as outcomes:
        for _, outcome in outcomes:
            if isinstance(outcome, TffEsnError):
                raise outcome
    with _writing(out):
        mark_generated(out, _description(len(subjects), options))


def _description(subjects: int, options: _Options) -> dict[str, Any]:
    return {"version": VERSION, "subjects": subjects, **asdict(options), "minutes": float(options.minutes)}


def write_wesad(
    out: Path,
    *,
    subjects: int = 15,
    minutes: float = 45.0,
    chest: bool = False,
    e4_csv: bool = False,
    seed: int = 0,
    protocol: Literal[0, 2] = 2,
    jobs: int | None = 1,
) -> list[Path]:
    """Writes generated subjects in the layout of WESAD's public release.

    Each becomes `out/SX/SX.pkl`, a pickle as Python 2 wrote it; the protocol of all of them goes to
    `out/labels.csv`, in seconds from the start. A subject's files depend on its name and the
    options only, not on how many are written or by how many processes.

    Args:
        out: The folder to write to; made if need be.
        subjects: How many; WESAD has 15.
        minutes: Length of each recording.
        chest: Whether to write the 700 Hz signals of the chest; without, `chest` is an empty dictionary.
        e4_csv: Whether to write the wristband's raw files, `out/SX/SX_E4_Data/*.csv`, as well.
        seed: Seed of everything generated.
        protocol: Pickle protocol, one of those of Python 2.
        jobs: Number of processes; None for one per processor.

    Returns:
        The pickles, in the order of the subjects.
    """
    names = subject_names(subjects)
    _write(out, names, names, _Options(minutes, chest, e4_csv, seed, protocol), jobs)
    return [_pickle_path(out, name) for name in names]


def ensure_wesad(cache: Path, *, subjects: int = 15, jobs: int | None = 1, make: bool = True, **options: Any) -> Path:
    """The folder of generated subjects below `cache`, written on the first call for these options.

    An interrupted generation resumes with the missing subjects.

    Args:
        cache: Where such folders lie.
        subjects: How many; WESAD has 15.
        jobs: Number of processes; None for one per processor.
        make: Whether they are written if they are not there.
        options: Those of `write_wesad`: minutes, chest, e4_csv, seed and protocol.
    """
    chosen = _Options(**options)
    folder = cache / f"wesad-{fingerprint(_description(subjects, chosen))[:12]}"
    if make and not is_generated(folder):
        names = subject_names(subjects)
        _write(folder, names, [name for name in names if not _pickle_path(folder, name).exists()], chosen, jobs)
    return folder
