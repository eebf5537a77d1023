"""Every reader against files that were changed at random.

A changed file is refused with one of our errors, or gives what another, simpler reading of the same file gives: never
a traceback, never a hang, never a silent wrong result.

    TFF_ESN_FUZZ=5000 python -m pytest tests/test_fuzz.py

tries so many files on each reader, a few dozen by default, and tells how many were read and how many refused.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import pickle
import signal as signals
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.deployment.test_export import equal_models, random_model
from tff_esn.central.esn import CentralESN
from tff_esn.closed_form.messages import Message, block_message, columns_message, full_message, low_rank_message
from tff_esn.closed_form.statistics import RidgeStatistics
from tff_esn.console import progress
from tff_esn.datasets import hhar
from tff_esn.datasets.e4 import read_e4_folder, read_label_intervals
from tff_esn.datasets.recording import CODES, Recording, Signal
from tff_esn.datasets.study import find_defects
from tff_esn.datasets.synthetic.wesad import _write_pickle
from tff_esn.datasets.wesad import CHEST_RATES, LABEL_RATE, WRIST_RATES, read_wesad_subject
from tff_esn.deployment.export import load_model
from tff_esn.errors import TffEsnError
from tff_esn.federated.fedcurv import FedCurv
from tff_esn.parameters import from_mapping, read_toml
from tff_esn.store.cache import Cache
from tff_esn.store.files import read_arrays, write_arrays
from tff_esn.store.run_folders import RunInfo, RunStore

FILES = int(os.environ.get("TFF_ESN_FUZZ", "40"))
#: Seconds after which a file hangs.
PATIENCE = 20
tried: Counter[tuple[str, str]] = Counter()


# ---- Changed files ----

_TOKENS = (
    *(b"", b"0", b"-1", b"1e999", b"-0.0", b"nan", b"inf", b"NA", b"null", b"1_0", b"0x10", b"1e-400", b"True"),
    *(b"99999999999999999999", b"\xc2\xb2", b"\xd9\xa3", b"\xff", b"\0", b'"', b"'", b",", b",,"),
    *(b"\n", b"\r", b"\n\n", b"[", b"]", b"[[", b"{", b"=", b"#", b".", b"c", b"R", b"r\xff\xff\xff\x7f"),
    *(b"\xe2\x80\xa8", b"\x0c", b"\xef\xbb\xbf"),
    b"[" * 3000,
)
_EDIT = st.tuples(
    st.sampled_from(["flip", "token", "cut", "end", "double", "swap", "number", "line"]),
    st.floats(0, 1, exclude_max=True),
    st.floats(0, 1, exclude_max=True),
    st.sampled_from(_TOKENS),
    st.integers(1, 255),
)
_EDITS = st.lists(_EDIT, min_size=1, max_size=4)


def edited(content: bytes, edits: list[tuple[str, float, float, bytes, int]]) -> bytes:
    """A file after some changes, of which hypothesis finds the fewest that show a problem."""
    for kind, where, other, token, number in edits:
        place, second = (int(part * (len(content) + 1)) for part in (where, other))
        if kind == "flip" and place < len(content):
            content = content[:place] + bytes([content[place] ^ number]) + content[place + 1 :]
        elif kind == "token":
            content = content[:place] + token + content[place:]
        elif kind == "cut":
            content = content[:place] + content[place + number :]
        elif kind == "end":
            content = content[:place]
        elif kind == "double":
            content = content[:second] + content[place : place + number] + content[second:]
        elif kind == "swap":
            content = content[place:] + content[:place]
        elif kind == "number":  # a token in the place of a field
            begin = max(content.rfind(mark, 0, place) for mark in (b",", b"\n", b"=")) + 1
            ends = [end for end in (content.find(mark, place) for mark in (b",", b"\n")) if end >= 0]
            content = content[:begin] + token + content[min(ends, default=len(content)) :]
        elif kind == "line":
            lines = content.split(b"\n")
            at, to = int(where * len(lines)), int(other * len(lines))
            lines[at], lines[to] = lines[to], lines[at]
            content = b"\n".join(lines)
    return content


@contextmanager
def in_time() -> Iterator[None]:
    def late(*_: object) -> None:
        raise TimeoutError(f"a file took more than {PATIENCE} s")

    before = signals.signal(signals.SIGALRM, late)
    signals.alarm(PATIENCE)
    try:
        yield
    finally:
        signals.alarm(0)
        signals.signal(signals.SIGALRM, before)


def fuzz(name: str, content: bytes, check: Callable[[bytes], bool]) -> None:
    """Calls `check` with changed contents; it says whether a file was read, after comparing what came out."""

    @settings(max_examples=FILES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(edits=_EDITS)
    def run(edits: list[Any]) -> None:
        changed = edited(content, edits)
        with in_time():
            try:
                outcome = "read" if check(changed) else "refused"
            except TffEsnError as error:
                assert len(str(error).splitlines()) <= 1, str(error)
                outcome = "refused"
        tried[name, outcome] += 1

    run()


@pytest.fixture(scope="module", autouse=True)
def told(pytestconfig: pytest.Config) -> Iterator[None]:
    """Tells how many files were tried, where many were asked for."""
    yield
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    if "TFF_ESN_FUZZ" in os.environ and capture is not None:
        with capture.global_and_fixture_disabled():
            print()
            for name in sorted({name for name, _ in tried}):
                print(f"{name}: {tried[name, 'read']} read, {tried[name, 'refused']} refused")
            print(f"{sum(tried.values())} files in all")


# ---- Recordings ----


def recording() -> Recording:
    random = np.random.default_rng(0)
    made = {}
    for device, rates in (("wrist", WRIST_RATES), ("chest", {"ECG": CHEST_RATES["ECG"]})):
        for sensor, rate in rates.items():
            made[f"{device}/{sensor}"] = Signal(random.normal(size=(2 * rate, 3 if sensor == "ACC" else 1)), rate)
    codes = np.repeat(np.array([1, 2], np.int32), LABEL_RATE)
    return Recording("S2", made, Signal(codes, LABEL_RATE), Path("S2.pkl"))


class Independent(pickle._Unpickler):  # type: ignore[name-defined,misc]
    """The unpickler that Python has for reference, with as short a list of names."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):
            return lambda text, encoding: text.encode(encoding)
        assert (module, name) in {
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
        }
        return super().find_class(module, name)


