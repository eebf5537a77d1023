from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tff_esn.datasets import hhar
from tff_esn.datasets.hhar import CHANNELS, COLUMNS, HharStudy, check_hhar, read_hhar
from tff_esn.datasets.study import open_study
from tff_esn.datasets.synthetic.hhar import write_hhar
from tff_esn.datasets.tables import ACTIVITY, FeatureTable
from tff_esn.errors import ConfigError, DataError

EPOCH = 1_424_696_633_908
ACTIVITIES = list(ACTIVITY.classes)


def row(time: int, x: object = 0.0, user: str = "a", device: str = "nexus4_1", gt: str = "walk") -> str:
    """One line of a file; y and z follow from x."""
    y, z = (x + 0.25, -x) if isinstance(x, (int, float)) else (0.0, 0.0)
    model = device.rpartition("_")[0]
    return f"7,{EPOCH + time},{(EPOCH + time) * 1_000_000},{x},{y},{z},{user},{model},{device},{gt}"


def write(path: Path, rows: Iterable[str], end: str = "\n") -> None:
    path.write_bytes((end.join([",".join(COLUMNS), *rows]) + end).encode())


def release(root: Path, acc: Iterable[str], gyr: Iterable[str], kind: str = "Phones") -> Path:
    write(root / f"{kind}_accelerometer.csv", acc)
    write(root / f"{kind}_gyroscope.csv", gyr)
    return root


def spread(times: Iterable[int], **fixed: str) -> list[str]:
    """Rows whose x is the time in seconds."""
    return [row(time, time / 1000, **fixed) for time in times]


def raw(root: Path, **options: Any) -> dict[str, FeatureTable]:
    return read_hhar(root, standardize=False, **options)


# Joining


def test_each_sample_is_joined_with_the_nearest_gyroscope_sample(tmp_path: Path) -> None:
    acc = [row(0, 1.0), row(5, 2.0), row(10, 3.0, gt="null"), row(100, 4.0)]
    gyr = [row(1, 10.0), row(7, 20.0), row(40, 30.0)]
    table = raw(release(tmp_path, acc, gyr))["a"]
    # 5 lies 4 ms after 1 and 2 ms before 7; 100 has nobody within 20 ms.
    np.testing.assert_array_equal(
        table.values,
        [
            [1, 1.25, -1, 10, 10.25, -10],
            [2, 2.25, -2, 20, 20.25, -20],
            [3, 3.25, -3, 20, 20.25, -20],
        ],
    )
    assert table.codes.tolist() == [4, 4, 0]
    assert table.names == CHANNELS
    assert table.subject == "a"
    assert table.values.dtype == np.float32
    assert table.values.flags.c_contiguous


def test_the_earlier_of_two_equally_near_samples_is_taken(tmp_path: Path) -> None:
    table = raw(release(tmp_path, [row(5)], [row(10, 2.0), row(0, 1.0)]))["a"]
    assert table.values[0, 3] == 1


@pytest.mark.parametrize(("tolerance", "kept"), [(0.0, 1), (0.018, 2), (0.019, 3), (0.02, 3), (1.0, 4)])
def test_the_tolerance_is_inclusive(tmp_path: Path, tolerance: float, kept: int) -> None:
    acc = spread([0, 1018, 2019, 3021])
    gyr = spread([0, 1000, 2000, 3000])
    assert len(raw(release(tmp_path, acc, gyr), tolerance=tolerance)["a"]) == kept


def test_rows_out_of_order_are_sorted(tmp_path: Path) -> None:
    table = raw(release(tmp_path, spread([30, 0, 20, 10]), spread([20, 30, 0, 10])))["a"]
    np.testing.assert_allclose(table.values[:, 0], [0, 0.01, 0.02, 0.03])
    np.testing.assert_allclose(table.values[:, 3], [0, 0.01, 0.02, 0.03])


def test_samples_of_one_arrival_time_keep_their_order(tmp_path: Path) -> None:
    acc = [row(0, 1.0), row(0, 2.0), row(0, 3.0), row(5, 4.0)]
    table = raw(release(tmp_path, acc, [row(0, 1.0), row(0, 1.0)]))["a"]
    assert table.values[:, 0].tolist() == [1, 2, 3, 4]
    assert len(table.breaks) == 0


