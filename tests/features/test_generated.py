from __future__ import annotations

from pathlib import Path

import pytest

from tff_esn.errors import ConfigError
from tff_esn.features.generated import generate_study


def test_generated_subjects_are_a_study_written_once(tmp_path: Path) -> None:
    study = generate_study(subjects=2, minutes=1.0, cache=tmp_path)
    assert (study.folder.name, study.subjects) == ("wesad", ("S2", "S3"))
    written = (study.root / "S2" / "S2.pkl").stat().st_mtime_ns
    assert generate_study(subjects=2, minutes=1.0, cache=tmp_path) == study
    assert (study.root / "S2" / "S2.pkl").stat().st_mtime_ns == written
    others = [{"subjects": 1}, {"minutes": 1.5}, {"seed": 1}, {"chest": True}]
    roots = {generate_study(**{"subjects": 2, "minutes": 1.0, "cache": tmp_path, **other}).root for other in others}
    assert len(roots | {study.root}) == 5


def test_minutes_are_those_of_all_activities(tmp_path: Path) -> None:
    study = generate_study("hhar", subjects=2, minutes=0.2, cache=tmp_path)
    assert study.folder.name == "hhar"
    data = study.clients(steps=10)
    assert data.clients == ("a", "b")
    # Two users, 0.2 minutes, the Nexus 4's 200 samples a second.
    assert len(data.labels()) == pytest.approx(2 * 12 * 200, rel=0.05)


def test_another_layout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no layout 'wesd'; did you mean 'wesad'"):
        generate_study("wesd", cache=tmp_path)
    with pytest.raises(ConfigError, match="subjects is 0; expected at least 1"):
        generate_study(subjects=0, cache=tmp_path)