def text_keys(values: dict[Any, Any]) -> dict[str, Any]:
    return {key.decode("latin1") if isinstance(key, bytes) else str(key): value for key, value in values.items()}


@pytest.mark.parametrize("protocol", [0, 2])
def test_wesad_pickles(tmp_path: Path, protocol: int) -> None:
    out = io.BytesIO()
    _write_pickle(out, recording(), protocol)  # type: ignore[arg-type]
    path = tmp_path / "S2.pkl"

    def check(content: bytes) -> bool:
        path.write_bytes(content)
        read = read_wesad_subject(path)
        defects = list(find_defects(read))
        expected = text_keys(Independent(io.BytesIO(content), encoding="latin1").load())
        np.testing.assert_array_equal(read.codes.values, np.asarray(expected["label"]).reshape(-1))
        assert set(read.code_shares()) <= set(CODES) or defects
        devices = text_keys(expected["signal"])
        for name, own in read.signals.items():
            device, sensor = name.split("/")
            array = text_keys(devices[device])[sensor]
            np.testing.assert_array_equal(own.values.reshape(array.shape), array)
            assert np.isfinite(own.values).all() or defects
            assert abs(own.duration - read.codes.duration) <= 1 or defects
        return True

    fuzz(f"WESAD pickle, protocol {protocol}", out.getvalue(), check)


def number(text: str) -> float:
    """A cell of an E4 file: a number, or nothing."""
    text = text.strip(" ")
    return math.nan if text in ("", "nan", "NA", "null") else float(text)


