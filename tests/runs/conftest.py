"""What the tests of runs share: generated studies of all the documents' subjects."""

from __future__ import annotations

import pytest

from tff_esn.datasets.synthetic.hhar import write_hhar
from tff_esn.datasets.synthetic.wesad import write_wesad
from tff_esn.features.study import Study


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """The 15 subjects of WESAD, five minutes each, with a cache of their own."""
    folder = tmp_path_factory.mktemp("fifteen")
    write_wesad(folder, minutes=5.0)
    return Study(folder, tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def hhar(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """The nine users of HHAR with one model of phone."""
    folder = tmp_path_factory.mktemp("nine")
    write_hhar(folder, seconds=8.0, models=("nexus4",))
    return Study(folder, tmp_path_factory.mktemp("cache"))
