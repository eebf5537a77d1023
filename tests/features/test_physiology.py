"""Tables as data sets: windows and carried series, and where they break."""

from __future__ import annotations

import numpy as np
import pytest

from tff_esn.datasets.federated import FederatedDataset
from tff_esn.datasets.splits import ClientSplit
from tff_esn.datasets.tables import AFFECT, STRESS, FeatureTable
from tff_esn.errors import ConfigError
from tff_esn.features.physiology import windowed_dataset
from tff_esn.features.windows import WindowConfig, normalized_windows

STEPS = 4
SPLIT = ClientSplit(("S2",), (), ("S3",))


def table(subject: str, length: int, breaks: tuple[int, ...] = (), seed: int = 0) -> FeatureTable:
    random = np.random.default_rng(seed)
    return FeatureTable(
        subject, ("a", "b"), random.normal(2, 1, (length, 2)), random.integers(0, 5, length), np.array(breaks, np.int64)
    )


TABLES = [table("S2", 20, (9, 13)), table("S3", 15, seed=1)]


def made(reading: str, scope: str = "subject", tables: list[FeatureTable] = TABLES) -> FederatedDataset:
    return windowed_dataset(tables, STRESS, SPLIT, WindowConfig("zscore", scope, STEPS), ["b"], reading)  # type: ignore[arg-type]


def test_no_window_runs_over_a_break() -> None:
    data = made("window")
    ends = [*range(3, 9), 12, *range(16, 20)]  # the last steps of windows inside 0-8, 9-12 and 13-19
    assert data["S2"].values.shape == (len(ends), STEPS, 1)
    np.testing.assert_array_equal(data["S2"].labels, TABLES[0].codes[ends] == 2)
    np.testing.assert_array_equal(data["S2"].static, TABLES[0].values[ends, 1:])
    unnormalized = windowed_dataset(TABLES, STRESS, SPLIT, WindowConfig("none", "subject", STEPS))
    for end, window in zip(ends, unnormalized["S2"].values):
        np.testing.assert_array_equal(window, TABLES[0].values[end - STEPS + 1 : end + 1])


def test_a_carried_series_is_cut_at_breaks() -> None:
    data, windows = made("carried"), made("window")
    own = data["S2"]
    assert own.per_step and isinstance(own.values, tuple) and isinstance(own.labels, tuple)
    assert [len(piece) for piece in own.values] == [len(piece) for piece in own.labels] == [6, 1, 4]
    # The input at a step is the last of its window.
    np.testing.assert_array_equal(np.concatenate(own.values), windows["S2"].values[:, -1])
    np.testing.assert_array_equal(np.concatenate(own.labels), windows["S2"].labels)
    assert [len(piece) for piece in data["S3"].values] == [12]


def test_a_normalisation_through_the_study_leaves_a_carried_series_as_it_is() -> None:
    own = made("carried", "study")["S2"]
    # The first window ends with step 3; from there on each step has one, breaks or not.
    assert [len(piece) for piece in own.values] == [6, 4, 7]
    np.testing.assert_array_equal(np.concatenate(own.values), TABLES[0].values[3:, 1:])
    np.testing.assert_array_equal(own.sample_features, TABLES[0].values[3:, 1:])
    assert [len(piece) for piece in made("carried", "study")["S3"].values] == [15]


def test_the_data_set_says_what_it_is_of() -> None:
    data = made("window")
    assert (data.features, data.classes, data.partition) == (("b",), STRESS.classes, SPLIT)
    whole = windowed_dataset(TABLES, AFFECT, SPLIT, WindowConfig("none", "subject", STEPS))
    assert whole.features == ("a", "b")
    codes = normalized_windows(TABLES, WindowConfig("none", "subject", STEPS))["S3"].codes
    np.testing.assert_array_equal(whole["S3"].sample_labels, codes[codes > 0] - 1)


def test_unknown_columns_and_readings_are_refused_in_one_line() -> None:
    with pytest.raises(ConfigError, match="no feature c; expected some of a, b"):
        windowed_dataset(TABLES, STRESS, SPLIT, WindowConfig("none", "subject", STEPS), ["c"])
    with pytest.raises(ConfigError, match="reading = 'carry'; expected window or carried"):
        made("carry")
    with pytest.raises(ConfigError, match="a window of 4 steps; S2 has no stretch as long without a break"):
        made("window", tables=[table("S2", 9, (3, 6)), TABLES[1]])
