from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tff_esn.datasets.splits import ClientSplit
from tff_esn.datasets.synthetic.hhar import write_hhar
from tff_esn.errors import TffEsnError
from tff_esn.features.channels import Channels
from tff_esn.features.corrected import CorrectedFeatures
from tff_esn.features.study import DataSettings, Study, load_study
from tff_esn.features.thesis import ThesisFeatures

SPLIT = ClientSplit(("S3", "S2"), (), ("S4",))


@pytest.fixture(scope="module")
def wesad_like(generated: Path, tmp_path_factory: pytest.TempPathFactory) -> Study:
    return load_study(generated, cache=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def hhar(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("hhar")
    write_hhar(folder, users=2, seconds=3.0, models=("nexus4", "gear"))
    return load_study(str(folder), cache=str(tmp_path_factory.mktemp("cache")))


def test_a_study_is_told_from_its_folder(wesad_like: Study, hhar: Study, generated: Path) -> None:
    assert wesad_like.folder.name == "wesad"
    assert wesad_like.subjects == ("S2", "S3", "S4")
    assert repr(wesad_like) == f"Study({str(generated)!r}, 3 subjects)"
    assert hhar.folder.name == "hhar"
    assert load_study(generated, labels=generated / "labels.csv").folder.name == "e4"


def test_the_usual_features_and_task_are_the_studys(wesad_like: Study, hhar: Study) -> None:
    data = wesad_like.clients()
    assert data.recipe == CorrectedFeatures()
    assert (data.clients, data.classes) == (("S2", "S3", "S4"), ("not stressed", "stressed"))
    assert data.partition == ClientSplit(("S2", "S3", "S4"))
    phones = hhar.clients(steps=50)
    assert phones.recipe == Channels(device="phones", steps=50)
    assert phones.classes == ("bike", "sit", "stand", "walk", "stairsup", "stairsdown")
    assert set(np.unique(phones.labels())) == set(range(6))
    assert phones["a"].values.shape[1:] == (50, 6)  # type: ignore[union-attr]
    watches = hhar.clients(device="watches", models=("gear",), steps=50)
    assert watches.recipe == Channels(device="watches", models=("gear",), steps=50)


def test_features_task_split_and_options_are_chosen(wesad_like: Study) -> None:
    data = wesad_like.clients("corrected", "affect", SPLIT, columns=("tEDA", "HR"), steps=7)
    assert data.recipe == CorrectedFeatures(columns=("tEDA", "HR"), steps=7)
    assert (data.clients, data.partition) == (("S3", "S2", "S4"), SPLIT)
    assert data["S2"].values.shape[1:] == (7, 2)  # type: ignore[union-attr]
    assert data.classes[3] == "meditation"
    same = wesad_like.clients(CorrectedFeatures(steps=7), "affect", columns=("tEDA", "HR"))
    np.testing.assert_array_equal(same["S2"].values, data["S2"].values)
    wrist = wesad_like.clients("channels", device="wrist", rate=4.0, steps=4)
    assert wrist.features == ("ACCx", "ACCy", "ACCz", "BVP", "EDA", "TEMP")
    assert wrist.recipe == Channels(device="wrist", rate=4.0, steps=4)
    assert wesad_like.clients("corrected", split="leave-out-S3").partition == ClientSplit(("S2", "S4"), (), ("S3",))


def test_a_data_set_is_made_of_settings_too(wesad_like: Study) -> None:
    settings = DataSettings(CorrectedFeatures(steps=7), "affect", SPLIT)
    data, again = wesad_like.dataset(settings), wesad_like.clients("corrected", "affect", SPLIT, steps=7)
    np.testing.assert_array_equal(data["S4"].values, again["S4"].values)
    assert wesad_like.partition(settings) == SPLIT


def test_the_key_names_the_contents_of_what_is_prepared(wesad_like: Study) -> None:
    key = wesad_like.key(DataSettings(CorrectedFeatures()))
    assert key == wesad_like.key(DataSettings(CorrectedFeatures(steps=3, columns=("HR",)), "affect", SPLIT))
    assert key != wesad_like.key(DataSettings(ThesisFeatures()))
    assert key != wesad_like.key(DataSettings(CorrectedFeatures(hrv_window=3.0)))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"features": "corected"}, "no feature 'corected'; did you mean 'corrected'?"),
        ({"task": "stres"}, "no task 'stres' of a study of kind wesad; did you mean 'stress'? Expected one of affect"),
        ({"task": "activity"}, "no task 'activity' of a study of kind wesad; expected one of affect, stress"),
        ({"split": "thesiss"}, "no split 'thesiss'; did you mean 'thesis'?"),
        ({"split": "thesis"}, "split 'thesis' needs S13, S7, S16, S11"),
        ({"split": ClientSplit(("S9",))}, "the split needs S9; the study has S2, S3, S4"),
        ({"features": "channels", "device": "chst"}, "channels: device = 'chst': Input should be 'chest', 'wrist'"),
        (
            {"features": "channels", "device": "phones"},
            "device 'phones' of a study of kind wesad; expected chest or wrist",
        ),
        ({"features": "corrected", "stesp": 3}, "corrected: no setting 'stesp'; did you mean 'steps'?"),
        (
            {"features": CorrectedFeatures(), "stesp": 3},
            "CorrectedFeatures has no parameter 'stesp'; did you mean 'ste",
        ),
        ({"features": "corrected", "columns": ["HVR"]}, "corrected: columns.0 = 'HVR': Input should be 'pEDA', 'tEDA'"),
    ],
)
def test_what_a_study_does_not_have_is_refused_in_one_line(
    wesad_like: Study, arguments: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(TffEsnError) as caught:
        wesad_like.clients(**arguments)
    assert str(caught.value).startswith(complaint)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("features", ["thesis", "corrected"])
def test_features_of_another_study_are_refused_in_one_line(hhar: Study, features: str) -> None:
    with pytest.raises(TffEsnError, match=f"^features '{features}' of a study of kind hhar; expected channels$"):
        hhar.clients(features)


def test_a_folder_that_is_no_study_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(TffEsnError, match="no such folder; expected a study"):
        load_study(tmp_path / "nowhere")
