from __future__ import annotations

import csv
import io
import pickle
import pickletools
import re
import warnings
from pathlib import Path
from typing import Any, Literal

import neurokit2 as nk
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import rankdata

from tff_esn.datasets.recording import Recording
from tff_esn.datasets.synthetic import wesad
from tff_esn.datasets.synthetic.physiology import MINUTES_AT_LEAST, SUBJECTS, generate_subject
from tff_esn.datasets.synthetic.wesad import ensure_wesad, write_wesad
from tff_esn.errors import ConfigError, DataError

MINUTES = 4.0
SECONDS = 240
WRIST = {"ACC": (32, 3), "BVP": (64, 1), "EDA": (4, 1), "TEMP": (4, 1)}
CHEST = {"ACC": (700, 3), "ECG": (700, 1), "EMG": (700, 1), "EDA": (700, 1), "Temp": (700, 1), "Resp": (700, 1)}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two subjects with all there is to write."""
    out = tmp_path_factory.mktemp("wesad")
    write_wesad(out, subjects=2, minutes=MINUTES, chest=True, e4_csv=True, jobs=1)
    return out


def _load(path: Path, encoding: str = "latin1") -> Any:
    with path.open("rb") as file:
        return pickle.load(file, encoding=encoding)


def _contents(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def _runs(codes: NDArray) -> tuple[list[int], NDArray]:
    """The code of each stretch and how long it lasts."""
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    return codes[starts].tolist(), np.diff(starts, append=len(codes))


def test_subjects_are_those_of_the_release() -> None:
    assert " ".join(SUBJECTS) == "S2 S3 S4 S5 S6 S7 S8 S9 S10 S11 S13 S14 S15 S16 S17"


def test_pickle_holds_what_the_release_holds(study: Path) -> None:
    content = _load(study / "S2" / "S2.pkl")
    assert list(content) == ["subject", "signal", "label"]
    assert content["subject"] == "S2"
    assert set(content["signal"]) == {"wrist", "chest"}
    assert content["label"].shape == (SECONDS * 700,)
    assert content["label"].dtype == np.int32
    for device, sensors in (("wrist", WRIST), ("chest", CHEST)):
        arrays = content["signal"][device]
        assert list(arrays) == list(sensors)
        for sensor, (rate, axes) in sensors.items():
            assert arrays[sensor].shape == (SECONDS * rate, axes)
            assert arrays[sensor].dtype == (np.float32 if sensor == "Temp" else np.float64)
            assert np.isfinite(arrays[sensor]).all()


def test_wrist_values_have_the_digits_of_the_device(study: Path) -> None:
    wrist = _load(study / "S2" / "S2.pkl")["signal"]["wrist"]
    for sensor, decimals in {"ACC": 0, "BVP": 2, "EDA": 6, "TEMP": 2}.items():
        np.testing.assert_array_equal(wrist[sensor], np.round(wrist[sensor], decimals))


def test_values_have_the_units_of_the_release() -> None:
    signals = {name: signal.values for name, signal in generate_subject("S3", minutes=MINUTES).signals.items()}
    assert np.linalg.norm(np.median(signals["wrist/ACC"], axis=0)) == pytest.approx(64, rel=0.3)
    assert np.linalg.norm(np.median(signals["chest/ACC"], axis=0)) == pytest.approx(1, rel=0.3)
    assert 0.1 < signals["wrist/EDA"].min() < signals["wrist/EDA"].max() < 15
    assert 29 < signals["wrist/TEMP"].mean() < 37
    assert 10 < signals["wrist/BVP"].std() < 130
    assert 0.5 < np.abs(signals["chest/ECG"]).max() < 2


def test_without_chest_its_dictionary_is_empty_and_the_wrist_unchanged(study: Path, tmp_path: Path) -> None:
    (path,) = write_wesad(tmp_path, subjects=1, minutes=MINUTES, jobs=1)
    signal = _load(path)["signal"]
    assert signal["chest"] == {}
    np.testing.assert_equal(signal["wrist"], _load(study / "S2" / "S2.pkl")["signal"]["wrist"])


def test_pickle_and_recording_agree(study: Path) -> None:
    recording = generate_subject("S3", minutes=MINUTES)
    content = _load(study / "S3" / "S3.pkl")
    np.testing.assert_array_equal(recording.codes.values, content["label"])
    for name, signal in recording.signals.items():
        device, sensor = name.split("/")
        np.testing.assert_array_equal(signal.values.reshape(len(signal.values), -1), content["signal"][device][sensor])


@pytest.mark.parametrize(("subject", "order"), [("S2", [1, 5, 2, 6, 4, 3, 7, 4]), ("S3", [1, 5, 3, 7, 4, 2, 6, 4])])
def test_protocol_has_the_order_and_proportions_of_the_release(subject: str, order: list[int]) -> None:
    codes, lengths = _runs(generate_subject(subject, minutes=20, chest=False).codes.values)
    # Nobody passes from one part to the next without a break.
    assert codes[::2] == [0] * 9
    assert codes[1::2] == order
    assert (lengths % 700 == 0).all()
    shares = {code: lengths[codes.index(code)] / lengths.sum() for code in (1, 2, 3, 4, 6)}
    assert shares == pytest.approx({1: 0.18, 2: 0.10, 3: 0.058, 4: 0.062, 6: 0.0095}, rel=0.2)


def test_orders_alternate_and_no_two_subjects_keep_the_same_time() -> None:
    runs = [_runs(generate_subject(subject, minutes=2, chest=False).codes.values) for subject in SUBJECTS]
    orders = [codes.index(2) < codes.index(3) for codes, _ in runs]
    assert orders == [True, False] * 7 + [True]
    assert len({tuple(lengths) for _, lengths in runs}) == len(SUBJECTS)


@pytest.mark.parametrize("subject", ["S2", "S13", "S18"])
def test_shortest_recording_still_has_every_stretch(subject: str) -> None:
    codes, lengths = _runs(generate_subject(subject, minutes=MINUTES_AT_LEAST, chest=True).codes.values)
    assert len(codes) == 17
    assert lengths.min() >= 700


def test_labels_agree_with_the_pickles(study: Path) -> None:
    with (study / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["subject", "start", "end", "label"]
    assert {row["subject"] for row in rows} == {"S2", "S3"}
    for subject in ("S2", "S3"):
        codes = np.full(SECONDS * 700, -1)
        for row in rows:
            if row["subject"] == subject:
                codes[int(row["start"]) * 700 : int(row["end"]) * 700] = int(row["label"])
        np.testing.assert_array_equal(codes, _load(study / subject / f"{subject}.pkl")["label"])


def test_e4_files_hold_the_values_of_the_pickle(study: Path) -> None:
    wrist = _load(study / "S3" / "S3.pkl")["signal"]["wrist"]
    folder = study / "S3" / "S3_E4_Data"
    assert {path.name for path in folder.iterdir()} == {"ACC.csv", "BVP.csv", "EDA.csv", "TEMP.csv"}
    for sensor, (rate, axes) in WRIST.items():
        table = np.loadtxt(folder / f"{sensor}.csv", delimiter=",", ndmin=2)
        np.testing.assert_array_equal(table[0], [wesad.E4_START] * axes)
        np.testing.assert_array_equal(table[1], [rate] * axes)
        np.testing.assert_array_equal(table[2:], wrist[sensor])
    lines = (folder / "ACC.csv").read_text().splitlines()
    assert lines[0] == "1495437325.000000, 1495437325.000000, 1495437325.000000"
    assert lines[1] == "32.000000, 32.000000, 32.000000"
    assert re.fullmatch(r"-?\d+,-?\d+,-?\d+", lines[2])


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        (0, b"""(dp0\nS'a'\np1\nS'it\\'s \\\\ \\n\\xff\\x00 "q"'\np2\ns."""),
        (2, b"""\x80\x02}q\x00U\x01aq\x01U\x0eit's \\ \n\xff\x00 "q"q\x02s."""),
    ],
)
def test_strings_are_pickled_as_by_python_2(protocol: Literal[0, 2], expected: bytes) -> None:
    """What Python 2.7.18 returns from `pickle.dumps({"a": "it's \\\\ \\n\\xff\\x00 \\"q\\""}, protocol)`."""
    for value in ('it\'s \\ \n\xff\x00 "q"', b'it\'s \\ \n\xff\x00 "q"'):
        file = io.BytesIO()
        wesad._Python2Pickler(file, protocol).dump({"a": value})
        assert file.getvalue() == expected