@pytest.mark.parametrize("sensor", ["ACC", "EDA"])
def test_e4_folders(tmp_path: Path, sensor: str) -> None:
    columns = {"ACC": 3, "BVP": 1, "EDA": 1, "TEMP": 1}
    for name, count in columns.items():
        rate = WRIST_RATES[name]
        values = np.random.default_rng(1).normal(size=(3 * rate, count)).round(3)
        head = "\n".join(",".join([cell] * count) for cell in ("1495437325.000000", f"{rate:.6f}"))
        body = "\n".join(",".join(map(str, row)) for row in values)
        (tmp_path / f"{name}.csv").write_text(f"{head}\n{body}\n")
    path = tmp_path / f"{sensor}.csv"

    def check(content: bytes) -> bool:
        path.write_bytes(content)
        start, read = read_e4_folder(tmp_path)
        lines = content.decode("latin1").replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")
        rows = [[number(cell.replace('"', "")) for cell in line.split(",")] for line in lines]
        filled = np.array([row + [math.nan] * (columns[sensor] - len(row)) for row in rows])
        begin, rate = filled[0, 0], filled[1, 0]
        first = round((start - begin) * rate)
        own = read[f"wrist/{sensor}"]
        assert own.rate == pytest.approx(rate, rel=1e-12)
        expected = filled[2 + first : 2 + first + len(own.values)].reshape(own.values.shape)
        np.testing.assert_allclose(own.values, expected, rtol=1e-12)
        return True

    fuzz(f"E4, {sensor}.csv", path.read_bytes(), check)


