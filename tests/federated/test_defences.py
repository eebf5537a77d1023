"""The defences: each against its formula in NumPy, what none may do, what they withstand, and TFF with them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize

from tff_esn.federated.defences.cosine_filter import CosineFilter
from tff_esn.federated.defences.defence import (
    DEFENCES,
    Aggregate,
    Defence,
    aggregation_factory,
    flattened,
    gathered,
    unflattened,
)
from tff_esn.federated.defences.geometric_median import GeometricMedian
from tff_esn.federated.defences.krum import Krum
from tff_esn.federated.defences.median import Median
from tff_esn.federated.defences.multi_krum import MultiKrum
from tff_esn.federated.defences.norm_filter import NormFilter
from tff_esn.federated.defences.trimmed_mean import TrimmedMean
from tff_esn.parameters import ParameterError
from tff_esn.runtime.context import load_tff

COUNTS = (1, 2, 3, 5, 8)
PARAMETERS = 4


@dataclass(frozen=True)
class Mean(Defence):
    """The weighted mean over all: what a defence is that overrides nothing."""


#: The defences that aggregate updates themselves and need no training, with their default parameters.
PLAIN = {
    name: kind()
    for name, kind in DEFENCES.items().items()
    if kind.prepared is Defence.prepared and kind.aggregator is Defence.aggregator
}
CASES = [
    Mean(),
    *PLAIN.values(),
    TrimmedMean(0.5),
    GeometricMedian(iterations=3, smoothing=0.1),
    Krum(bad=0),
    MultiKrum(bad=2, kept=2),
    NormFilter(1.1),
    CosineFilter(0.5),
]
every_defence = pytest.mark.parametrize("defence", CASES, ids=str)
seeds = st.integers(0, 2**32 - 1)


def aggregated(defence: Defence, updates: Any, weights: Any) -> Aggregate:
    """With arrays for tensors."""
    result = defence(tf.constant(updates, tf.float32), tf.constant(weights, tf.float32))
    return Aggregate(*(part.numpy() for part in result))


def some(seed: int, clients: int) -> tuple[NDArray, NDArray]:
    """Updates that have something in common, and weights."""
    random = np.random.default_rng(seed)
    updates = random.normal(size=PARAMETERS) + random.normal(size=(clients, PARAMETERS))
    return updates.astype(np.float32), random.integers(1, 100, clients).astype(np.float32)


# ---- The formulas ----


def weiszfeld(defence: GeometricMedian, u: NDArray, w: NDArray) -> NDArray:
    median = (w @ u) / w.sum()
    for _ in range(defence.iterations):
        b = w / np.array([max(defence.smoothing, np.linalg.norm(median - own)) for own in u])
        median = (b @ u) / b.sum()
    return median


def krum_scores(defence: Krum, u: NDArray) -> list[float]:
    scores = []
    for i, own in enumerate(u):
        squares = sorted(((own - other) ** 2).sum() for j, other in enumerate(u) if j != i)
        scores.append(sum(squares[: max(1, len(u) - defence.bad - 2)]))
    return scores


def cosine(a: NDArray, b: NDArray) -> float:
    return (a @ b) / np.sqrt((a @ a) * (b @ b))


def formula(defence: Defence, u: NDArray, w: NDArray) -> tuple[NDArray, list[bool]]:
    """A defence in NumPy, for updates that all count."""
    clients = range(len(u))
    if isinstance(defence, Median):
        return np.median(u, axis=0), [True for _ in clients]
    if isinstance(defence, TrimmedMean):
        cut = min(int(defence.share * len(u)), (len(u) - 1) // 2)
        middle = [sorted(column)[cut : len(u) - cut] for column in u.T]
        return np.mean(middle, axis=1), [True for _ in clients]
    if isinstance(defence, GeometricMedian):
        return weiszfeld(defence, u, w), [True for _ in clients]
    accepted = [True for _ in clients]
    if isinstance(defence, Krum):
        scores = krum_scores(defence, u)
        kept = defence.kept if isinstance(defence, MultiKrum) else 1
        best = sorted(clients, key=lambda i: (scores[i], i))[:kept]
        accepted = [i in best for i in clients]
    if isinstance(defence, NormFilter):
        lengths = [np.sqrt(own @ own) for own in u]
        accepted = [length <= defence.times * np.median(lengths) for length in lengths]
    if isinstance(defence, CosineFilter):
        accepted = [cosine(own, np.median(u, axis=0)) >= defence.least for own in u]
    if not any(accepted):
        return np.zeros(u.shape[1]), accepted
    return np.average(u[accepted], axis=0, weights=w[accepted]), accepted


@every_defence
@settings(max_examples=12, deadline=None)
@given(seed=seeds, clients=st.sampled_from(COUNTS))
def test_a_defence_is_its_formula(defence: Defence, seed: int, clients: int) -> None:
    updates, weights = some(seed, clients)
    found = aggregated(defence, updates, weights)
    update, accepted = formula(defence, updates.astype(np.float64), weights.astype(np.float64))
    np.testing.assert_array_equal(found.accepted, accepted)
    # Where Weiszfeld's algorithm creeps towards one of the updates, rounding errors are larger than elsewhere.
    np.testing.assert_allclose(found.update, update, atol=1e-3 if isinstance(defence, GeometricMedian) else 1e-5)


@every_defence
def test_a_compiled_defence_serves_any_number_of_clients(defence: Defence) -> None:
    signature = [tf.TensorSpec((None, PARAMETERS)), tf.TensorSpec((None,))]
    compiled = tf.function(defence.__call__, input_signature=signature)
    for clients in (0, *COUNTS):
        arguments = some(0, clients)
        found, expected = compiled(*arguments), aggregated(defence, *arguments)
        np.testing.assert_array_equal(found.accepted, expected.accepted)
        np.testing.assert_allclose(found.update, expected.update, atol=1e-5)


def test_trimming_counts_as_on_paper() -> None:
    """Not one too few, as the floor of 0.29 * 100 = 28.999999999999996 would have it."""
    for percent, clients in ((29, 100), (20, 5), (30, 10), (40, 5), (45, 20), (7, 100)):
        outliers = percent * clients // 100
        updates = np.zeros((clients, 1))
        updates[:outliers] = 1e6
        assert aggregated(TrimmedMean(percent / 100), updates, np.ones(clients)).update == 0
        updates[outliers] = 1e6
        assert aggregated(TrimmedMean(percent / 100), updates, np.ones(clients)).update > 0


def test_the_defaults_are_for_five_clients() -> None:
    line = np.array([[0.0], [1.0], [2.0], [3.0], [100.0]])
    assert aggregated(TrimmedMean(), line, np.ones(5)).update == 2
    lengths = np.array([[1.0], [-1.0], [1.0], [2.0], [2.01]])
    assert aggregated(NormFilter(), lengths, np.ones(5)).accepted.tolist() == [True, True, True, True, False]
    directions = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [-0.1, -1.0]])
    assert aggregated(CosineFilter(), directions, np.ones(5)).accepted.tolist() == [True, True, True, True, False]


def test_krum_by_hand() -> None:
    # Squared distances from the first: 1, 9, 100, 121; five clients and f = 1: the nearest two count.
    updates = np.array([[0.0], [1.0], [3.0], [10.0], [11.0]])
    # Scores 1 + 9, 1 + 4, 4 + 9, 1 + 49, 1 + 64.
    krum = aggregated(Krum(), updates, np.ones(5))
    assert krum.update == 1
    assert krum.accepted.tolist() == [False, True, False, False, False]
    several = aggregated(MultiKrum(), updates, [1, 2, 3, 1, 1])
    assert several.accepted.tolist() == [True, True, True, False, False]
    np.testing.assert_allclose(several.update, (1 * 0 + 2 * 1 + 3 * 3) / 6, rtol=1e-6)
    # With f = 2 one neighbour counts: 1, 1, 4, 1, 1, and of equal ones the first is taken.
    assert aggregated(Krum(bad=2), updates, np.ones(5)).accepted.tolist() == [True, False, False, False, False]


def test_the_geometric_median_of_three_points() -> None:
    defence = GeometricMedian()
    # Fermat's point sees the sides under 120 degrees: here as high as 1 / tan 60.
    np.testing.assert_allclose(
        aggregated(defence, [[-1, 0], [1, 0], [0, 3]], np.ones(3)).update, [0, 1 / np.sqrt(3)], atol=1e-5
    )
    # A corner of more than 120 degrees is it itself.
    np.testing.assert_allclose(aggregated(defence, [[-10, 1], [0, 0], [10, 1]], np.ones(3)).update, [0, 0], atol=1e-4)
    # And so is a point with more than half of the weight.
    np.testing.assert_allclose(aggregated(defence, [[-1, 0], [1, 0], [0, 3]], [1, 1, 3]).update, [0, 3], atol=1e-4)


@pytest.mark.parametrize("clients", COUNTS)
def test_the_geometric_median_has_the_least_distance(clients: int) -> None:
    updates, weights = some(clients, clients)

    def distance(point: NDArray) -> float:
        return weights @ np.linalg.norm(updates - point, axis=1)

    least = minimize(distance, updates.mean(axis=0), method="Nelder-Mead", options={"xatol": 1e-6, "maxiter": 4000})
    assert distance(aggregated(PLAIN["geometric-median"], updates, weights).update) <= least.fun * 1.001 + 1e-3


def test_a_zero_update_has_no_direction() -> None:
    updates = np.array([[1.0, 0.0], [2.0, 1.0], [0.0, 0.0]])
    assert aggregated(CosineFilter(0.0), updates, np.ones(3)).accepted.tolist() == [True, True, True]
    assert aggregated(CosineFilter(0.1), updates, np.ones(3)).accepted.tolist() == [True, True, False]
    nobody = aggregated(CosineFilter(0.1), np.zeros((3, 2)), np.ones(3))
    assert not nobody.accepted.any()
    assert nobody.update.tolist() == [0, 0]


# ---- What every defence keeps to ----

#: Entries of an update, and weights, with which it does not count: the last value is finite, its square is not.
BAD_VALUES, BAD_WEIGHTS = (np.nan, np.inf, -np.inf, 3e38), (0.0, -1.0, np.nan, np.inf)


@every_defence
@settings(max_examples=6, deadline=None)
@given(seed=seeds, clients=st.sampled_from(COUNTS), bad=st.integers(1, 4))
def test_what_does_not_count_changes_nothing(defence: Defence, seed: int, clients: int, bad: int) -> None:
    updates, weights = some(seed, clients)
    expected = aggregated(defence, updates, weights)
    random = np.random.default_rng(seed)
    for number in range(bad):
        place = random.integers(0, len(updates) + 1)
        wrong = random.normal(size=PARAMETERS)
        weight = 1.0
        if number % 2:
            wrong[random.integers(PARAMETERS)] = random.choice(BAD_VALUES)
        else:
            weight = random.choice(BAD_WEIGHTS)
        updates, weights = np.insert(updates, place, wrong, axis=0), np.insert(weights, place, weight)
        expected = expected._replace(accepted=np.insert(expected.accepted, place, False))
    found = aggregated(defence, updates, weights)
    np.testing.assert_array_equal(found.update, expected.update)
    np.testing.assert_array_equal(found.accepted, expected.accepted)


@every_defence
def test_of_nobody_that_counts_nothing_is_taken(defence: Defence) -> None:
    updates = np.array([[np.nan, 1], [np.inf, 1], [1, 1]])
    found = aggregated(defence, updates, [1, 1, 0])
    assert found.update.tolist() == [0, 0]
    assert found.accepted.tolist() == [False, False, False]


@every_defence
@settings(max_examples=15, deadline=None)
@given(
    rows=st.lists(st.tuples(*[st.floats(width=32)] * 3), min_size=1, max_size=6),
    data=st.data(),
)
def test_whatever_comes_the_update_is_finite(
    defence: Defence, rows: list[tuple[float, ...]], data: st.DataObject
) -> None:
    weights = data.draw(st.lists(st.floats(width=32), min_size=len(rows), max_size=len(rows)))
    found = aggregated(defence, rows, weights)
    assert np.isfinite(found.update).all()
    assert not found.update.any() or found.accepted.any()


@every_defence
def test_a_very_large_weight_is_a_weight(defence: Defence) -> None:
    assert np.isfinite(aggregated(defence, [(0.0, 0.0, 0.0)], [3.4e32]).update).all()


@every_defence
@settings(max_examples=6, deadline=None)
@given(seed=seeds, clients=st.sampled_from(COUNTS))
def test_the_order_of_the_clients_does_not_matter(defence: Defence, seed: int, clients: int) -> None:
    if isinstance(defence, Krum) and clients - defence.bad - 2 < 2:
        return  # Two that are nearest to each other have equal scores, and the first is taken.
    updates, weights = some(seed, clients)
    order = np.random.default_rng(seed).permutation(clients)
    found, expected = aggregated(defence, updates[order], weights[order]), aggregated(defence, updates, weights)
    np.testing.assert_array_equal(found.accepted, expected.accepted[order])
    np.testing.assert_allclose(
        found.update, expected.update, atol=1e-3 if isinstance(defence, GeometricMedian) else 1e-5
    )


def test_a_defence_is_its_parameters() -> None:
    assert hash(MultiKrum(bad=1, kept=3)) == hash(PLAIN["multi-krum"])
    assert Krum(1) == PLAIN["krum"] != Krum(2)
    assert PLAIN["krum"] != PLAIN["multi-krum"]
    for kind, wrong in (
        (TrimmedMean, {"share": 0.6}),
        (GeometricMedian, {"smoothing": 0.0}),
        (Krum, {"bad": -1}),
        (MultiKrum, {"kept": 0}),
        (Krum, {"keep": 3}),
        (NormFilter, {"times": 0.0}),
        (CosineFilter, {"least": 1.1}),
    ):
        with pytest.raises(ParameterError):
            kind(**wrong)


# ---- What they withstand ----


#: Trimming one of five on either side withstands one bad client; two need two.
WITHSTANDING = {"mean": Mean(), **PLAIN, "trimmed-mean": TrimmedMean(share=0.4)}


@pytest.mark.parametrize("name", sorted(WITHSTANDING))
@pytest.mark.parametrize("seed", range(5))
def test_two_of_five_who_flip_and_scale_their_updates(name: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    common = random.normal(size=50)
    updates = common + 0.2 * random.normal(size=(5, 50))
    updates[[1, 3]] *= -10
    found = aggregated(WITHSTANDING[name], updates, np.ones(5))
    distance = np.linalg.norm(found.update - updates[[0, 2, 4]].mean(axis=0)) / np.linalg.norm(common)
    assert (distance > 3) if name == "mean" else (distance < 0.3)
    if not isinstance(WITHSTANDING[name], (Mean, Median, TrimmedMean, GeometricMedian)):
        assert not found.accepted[[1, 3]].any()


def test_two_of_five_who_send_the_same() -> None:
    """Krum that expects two bad clients has one neighbour left to look at: they are each other's."""
    updates, weights = some(0, 5)
    updates[3:] = 100
    for name, defence in WITHSTANDING.items():
        assert (np.abs(aggregated(defence, updates, weights).update).max() > 10) == (
            name in ("mean", "cosine-filter")
        ), name
    assert aggregated(Krum(bad=2), updates, weights).accepted.tolist() == [False, False, False, True, False]