def test_pickle_has_opcodes_of_python_2_and_imports_numpy_only(study: Path) -> None:
    # Of protocol 2: `pickletools` cannot read the strings that protocol 0 holds arrays in.
    with (study / "S2" / "S2.pkl").open("rb") as file:
        operations = [(operation, argument) for operation, argument, _ in pickletools.genops(file)]
    assert max(operation.proto for operation, _ in operations) == 2
    names = {operation.name for operation, _ in operations}
    assert {"BINSTRING", "SHORT_BINSTRING"} <= names
    assert not [name for name in names if "UNICODE" in name or "BYTES" in name]
    imported = {argument for operation, argument in operations if operation.name == "GLOBAL"}
    assert imported == {"numpy.core.multiarray _reconstruct", "numpy ndarray", "numpy dtype"}


@pytest.mark.parametrize("protocol", [0, 2])
def test_pickle_loads_with_either_encoding(protocol: Literal[0, 2], tmp_path: Path) -> None:
    (path,) = write_wesad(tmp_path, subjects=1, minutes=1, protocol=protocol, jobs=1)
    text, raw = _load(path), _load(path, "bytes")
    assert raw[b"subject"] == text["subject"].encode() == b"S2"
    for sensor, values in text["signal"]["wrist"].items():
        np.testing.assert_array_equal(raw[b"signal"][b"wrist"][sensor.encode()], values)
    expected = generate_subject("S2", minutes=1, chest=False).signal("wrist/BVP").values
    np.testing.assert_array_equal(text["signal"]["wrist"]["BVP"][:, 0], expected)


