from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from tff_esn.datasets.tables import FeatureTable
from tff_esn.errors import ConfigError
from tff_esn.features.channels import Channels
from tff_esn.features.corrected import CorrectedFeatures
from tff_esn.features.recipe import FEATURE_RECIPES, table_arrays, table_from
from tff_esn.features.study import DataSettings
from tff_esn.features.thesis import ThesisFeatures
from tff_esn.parameters import from_mapping
from tff_esn.store.json_values import jsonable


def test_recipes_are_chosen_by_name() -> None:
    assert FEATURE_RECIPES.names() == ("channels", "corrected", "thesis")
    assert DataSettings().features == ThesisFeatures()
    assert DataSettings(features="corrected").features == CorrectedFeatures()
    chosen = from_mapping(DataSettings, {"features": {"name": "channels", "device": "wrist"}}, "test").features
    assert chosen == Channels(device="wrist")


def test_a_recipe_that_is_not_there_suggests_the_nearest() -> None:
    with pytest.raises(ConfigError, match="no feature 'corected'; did you mean 'corrected'"):
        DataSettings(features="corected")
    with pytest.raises(ConfigError, match="features: no setting 'stps'; did you mean 'steps'"):
        DataSettings(features={"name": "corrected", "stps": 5})
    with pytest.raises(ConfigError, match=r"features: columns.0 = 'tEDAA': .* \(did you mean 'tEDA'\?\)"):
        DataSettings(features={"name": "corrected", "columns": ["tEDAA"]})


@pytest.mark.parametrize("breaks", [[], [3, 7]])
def test_a_table_is_kept_whole(breaks: list[int]) -> None:
    table = FeatureTable("S2", ("a", "b"), np.arange(20.0).reshape(10, 2), np.arange(10), np.array(breaks, np.int64))
    kept = table_from("S2", table_arrays(table))
    assert (kept.subject, kept.names) == (table.subject, table.names)
    for name in ("values", "codes", "breaks"):
        np.testing.assert_array_equal(getattr(kept, name), getattr(table, name))


def test_what_decides_on_a_table_is_in_its_key_and_nothing_else() -> None:
    def key(recipe: object) -> str:
        return str(jsonable(recipe.table_key))  # type: ignore[attr-defined]

    for kind in (ThesisFeatures, CorrectedFeatures):
        assert key(kind(hrv_window=9.0)) != key(kind())
        assert key(kind(columns=("HR",), reading="carried", steps=3)) == key(kind())
    assert key(ThesisFeatures()) != key(CorrectedFeatures())
    assert key(Channels(device="wrist", rate=64.0)) == key(Channels(device="wrist", steps=3, max_gap=9.0))
    assert len({key(Channels(device=device)) for device in ("wrist", "chest", "phones", "watches")}) == 4
    for change in ({"models": None}, {"tolerance": 0.5}, {"max_gap": 9.0}, {"rate": 9.0}):
        assert key(Channels(device="phones", **change)) != key(Channels(device="phones"))


def test_the_recipes_of_chapter_5_differ_in_every_switch() -> None:
    thesis, corrected = ThesisFeatures(), CorrectedFeatures()
    for one, other in ((thesis.extraction, corrected.extraction), (thesis.windows, corrected.windows)):
        same = {field.name for field in fields(one) if getattr(one, field.name) == getattr(other, field.name)}
        assert same <= {"hrv_window", "step_rate", "steps"}


def test_settings_are_checked_when_made_in_python_too() -> None:
    with pytest.raises(ValueError, match=r"Channels: rate = 0.0: Input should be greater than 0"):
        Channels(rate=0.0)
