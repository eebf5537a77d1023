from __future__ import annotations

from pathlib import Path

import keras_tuner
import pytest

from tff_esn.config import CentralConfig, from_mapping, merged, nested
from tff_esn.errors import ConfigError
from tff_esn.runs.reported import reported
from tff_esn.tuning.hypermodels import RidgeConfig
from tff_esn.tuning.space import load_space, space_names


@pytest.mark.parametrize("name", space_names())
def test_every_space_names_settings_there_are(name: str) -> None:
    space = load_space(name)
    for _ in range(5):
        drawn = nested(space.draw(keras_tuner.HyperParameters()))
        from_mapping(CentralConfig if space.solver == "gradients" else RidgeConfig, drawn, name)


def test_the_thesis_space_is_table_6_1() -> None:
    table = reported()["thesis"]["table_6_1"]
    space = load_space("thesis-table-6-1")
    assert space.size == 972
    assert space.choice["reservoir.units"] == table["units"]
    assert space.choice["reservoir.leaking_rate"] == table["leaky"]
    assert space.choice["readout.learning_rate"] == table["learning_rate"]
    assert space.choice["inputs.hrv_window"] == table["window"]
    assert space.choice["readout.batch_size"] == table["batch_size"]
    assert [value.split("+") for value in space.choice["inputs.features"]] == table["features"]


def test_the_papers_spaces_are_their_tables() -> None:
    incfed = load_space("incfed-table-1")
    table = reported()["incfed"]["table_1_wesad_space"]
    assert incfed.choice["reservoir.units"] == table["units"]
    assert list(incfed.range["reservoir.spectral_radius"]) == table["spectral_radius"]
    assert list(incfed.integer_range["reservoir.recurrent_connectivity"]) == table["recurrent_connectivity"]
    assert incfed.size is None
    fedip = load_space("fedip-table-1-wesad")
    assert fedip.choice["reservoir.units"] == reported()["fedip"]["table_1"]["wesad"]["units"]
    assert list(fedip.log_range["ridge"]) == reported()["fedip"]["table_1"]["both"]["lambda"]
    assert load_space("thesis-table-b-1").choice["reservoir.units"] == reported()["thesis"]["table_b_1"]["units"]


def test_a_space_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('document = "mine"\nsolver = "ridge"\n[choice]\n"reservoir.units" = [5, 6]\n')
    assert load_space(str(path)).size == 2
    path.write_text('document = "mine"\nsolver = "magic"\n')
    with pytest.raises(ConfigError, match="solver = 'magic': Input should be 'gradients' or 'ridge'"):
        load_space(str(path))
    with pytest.raises(ConfigError, match="no search space 'nothing'; expected fedip"):
        load_space("nothing")


def test_tables_are_nested_and_merged() -> None:
    drawn = nested({"a.b": 1, "a.features": "x+y", "c": 2})
    assert drawn == {"a": {"b": 1, "features": ["x", "y"]}, "c": 2}
    assert merged({"a": {"b": 0, "d": 4}}, drawn) == {"a": {"b": 1, "d": 4, "features": ["x", "y"]}, "c": 2}
