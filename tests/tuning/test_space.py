from __future__ import annotations

from pathlib import Path

import keras_tuner
import pytest

from tff_esn.central.esn import CentralESN
from tff_esn.errors import ConfigError
from tff_esn.runs.reported import reported
from tff_esn.tuning.space import SearchSpace, as_text, load_space, setting_label, space_names


@pytest.mark.parametrize("name", space_names())
def test_every_space_names_settings_there_are(name: str) -> None:
    space = load_space(name)
    drawn = space.draw(keras_tuner.HyperParameters())
    base = {"data": {"features": {"name": "thesis"}}}
    found = space.configuration(drawn, base)
    assert found.algorithm.name == space.algorithm
    assert found.data in list(space.data_settings(base))


def test_the_thesis_space_is_table_6_1() -> None:
    table = reported()["thesis"]["table_6_1"]
    space = load_space("thesis-table-6-1")
    assert space.size == 972
    assert space.choice["esn.units"] == table["units"]
    assert space.choice["esn.leaking_rate"] == table["leaky"]
    assert space.choice["learning_rate"] == table["learning_rate"]
    assert space.choice["data.features.hrv_window"] == table["window"]
    assert space.choice["batch_size"] == table["batch_size"]
    assert [str(value).split("+") for value in space.choice["data.features.columns"]] == table["features"]


def test_the_papers_spaces_are_their_tables() -> None:
    incfed = load_space("incfed-table-1")
    table = reported()["incfed"]["table_1_wesad_space"]
    assert incfed.choice["esn.units"] == table["units"]
    assert list(incfed.range["esn.spectral_radius"]) == table["spectral_radius"]
    assert list(incfed.integer_range["esn.recurrent_connectivity"]) == table["recurrent_connectivity"]
    assert incfed.size is None
    fedip = load_space("fedip-table-1-wesad")
    assert fedip.choice["esn.units"] == reported()["fedip"]["table_1"]["wesad"]["units"]
    assert list(fedip.log_range["ridge"]) == reported()["fedip"]["table_1"]["both"]["lambda"]
    assert load_space("thesis-table-b-1").choice["esn.units"] == reported()["thesis"]["table_b_1"]["units"]


def test_a_space_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('document = "mine"\nalgorithm = "incfed"\n[choice]\n"esn.units" = [5, 6]\n')
    assert load_space(str(path)).size == 2
    path.write_text('document = "mine"\nalgorithm = "incfedd"\n')
    with pytest.raises(ConfigError, match="no algorithm 'incfedd'; did you mean 'incfed'"):
        load_space(str(path))
    path.write_text('document = "mine"\nalgorithm = "incfed"\n[choices]\n"esn.units" = [5, 6]\n')
    with pytest.raises(ConfigError, match="no setting 'choices'; did you mean 'choice'"):
        load_space(str(path))
    with pytest.raises(ConfigError, match="no search space 'thesis-table-61'; did you mean 'thesis-table-6-1'"):
        load_space("thesis-table-61")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("esn.unit", "'esn.unit'; did you mean 'units'"),
        ("learning_rat", "'learning_rat'; did you mean 'learning_rate'"),
        ("data.featurs", "'featurs'; did you mean 'features'"),
        ("data.features.colums", "'colums'; did you mean 'columns'"),
    ],
)
def test_an_unknown_setting_suggests_the_nearest(name: str, nearest: str) -> None:
    space = SearchSpace("mine", "central", choice={name: [1]}, fixed={"data.features.name": "thesis"})
    with pytest.raises(ConfigError, match=nearest):
        next(space.data_settings({}))


def test_a_setting_is_given_once() -> None:
    with pytest.raises(ConfigError, match=r"mine: esn\.units is given twice; expected one value, list or range"):
        SearchSpace("mine", "central", fixed={"esn.units": 5}, choice={"esn.units": [5, 6]})


def test_lists_of_columns_are_drawn_as_text_and_become_lists_again() -> None:
    columns = {"data.features.columns": [["tEDA", "HR"], "pEDA+HRV", ["HRV"]]}
    space = SearchSpace("mine", "central", fixed={"data.features.name": "corrected"}, choice=columns)  # type: ignore[arg-type]
    assert space.choice == {"data.features.columns": ["tEDA+HR", "pEDA+HRV", "HRV"]}
    seen = [settings.features.columns for settings in space.data_settings({})]  # type: ignore[attr-defined]
    assert seen == [("tEDA", "HR"), ("pEDA", "HRV"), ("HRV",)]


def test_what_is_drawn_comes_before_what_is_fixed_and_that_before_the_base() -> None:
    space = SearchSpace("mine", "central", fixed={"esn.units": 5, "epochs": 2})
    base = {"esn": {"units": 4, "seed": 7}, "epochs": 3, "batch_size": 9, "data": {"task": "stress"}}
    found = space.configuration({"esn.units": 6, "data.split": "thesis"}, base)
    assert isinstance(found.algorithm, CentralESN)
    assert (found.algorithm.esn.units, found.algorithm.esn.seed) == (6, 7)
    assert (found.algorithm.epochs, found.algorithm.batch_size) == (2, 9)
    assert (found.data.task, found.data.split) == ("stress", "thesis")


def test_all_choices_of_data_are_seen_and_ranges_once() -> None:
    space = SearchSpace(
        "mine",
        "central",
        choice={"data.features.hrv_window": [5.0, 25.0], "data.features.steps": [10, 20], "esn.units": [5, 6]},
        range={"esn.leaking_rate": (0.1, 1.0)},
    )
    seen = list(space.data_settings({"data": {"features": {"name": "thesis"}}}))
    assert [(own.features.hrv_window, own.features.steps) for own in seen] == [  # type: ignore[attr-defined]
        (5.0, 10),
        (5.0, 20),
        (25.0, 10),
        (25.0, 20),
    ]


def test_settings_in_tables() -> None:
    assert setting_label("esn.leaking_rate") == "leaking rate"
    assert setting_label("data.features.columns") == "features"
    assert [as_text(value) for value in (0.010, 1.0, 20, "HR+HRV")] == ["0.01", "1", "20", "HR+HRV"]
