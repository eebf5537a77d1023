from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tff_esn.errors import ConfigError
from tff_esn.features.study import Study
from tff_esn.tuning.hypermodels import CentralHyperModel, HyperModel, hypermodel_of
from tff_esn.tuning.search import search, search_table
from tff_esn.tuning.space import SearchSpace

LISTS = {"train": ["S2"], "validation": ["S3"], "test": ["S4"]}
BASE = {"data": {"features": {"name": "corrected", "columns": ["tEDA"]}, "split": LISTS}}
SPACE = SearchSpace("test", "central", choice={"esn.units": [10, 20], "learning_rate": [0.001, 0.01, 0.1]})


@pytest.fixture(scope="module")
def study(generated: Path, tmp_path_factory: pytest.TempPathFactory) -> Study:
    return Study(generated, tmp_path_factory.mktemp("cache"))


def hypermodel(study: Study, space: SearchSpace = SPACE) -> HyperModel:
    return hypermodel_of(study, space, BASE)


def test_a_search_exhausts_the_space_and_shares_states(study: Study, tmp_path: Path) -> None:
    own = hypermodel(study)
    found = search(own, tmp_path / "whole", trials=None)
    assert len(found.trials) == 6
    assert len({tuple(trial.settings.values()) for trial in found.trials}) == 6
    scores = [trial.scores["f1_micro"] for trial in found.trials]
    assert scores == sorted(scores, reverse=True)
    assert isinstance(own, CentralHyperModel)
    assert len(own._states._values) == 2
    assert list((tmp_path / "whole" / "tensorboard").glob("*/events*"))
    again = search(own, tmp_path / "whole", trials=None)
    assert again.new == 0
    assert again.best.settings == found.best.settings


@pytest.mark.parametrize("tuner", ["random", "bayesian", "hyperband"])
def test_every_tuner_searches(study: Study, tmp_path: Path, tuner: str) -> None:
    found = search(hypermodel(study), tmp_path / tuner, tuner=tuner, trials=3)  # type: ignore[arg-type]
    assert found.trials
    assert 0 <= found.best.scores["auroc"] <= 1


@pytest.mark.parametrize("seed", [0, 3])
def test_the_same_seed_tries_the_same(study: Study, tmp_path: Path, seed: int) -> None:
    drawn = SearchSpace("test", "central", range={"esn.spectral_radius": (0.1, 0.9)})
    own = hypermodel(study, drawn)
    one, other = (search(own, tmp_path / name, trials=3, seed=seed).trials for name in ("one", "other"))
    assert [(trial.settings, trial.scores) for trial in one] == [(trial.settings, trial.scores) for trial in other]


def test_the_best_model_of_a_search_can_be_loaded(study: Study, tmp_path: Path) -> None:
    assert search(hypermodel(study), tmp_path / "kept", trials=2)
    assert list((tmp_path / "kept").glob("trial_*/checkpoint*"))


def test_a_failing_trial_is_one_clear_line(study: Study, tmp_path: Path) -> None:
    space = SearchSpace("test", "central", choice={"esn.units": [10, -1]})
    with pytest.raises(ConfigError, match=r"esn\.units = -1: Input should be greater than 0"):
        search(hypermodel(study, space), tmp_path / "bad", trials=2)
    endless = SearchSpace("test", "central", range={"esn.spectral_radius": (0.1, 0.9)})
    with pytest.raises(ConfigError, match="the space is infinite; expected a number of trials"):
        search(hypermodel(study, endless), tmp_path / "endless", trials=None)


def test_a_score_that_trials_do_not_have_suggests_the_nearest(study: Study, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no score 'auroq' of central; did you mean 'auroc'"):
        search(hypermodel(study), tmp_path / "scores", objective="auroq")


def test_the_table_shows_settings_by_their_last_part(study: Study, tmp_path: Path) -> None:
    choices = {"esn.units": [10], "learning_rate": [0.01], "data.features.columns": ["tEDA+HR"]}
    found = search(hypermodel(study, SearchSpace("test", "central", choice=choices)), tmp_path / "shown", trials=1)
    table = search_table(found, "mine")
    assert [column.heading for column in table.columns][:3] == ["units", "learning rate", "features"]
    assert table.title == "mine: best 1 of 1 trials"


LONGER = SearchSpace(
    "test",
    "central",
    choice={"esn.units": [10, 15, 20], "learning_rate": [n / 100 for n in range(1, 11)]},
)
SCRIPT = """
import sys
from pathlib import Path
from tests.tuning.test_search import LONGER, hypermodel
from tff_esn.features.study import Study
from tff_esn.tuning.search import search

own = hypermodel(Study(Path(sys.argv[1]), Path(sys.argv[2])), LONGER)
found = search(own, Path(sys.argv[3]), trials=None)
print(found.new, len(found.trials), found.best.settings, found.best.scores)
"""


def test_an_interrupted_search_goes_on_to_the_same_end(study: Study, tmp_path: Path) -> None:
    unbroken = search(hypermodel(study, LONGER), tmp_path / "unbroken", trials=None)
    command = [sys.executable, "-c", SCRIPT, str(study.root), str(study.cache), str(tmp_path / "broken")]
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root, "TF_CPP_MIN_LOG_LEVEL": "3"}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("broken/trial_*/trial.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) != 0
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    new, total, rest = result.stdout.split(" ", 2)
    assert 0 < int(new) < 30
    assert int(total) == 30
    assert rest.strip() == f"{unbroken.best.settings} {unbroken.best.scores}"
