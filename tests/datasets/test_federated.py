from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tff_esn.datasets.federated import FederatedDataset, balanced_weights
from tff_esn.datasets.splits import ClientSplit
from tff_esn.errors import TffEsnError

RANDOM = np.random.default_rng(0)


def values(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape)


def three_clients() -> FederatedDataset:
    return FederatedDataset.from_arrays(
        {name: (values(4, 5, 2), [0, 1, 1, 0]) for name in ("a", "b", "c", "d")}, classes=["calm", "stressed"]
    )


def test_one_label_for_each_sequence_makes_a_sample_of_its_last_step() -> None:
    x = values(3, 5, 2)
    data = FederatedDataset.from_arrays({"a": (x, [7, 3, 7])})
    own = data["a"]
    assert own.values is x
    assert (own.per_step, own.steps, len(own)) == (False, 5, 3)
    assert data.classes == ("3", "7")
    np.testing.assert_array_equal(own.labels, [1, 0, 1])
    np.testing.assert_array_equal(own.sample_features, x[:, -1])
    assert (data.inputs, data.features, data.clients, len(data)) == (2, ("x0", "x1"), ("a",), 1)


def test_one_label_for_each_step_makes_a_sample_of_each() -> None:
    x, y = values(3, 5, 2), RANDOM.integers(0, 3, (3, 5))
    own = FederatedDataset.from_arrays({"a": (x, y)}, classes=["u", "v", "w"])["a"]
    assert own.per_step and own.steps == 5
    np.testing.assert_array_equal(own.sample_labels, y.ravel())
    np.testing.assert_array_equal(own.sample_features, x.reshape(15, 2))


def test_a_single_sequence_has_two_axes() -> None:
    x, y = values(6, 2), [0, 1, 1, 0, 0, 1]
    own = FederatedDataset.from_arrays({"a": (x, y), "b": (x, 1)})["a"]
    assert own.values.shape == (1, 6, 2)  # type: ignore[union-attr]
    np.testing.assert_array_equal(own.sample_labels, y)


def test_sequences_may_have_any_lengths() -> None:
    x = [values(3, 2), values(5, 2)]
    per_sequence = FederatedDataset.from_arrays({"a": (x, ["calm", "stressed"])})["a"]
    assert per_sequence.steps is None and not per_sequence.per_step
    np.testing.assert_array_equal(per_sequence.sample_features, [x[0][-1], x[1][-1]])
    per_step = FederatedDataset.from_arrays({"a": (x, [[0, 1, 0], [1, 1, 1, 0, 0]])})["a"]
    np.testing.assert_array_equal(per_step.sample_labels, [0, 1, 0, 1, 1, 1, 0, 0])
    np.testing.assert_array_equal(per_step.sample_features, np.concatenate(x))


def test_labels_of_steps_of_one_sequence_make_all_labels_those_of_steps() -> None:
    data = FederatedDataset.from_arrays(
        {"a": (values(2, 3, 1), [0, 1]), "b": ([values(2, 1), values(3, 1)], [[1, 0], 1])}
    )
    np.testing.assert_array_equal(data["a"].labels, [[0, 0, 0], [1, 1, 1]])
    np.testing.assert_array_equal(data["b"].sample_labels, [1, 0, 1, 1, 1])


def test_names_of_classes_are_numbered_in_their_order() -> None:
    labels = ["walk", "bike", "sit", "walk"]
    data = FederatedDataset.from_arrays({"a": (values(4, 3, 1), labels)})
    assert data.classes == ("bike", "sit", "walk")
    np.testing.assert_array_equal(data.labels(), [2, 0, 1, 2])
    given = FederatedDataset.from_arrays({"a": (values(4, 3, 1), labels)}, classes=["sit", "stand", "walk", "bike"])
    np.testing.assert_array_equal(given.labels(), [2, 3, 0, 2])
    assert repr(given) == "FederatedDataset(1 clients, 1 features, 4 samples: sit 1, stand 0, walk 2, bike 1)"


