from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

from tff_esn.datasets.recording import Recording, Signal
from tff_esn.datasets.study import StudyFolder, open_study
from tff_esn.datasets.synthetic.hhar import write_hhar
from tff_esn.errors import DataError
from tff_esn.features.channels import Channels
from tff_esn.features.corrected import CorrectedFeatures
from tff_esn.features.extraction import extract
from tff_esn.features.preparation import BadSubjectsError, prepare
from tff_esn.store.cache import Cache

RECIPE = CorrectedFeatures()


@pytest.fixture
def study_folder(generated: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil, pickles only."""
    for subject in ("S2", "S3", "S4"):
        (tmp_path / "study" / subject).mkdir(parents=True)
        shutil.copy(generated / subject / f"{subject}.pkl", tmp_path / "study" / subject)
    return tmp_path / "study"


def spoil(folder: Path, subject: str) -> None:
    path = folder / subject / f"{subject}.pkl"
    content = pickle.loads(path.read_bytes(), encoding="latin1")
    content["signal"]["wrist"]["EDA"][:] = 1.0
    path.write_bytes(pickle.dumps(content, protocol=2))


@pytest.mark.parametrize("jobs", [1, 2])
def test_prepared_features_are_the_extracted_ones(generated: Path, cache: Cache, jobs: int) -> None:
    study = open_study(generated)
    preparation = prepare(study, RECIPE, cache=cache, jobs=jobs)
    assert preparation.subjects == ("S2", "S3", "S4")
    assert preparation.cached == ()
    expected = extract(study.read("S3"), RECIPE.extraction)
    loaded = preparation.load("S3")
    np.testing.assert_array_equal(loaded.table.values, expected.table.values)
    np.testing.assert_array_equal(loaded.table.codes, expected.table.codes)
    np.testing.assert_array_equal(loaded.extracted["HRV"], expected.extracted["HRV"])
    again = prepare(study, RECIPE, cache=cache, jobs=jobs)
    assert again.cached == again.subjects
    np.testing.assert_array_equal(again.load("S3").table.values, expected.table.values)


def test_the_cache_knows_content_and_settings(study_folder: Path, cache: Cache) -> None:
    study = open_study(study_folder)
    prepare(study, RECIPE, cache=cache, jobs=1)
    path = study_folder / "S2" / "S2.pkl"
    os.utime(path, (0, 0))
    assert prepare(study, RECIPE, cache=cache, jobs=1).cached == ("S2", "S3", "S4")
    shutil.copy(study_folder / "S3" / "S3.pkl", path)
    assert prepare(study, RECIPE, cache=cache, jobs=1).cached == ("S3", "S4")
    other = Channels(device="wrist", rate=4.0)
    assert prepare(study, other, cache=cache, jobs=1).cached == ()


def test_a_bad_subject_does_not_lose_the_others(study_folder: Path, cache: Cache) -> None:
    spoil(study_folder, "S3")
    study = open_study(study_folder)
    with pytest.raises(BadSubjectsError, match=r"S3\.pkl: wrist/EDA is constant"):
        prepare(study, RECIPE, cache=cache)
    preparation = prepare(study, RECIPE, cache=cache, skip_bad=True)
    assert preparation.subjects == ("S2", "S4")
    assert preparation.cached == ("S2", "S4")
    assert list(preparation.errors) == ["S3"]


def test_when_all_are_bad_there_is_nothing_to_go_on_with(study_folder: Path, cache: Cache) -> None:
    for subject in ("S2", "S3", "S4"):
        spoil(study_folder, subject)
    with pytest.raises(BadSubjectsError) as caught:
        prepare(open_study(study_folder), RECIPE, cache=cache, skip_bad=True)
    assert len(str(caught.value).splitlines()) == 3


def test_a_missing_sensor_file_is_that_subjects_defect(generated: Path, tmp_path: Path, cache: Cache) -> None:
    folder = tmp_path / "study"
    shutil.copytree(generated, folder, ignore=shutil.ignore_patterns("*.pkl"))
    next((folder / "S3").glob("*/BVP.csv")).unlink()
    preparation = prepare(open_study(folder), RECIPE, cache=cache, skip_bad=True, jobs=1)
    assert preparation.subjects == ("S2", "S4")
    assert "BVP.csv" in str(preparation.errors["S3"])


def test_a_damaged_cache_entry_is_made_anew(generated: Path, cache: Cache) -> None:
    study = open_study(generated)
    preparation = prepare(study, RECIPE, subjects=["S2"], cache=cache)
    before = preparation.load("S2").table.values
    entry = cache.path("corrected", preparation.keys["S2"])
    content = bytearray(entry.read_bytes())
    content[len(content) // 2] ^= 0xFF
    entry.write_bytes(content)
    np.testing.assert_array_equal(preparation.load("S2").table.values, before)
    assert cache.load("corrected", preparation.keys["S2"]) is not None


def test_unknown_subjects_are_refused(generated: Path, cache: Cache) -> None:
    with pytest.raises(DataError, match="no subject S9; expected subjects out of S2, S3, S4"):
        prepare(open_study(generated), RECIPE, subjects=["S9"], cache=cache)


class OwnStudy(StudyFolder):
    """A study of one's own: EDA and BVP in `.npz` files."""

    name = "own"
    holds = "EDA and BVP (p1.npz, ...)"

    @property
    def subjects(self) -> tuple[str, ...]:
        return ("p1",)

    def files(self, subject: str) -> tuple[Path, ...]:
        return (self.root / f"{subject}.npz",)

    def read(self, subject: str) -> Recording:
        (path,) = self.files(subject)
        arrays = np.load(path)
        signals = {"wrist/EDA": Signal(arrays["eda"], 4.0), "wrist/BVP": Signal(arrays["bvp"], 64.0)}
        return Recording(subject, signals, Signal(arrays["codes"], 700.0), path)


def test_a_study_of_ones_own_is_prepared_as_the_others_are(generated: Path, tmp_path: Path, cache: Cache) -> None:
    recording = open_study(generated).read("S2")
    eda, bvp = (recording.signal(f"wrist/{sensor}").values for sensor in ("EDA", "BVP"))
    np.savez(tmp_path / "p1.npz", eda=eda, bvp=bvp, codes=recording.codes.values)
    own = prepare(OwnStudy(tmp_path), RECIPE, cache=cache).load("p1")
    np.testing.assert_array_equal(own.table.values, extract(recording, RECIPE.extraction).table.values)


def test_hhar_is_read_once(tmp_path: Path, cache: Cache) -> None:
    write_hhar(tmp_path / "hhar", users=2, seconds=3.0)
    study, recipe = open_study(tmp_path / "hhar"), Channels(device="phones", rate=100.0)
    first, second = prepare(study, recipe, cache=cache), prepare(study, recipe, cache=cache)
    assert first.cached == ()
    assert second.cached == second.subjects == ("a", "b")
    assert prepare(study, recipe.replaced({"rate": 50.0}), cache=cache).cached == ()
    for user in ("a", "b"):
        np.testing.assert_array_equal(first.load(user).values, second.load(user).values)
        np.testing.assert_array_equal(first.load(user).breaks, second.load(user).breaks)
