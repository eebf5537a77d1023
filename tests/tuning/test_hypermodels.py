from __future__ import annotations

from pathlib import Path
from typing import Any

import keras_tuner
import numpy as np
import pytest

from tff_esn.datasets.federated import FederatedDataset
from tff_esn.datasets.synthetic.hhar import write_hhar
from tff_esn.errors import ConfigError
from tff_esn.features.study import Study
from tff_esn.readout.model import TrainedESN
from tff_esn.tuning.hypermodels import CentralHyperModel, ClosedFormHyperModel, HyperModel, hypermodel_of
from tff_esn.tuning.space import SearchSpace

LISTS = {"train": ["S2"], "validation": ["S3", "S4"]}
FEATURES = {"data.features.name": "corrected", "data.features.columns": "tEDA", "data.split": LISTS}
CHANNELS = {
    "data.features.name": "channels",
    "data.features.device": "wrist",
    "data.features.rate": 4.0,
    "data.features.steps": 32,
    "data.task": "affect",
    "data.split": LISTS,
}


@pytest.fixture(scope="module")
def study(generated: Path, tmp_path_factory: pytest.TempPathFactory) -> Study:
    return Study(generated, tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def hhar(tmp_path_factory: pytest.TempPathFactory) -> Study:
    root = tmp_path_factory.mktemp("hhar")
    write_hhar(root, users=3, seconds=10.0, models=("nexus4",))
    return Study(root, tmp_path_factory.mktemp("cache"))


def trial(own: HyperModel) -> tuple[dict[str, float], TrainedESN, FederatedDataset]:
    """The scores of a space's first trial, the model that its algorithm's `fit` makes, and the validation subjects."""
    hp = keras_tuner.HyperParameters()
    scores = own.fit(hp, own.build(hp))
    found = own.configuration(hp)
    data = own.dataset(found.data)
    return scores, found.algorithm.fit(data), data.part("validation")


def mean_accuracy(trained: TrainedESN, validation: FederatedDataset) -> float:
    """Of the subjects, by the largest output of each step."""
    right = []
    for subject, outputs in trained.decision_function(validation).items():
        predicted = outputs.argmax(axis=1) if outputs.ndim > 1 else outputs > 0.5
        right.append(float(np.mean(predicted == validation[subject].sample_labels)))
    return sum(right) / len(right)


@pytest.mark.parametrize("reading", ["window", "carried"])
def test_a_central_trial_is_what_the_algorithm_fits(study: Study, reading: str) -> None:
    fixed = {**FEATURES, "data.features.reading": reading, "esn.units": 10, "esn.seed": 2, "epochs": 2}
    own = hypermodel_of(study, SearchSpace("test", "central", fixed), {})
    assert isinstance(own, CentralHyperModel)
    scores, trained, validation = trial(own)
    expected = trained.scores(validation)
    assert scores == pytest.approx({name: getattr(expected, name) for name in scores}, nan_ok=True)


@pytest.mark.parametrize(
    ("algorithm", "more"),
    [
        ("incfed", {}),
        ("partial", {"alpha": 0.4, "count": 5}),
        ("fedip", {"plasticity.epochs": 1, "plasticity.sigma": 0.3}),
    ],
)
def test_a_closed_form_is_scored_by_the_mean_over_subjects(study: Study, algorithm: str, more: dict[str, Any]) -> None:
    own = hypermodel_of(study, SearchSpace("test", algorithm, {**CHANNELS, "esn.units": 12, "esn.seed": 2, **more}), {})
    assert isinstance(own, ClosedFormHyperModel)
    scores, trained, validation = trial(own)
    assert scores == {"accuracy": pytest.approx(mean_accuracy(trained, validation), abs=2e-3)}


@pytest.mark.parametrize("algorithm", ["central", "incfed"])
def test_six_activities(hhar: Study, algorithm: str) -> None:
    features = {"data.features.name": "channels", "data.features.device": "phones", "data.features.steps": 50}
    split = {"train": ["a"], "validation": ["b", "c"]}
    space = SearchSpace("test", algorithm, {**features, "data.split": split, "esn.units": 20})
    scores, trained, _ = trial(hypermodel_of(hhar, space, {}))
    assert len(trained.classes) == 6
    assert 0 < scores["accuracy"] <= 1


def test_other_algorithms_are_trained_by_their_own_fit(study: Study) -> None:
    space = SearchSpace("test", "fedavg", {**FEATURES, "esn.units": 10, "rounds": 2})
    own = hypermodel_of(study, space, {})
    assert type(own) is HyperModel
    scores, trained, validation = trial(own)
    assert scores["f1_micro"] == pytest.approx(trained.scores(validation).f1_micro)


def test_trials_that_differ_in_the_solution_share_statistics(study: Study) -> None:
    space = SearchSpace(
        "test", "partial", {**CHANNELS, "esn.units": 10, "count": 5}, {"alpha": [0.2, 0.9], "ridge": [0.1, 1.0]}
    )
    own = hypermodel_of(study, space, {})
    assert isinstance(own, ClosedFormHyperModel)
    found = {}
    for alpha in (0.2, 0.9):
        for ridge in (0.1, 1.0):
            hp = keras_tuner.HyperParameters()
            space.draw(hp)
            hp.values.update({"alpha": alpha, "ridge": ridge})
            found[alpha, ridge] = own.fit(hp, own.build(hp))["accuracy"]
    assert len(own._statistics._values) == 1
    assert len(set(found.values())) > 1


@pytest.mark.parametrize("split", ["leave-out-S4", "all", {"train": ["S2"], "test": ["S3"]}])
def test_a_split_without_validation_subjects_is_refused(study: Study, split: Any) -> None:
    space = SearchSpace("test", "central", {**FEATURES, "data.split": split})
    with pytest.raises(ConfigError, match="has no validation subjects; expected some, to compare trials on"):
        hypermodel_of(study, space, {})