@pytest.mark.parametrize("labels", [[0, -1, 1], ["u", -1, "v"], np.array(["u", "-1", "v"])])
def test_what_has_no_label_does_not_count(labels: Any) -> None:
    x = values(3, 4, 2)
    own = FederatedDataset.from_arrays({"a": (x, labels)})["a"]
    np.testing.assert_array_equal(own.counted, [True, False, True])
    np.testing.assert_array_equal(own.sample_labels, [0, 1])
    np.testing.assert_array_equal(own.sample_features, x[[0, 2], -1])
    steps = FederatedDataset.from_arrays({"a": (x[0], [*labels, labels[0]])})["a"]
    np.testing.assert_array_equal(steps.sample_labels, [0, 1, 0])


@pytest.mark.parametrize("nothing", [np.empty((0, 5, 2)), []])
@pytest.mark.parametrize("labels", [[0, 1, 1], np.eye(3, 5, dtype=int)])
def test_a_client_may_have_nothing(nothing: Any, labels: Any) -> None:
    data = FederatedDataset.from_arrays({"a": (nothing, []), "b": (values(3, 5, 2), labels)})
    assert len(data["a"]) == 0
    assert data["a"].per_step == data["b"].per_step
    assert data["a"].sample_labels.shape == (0,)
    assert data["a"].sample_features.shape == (0, 2)


@pytest.mark.parametrize(
    ("arrays", "options", "complaint"),
    [
        ({}, {}, "no client; expected at least one"),
        ({"a": (values(4), [0])}, {}, "a: values of shape (4,); expected (steps, features) or (n, steps, features)"),
        ({"a": (values(2, 3, 1), [0, 1, 0])}, {}, "a: 3 labels of 2 sequences; expected labels for each"),
        ({"a": (values(2, 3, 1), [[0, 1], [1, 0]])}, {}, "a: labels of shape (2,) for sequence 0; expected one, or 3"),
        ({"a": ([values(3)], [0])}, {}, "a: sequence 0 is float64 (3,); expected numbers of shape (steps, features)"),
        ({"a": ([values(0, 2)], [0])}, {}, "a: sequence 0 is float64 (0, 2); expected numbers"),
        ({"a": (np.array([[["x"]]]), [0])}, {}, "a: sequence 0 is <U1 (1, 1); expected numbers"),
        ({"a": (np.full((1, 2, 1), np.nan), [0])}, {}, "a: values of sequence 0 are not finite; expected finite"),
        ({"a": (values(1, 2, 1), [np.nan])}, {}, "a: labels nan of sequence 0; expected numbers or names"),
        ({"a": (values(1, 2, 1), [None])}, {}, "a: labels None of sequence 0; expected numbers or names"),
        ({"a": (values(2, 3, 1), [1, 1])}, {}, "classes 1; expected at least two, with different names"),
        ({"a": (values(2, 3, 1), [-1, -1])}, {}, "classes none; expected at least two"),
        ({"a": (values(2, 3, 1), [0, 1])}, {"classes": ["u", "u"]}, "classes u, u; expected at least two, with diff"),
        ({"a": (values(2, 3, 1), [0, 2])}, {"classes": ["u", "v"]}, "label 2; expected one of u, v, its number from"),
        ({"a": (values(2, 3, 1), ["u", "w"])}, {"classes": ["u", "v"]}, "label 'w'; expected one of u, v, its number"),
        (
            {"a": (values(2, 3, 1), [0, 1]), "b": ([values(3, 1), values(4, 2)], [0, 1])},
            {},
            "b: sequence 1 has 2 feature values per step; expected 1, as the others have",
        ),
        ({"a": (values(2, 3, 2), [0, 1])}, {"features": ["EDA"]}, "features EDA; expected names for 2"),
        (
            {"a": (values(2, 3, 2), [0, 1])},
            {"partition": ClientSplit(("b",))},
            "partition needs b; the study has a",
        ),
    ],
)
def test_arrays_that_make_no_data_set_are_refused_in_one_line(
    arrays: Any, options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(TffEsnError) as caught:
        FederatedDataset.from_arrays(arrays, **options)
    assert str(caught.value).startswith(complaint)
    assert "\n" not in str(caught.value)


def test_a_split_gives_data_sets_that_train_on_all_they_have() -> None:
    data = three_clients()
    train, test = data.split(test=["b"])
    assert (train.clients, test.clients) == (("a", "c", "d"), ("b",))
    assert (train.partition, test.partition) == (ClientSplit(("a", "c", "d")), ClientSplit(("b",)))
    assert train["c"] is data["c"]
    train, validation, test = data.split(test=["b"], validation=["d"], train=["c"])
    assert (train.clients, validation.clients, test.clients) == (("c",), ("d",), ("b",))


def test_parts_are_those_of_the_partition() -> None:
    data = three_clients().partitioned(ClientSplit(("d", "a"), ("b",), ("c",)))
    assert data.part("train").clients == ("d", "a")
    assert data.part("design").clients == ("d", "a", "b")
    assert data.part("test").partition == data.partition
    assert data.part("discriminator").labels().shape == (0,)
    assert data.of(["c", "a"]).clients == ("c", "a")
    assert list(data) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda data: data.split(test=["e"]), "the split needs e; the study has a, b, c, d"),
        (lambda data: data.split(test=["a"], train=["a"]), "subjects a are in two parts of a split; expected one each"),
        (lambda data: data.split(test=["a", "b", "c", "d"]), "no client is left to train; expected at least one"),
        (lambda data: data.partitioned(ClientSplit(("e",))), "the split needs e; the study has a, b, c, d"),
        (lambda data: data.of(["e"]), "no client 'e'; expected one of a, b, c, d"),
        (lambda data: data["e"], "no client 'e'; expected one of a, b, c, d"),
        (lambda data: data.part("tran"), "no part 'tran' of a data set; did you mean 'train'? Expected one of"),
    ],
)
def test_clients_and_parts_that_are_not_there_are_refused_in_one_line(make: Any, complaint: str) -> None:
    with pytest.raises(TffEsnError) as caught:
        make(three_clients())
    assert str(caught.value).startswith(complaint)


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("ragged", [False, True])
def test_client_data_of_tff_holds_the_same(per_step: bool, ragged: bool) -> None:
    lengths = {"a": [3, 5, 4] if ragged else [4, 4, 4], "b": [4, 4]}
    arrays = {}
    for client, own in lengths.items():
        x = [values(length, 2).astype(np.float32) for length in own]
        y = [RANDOM.integers(-1, 3, length) if per_step else RANDOM.integers(-1, 3) for length in own]
        arrays[client] = (x, y)
    data = FederatedDataset.from_arrays(arrays, classes=["u", "v", "w"])
    there = data.to_client_data()
    assert there.client_ids == ["a", "b"]
    back = FederatedDataset.from_client_data(there, classes=data.classes)
    assert back.classes == data.classes
    for client in data:
        assert back[client].steps == data[client].steps
        for x, y in zip(back[client].values, data[client].values):
            np.testing.assert_array_equal(x, y)
        for x, y in zip(back[client].labels, data[client].labels):
            np.testing.assert_array_equal(x, y)


