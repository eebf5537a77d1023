from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from tff_esn.config import ChannelConfig, ExtractionConfig, from_mapping, nested, read_toml
from tff_esn.errors import ConfigError
from tff_esn.presets import CORRECTED, THESIS
from tff_esn.seeds import generator_for, seed_for


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"alignment": "stretched"}, r"run\.toml: alignment = 'stretched': Input should be 'stretch' or 'clock'"),
        ({"hrv_window": -1}, r"run\.toml: hrv_window = -1: Input should be greater than 0"),
        ({"hrv_window": "x"}, r"run\.toml: hrv_window = 'x': Input should be a valid number"),
        ({"hrv_windw": 25}, r"run\.toml: hrv_windw = 25: Unexpected keyword argument"),
    ],
)
def test_a_wrong_setting_is_one_line(change: dict, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        from_mapping(ExtractionConfig, {**asdict(THESIS.extraction), **change}, "run.toml")


def test_settings_are_checked_when_made_in_python_too() -> None:
    with pytest.raises(ValueError, match="greater than 0"):
        ChannelConfig(rate=0.0)


def test_presets_differ_in_every_switch() -> None:
    for thesis, corrected in ((THESIS.extraction, CORRECTED.extraction), (THESIS.windows, CORRECTED.windows)):
        same = {name for name, value in asdict(thesis).items() if asdict(corrected)[name] == value}
        assert same <= {"hrv_window", "step_rate", "steps"}


@pytest.mark.parametrize("content", [b"a = ", b"\xff\xfe", None])
def test_a_bad_toml_file_is_one_line(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "run.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match="expected a TOML file") as caught:
        read_toml(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("features", ["HR+HRV", ["HR", "HRV"]])
def test_a_dotted_path_is_a_table_and_features_are_a_list_either_way(features: object) -> None:
    settings = {"inputs.features": features, "reservoir.units": 50}
    assert nested(settings) == {"inputs": {"features": ["HR", "HRV"]}, "reservoir": {"units": 50}}


def test_seeds_are_split_by_purpose() -> None:
    assert seed_for(0, "noise", "S2") == seed_for(0, "noise", "S2")
    different = {
        seed_for(0, "noise", "S2"),
        seed_for(0, "noise", "S3"),
        seed_for(0, "reservoir"),
        seed_for(1, "noise", "S2"),
    }
    assert len(different) == 4
    assert generator_for(0, "a").normal() == generator_for(0, "a").normal()