moments = st.lists(st.integers(0, 300), min_size=1, max_size=25)


@settings(max_examples=60, deadline=None)
@given(moments, moments, st.integers(0, 60))
def test_the_join_agrees_with_trying_all_pairs(
    tmp_path_factory: pytest.TempPathFactory, acc: list[int], gyr: list[int], tolerance: int
) -> None:
    expected = []
    for time in sorted(acc):
        distance, partner = min((abs(other - time), other) for other in gyr)
        if distance <= tolerance:
            expected.append((time, partner))
    # x is the time, so that a joined row names both its partners.
    root = tmp_path_factory.mktemp("hhar")
    release(root, [row(time, time) for time in acc], [row(time, time) for time in gyr])
    if not expected:
        with pytest.raises(DataError, match="no sample that fits one of user a"):
            raw(root, tolerance=tolerance / 1000)
        return
    values = raw(root, tolerance=tolerance / 1000)["a"].values
    np.testing.assert_array_equal(values[:, [0, 3]], expected)


# Users, devices, breaks


def test_users_are_sorted_and_kept_apart(tmp_path: Path) -> None:
    rows = [row(0, 1.0, "c"), row(0, 2.0, "a"), row(5, 3.0, "c")]
    tables = raw(release(tmp_path, rows, rows))
    assert list(tables) == ["a", "c"]
    assert tables["a"].values[:, 0].tolist() == [2]
    assert tables["c"].values[:, 3].tolist() == [1, 3]


def test_devices_follow_each_other_with_a_break_between_them(tmp_path: Path) -> None:
    rows = [row(0, 1.0, device="nexus4_2"), row(0, 2.0), row(1, 3.0, device="nexus4_2"), row(3, 4.0)]
    table = raw(release(tmp_path, rows, rows))["a"]
    assert table.values[:, 0].tolist() == [2, 4, 1, 3]
    assert table.breaks.tolist() == [2]


def test_a_gap_longer_than_the_longest_allowed_is_a_break(tmp_path: Path) -> None:
    rows = spread([0, 1000, 2001, 2011, 5000])
    table = raw(release(tmp_path, rows, rows))["a"]
    assert table.breaks.tolist() == [2, 4]
    assert table.breaks.dtype == np.int64
    assert raw(tmp_path, max_gap=0.005)["a"].breaks.tolist() == [1, 2, 3, 4]
    assert raw(tmp_path, max_gap=10)["a"].breaks.tolist() == []


def test_dropped_samples_leave_a_gap(tmp_path: Path) -> None:
    acc, gyr = spread(range(0, 3000, 100)), spread([0, 100, 2900])
    table = raw(release(tmp_path, acc, gyr))["a"]
    assert len(table) == 3
    assert table.breaks.tolist() == [2]


def test_models_are_selected(tmp_path: Path) -> None:
    rows = [row(0, 1.0), row(0, 2.0, device="s3_1"), row(0, 3.0, device="s3mini_1")]
    root = release(tmp_path, rows, rows)
    assert raw(root)["a"].values[:, 0].tolist() == [1]
    assert raw(root, models=("s3", "nexus4"))["a"].values[:, 0].tolist() == [1, 2]
    assert raw(root, models=None)["a"].values[:, 0].tolist() == [1, 2, 3]


def test_watches_are_read_from_their_own_files(tmp_path: Path) -> None:
    rows = [row(0, 5.0, device="gear_1"), row(0, 6.0, device="lgwatch_1")]
    release(tmp_path, rows, rows, kind="Watch")
    assert raw(tmp_path, kind="watches", models=("gear",))["a"].values[:, 0].tolist() == [5]


@pytest.mark.parametrize("code", range(1, 7))
def test_activities_have_the_codes_of_the_task(tmp_path: Path, code: int) -> None:
    rows = [row(0, gt=ACTIVITIES[code - 1])]
    table = raw(release(tmp_path, rows, rows))["a"]
    assert table.codes.tolist() == [code]
    assert ACTIVITY.labels(table.codes).tolist() == [code - 1]