# ---- On TensorFlow Federated ----


class Weights(NamedTuple):
    kernel: Any
    bias: Any


def test_flattened_and_back() -> None:
    weights = Weights(tf.reshape(tf.range(6.0), (3, 2)), tf.constant([6.0, 7.0]))
    vector = flattened(weights)
    assert vector.numpy().tolist() == list(range(8))
    for like in (weights, Weights(tf.TensorSpec((3, 2)), tf.TensorSpec((2,)))):
        back = unflattened(vector, like)
        assert isinstance(back, Weights)
        for found, expected in zip(back, weights):
            np.testing.assert_array_equal(found, expected)


def test_gathered_values_are_in_the_order_of_the_clients() -> None:
    tff = load_tff()
    client_type = tff.types.to_type(OrderedDict(vector=(np.float32, (2,)), number=np.int32))

    @tff.federated_computation(tff.FederatedType(client_type, tff.CLIENTS))
    def gather(values: Any) -> Any:
        return gathered(values)

    for clients in (1, 40):
        numbers = np.random.default_rng(0).permutation(clients).astype(np.int32)
        found = gather([OrderedDict(vector=np.float32([n, -n]), number=n) for n in numbers])
        np.testing.assert_array_equal(found["number"], numbers)
        np.testing.assert_array_equal(found["vector"], np.stack([numbers, -numbers], axis=1))


