from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tff_esn.datasets.tables import ACTIVITY, AFFECT, STRESS, FeatureTable
from tff_esn.errors import ConfigError
from tff_esn.features.windows import WindowConfig, chunks, normalized_windows


def table(subject: str, steps: int, seed: int = 0) -> FeatureTable:
    random = np.random.default_rng(seed)
    return FeatureTable(subject, ("a", "b"), random.normal(1, 1, (steps, 2)), random.integers(0, 5, steps))


def by_recurrence(values: np.ndarray, steps: int) -> np.ndarray:
    """The thesis's normalisation window by window: m_j = m_{j-1} + (mean_j - m_{j-1}) / j."""
    mean = np.zeros(values.shape[1])
    windows = []
    for j in range(1, len(values) - steps + 2):
        window = values[j - 1 : j - 1 + steps]
        mean = mean + (window.mean(axis=0) - mean) / j
        windows.append(window / mean)
    return np.array(windows)


def test_the_printed_normalisation_runs_through_the_study() -> None:
    tables = [table("S2", 50, 1), table("S3", 30, 2)]
    result = normalized_windows(tables, WindowConfig("divide_by_mean", "study", 5))
    whole = np.concatenate([result["S2"].values, result["S3"].values])
    np.testing.assert_allclose(whole, by_recurrence(np.concatenate([t.values for t in tables]), 5), rtol=1e-9)
    # A window belongs to the subject of its last step.
    assert len(result["S2"]) == 46
    assert len(result["S3"]) == 30
    np.testing.assert_array_equal(result["S3"].codes, tables[1].codes)
    np.testing.assert_array_equal(result["S2"].codes, tables[0].codes[4:])


@pytest.mark.parametrize("normalization", ["divide_by_mean", "zscore", "none"])
def test_with_scope_subject_nothing_reaches_another_client(normalization: str) -> None:
    config = WindowConfig(normalization, "subject", 5)  # type: ignore[arg-type]
    own = table("S3", 30, 2)
    beside = normalized_windows([table("S2", 50, 1), own], config)["S3"]
    alone = normalized_windows([own], config)["S3"]
    np.testing.assert_array_equal(beside.values, alone.values)
    assert len(alone) == 26


def test_zscore_is_causal_and_never_divides_by_less_than_the_baseline_deviation() -> None:
    steps = 5
    quiet = np.random.default_rng(0).normal(2.0, 0.3, (40, 1))
    values = np.concatenate([quiet, quiet + 48.0])
    result = normalized_windows(
        [FeatureTable("S2", ("a",), values, np.zeros(80, int))], WindowConfig("zscore", "subject", steps)
    )["S2"].values
    for j in (0, 20, 60):
        seen = np.array([values[i : i + steps] for i in range(j + 1)])
        assert (seen.std() < 1) == (j < 40)
        expected = (values[j : j + steps] - seen.mean()) / max(seen.std(), 1.0)
        np.testing.assert_allclose(result[j], expected, rtol=1e-9)


def test_a_window_longer_than_the_recording_is_refused() -> None:
    with pytest.raises(ConfigError, match="a window of 20 steps; S2 has only 7"):
        normalized_windows([table("S2", 7)], WindowConfig("none", "subject", 20))
    assert len(normalized_windows([table("S2", 20)], WindowConfig("none", "subject", 20))["S2"]) == 1


def test_columns_are_chosen_by_name() -> None:
    result = normalized_windows([table("S2", 30)], WindowConfig("none", "subject", 5))["S2"]
    np.testing.assert_array_equal(result.select(["b"]).values, result.values[:, :, 1:])
    with pytest.raises(ConfigError, match="no feature c; expected some of a, b"):
        result.select(["c"])


@given(
    codes=st.lists(st.integers(0, 5), max_size=60),
    breaks=st.sets(st.integers(1, 59)),
    steps=st.integers(1, 7),
)
def test_chunks_equal_a_plain_loop(codes: list[int], breaks: set[int], steps: int) -> None:
    values = np.arange(len(codes), dtype=np.float32)[:, None]
    inside = np.array(sorted(b for b in breaks if b < len(codes)), np.int64)
    series = FeatureTable("S2", ("x",), values, np.array(codes, np.int64), inside)
    expected, run = [], []
    for step, code in enumerate([*codes, None]):
        ends = step in breaks or code is None or (run and codes[run[0]] != code)
        if ends:
            run = []
        if code is not None and code in AFFECT.class_of_code:
            run.append(step)
            if len(run) == steps:
                expected.append(run)
                run = []
    result = chunks(series, AFFECT, steps)
    np.testing.assert_array_equal(result.values[:, :, 0], np.array(expected, np.float32).reshape(-1, steps))
    np.testing.assert_array_equal(result.codes, [codes[run[0]] for run in expected])


def test_tasks_give_each_code_its_class() -> None:
    codes = np.arange(8)
    assert STRESS.labels(codes).tolist() == [0, 0, 1, 0, 0, 0, 0, 0]
    assert AFFECT.labels(codes).tolist() == [-1, 0, 1, 2, 3, -1, -1, -1]
    assert ACTIVITY.labels(codes).tolist() == [-1, 0, 1, 2, 3, 4, 5, -1]