def test_the_size_of_the_blocks_read_at_once_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    acc = [row(t, t, "ab"[t % 2], f"nexus4_{1 + t % 3}", ACTIVITIES[t % 5]) for t in range(60)]
    root = release(tmp_path, acc, acc[::-1])
    whole = raw(root)
    monkeypatch.setattr(hhar, "_BLOCK_BYTES", 200)
    for user, table in raw(root).items():
        np.testing.assert_array_equal(table.values, whole[user].values)
        np.testing.assert_array_equal(table.codes, whole[user].codes)
        np.testing.assert_array_equal(table.breaks, whole[user].breaks)


def test_windows_line_ends_and_a_last_line_without_end_are_read(tmp_path: Path) -> None:
    rows = spread([0, 5])
    for name in ("Phones_accelerometer.csv", "Phones_gyroscope.csv"):
        write(tmp_path / name, rows, end="\r\n")
    assert len(raw(tmp_path)["a"]) == 2
    (tmp_path / "Phones_gyroscope.csv").write_text("\n".join([",".join(COLUMNS), *rows]))
    assert len(raw(tmp_path)["a"]) == 2


# Resampling


def test_values_are_interpolated_and_activities_taken_from_the_nearest_sample(tmp_path: Path) -> None:
    rows = [row(0, 0.0), row(10, 1.0), row(25, 4.0, gt="sit"), row(44, 4.0, gt="null")]
    table = raw(release(tmp_path, rows, rows), rate=100)["a"]
    # Grid: 0, 10, 20, 30, 40 ms; 20 lies two thirds of the way from 10 to 25.
    np.testing.assert_allclose(table.values[:, 0], [0, 1, 3, 4, 4], rtol=1e-6)
    np.testing.assert_allclose(table.values[:, 5], [0, -1, -3, -4, -4], rtol=1e-6)
    assert table.codes.tolist() == [4, 4, 2, 2, 0]
    assert table.values.dtype == np.float32


def test_each_stretch_has_its_own_grid(tmp_path: Path) -> None:
    rows = spread([0, 10, 20, 5003, 5013, 9000]) + spread([4, 24], device="nexus4_2")
    table = raw(release(tmp_path, rows, rows), rate=200)["a"]
    np.testing.assert_allclose(
        table.values[:, 0],
        [0, 0.005, 0.01, 0.015, 0.02, 5.003, 5.008, 5.013, 9, 0.004, 0.009, 0.014, 0.019, 0.024],
        rtol=1e-6,
    )
    assert table.breaks.tolist() == [5, 8, 9]


def test_samples_that_arrived_together_count_as_their_mean(tmp_path: Path) -> None:
    acc = [row(0, 0.0), row(10, 1.0), row(10, 3.0, gt="sit"), row(20, 4.0)]
    table = raw(release(tmp_path, acc, spread([0, 10, 20])), rate=100)["a"]
    np.testing.assert_allclose(table.values[:, 0], [0, 2, 4])
    assert table.codes.tolist() == [4, 4, 4]


# Standardisation


def test_channels_are_standardised_over_the_labelled_samples(tmp_path: Path) -> None:
    acc = [row(0, 1.0), row(5, 3.0, gt="sit"), row(10, 6.0, gt="null")]
    gyr = [row(0, 2.0), row(5, 2.0), row(10, 4.0)]
    root = release(tmp_path, acc, gyr)
    # Labelled: 1 and 3, mean 2, deviation 1. The gyroscope stands still: centred only.
    values = read_hhar(root)["a"].values
    np.testing.assert_allclose(values[:, 0], [-1, 1, 4])
    np.testing.assert_allclose(values[:, 2], [1, -1, -4])
    np.testing.assert_allclose(values[:, 3], [0, 0, 2])


def test_users_are_standardised_one_by_one(tmp_path: Path) -> None:
    rows = [row(0, 1.0), row(5, 3.0), row(0, 100.0, "b"), row(5, 300.0, "b")]
    for table in read_hhar(release(tmp_path, rows, rows)).values():
        np.testing.assert_allclose(table.values[:, 0], [-1, 1])


def test_a_user_without_any_activity_cannot_be_standardised(tmp_path: Path) -> None:
    rows = [row(0, gt="null")]
    root = release(tmp_path, rows, rows)
    with pytest.raises(DataError, match="no activity of user a"):
        read_hhar(root)
    assert raw(root)["a"].codes.tolist() == [0]