@pytest.mark.parametrize("name", ["median", "geometric-median", "krum", "norm-filter"])
def test_an_aggregation_process_is_the_defence(name: str) -> None:
    tff, random = load_tff(), np.random.default_rng(0)
    # Names in an order that TensorFlow's `nest` does not keep.
    value_type = tff.types.to_type(OrderedDict(kernel=(np.float32, (3, 2)), bias=np.float32))
    process = aggregation_factory(PLAIN[name]).create(value_type, tff.TensorType(np.float32))
    for clients, bad in ((4, 0), (4, 2), (7, 5)):
        values = [
            OrderedDict(kernel=random.normal(size=(3, 2)).astype(np.float32), bias=np.float32(random.normal()))
            for _ in range(clients)
        ]
        values[bad]["bias"] = np.float32("nan")
        values[bad - 1]["kernel"] += 100
        weights = random.integers(1, 10, clients).astype(np.float32)
        found = process.next(process.initialize(), values, list(weights))
        expected = aggregated(PLAIN[name], [[*value["kernel"].ravel(), value["bias"]] for value in values], weights)
        np.testing.assert_array_equal(found.measurements["accepted"], expected.accepted)
        assert not expected.accepted[bad]
        assert list(found.result) == ["kernel", "bias"]
        np.testing.assert_allclose(found.result["kernel"].ravel(), expected.update[:-1], atol=1e-5)
        np.testing.assert_allclose(found.result["bias"], expected.update[-1], atol=1e-5)


