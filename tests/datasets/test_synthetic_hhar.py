from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tff_esn.datasets.hhar import COLUMNS, check_hhar, read_hhar
from tff_esn.datasets.synthetic.hhar import RATES, write_hhar
from tff_esn.datasets.tables import ACTIVITY, FeatureTable
from tff_esn.errors import ConfigError

FILES = ("Phones_accelerometer.csv", "Phones_gyroscope.csv", "Watch_accelerometer.csv", "Watch_gyroscope.csv")


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("release")
    write_hhar(root, users=3, seconds=4.0)
    return root


def frame(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, keep_default_na=False)


def test_there_are_four_files_and_a_mark_that_they_are_generated(release: Path) -> None:
    assert sorted(path.name for path in release.iterdir()) == sorted([*FILES, "generated.json"])


@pytest.mark.parametrize("name", FILES)
def test_rows_have_the_layout_of_the_release(release: Path, name: str) -> None:
    header, *rows = (release / name).read_bytes().decode("ascii").split("\n")[:-1]
    number = r"-?\d+(?:\.\d+)?(?:e-\d+)?"
    activities = "|".join([*ACTIVITY.classes, "null"])
    pattern = re.compile(rf"\d+,14\d{{11}},14\d{{17}},{number},{number},{number},[abc],([a-z0-9]+),\1_1,({activities})")
    assert header == ",".join(COLUMNS)
    assert all(pattern.fullmatch(row) for row in rows)


def test_the_release_passes_the_check(release: Path) -> None:
    report = check_hhar(release)
    assert report.defects == ()
    for part in report.parts:
        assert part.rate == pytest.approx(RATES[part.device[:-2]], rel=0.05)
        assert part.duration == pytest.approx(6 * 4.0 + 5 * 0.4, rel=0.02)
        assert part.shares["walk"] == pytest.approx(4.0 / 26, rel=0.05)


def test_the_samsungold_has_no_gyroscope(release: Path) -> None:
    assert "samsungold" in set(frame(release / FILES[0])["Model"])
    assert "samsungold" not in set(frame(release / FILES[1])["Model"])


def test_every_part_runs_through_all_activities_with_transitions_between(release: Path) -> None:
    orders: dict[str, list[str]] = {}
    for (user, device), rows in frame(release / FILES[0]).groupby(["User", "Device"]):
        order = [name for name, _ in itertools.groupby(rows["gt"])]
        assert order[1::2] == ["null"] * 5
        assert sorted(order[::2]) == sorted(ACTIVITY.classes)
        assert orders.setdefault(user, order) == order, device
        assert rows["Index"].tolist() == list(range(len(rows)))


def test_arrival_times_are_jittered_repeated_and_out_of_order(release: Path) -> None:
    rows = frame(release / FILES[0])
    steps = np.diff(rows.loc[(rows["User"] == "a") & (rows["Device"] == "nexus4_1"), "Arrival_Time"])
    assert (steps == 0).any()
    assert (steps < 0).any()
    assert len(np.unique(steps)) > 5
    assert (steps > 10_000).sum() == 1, "one pause"


def test_nearly_all_samples_find_a_partner(release: Path) -> None:
    samples = {(part.user, part.device): part.samples for part in check_hhar(release, "phones").parts}
    for user, table in read_hhar(release).items():
        assert len(table) > 0.99 * samples[user, "nexus4_1"]
        assert len(table.breaks) == 1


def test_sensors_run_on_clocks_of_their_own(release: Path) -> None:
    acc, gyr = (frame(release / name).groupby(["User", "Device"])["Creation_Time"] for name in FILES[2:])
    for key in acc.groups:
        assert not set(acc.get_group(key)) & set(gyr.get_group(key))


def test_the_same_seed_writes_the_same_bytes(release: Path, tmp_path: Path) -> None:
    write_hhar(tmp_path, users=3, seconds=4.0)
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (release / name).read_bytes()


def test_another_seed_writes_other_bytes(release: Path, tmp_path: Path) -> None:
    write_hhar(tmp_path, users=3, seconds=4.0, seed=1)
    for name in FILES:
        assert (tmp_path / name).read_bytes() != (release / name).read_bytes()


def test_a_part_does_not_depend_on_what_else_is_written(release: Path, tmp_path: Path) -> None:
    write_hhar(tmp_path, users=2, seconds=4.0, models=("s3",), devices=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*FILES[:2], "generated.json"])
    for name in FILES[:2]:
        less, more = frame(tmp_path / name), frame(release / name)
        assert set(less["Device"]) == {"s3_1", "s3_2"}
        less, more = less[less["Device"] == "s3_1"], more[(more["Device"] == "s3_1") & (more["User"] < "c")]
        pd.testing.assert_frame_equal(less.reset_index(drop=True), more.reset_index(drop=True))


def test_a_failure_leaves_the_old_files_alone(tmp_path: Path) -> None:
    (tmp_path / FILES[0]).write_text("old")
    (tmp_path / FILES[1]).mkdir()
    with pytest.raises(OSError):
        write_hhar(tmp_path, users=1, seconds=1.0, models=("s3mini",))
    assert (tmp_path / FILES[0]).read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES[:2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"users": 0}, "users: 0; expected 1 to 9"),
        ({"users": 10}, "users: 10; expected 1 to 9"),
        ({"seconds": 0.0}, "seconds: 0.0"),
        ({"seconds": float("nan")}, "seconds: nan"),
        ({"models": ("s3", "s4")}, "models: s3, s4; expected some of nexus4"),
        ({"models": ()}, "models: none"),
        ({"devices": 0}, "devices: 0"),
    ],
)
def test_settings_out_of_range_are_named(tmp_path: Path, options: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        write_hhar(tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def windows(table: FeatureTable) -> tuple[np.ndarray, np.ndarray]:
    """Mean, deviation and spectrum of every two seconds of 50 Hz, and their activity."""
    features, codes = [], []
    for start in range(0, len(table) - 100, 100):
        values, code = table.values[start : start + 100], table.codes[start : start + 100]
        if code[0] and (code == code[0]).all():
            spectrum = np.log(np.abs(np.fft.rfft(values - values.mean(0), axis=0))[1:20:2] + 0.1)
            features.append(np.concatenate([[1.0], values.mean(0), values.std(0), spectrum.ravel()]))
            codes.append(code[0])
    return np.array(features), np.array(codes)


def held_out_accuracy(users: list[tuple[np.ndarray, np.ndarray]]) -> float:
    """Accuracy of a linear readout on the last user after learning from the others."""
    features, codes = (np.concatenate(parts) for parts in zip(*users[:-1]))
    gram = features.T @ features + 10 * np.eye(features.shape[1])
    readout = np.linalg.solve(gram, features.T @ np.eye(7)[codes])
    features, codes = users[-1]
    return float(((features @ readout).argmax(1) == codes).mean())


def test_activities_can_be_learned_but_not_from_single_samples(tmp_path: Path) -> None:
    write_hhar(tmp_path, users=5, models=("s3mini",))
    tables = read_hhar(tmp_path, models=("s3mini",), rate=50)
    samples = [(np.insert(table.values, 0, 1, axis=1), table.codes) for table in tables.values()]
    assert held_out_accuracy(samples) < 0.5
    assert held_out_accuracy([windows(table) for table in tables.values()]) > 0.6
