from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tff_esn.datasets.e4 import CODE_RATE, read_e4_folder, read_label_intervals
from tff_esn.datasets.study import open_study
from tff_esn.errors import DataError

START = 1_495_437_325.0
RATES = {"ACC": 32, "BVP": 64, "EDA": 4, "TEMP": 4}


def write_e4(folder: Path, seconds: int = 10, offsets: dict[str, float] | None = None, **replaced: str) -> None:
    folder.mkdir(parents=True)
    for name, rate in RATES.items():
        columns = 3 if name == "ACC" else 1
        start = START + (offsets or {}).get(name, 0.0)
        values = np.arange(seconds * rate)[:, None] + np.arange(columns)
        rows = [[f"{start:.6f}"] * columns, [f"{rate:.6f}"] * columns, *([f"{v:.6f}" for v in row] for row in values)]
        text = replaced.get(name, "\n".join(", ".join(row) for row in rows) + "\n")
        (folder / f"{name}.csv").write_text(text)


def test_signals_are_cut_to_the_time_they_share(tmp_path: Path) -> None:
    write_e4(tmp_path / "E4", offsets={"EDA": 2.0})
    start, signals = read_e4_folder(tmp_path / "E4")
    assert start == START + 2
    assert {name: signal.duration for name, signal in signals.items()} == dict.fromkeys(
        ("wrist/ACC", "wrist/BVP", "wrist/EDA", "wrist/TEMP"), 8.0
    )
    assert signals["wrist/EDA"].values[0] == 0
    assert signals["wrist/BVP"].values[0] == 2 * 64
    np.testing.assert_array_equal(signals["wrist/ACC"].values[0], [64, 65, 66])


@pytest.mark.parametrize("offset", [0.0, START])
@pytest.mark.parametrize("nested", [False, True])
def test_a_study_of_ones_own(tmp_path: Path, offset: float, nested: bool) -> None:
    write_e4(tmp_path / "P1" / "E4" if nested else tmp_path / "P1")
    (tmp_path / "labels.csv").write_text(
        f"label,subject,start,end\nbaseline,P1,{offset + 1},{offset + 4}\n2,P1,{offset + 5},{offset + 9.5}\n"
    )
    study = open_study(tmp_path)
    assert study.subjects == ("P1",)
    recording = study.read("P1")
    seconds = recording.codes.values[:: int(CODE_RATE)]
    assert seconds.tolist() == [0, 1, 1, 1, 0, 2, 2, 2, 2, 2]
    assert recording.code_shares() == pytest.approx({0: 0.25, 1: 0.3, 2: 0.45})


def test_generated_e4_folders_and_pickles_agree(generated: Path) -> None:
    pickled = open_study(generated).read("S3")
    raw = open_study(generated, generated / "labels.csv").read("S3")
    for name in RATES:
        np.testing.assert_allclose(
            raw.signal(f"wrist/{name}").values, pickled.signal(f"wrist/{name}").values, atol=1e-6
        )
    assert raw.code_shares() == pytest.approx(pickled.code_shares(), abs=1e-3)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "EDA.csv"),
        ("1495437325.0\n4.0\n", "2 lines of 1 column"),
        ("1495437325.0\n4.0\nabc\n", "abc"),
        ("1495437325.0,1\n4.0,4\n1,2\n", "2 column(s)"),
        ("1495437325.0\n0\n1\n2\n", "rate 0.0"),
        ("nan\n4\n1\n2\n", "start nan"),
        ("\x00\x00\x00", "EDA.csv"),
    ],
)
def test_a_damaged_sensor_file_is_one_clear_line(tmp_path: Path, text: str, complaint: str) -> None:
    write_e4(tmp_path / "P1", EDA=text)
    with pytest.raises(DataError) as caught:
        read_e4_folder(tmp_path / "P1")
    message = str(caught.value)
    assert str(tmp_path / "P1" / "EDA.csv") in message
    assert complaint in message
    assert "\n" not in message


def test_a_line_without_a_value_is_a_missing_value_and_moves_no_other(tmp_path: Path) -> None:
    lines = [f"{START}", "4.0", *map(str, range(40))]
    write_e4(tmp_path / "P1", EDA="\n".join([*lines[:12], "", *lines[13:]]) + "\n")
    values = read_e4_folder(tmp_path / "P1")[1]["wrist/EDA"].values
    np.testing.assert_array_equal(values, [*range(10), np.nan, *range(11, 40)])
    write_e4(tmp_path / "P2", EDA="\n".join([*lines[:12], "1\x005", *lines[13:]]) + "\n")
    with pytest.raises(DataError, match="a NUL byte; expected a start time, a rate and then numbers"):
        read_e4_folder(tmp_path / "P2")


def test_sensors_of_different_times_are_refused(tmp_path: Path) -> None:
    write_e4(tmp_path / "P1", offsets={"BVP": 3600.0})
    with pytest.raises(DataError, match="share 0 s"):
        read_e4_folder(tmp_path / "P1")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "subject,begin,end,label\n",
            "columns 'subject', 'begin', 'end', 'label'; expected columns subject, start, end, label",
        ),
        ("subject,start,end,label\nP1,1,2\n", "labels.csv:2: 3 fields"),
        ("subject,start,end,label\nP1,1,x,1\n", "labels.csv:2: end 'x'"),
        ("subject,start,end,label\nP1,1,inf,1\n", "labels.csv:2: end 'inf'"),
        ("subject,start,end,label\nP1,2,1,1\n", "labels.csv:2: end 1 before start 2"),
        ("subject,start,end,label\nP1,1,2,happy\n", "labels.csv:2: label 'happy'"),
        ("subject,start,end,label\nP1,1,2,9\n", "labels.csv:2: label '9'"),
        ("subject,start,end,label\nP1,1,2,²\n", "labels.csv:2: label '²'"),
        ("subject,start,end,label\nP1,1,1_0,1\n", "labels.csv:2: end '1_0'"),
        (f"subject,start,end,label\nP1,1,2,{'1' * 200_000}\n", "labels.csv: cannot be read (field larger than"),
        ("subject,start,end,label\nP9,1,2,1\n", "labels.csv:2: subject 'P9'"),
        ("subject,start,end,label\nP1,1,20,1\n", "labels.csv:2: interval from 1 s to 20 s"),
        (
            "subject,start,end,label\nP1,1,5,1\nP1,4,6,2\n",
            "labels.csv:3: interval from 4 s to 6 s of subject P1 overlaps",
        ),
    ],
)
def test_bad_labels_name_file_line_and_value(tmp_path: Path, text: str, complaint: str) -> None:
    write_e4(tmp_path / "P1")
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(DataError) as caught:
        open_study(tmp_path).read("P1")
    assert complaint in str(caught.value)
    assert "; expected " in str(caught.value)


def test_a_missing_label_file_says_what_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no such file; expected a CSV of labelled intervals: subject,start,end,label"):
        read_label_intervals(tmp_path / "labels.csv")