# Malformed files

GOOD = row(0, 1.5)
MALFORMED = {
    "text for a number": (GOOD.replace("1.5,", "abc,").encode(), "x 'abc'; expected a finite number"),
    "empty number": (GOOD.replace("1.5,", ",").encode(), "x ''; expected a finite number"),
    "Python number": (GOOD.replace("1.75", "1_0").encode(), "y '1_0'; expected a finite number"),
    "nan": (GOOD.replace("1.75", "nan").encode(), "y 'nan'; expected a finite number"),
    "infinite": (GOOD.replace("-1.5", "-inf").encode(), "z '-inf'; expected a finite number"),
    "too large": (GOOD.replace("-1.5", "1e300").encode(), "z '1e300'; expected a finite number"),
    "time": (GOOD.replace(f",{EPOCH},", ",soon,").encode(), "Arrival_Time 'soon'; expected whole milliseconds"),
    "fraction": (GOOD.replace(f",{EPOCH},", ",1.5,").encode(), "Arrival_Time '1.5'; expected whole milliseconds"),
    "rounded time": (
        GOOD.replace(f",{EPOCH},", ",14e-2,").encode(),
        "Arrival_Time '14e-2'; expected whole milliseconds",
    ),
    "huge time": (GOOD.replace(f",{EPOCH},", f",{10**30},").encode(), f"Arrival_Time '{10**30}'"),
    "unknown user": (row(0, user="j").encode(), "User 'j'; expected one of a, b, c"),
    "no user": (row(0, user="").encode(), "User ''; expected one of a, b, c"),
    "no device": (GOOD.replace("nexus4_1", "").encode(), "Device ''; expected the name of a device"),
    "no model": (GOOD.replace(",nexus4,", ",,").encode(), "Model ''; expected the name of a model"),
    "unknown activity": (row(0, gt="run").encode(), "gt 'run'; expected one of null, bike, sit"),
    "empty activity": (row(0, gt="").encode(), "gt ''; expected one of null"),
    "truncated": (GOOD[:30].encode(), "3 fields; expected 10"),
    "surplus": (GOOD.encode() + b",1,2", "12 fields; expected 10"),
    "blank": (b"", "1 fields; expected 10"),
    "not UTF-8": (GOOD.encode().replace(b"walk", b"w\xe4lk"), "bytes that are not UTF-8"),
    "NUL": (GOOD.encode().replace(b"1.75", b"1.75\0"), "y '1.75\\x00'; expected a finite number"),
    "quoted": (GOOD.encode().replace(b"walk", b'"walk'), "gt '\"walk'"),
}


@pytest.mark.parametrize("sensor", ["accelerometer", "gyroscope"])
@pytest.mark.parametrize(("line", "message"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_row_is_named(tmp_path: Path, sensor: str, line: bytes, message: str) -> None:
    rows = [row(t) for t in range(4)]
    release(tmp_path, rows, rows)
    path = tmp_path / f"Phones_{sensor}.csv"
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([*lines[:3], line, *lines[3:]]) + b"\n")
    with pytest.raises(DataError) as caught:
        read_hhar(tmp_path)
    assert f"Phones_{sensor}.csv, line 4: " in str(caught.value)
    assert message in str(caught.value)
    # The check names it too and goes on with the other rows.
    report = check_hhar(tmp_path, "phones")
    assert str(caught.value) in [str(defect) for defect in report.defects]
    assert {part.samples for part in report.parts} == {4}


def test_a_short_and_a_long_row_do_not_make_up_for_each_other(tmp_path: Path) -> None:
    release(tmp_path, [GOOD, GOOD.rpartition(",")[0], GOOD + ",1"], [GOOD])
    with pytest.raises(DataError, match="line 3: 9 fields"):
        read_hhar(tmp_path)


def test_the_line_is_right_in_a_later_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hhar, "_BLOCK_BYTES", 200)
    release(tmp_path, [*[GOOD] * 50, row(0, gt="run"), GOOD], [GOOD])
    with pytest.raises(DataError, match=r"Phones_accelerometer\.csv, line 52: gt 'run'"):
        read_hhar(tmp_path)