def test_client_data_may_have_vectors_and_names() -> None:
    tf, tff = pytest.importorskip("tensorflow"), pytest.importorskip("tensorflow_federated")
    x, y = values(4, 3).astype(np.float32), ["sit", "walk", "walk", "sit"]
    there = tff.simulation.datasets.ClientData.from_clients_and_tf_fn(
        ["a"], lambda client: tf.data.Dataset.from_tensor_slices((x, y))
    )
    data = FederatedDataset.from_client_data(there)
    assert data.classes == ("sit", "walk")
    np.testing.assert_array_equal(data["a"].values, x[:, None])
    np.testing.assert_array_equal(data.labels(), [0, 1, 1, 0])
    alone = tff.simulation.datasets.ClientData.from_clients_and_tf_fn(
        ["a"], lambda client: tf.data.Dataset.from_tensor_slices(x)
    )
    with pytest.raises(TffEsnError, match="a: elements of type ndarray; expected pairs of a sequence and its label"):
        FederatedDataset.from_client_data(alone)


def test_balanced_weights_are_scikit_learns() -> None:
    from sklearn.utils.class_weight import compute_class_weight

    labels = np.repeat([0, 1, 2], [5, 3, 2])
    expected = compute_class_weight("balanced", classes=np.arange(3), y=labels)
    np.testing.assert_allclose(balanced_weights(labels, 3), expected)