def test_files_depend_on_seed_only(tmp_path: Path) -> None:
    options: dict[str, Any] = {"minutes": 2, "chest": True}
    runs: dict[str, dict[str, Any]] = {
        "one process": {"subjects": 3, "jobs": 1},
        "two processes": {"subjects": 3, "jobs": 2},
        "fewer subjects": {"subjects": 1, "jobs": 1},
        "other seed": {"subjects": 1, "jobs": 1, "seed": 1},
    }
    for number, (name, choice) in enumerate(runs.items()):
        np.random.seed(number)
        write_wesad(tmp_path / name, **options, **choice)
    contents = {name: _contents(tmp_path / name) for name in runs}
    assert set(contents["one process"]) == {"labels.csv", "generated.json", "S2/S2.pkl", "S3/S3.pkl", "S4/S4.pkl"}
    assert contents["one process"] == contents["two processes"]
    assert contents["fewer subjects"]["S2/S2.pkl"] == contents["one process"]["S2/S2.pkl"]
    assert contents["other seed"]["S2/S2.pkl"] != contents["one process"]["S2/S2.pkl"]


def test_global_random_state_of_numpy_is_left_alone() -> None:
    np.random.seed(3)
    expected = np.random.random(4)
    np.random.seed(3)
    generate_subject("S2", minutes=1)
    np.testing.assert_array_equal(np.random.random(4), expected)