def test_label_files(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    lines = ["subject,start,end,label", *(f"S{i},{10 * i},{10 * i + 9.5},{i % 8}" for i in range(1, 9))]
    lines += ["S9,1495437325.5,1495437330,baseline", "S9,1495437331,1495437340,stress"]

    def check(content: bytes) -> bool:
        path.write_bytes(content)
        read = read_label_intervals(path)
        text = content.decode("utf-8-sig")
        header, *rows = [row for row in csv.reader(io.StringIO(text, newline="")) if any(cell.strip() for cell in row)]
        names = [name.strip().lower() for name in header]
        assert len(read) == len(rows)
        for interval, row in zip(read, rows):
            cells = dict(zip(names, row))
            assert interval.subject == cells["subject"].strip()
            for column in ("start", "end"):
                assert "_" not in cells[column]
                assert getattr(interval, column) == float(cells[column])
            label = cells["label"].strip().lower()
            assert interval.code in CODES and label in (str(interval.code), CODES[interval.code])
        return True

    fuzz("label CSV", ("\n".join(lines) + "\n").encode(), check)


def test_hhar_files(tmp_path: Path) -> None:
    path = tmp_path / "Phones_accelerometer.csv"
    random = np.random.default_rng(2)
    rows = [
        f"{i},{1424696633908 + 5 * i},{1424696631913248572 + i},{x:.6f},{y:.6f},{z:.6f},"
        f"{'ab'[i // 20]},nexus4,nexus4_1,{('stand', 'walk', 'null')[i % 3]}"
        for i, (x, y, z) in enumerate(random.normal(size=(40, 3)))
    ]
    valid = "\n".join([",".join(hhar.COLUMNS), *rows]) + "\n"

    def check(content: bytes) -> bool:
        path.write_bytes(content)
        with progress("", 1) as bar:
            read = hhar._read_file(path, None, hhar._stop, bar)
        expected: dict[tuple[str, str], list[tuple[int, float, float, float, int]]] = {}
        for line in content.decode().replace("\r\n", "\n").removesuffix("\n").split("\n")[1:]:
            cells = dict(zip(hhar.COLUMNS, line.split(",")))
            x, y, z = (float(np.float32(cells[axis])) for axis in "xyz")
            row = (int(cells["Arrival_Time"]), x, y, z, hhar.CODES[cells["gt"]])
            expected.setdefault((cells["User"], cells["Device"]), []).append(row)
        assert read.keys() == expected.keys()
        for key, series in read.items():
            ordered = sorted(expected[key], key=lambda row: row[0])
            np.testing.assert_array_equal(series.times, [row[0] for row in ordered])
            np.testing.assert_allclose(series.values, [row[1:4] for row in ordered], rtol=1e-6)
            np.testing.assert_array_equal(series.codes, [row[4] for row in ordered])
        return True

    fuzz("HHAR CSV", valid.encode(), check)


# ---- Configurations ----


def leaves(values: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(values, dict):
        for key, value in values.items():
            yield from leaves(value, (*path, key))
    else:
        yield path, values


CONFIGURATIONS = {
    FedCurv: """rounds = 5
server_learning_rate = 0.5
optimizer = "sgd"
[noise]
standard_deviation = 0.25
[esn]
units = 50
spectral_radius = 0.9
""",
    CentralESN: """learning_rate = 0.1
class_weight = "balanced"
[esn]
units = 200
leaking_rate = 0.5
""",
}


@pytest.mark.parametrize("kind", CONFIGURATIONS, ids=lambda kind: kind.__name__)
def test_toml_files(tmp_path: Path, kind: type[Any]) -> None:
    path = tmp_path / "run.toml"

    def check(content: bytes) -> bool:
        path.write_bytes(content)
        config = asdict(from_mapping(kind, read_toml(path), str(path)))
        for keys, value in leaves(tomli.loads(content.decode())):
            own = config
            for key in keys:
                own = own[key]
            if isinstance(value, (str, float, int, bool)):
                assert own == value or str(own) == str(value), keys
        return True

    fuzz(f"TOML, {kind.__name__}", CONFIGURATIONS[kind].encode(), check)


# ---- What we write ourselves ----


def test_array_files(tmp_path: Path) -> None:
    path, arrays = tmp_path / "arrays.npz", {"a": np.arange(60.0).reshape(20, 3), "names": np.array(["x", "y"])}
    write_arrays(path, arrays)

    def check(content: bytes) -> bool:
        path.write_bytes(content)
        read = read_arrays(path)
        assert read.keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(read[name], array)
        return True

    fuzz("array file", path.read_bytes(), check)


def test_cache_entries(cache: Cache) -> None:
    cache.store("kind", "key", {"a": np.arange(100)})
    path = cache.path("kind", "key")
    valid = path.read_bytes()

    def check(content: bytes) -> bool:
        path.write_bytes(content)
        read = cache.load("kind", "key")
        assert (read is not None) == (content == valid)
        return read is not None

    fuzz("cache entry", valid, check)


def statistics() -> RidgeStatistics:
    random = np.random.default_rng(3)
    states, targets = random.normal(size=(30, 6)), random.normal(size=(30, 2))
    return RidgeStatistics.of(states, targets, reservoir="0123456789abcdef")


@pytest.mark.parametrize("kind", ["full", "columns", "block", "low_rank"])
def test_messages(kind: str) -> None:
    units = np.array([0, 2, 5])
    message = {
        "full": lambda own: full_message(own),
        "columns": lambda own: columns_message(own, units),
        "block": lambda own: block_message(own, units),
        "low_rank": lambda own: low_rank_message(own, 2),
    }[kind](statistics())
    valid = message.encode()

    def check(content: bytes) -> bool:
        assert Message.decode(content).encode() == content == valid
        return True

    fuzz(f"message, {kind}", valid, check)


@pytest.mark.parametrize("ending", ["keras", "tflite"])
def test_models(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"model.{ending}"
    random_model().save(path)
    expected = load_model(path)

    def check(content: bytes) -> bool:
        path.write_bytes(content)
        equal_models(load_model(path), expected)
        return True

    fuzz(f"model.{ending}", path.read_bytes(), check)


def test_records_of_runs(tmp_path: Path) -> None:
    with RunStore(tmp_path).create("train", {"units": 200}, 7) as run:
        run.log(step=1, loss=0.5)
    path = run.folder / "run.json"
    rows = (run.folder / "metrics.csv").read_bytes()

    def check(content: bytes) -> bool:
        path.write_bytes(content)
        info = RunInfo.of(run.folder)
        if info.record is None:
            return False
        # What the record adds beside what the file says are defaults of keys that it lacks.
        for key, value in json.loads(content).items():
            if key in ("kind", "seed", "status", "command"):
                assert getattr(info.record, key) == value
        return True

    fuzz("run.json", path.read_bytes(), check)

    def check_rows(content: bytes) -> bool:
        (run.folder / "metrics.csv").write_bytes(content)
        run.metrics()
        return True

    fuzz("metrics.csv", rows, check_rows)
