from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tff_esn.datasets.splits import ClientSplit
from tff_esn.errors import ConfigError
from tff_esn.store.cache import Cache
from tff_esn.tuning.search import search
from tff_esn.tuning.setup import gradient_hypermodel, ridge_hypermodel
from tff_esn.tuning.space import SearchSpace

LISTS = {"train": ["S2"], "validation": ["S3"], "test": ["S4"]}
BASE = {"inputs": {"preset": "corrected", "features": ["tEDA"], "split": LISTS}}
SPACE = SearchSpace(
    "test", "gradients", choice={"reservoir.units": [10, 20], "readout.learning_rate": [0.001, 0.01, 0.1]}
)


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return Cache(tmp_path_factory.mktemp("cache"))


def hypermodel(generated: Path, cache: Cache, space: SearchSpace = SPACE):  # type: ignore[no-untyped-def]
    return gradient_hypermodel(space, BASE, generated, None, cache, 0, jobs=1)


def test_a_search_exhausts_the_space_and_shares_states(generated: Path, shared_cache: Cache, tmp_path: Path) -> None:
    own = hypermodel(generated, shared_cache)
    found = search(own, SPACE, tmp_path / "whole", trials=None)
    assert len(found.trials) == 6
    assert len({tuple(trial.settings.values()) for trial in found.trials}) == 6
    scores = [trial.scores["f1_micro"] for trial in found.trials]
    assert scores == sorted(scores, reverse=True)
    assert len(own._states._values) == 2
    assert list((tmp_path / "whole" / "tensorboard").glob("*/events*"))
    again = search(own, SPACE, tmp_path / "whole", trials=None)
    assert again.new == 0
    assert again.best.settings == found.best.settings


@pytest.mark.parametrize("tuner", ["random", "bayesian", "hyperband"])
def test_every_tuner_searches(generated: Path, shared_cache: Cache, tmp_path: Path, tuner: str) -> None:
    found = search(hypermodel(generated, shared_cache), SPACE, tmp_path / tuner, tuner=tuner, trials=3)  # type: ignore[arg-type]
    assert found.trials
    assert 0 <= found.best.scores["auroc"] <= 1


@pytest.mark.parametrize("seed", [0, 3])
def test_the_same_seed_tries_the_same(generated: Path, shared_cache: Cache, tmp_path: Path, seed: int) -> None:
    drawn = SearchSpace("test", "gradients", range={"reservoir.spectral_radius": (0.1, 0.9)})
    own = hypermodel(generated, shared_cache, drawn)
    one, other = (search(own, drawn, tmp_path / name, trials=3, seed=seed).trials for name in ("one", "other"))
    assert [(trial.settings, trial.scores) for trial in one] == [(trial.settings, trial.scores) for trial in other]


def test_the_best_model_of_a_search_can_be_loaded(generated: Path, shared_cache: Cache, tmp_path: Path) -> None:
    assert search(hypermodel(generated, shared_cache), SPACE, tmp_path / "kept", trials=2)
    assert list((tmp_path / "kept").glob("trial_*/checkpoint*"))


def test_a_closed_form_is_solved_not_fitted(generated: Path, shared_cache: Cache, tmp_path: Path) -> None:
    space = SearchSpace(
        "test",
        "ridge",
        fixed={"channels.steps": 32, "split": "leave-out-S4"},
        choice={"reservoir.units": [10, 20]},
        log_range={"ridge": (1e-4, 1.0)},
    )
    base = {"channels": {"device": "wrist", "rate": 4.0}, "split": LISTS}
    own = ridge_hypermodel(space, base, generated, None, shared_cache, 0, None, jobs=1)
    found = search(own, space, tmp_path / "ridge", objective="accuracy", trials=4)
    assert len(found.trials) == 4
    assert set(found.best.scores) == {"accuracy"}
    # Trials that differ in lambda only share their statistics.
    assert len(own._statistics._values) == len({trial.settings["reservoir.units"] for trial in found.trials}) <= 2


def test_a_failing_trial_is_one_clear_line(generated: Path, shared_cache: Cache, tmp_path: Path) -> None:
    space = SearchSpace("test", "gradients", choice={"reservoir.units": [-1]})
    with pytest.raises(ConfigError, match=r"reservoir\.units = -1: Input should be greater than 0"):
        search(hypermodel(generated, shared_cache, space), space, tmp_path / "bad", trials=1)
    endless = SearchSpace("test", "gradients", range={"reservoir.spectral_radius": (0.1, 0.9)})
    with pytest.raises(ConfigError, match="the space is infinite; expected a number of trials"):
        search(hypermodel(generated, shared_cache), endless, tmp_path / "endless", trials=None)


LONGER = SearchSpace(
    "test",
    "gradients",
    choice={"reservoir.units": [10, 15, 20], "readout.learning_rate": [n / 100 for n in range(1, 11)]},
)
SCRIPT = """
import sys
from pathlib import Path
from tests.tuning.test_search import LONGER, hypermodel
from tff_esn.store.cache import Cache
from tff_esn.tuning.search import search

own = hypermodel(Path(sys.argv[1]), Cache(Path(sys.argv[2])), LONGER)
found = search(own, LONGER, Path(sys.argv[3]), trials=None)
print(found.new, len(found.trials), found.best.settings, found.best.scores)
"""


def test_an_interrupted_search_goes_on_to_the_same_end(generated: Path, shared_cache: Cache, tmp_path: Path) -> None:
    unbroken = search(hypermodel(generated, shared_cache, LONGER), LONGER, tmp_path / "unbroken", trials=None)
    command = [sys.executable, "-c", SCRIPT, str(generated), str(shared_cache.folder), str(tmp_path / "broken")]
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


def test_lists_of_subjects_are_a_split() -> None:
    assert ClientSplit(**{name: tuple(own) for name, own in LISTS.items()}).design == ("S2", "S3")