def test_interrupted_generation_goes_on_with_the_missing_subjects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generated: list[str] = []

    def generate(subject: str, **options: Any) -> Recording:
        if subject == "S4" and "S4" not in generated:
            generated.append(subject)
            raise KeyboardInterrupt
        generated.append(subject)
        return generate_subject(subject, **options)

    monkeypatch.setattr(wesad, "generate_subject", generate)
    options: dict[str, Any] = {"subjects": 4, "minutes": 1, "jobs": 1}
    with pytest.raises(KeyboardInterrupt):
        ensure_wesad(tmp_path, **options)
    assert generated == ["S2", "S3", "S4"]
    folder = ensure_wesad(tmp_path, **options)
    assert generated == ["S2", "S3", "S4", "S4", "S5"]
    assert ensure_wesad(tmp_path, **options) == folder
    assert len(generated) == 5
    assert set(_contents(folder)) == {"labels.csv", "generated.json", *(f"S{n}/S{n}.pkl" for n in range(2, 6))}

    assert ensure_wesad(tmp_path, **{**options, "subjects": 1}) != folder
    assert ensure_wesad(tmp_path, **options, seed=1) != folder
    assert ensure_wesad(tmp_path, **{**options, "minutes": 1.0, "jobs": 2}) == folder


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subjects": 0}, "subjects is 0"),
        ({"minutes": 0.5}, "minutes is 0.5"),
        ({"minutes": float("nan")}, "minutes is nan"),
    ],
)
def test_unusable_options_are_refused_before_anything_is_written(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        write_wesad(tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("subject", ["S1", "S12", "S02", "2", "Sx", ""])
def test_subjects_that_the_release_cannot_have_are_refused(subject: str) -> None:
    with pytest.raises(ConfigError, match="expected S and a number"):
        generate_subject(subject, minutes=1)


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot be written"):
        write_wesad(tmp_path / "file", subjects=1, minutes=1, jobs=1)


def _beats(recording: Recording) -> NDArray:
    bvp = nk.ppg_clean(recording.signal("wrist/BVP").values, sampling_rate=64)
    return nk.ppg_findpeaks(bvp, sampling_rate=64)["PPG_Peaks"] / 64


def test_both_devices_see_the_same_heart() -> None:
    recording = generate_subject("S5", minutes=10)
    ecg = nk.ecg_clean(recording.signal("chest/ECG").values, sampling_rate=700)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        waves = nk.ecg_peaks(ecg, sampling_rate=700)[1]["ECG_R_Peaks"] / 700
    assert len(_beats(recording)) == pytest.approx(len(waves), rel=0.1)
    # No beat is missing, doubled or cut short anywhere, seams of the protocol included.
    intervals = np.diff(waves)
    assert intervals.min() > 0.35
    assert intervals.max() < 1.4
    assert np.abs(np.diff(intervals)).max() < 0.25


def _auroc(scores: NDArray, positive: NDArray) -> float:
    ranks = rankdata(scores)
    wins = ranks[positive].sum() - positive.sum() * (positive.sum() + 1) / 2
    return wins / positive.sum() / (~positive).sum()


def test_stress_shows_in_skin_and_heart_but_not_trivially() -> None:
    skin: list[NDArray] = []
    heart: list[NDArray] = []
    stress: list[NDArray] = []
    for subject in SUBJECTS[:6]:
        recording = generate_subject(subject, chest=False)
        codes = recording.codes.values[::175]
        eda = nk.eda_phasic(nk.eda_clean(recording.signal("wrist/EDA").values))["EDA_Phasic"].to_numpy()
        beats = _beats(recording)
        assert 60 < 60 * len(beats) / recording.codes.duration < 95
        rate = np.interp(np.arange(len(codes)) / 4, beats[1:], 60 / np.diff(beats))
        for pooled, values in ((skin, eda), (heart, rate)):
            rest = values[codes == 1]
            pooled.append((values - rest.mean()) / rest.std())
        stress.append(codes == 2)
    under_stress = np.concatenate(stress)
    assert 0.78 < _auroc(np.concatenate(skin), under_stress) < 0.97
    assert 0.62 < _auroc(np.concatenate(heart), under_stress) < 0.9
