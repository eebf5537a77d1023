from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tff_esn.datasets.recording import Recording, Signal
from tff_esn.datasets.study import UNREADABLE, find_defects, longest_run, open_study
from tff_esn.errors import DataError


def recording(eda: np.ndarray | None = None, codes: tuple[int, ...] = (1, 2)) -> Recording:
    values = np.sin(np.arange(40.0)) if eda is None else eda
    labels = np.repeat(np.array(codes, np.int32), 7000 // len(codes))
    return Recording("S2", {"wrist/EDA": Signal(values, 4)}, Signal(labels, 700), Path("S2.pkl"))


def complaints(*args: object, **options: object) -> list[str]:
    return [str(defect) for defect in find_defects(*args, **options)]  # type: ignore[arg-type]


def with_gap(length: int) -> np.ndarray:
    values = np.sin(np.arange(40.0))
    values[10 : 10 + length] = np.nan
    return values


def test_a_sound_recording_has_no_defect() -> None:
    assert complaints(recording()) == []


def test_each_defect_is_named() -> None:
    assert complaints(recording(np.ones(40))) == [
        "S2.pkl: wrist/EDA is constant or empty; expected a signal that varies"
    ]
    assert complaints(recording(with_gap(3))) == [
        "S2.pkl: wrist/EDA has 3 values that are not finite, first at sample 10; expected finite numbers"
    ]
    assert complaints(recording(np.sin(np.arange(60.0)))) == [
        "S2.pkl: wrist/EDA has 60 samples, 15.0 s at 4 Hz; expected 10.0 s as its labels have"
    ]
    assert complaints(recording(codes=(1, 3))) == [
        "S2.pkl: no sample of code 2 (stress); expected baseline and stress in each subject"
    ]
    assert complaints(recording(codes=(2, 3))) == [
        "S2.pkl: no sample of code 1 (baseline); expected baseline and stress in each subject"
    ]
    assert complaints(recording(codes=(1, 2, 9, -1))) == ["S2.pkl: label codes [-1, 9]; expected codes 0 to 7"]


def test_gaps_are_tolerated_up_to_a_length() -> None:
    assert complaints(recording(with_gap(8)), max_gap=2.0) == []
    assert "expected gaps of at most 1 s" in complaints(recording(with_gap(8)), max_gap=1.0)[0]


def test_longest_run() -> None:
    assert longest_run(np.zeros(3, bool)) == 0
    assert longest_run(np.array([1, 1, 0, 1], bool)) == 2
    assert longest_run(np.ones(4, bool)) == 4


def test_a_folder_without_recordings_says_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no recording; expected a study: E4 folders .*; HHAR's CSV files .*; WESAD"):
        open_study(tmp_path)
    with pytest.raises(DataError, match="no such folder"):
        open_study(tmp_path / "nowhere")


def test_a_subjects_folder_is_told_from_the_study(generated: Path) -> None:
    with pytest.raises(DataError, match=rf"S2: a subject's folder, not a study's; expected the study: {generated}"):
        open_study(generated / "S2")


def test_labels_ask_for_the_e4_folders_beside_pickles(generated: Path) -> None:
    assert open_study(generated).name == "wesad"
    assert open_study(generated, generated / "labels.csv").name == "e4"


def test_the_inventory_has_every_subject_and_every_defect(generated: Path, tmp_path: Path) -> None:
    for subject in ("S2", "S3"):
        (tmp_path / subject).mkdir()
        shutil.copy(generated / subject / f"{subject}.pkl", tmp_path / subject)
    (tmp_path / "S3" / "S3.pkl").write_bytes(b"no pickle")
    found = open_study(tmp_path).inventory()
    (first, signals, seconds, shares), second = found.rows
    assert (first, seconds) == ("S2", "600 s")
    assert signals.splitlines()[0] == "wrist: ACC 32, BVP 64, EDA 4, TEMP 4"
    assert shares.startswith("transient") and "stress" in shares
    assert second == ("S3", UNREADABLE, "", "")
    assert ["S3.pkl" in str(defect) for defect in found.defects] == [True]


def test_a_missing_signal_lists_those_there_are() -> None:
    with pytest.raises(DataError, match="signals wrist/EDA; expected a signal wrist/BVP"):
        recording().signal("wrist/BVP")