def test_rows_that_only_pandas_rejects_are_still_one_clear_line(tmp_path: Path) -> None:
    release(tmp_path, [GOOD, "7\r" + GOOD], [GOOD])
    with pytest.raises(DataError, match="from line 2: rows that cannot be read"):
        read_hhar(tmp_path)
    report = check_hhar(tmp_path, "phones")
    assert "from line 2: rows that cannot be read" in str(report.defects[0])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "an empty file; expected the header Index,Arrival_Time"),
        (b"Index,Time,x\n1,2,3\n", "the header 'Index,Time,x"),
        (GOOD.encode() + b"\n", "the header '7,"),
        (b"\xff\xfe\0\0" * 1000, "the header"),
        (",".join(COLUMNS).encode() + b"\n", "no samples; expected samples of nexus4"),
    ],
    ids=["empty", "other columns", "no header", "binary", "header only"],
)
def test_a_file_that_is_something_else_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    release(tmp_path, [GOOD], [GOOD])
    (tmp_path / "Phones_gyroscope.csv").write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_hhar(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'Phones_gyroscope.csv'}: ")
    assert message in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Phones_accelerometer\.csv: No such file"):
        read_hhar(tmp_path)
    write(tmp_path / "Phones_accelerometer.csv", [GOOD])
    (tmp_path / "Phones_gyroscope.csv").mkdir()
    with pytest.raises(DataError, match=r"Phones_gyroscope\.csv: Is a directory"):
        read_hhar(tmp_path)


def test_a_model_without_samples_is_named(tmp_path: Path) -> None:
    rows = [GOOD, row(0, device="s3_1")]
    release(tmp_path, rows, rows)
    with pytest.raises(DataError, match="samples of nexus4, s3; expected samples of nexus4, s4"):
        read_hhar(tmp_path, models=("nexus4", "s4"))


def test_a_device_without_gyroscope_is_left_out_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    acc = [row(0, 1.0), row(0, 2.0, device="nexus4_2"), row(0, 3.0, device="samsungold_1")]
    release(tmp_path, acc, acc[:1])
    with caplog.at_level(logging.WARNING, logger="tff_esn"):
        tables = raw(tmp_path, models=None)
    assert tables["a"].values[:, 0].tolist() == [1]
    # The public release has no gyroscope of any samsungold; that is not worth a word.
    (message,) = caplog.messages
    assert "Phones_gyroscope.csv: no samples of user a, device nexus4_2; expected some" in message