def test_tffs_federated_averaging_with_a_median() -> None:
    """Two rounds, by hand: each client takes one step along the gradient of its mean squared error."""
    tff, random = load_tff(), np.random.default_rng(0)
    rate, slopes = 0.1, (1.0, 1.2, -30.0, 0.8)
    examples = []
    for slope in slopes:
        inputs = random.normal(size=(6, 2)).astype(np.float32)
        examples.append((inputs, (inputs @ [[slope], [slope]]).astype(np.float32)))
    spec = (tf.TensorSpec((None, 2)), tf.TensorSpec((None, 1)))

    def model() -> Any:
        layers = [tf.keras.Input((2,)), tf.keras.layers.Dense(1, kernel_initializer="zeros")]
        return tff.learning.models.from_keras_model(
            tf.keras.Sequential(layers), tf.keras.losses.MeanSquaredError(), spec
        )

    process = tff.learning.algorithms.build_weighted_fed_avg(
        model, tff.learning.optimizers.build_sgdm(rate), model_aggregator=aggregation_factory(Median())
    )
    state, by_hand = process.initialize(), np.zeros((3, 1))
    # In the second round a client has nothing that counts.
    for broken in (False, True):
        updates = []
        for inputs, targets in examples:
            rows = np.concatenate((inputs, np.ones((len(inputs), 1))), axis=1)
            updates.append(-rate * 2 / len(rows) * rows.T @ (rows @ by_hand - targets))
        data = [tf.data.Dataset.from_tensors(example) for example in examples]
        if broken:
            inputs, targets = examples[1]
            data[1] = tf.data.Dataset.from_tensors((inputs, targets * np.nan))
            del updates[1]
        by_hand = by_hand + np.median(updates, axis=0)
        state, metrics = process.next(state, data)
        accepted = metrics["aggregator"]["accepted"]
        assert accepted.tolist() == [True, not broken, True, True]
        kernel, bias = process.get_model_weights(state).trainable
        np.testing.assert_allclose(np.concatenate((kernel, bias[None])), by_hand, atol=1e-6)
