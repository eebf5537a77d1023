from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from tff_esn.algorithm import ALGORITHMS
from tff_esn.datasets.federated import FederatedDataset
from tff_esn.datasets.splits import ClientSplit
from tff_esn.parameters import from_mapping
from tff_esn.reservoir.esn import ESN

#: Gradient algorithms are tested in tests/federated.
IN_ONE_PIECE = [name for name, kind in ALGORITHMS.items().items() if kind.family != "federated"]


def dataset(classes: int = 3) -> FederatedDataset:
    random = np.random.default_rng(0)
    arrays = {client: (random.normal(size=(12, 5, 2)), random.integers(0, classes, 12)) for client in "abcde"}
    return FederatedDataset.from_arrays(arrays, classes=[f"class {i}" for i in range(classes)])


@pytest.mark.parametrize("name", ALGORITHMS.names())
def test_an_algorithm_declares_what_it_is(name: str) -> None:
    kind: Any = ALGORITHMS[name]
    assert kind.name == name
    assert kind.label
    assert kind.family in ("central", "federated", "closed-form")
    # Arguments without a name begin with the reservoir.
    assert fields(kind)[0].name == "esn"
    assert kind(ESN(units=7)).esn.units == 7
    assert from_mapping(kind, {"esn": {"units": 7}}, "test") == kind(ESN(units=7))
    assert kind().with_seed(5).esn == ESN(seed=5)


def test_labels_tell_algorithms_apart() -> None:
    kinds = ALGORITHMS.items().values()
    assert len({kind.label for kind in kinds}) == len(kinds)


@pytest.mark.parametrize("name", IN_ONE_PIECE)
def test_only_training_clients_train(name: str) -> None:
    """Others have labels and values that would make another model."""
    data = dataset()
    algorithm = ALGORITHMS[name](ESN(units=10))
    alone = algorithm.fit(data.of(["a", "b", "c"]).partitioned(ClientSplit(("a", "b", "c"))))
    beside = algorithm.fit(data.partitioned(ClientSplit(("a", "b", "c"), ("d",), ("e",))))
    np.testing.assert_array_equal(beside.readout.kernel, alone.readout.kernel)
    np.testing.assert_array_equal(beside.weights.gain, alone.weights.gain)
    assert beside.card.trained_on == ("a", "b", "c")
    assert beside.readout.kernel.any()


@pytest.mark.parametrize("name", IN_ONE_PIECE)
@pytest.mark.parametrize("classes", [2, 4])
def test_the_seed_decides(name: str, classes: int) -> None:
    data, algorithm = dataset(classes), ALGORITHMS[name](ESN(units=10))
    first, again, other = (algorithm.with_seed(seed).fit(data) for seed in (1, 1, 2))
    np.testing.assert_allclose(first.predict_proba(data), again.predict_proba(data))
    assert not np.allclose(first.predict_proba(data), other.predict_proba(data))
    assert first.predict_proba(data).shape == (60, classes)