def test_a_user_without_gyroscope_is_an_error(tmp_path: Path) -> None:
    release(tmp_path, [GOOD, row(0, user="b")], [GOOD])
    with pytest.raises(DataError, match=r"Phones_gyroscope\.csv: no sample that fits one of user b"):
        read_hhar(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 0.0}, "rate: 0.0"),
        ({"rate": float("inf")}, "rate: inf"),
        ({"tolerance": -1.0}, "tolerance: -1.0"),
        ({"max_gap": float("nan")}, "max_gap: nan"),
        ({"models": ()}, "models: none"),
    ],
)
def test_settings_out_of_range_are_named(tmp_path: Path, options: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_hhar(tmp_path, **options)


# Checking


def complete(users: str = "a", device: str = "nexus4_1") -> list[str]:
    """200 samples of 5 ms an activity, of every user."""
    return [
        row(1000 * number + 5 * step, 1.0, user, device, activity)
        for user in users
        for number, activity in enumerate(ACTIVITIES)
        for step in range(200)
    ]


def test_a_complete_release_has_no_defects(tmp_path: Path) -> None:
    release(tmp_path, complete("ab"), complete("ab"))
    watch = complete("ab", "gear_1")
    release(tmp_path, watch, watch, kind="Watch")
    report = check_hhar(tmp_path)
    assert report.defects == ()
    assert [(part.file, part.user, part.device) for part in report.parts] == [
        ("Phones_accelerometer.csv", "a", "nexus4_1"),
        ("Phones_accelerometer.csv", "b", "nexus4_1"),
        ("Phones_gyroscope.csv", "a", "nexus4_1"),
        ("Phones_gyroscope.csv", "b", "nexus4_1"),
        ("Watch_accelerometer.csv", "a", "gear_1"),
        ("Watch_accelerometer.csv", "b", "gear_1"),
        ("Watch_gyroscope.csv", "a", "gear_1"),
        ("Watch_gyroscope.csv", "b", "gear_1"),
    ]


def test_a_part_is_summarised(tmp_path: Path) -> None:
    # Two seconds of 100 Hz, a pause of 8 s, one second of 100 Hz.
    times = [*range(92, 2092, 10), *range(10_092, 11_092, 10)]
    rows = [row(time, gt="null" if time < 92 + 750 else "sit") for time in times]
    release(tmp_path, rows, rows)
    part, _ = check_hhar(tmp_path, "phones").parts
    assert (part.user, part.device, part.samples, part.rate) == ("a", "nexus4_1", 300, 100.0)
    assert part.duration == pytest.approx(1.99 + 0.99)
    assert part.shares == {**dict.fromkeys(ACTIVITIES, 0.0), "null": 0.25, "sit": 0.75}


def test_everything_that_is_wrong_is_listed(tmp_path: Path) -> None:
    acc = [*complete("ab"), row(9000, device="s3_1"), row(9000, device="samsungold_1"), row(0, gt="run")]
    gyr = [*complete("a"), *complete("b")[:200], row(0, user="z"), row(9000, user="b", device="s3_2")]
    release(tmp_path, acc, gyr)
    phones = [
        f"Phones_accelerometer.csv, line {len(acc) + 1}: gt 'run'; expected one of null, {', '.join(ACTIVITIES)}",
        f"Phones_gyroscope.csv, line {len(gyr)}: User 'z'; expected one of a, b, c, d, e, f, g, h, i",
        "Phones_gyroscope.csv: no sit, stand, stairsup, stairsdown of user b; expected every activity of every user",
        "Phones_gyroscope.csv: no samples of user a, device s3_1; expected some, as in Phones_accelerometer.csv",
        "Phones_accelerometer.csv: no samples of user b, device s3_2; expected some, as in Phones_gyroscope.csv",
    ]
    watches = [
        f"Watch_{sensor}.csv: No such file or directory; expected a file of the HHAR release"
        for sensor in ("accelerometer", "gyroscope")
    ]
    found = [str(defect).replace(f"{tmp_path}/", "") for defect in check_hhar(tmp_path).defects]
    assert found == phones + watches
    assert all(isinstance(defect, DataError) for defect in check_hhar(tmp_path, "phones").defects)


def test_many_malformed_rows_are_counted(tmp_path: Path) -> None:
    release(tmp_path, complete(), [*complete(), *[row(0, gt="run")] * 500])
    *listed, last = check_hhar(tmp_path, "phones").defects
    assert len(listed) == 20
    assert str(last).endswith("Phones_gyroscope.csv: 480 more malformed rows; expected none")


def test_a_file_without_a_single_good_row_is_reported(tmp_path: Path) -> None:
    release(tmp_path, complete(), [row(0, gt="run")])
    found = [str(defect) for defect in check_hhar(tmp_path, "phones").defects]
    assert "line 2: gt 'run'" in found[0]
    assert found[1].endswith("Phones_gyroscope.csv: no samples; expected some")
    assert len(found) == 2


def test_a_folder_with_one_of_the_files_is_taken_for_the_release(tmp_path: Path) -> None:
    assert HharStudy.recognize(tmp_path, None) is None
    assert HharStudy.recognize(tmp_path / "nowhere", None) is None
    write(tmp_path / "Watch_gyroscope.csv", [])
    assert HharStudy.recognize(tmp_path, None) == open_study(tmp_path) == HharStudy(tmp_path)


def test_the_inventory_has_a_row_for_each_file_user_and_device(tmp_path: Path) -> None:
    write_hhar(tmp_path, users=2, seconds=3.0, models=("nexus4",))
    found = open_study(tmp_path).inventory()
    assert found.defects == ()
    assert [row[:3] for row in found.rows] == [
        (f"Phones_{sensor}.csv", user, "nexus4_1") for sensor in ("accelerometer", "gyroscope") for user in "ab"
    ]
    assert all(len(row) == len(found.headings) and "walk" in row[-1] for row in found.rows)
    (tmp_path / "Phones_gyroscope.csv").unlink()
    assert "a file of the HHAR release" in str(open_study(tmp_path).inventory().defects[0])
