from __future__ import annotations

import os
import pickle
import pickletools
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import REFERENCE
from tff_esn.datasets.wesad import WesadStudy, load_arrays, read_wesad_subject
from tff_esn.errors import DataError


def written(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else pickle.dumps(content, protocol=2))
    return path


def subject(seconds: int = 2, **changes: object) -> dict:
    wrist = {"ACC": (32, 3), "BVP": (64, 1), "EDA": (4, 1), "TEMP": (4, 1)}
    random = np.random.default_rng(0)
    signals = {name: random.normal(size=(rate * seconds, axes)) for name, (rate, axes) in wrist.items()}
    content = {"subject": "S2", "signal": {"wrist": signals, "chest": {}}, "label": np.ones(700 * seconds, np.int32)}
    return {**content, **changes}


@pytest.mark.parametrize("protocol", [0, 2])
def test_reads_what_python_2_wrote(protocol: int) -> None:
    # Written by Python 2.7 with NumPy 1.16, as the public release was.
    path = REFERENCE / f"python2_protocol{protocol}.pkl"
    recording = read_wesad_subject(path)
    with path.open("rb") as file:
        plain = pickle.load(file, encoding="latin1")
    assert list(recording.signals) == [f"wrist/{name}" for name in plain["signal"]["wrist"]] + [
        f"chest/{name}" for name in plain["signal"]["chest"]
    ]
    for name, signal in recording.signals.items():
        device, sensor = name.split("/")
        np.testing.assert_array_equal(signal.values, plain["signal"][device][sensor].squeeze())
        assert signal.duration == 1.0
    np.testing.assert_array_equal(recording.codes.values, plain["label"])


def test_reads_what_python_3_wrote(tmp_path: Path) -> None:
    content = subject()
    recording = read_wesad_subject(written(tmp_path / "S2.pkl", content))
    np.testing.assert_array_equal(recording.signal("wrist/ACC").values, content["signal"]["wrist"]["ACC"])
    assert recording.signal("wrist/BVP").values.shape == (128,)
    assert recording.subject == "S2"


class Calls:
    """Pickles to a call of any function."""

    def __init__(self, function: object, *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple:
        return self.call


def hostile_pickles(trace: Path) -> dict[str, bytes]:
    command = f"touch {trace}"
    hidden_in_array = subject()
    hidden_in_array["signal"]["wrist"]["EDA"] = np.array([Calls(os.system, command)], dtype=object)
    return {
        "reduce": pickle.dumps(Calls(os.system, command), protocol=2),
        "stack_global": pickle.dumps(Calls(os.system, command), protocol=4),
        "inst": b"(S'" + command.encode() + b"'\nios\nsystem\n.",
        "obj": b"(cos\nsystem\nS'" + command.encode() + b"'\no.",
        "eval": b'c__builtin__\neval\n(S\'__import__("os").system("' + command.encode() + b"\")'\ntR.",
        "copy_reg": b"ccopy_reg\n_reconstructor\n(cos\nsystem\nc__builtin__\nobject\nNtR.",
        "numpy_load": b"cnumpy\nload\n(S'x.npy'\ntR.",
        "numpy_exec": b"cnumpy.testing._private.utils\nrunstring\n(S'import os; os.mkdir(\"x\")'\n(dtR.",
        "dotted": b"\x80\x04\x8c\x05numpy\x8c\x0cndarray.dump\x93.",
        "codec": b"c_codecs\nencode\n(V" + command.encode() + b"\nS'rot13'\ntR.",
        "persistent": b"Pos.system\n.",
        "extension": b"\x80\x02\x82\x01.",
        "hidden_in_array": pickle.dumps(hidden_in_array, protocol=2),
    }


@pytest.mark.parametrize("name", list(hostile_pickles(Path("x"))))
def test_nothing_in_a_pickle_is_executed(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tmp_path / "executed"
    content = hostile_pickles(trace)[name]
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path / "S2.pkl", content)
    with pytest.raises(DataError) as caught:
        read_wesad_subject(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == ["S2.pkl"]


def test_the_hostile_pickles_are_hostile(tmp_path: Path) -> None:
    # Without the unpickler's rule they would run: otherwise the test above shows nothing.
    trace = tmp_path / "executed"
    pickle.loads(hostile_pickles(trace)["reduce"])
    assert trace.exists()
    for name, content in hostile_pickles(trace).items():
        assert [opcode.name for opcode, _, _ in pickletools.genops(content)][-1] == "STOP", name


def truncated() -> bytes:
    return pickle.dumps(subject(), protocol=2)[:-500]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "not a usable pickle"),
        (b"\x00\x01garbage", "not a usable pickle"),
        (truncated(), "not a usable pickle"),
        ([1, 2, 3], "the pickle is a list"),
        ({"signal": {}}, "expected a key 'label'"),
        (subject(signal={"wrist": [1]}), "'wrist' is a list"),
        (subject(signal={"wrist": {"EDA": np.array(["a"])}}), "wrist/EDA is <U1 (1,)"),
        (subject(signal={"wrist": {"GSR": np.ones(4)}}), "signal wrist/GSR"),
        (subject(signal={"wrist": {"ACC": np.ones((4, 2))}}), "wrist/ACC of shape (4, 2)"),
        (subject(label=np.ones(3)), "label is float64 (3,)"),
        (subject(label=np.ones((3, 2), int)), "label is int64 (3, 2)"),
    ],
)
def test_a_foreign_or_damaged_pickle_is_one_clear_line(tmp_path: Path, content: object, complaint: str) -> None:
    path = written(tmp_path / "S2.pkl", content)
    with pytest.raises(DataError) as caught:
        read_wesad_subject(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert complaint in message
    assert "; expected " in message
    assert "\n" not in message


def test_a_pickle_cannot_ask_for_memory_or_show_what_was_in_it(tmp_path: Path) -> None:
    # Python's own unpickler would make room for 2^31 memories.
    path = written(tmp_path / "S2.pkl", b"\x80\x02}r\xff\xff\xff\x7f.")
    with pytest.raises(DataError, match="keys none; expected a key 'signal'"):
        read_wesad_subject(path)
    # An array whose contents never come.
    path = written(tmp_path / "S3.pkl", b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I1000\ntS'd'\ntR.")
    with pytest.raises(DataError, match="not a usable pickle"):
        load_arrays(path)
    path = written(tmp_path / "S4.pkl", b"cnumpy\nndarray\n((I1000\ntS'd'\ntR.")
    with pytest.raises(DataError, match="not a usable pickle"):
        load_arrays(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"S2\.pkl: no such file"):
        load_arrays(tmp_path / "S2.pkl")


def test_subjects_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("S10", "S2", "S17"):
        written(tmp_path / name / f"{name}.pkl", subject())
    (tmp_path / "notes").mkdir()
    assert WesadStudy(tmp_path).subjects == ("S2", "S10", "S17")
