from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tff_esn.central.esn import CentralESN
from tff_esn.datasets.federated import FederatedDataset
from tff_esn.datasets.splits import ClientSplit
from tff_esn.deployment.keras_model import keras_model
from tff_esn.errors import ConfigError
from tff_esn.evaluation.assessment import assess_baselines, assess_esn
from tff_esn.features.study import load_study
from tff_esn.reservoir.esn import ESN
from tff_esn.reservoir.samples import sample_states

SPLIT = ClientSplit(("S2",), ("S3",), ("S4",))
RIDGE = (0.01, 1.0, 100.0)
MODEL = CentralESN(ESN(units=30, leaking_rate=0.5))


@pytest.fixture(scope="module")
def data(generated: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, FederatedDataset]:
    study = load_study(generated, cache=tmp_path_factory.mktemp("cache"))
    return {
        name: study.clients("corrected", task, SPLIT, columns=("tEDA", "HR"), reading=reading)
        for name, task, reading in (
            ("window", "stress", "window"),
            ("carried", "stress", "carried"),
            ("affect", "affect", "carried"),
        )
    }


@pytest.mark.parametrize("reading", ["window", "carried"])
def test_every_model_is_assessed_and_the_keras_model_is_the_same_one(
    data: dict[str, FederatedDataset], reading: str
) -> None:
    own = data[reading]
    outcomes = list(assess_esn(own, MODEL, RIDGE))
    assert [outcome.model for outcome, _ in outcomes] == [
        "ESN, time order",
        "ESN, shuffled",
        "ESN, ridge",
    ]
    for outcome, trained in outcomes:
        assert set(outcome.parts) == {"design", "test"}
        assert set(outcome.subjects) == {"S2", "S3", "S4", "all"}
        assert outcome.parts["test"] == outcome.subjects["S4"]
        assert trained.card.trained_on == ("S2", "S3")
        series = own["S4"].values[:50] if reading == "window" else own["S4"].values[0][None, :50]
        answers = keras_model(trained).predict(series, verbose=0)[:, 0]
        states = sample_states(own, trained.weights)["S4"].values[:50]
        expected = trained.readout.outputs(states)
        # The Keras model answers at a sequence's end.
        np.testing.assert_allclose(answers, expected if reading == "window" else expected[-1:], atol=1e-4)


def test_the_same_seed_gives_the_same_scores(data: dict[str, FederatedDataset]) -> None:
    first, again, other = (
        [outcome.parts for outcome, _ in assess_esn(data["carried"], MODEL.with_seed(seed), RIDGE)]
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_baselines_have_no_reservoir(data: dict[str, FederatedDataset]) -> None:
    outcomes = {outcome.model: outcome for outcome in assess_baselines(data["window"])}
    assert list(outcomes) == ["majority class", "threshold on tEDA", "threshold on HR", "logistic"]
    majority = outcomes["majority class"].parts["test"]
    assert majority.single_class == 0
    assert majority.balanced_accuracy == 0.5
    assert outcomes["threshold on tEDA"].parts["design"].auroc > 0.6


def test_a_threshold_can_be_chosen_on_validation_and_is_the_models(data: dict[str, FederatedDataset]) -> None:
    found = list(assess_esn(data["window"], MODEL, RIDGE, choose_threshold=True))
    assert any(outcome.threshold != 0.5 for outcome, _ in found)
    for outcome, trained in found:
        assert trained.card.threshold == outcome.threshold
        assert trained.scores(data["window"].part("test")) == outcome.parts["test"]


def test_without_validation_or_test_subjects_there_is_less_to_choose_and_to_score(
    data: dict[str, FederatedDataset],
) -> None:
    everyone = data["window"].partitioned(ClientSplit(("S2", "S3", "S4")))
    found = [outcome for outcome, _ in assess_esn(everyone, MODEL, RIDGE, choose_threshold=True)]
    assert [(list(outcome.parts), outcome.threshold) for outcome in found] == [(["design"], 0.5)] * 3
    assert all(list(outcome.parts) == ["design"] for outcome in assess_baselines(everyone))


def test_four_classes_have_a_softmax(data: dict[str, FederatedDataset]) -> None:
    own, four = data["affect"], CentralESN(ESN(units=20), class_weight=None)
    outcomes = {outcome.model: (outcome, trained) for outcome, trained in assess_esn(own, four, RIDGE)}
    outcome, trained = outcomes["ESN, time order"]
    assert trained.readout.kernel.shape == (20, 4)
    assert np.array(outcome.parts["test"].confusion).shape == (4, 4)
    assert outcome.parts["test"].examples == len(own["S4"].sample_labels) < sum(map(len, own["S4"].values))
    assert [outcome.model for outcome in assess_baselines(own)] == ["majority class", "logistic"]
    with pytest.raises(ConfigError, match="a threshold for 4 classes; expected two"):
        list(assess_esn(own, four, RIDGE, choose_threshold=True))
