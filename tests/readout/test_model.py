from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score

from tff_esn.central.esn import CentralESN
from tff_esn.closed_form.incfed import IncFed
from tff_esn.datasets.federated import FederatedDataset
from tff_esn.errors import ConfigError
from tff_esn.readout.model import TrainedESN
from tff_esn.readout.readout import Readout
from tff_esn.reservoir.esn import ESN
from tff_esn.reservoir.samples import sample_states

NETWORK = ESN(units=15, leaking_rate=0.5, seed=1)


def dataset(classes: int, per_step: bool = False, clients: str = "abc") -> FederatedDataset:
    """Clients whose values are higher, the higher the class."""
    random = np.random.default_rng(classes)
    arrays = {}
    for client in clients:
        labels = random.integers(0, classes, 20)
        values = random.normal(size=(20, 6, 2)) + labels[:, None, None]
        arrays[client] = (values, np.repeat(labels[:, None], 6, axis=1) if per_step else labels)
    return FederatedDataset.from_arrays(arrays, classes=[f"class {i}" for i in range(classes)])


MODELS = [
    pytest.param(algorithm, classes, id=f"{algorithm.name}-{classes}")
    for algorithm in (IncFed(NETWORK), IncFed(NETWORK, bias=True), CentralESN(NETWORK, epochs=3))
    for classes in (2, 4)
]


@pytest.mark.parametrize(("algorithm", "classes"), MODELS)
@pytest.mark.parametrize("per_step", [False, True])
def test_predictions_and_probabilities_are_those_of_the_outputs(algorithm: Any, classes: int, per_step: bool) -> None:
    data = dataset(classes, per_step)
    model = algorithm.fit(data)
    samples = sum(len(own.sample_labels) for own in data.sequences.values())
    probabilities, predictions = model.predict_proba(data), model.predict(data)
    assert probabilities.shape == (samples, classes)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-6)
    assert (probabilities >= 0).all()
    np.testing.assert_array_equal(probabilities.argmax(axis=1), predictions)
    states = np.concatenate([own.values for own in sample_states(data, model.weights).values()])
    net = states @ model.readout.kernel + model.readout.bias
    expected = net.argmax(axis=1) if net.shape[1] > 1 else (net[:, 0] > 0).astype(int)
    np.testing.assert_array_equal(predictions, expected)
    assert model.score(data) > 1.3 / classes


@pytest.mark.parametrize(("algorithm", "classes"), MODELS)
def test_scores_are_those_of_scikit_learn(algorithm: Any, classes: int) -> None:
    data = dataset(classes)
    model = algorithm.fit(data)
    labels, predictions = data.labels(), model.predict(data)
    assert model.score(data) == pytest.approx(accuracy_score(labels, predictions))
    assert model.score(data, "balanced_accuracy") == pytest.approx(balanced_accuracy_score(labels, predictions))
    by_client = model.client_scores(data)
    assert tuple(by_client) == ("a", "b", "c", "all")
    assert by_client["all"] == model.scores(data)
    assert by_client["b"] == model.scores(data.of(["b"]))


def test_two_linear_outputs_are_one_score_that_is_half_where_they_are_equal() -> None:
    model = IncFed(NETWORK).fit(dataset(2))
    doubled = replace(model, readout=Readout(np.eye(2), np.zeros(2), "linear"))
    np.testing.assert_allclose(doubled.scored(np.array([[0.3, 0.3], [0.0, 1.0], [1.0, 0.0]])), [0.5, 1.0, 0.0])


def test_the_threshold_is_the_cards() -> None:
    data = dataset(2)
    model = CentralESN(NETWORK).fit(data)
    strict = replace(model, card=replace(model.card, threshold=0.7))
    scores = np.concatenate(list(model.decision_function(data).values()))
    np.testing.assert_array_equal(strict.predict(data), scores > 0.7)
    assert strict.score(data) == pytest.approx(((scores > 0.7) == data.labels()).mean())


def test_the_card_says_how_the_model_is_fed() -> None:
    card = IncFed(NETWORK).fit(dataset(2, per_step=True)).card
    assert (card.algorithm, card.features, card.classes) == ("incfed", ("x0", "x1"), ("class 0", "class 1"))
    assert (card.per_step, card.steps, card.threshold, card.trained_on) == (True, 6, 0.5, ("a", "b", "c"))
    ragged = {"a": (np.zeros((3, 4, 1)), [0, 1, 0]), "b": ([np.ones((2, 1)), np.ones((3, 1))], [0, 1])}
    card = IncFed(NETWORK).fit(FederatedDataset.from_arrays(ragged)).card
    assert (card.per_step, card.steps) == (False, None)
    train, _ = dataset(2).split(test=["a"])
    assert IncFed(NETWORK).fit(train).card.trained_on == ("b", "c")


def test_a_model_prints_what_it_is() -> None:
    model = IncFed(NETWORK).fit(dataset(2))
    assert isinstance(model, TrainedESN)
    assert repr(model) == "TrainedESN(incfed, 15 units, 2 features, class 0 / class 1)"
    assert model.classes == ("class 0", "class 1")


def test_what_a_model_cannot_score_is_refused_in_one_line() -> None:
    data = dataset(2)
    model = IncFed(NETWORK).fit(data)
    with pytest.raises(ConfigError, match="no metric 'acuracy'; did you mean 'accuracy'"):
        model.score(data, "acuracy")
    with pytest.raises(ConfigError, match="features EDA, HR; expected x0, x1"):
        model.predict(replace(data, features=("EDA", "HR")))
    with pytest.raises(ConfigError, match="a data set without clients; expected at least one"):
        model.predict_proba(data.part("test"))
