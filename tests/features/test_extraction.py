from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import neurokit2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from tff_esn.datasets.recording import Recording, Signal
from tff_esn.datasets.synthetic.physiology import generate_subject
from tff_esn.datasets.tables import FeatureTable
from tff_esn.errors import DataError
from tff_esn.features.corrected import CorrectedFeatures
from tff_esn.features.extraction import (
    ExtractionConfig,
    extract,
    find_beats,
    standardize,
    usable_intervals,
    windowed_sdsd,
)
from tff_esn.features.thesis import ThesisFeatures

CORRECTED = CorrectedFeatures().extraction
SHORT_THESIS = ThesisFeatures(hrv_window=5.0).extraction


@pytest.fixture(scope="module")
def recording() -> Recording:
    return generate_subject("S2", minutes=12.0, chest=False)


def changed(recording: Recording, name: str, values: np.ndarray) -> Recording:
    signals = {**recording.signals, name: Signal(values, recording.signal(name).rate)}
    return replace(recording, signals=signals)


def test_thesis_features_are_neurokits_own(recording: Recording) -> None:
    """The recipe step by step with NeuroKit's functions alone, HRV window by window."""
    features = extract(recording, SHORT_THESIS)
    bvp = recording.signal("wrist/BVP").values
    eda = neurokit2.eda_phasic(neurokit2.eda_clean(recording.signal("wrist/EDA").values))
    peaks = neurokit2.ppg_findpeaks(neurokit2.ppg_clean(bvp, sampling_rate=64), sampling_rate=64)["PPG_Peaks"]
    length = 5 * 64
    assert len(peaks) > length + 20
    hrv = [neurokit2.hrv_time(peaks[i : i + length])["HRV_SDSD"][0] for i in range(len(peaks) - length)]
    np.testing.assert_array_equal(features.extracted["pEDA"], eda["EDA_Phasic"])
    np.testing.assert_array_equal(features.extracted["tEDA"], eda["EDA_Tonic"])
    np.testing.assert_array_equal(features.extracted["HR"], neurokit2.ppg_rate(peaks, sampling_rate=64))
    np.testing.assert_allclose(features.extracted["HRV"], hrv, rtol=1e-10)

    resampled = neurokit2.signal_resample(eda["EDA_Phasic"].to_numpy(), desired_length=len(hrv), method="interpolation")
    np.testing.assert_array_equal(features.table.values[:, 0], resampled)
    codes = recording.codes.values
    np.testing.assert_array_equal(
        features.table.codes, [codes[round(i)] for i in np.linspace(0, len(codes) - 1, len(hrv))]
    )
    assert features.code_counts.sum() == len(codes)


@given(
    intervals=st.lists(st.integers(20, 120), min_size=4, max_size=40),
    usable=st.lists(st.booleans(), min_size=40, max_size=40),
    length=st.integers(2, 20),
)
def test_windowed_sdsd_equals_the_definition(intervals: list[int], usable: list[bool], length: int) -> None:
    beats = np.cumsum([0, *intervals])
    mask = np.array(usable[: len(intervals)])
    first = np.arange(max(0, len(beats) - length))
    last = first + length - 1
    expected = []
    for start, end in zip(first, last):
        own = [intervals[i + 1] - intervals[i] for i in range(start, end - 1) if mask[i] and mask[i + 1]]
        expected.append(np.std(own, ddof=1) if len(own) >= 3 else np.nan)
    np.testing.assert_allclose(windowed_sdsd(beats, first, last, mask), expected, atol=1e-9)


def test_corrected_features_have_true_units_and_times(recording: Recording) -> None:
    table = extract(recording, replace(CORRECTED, beats="all")).table
    beats = find_beats(recording.signal("wrist/BVP")) / 64
    # Steps of a second, up to the end of the recording.
    seconds = np.arange(int(recording.codes.duration) - len(table), int(recording.codes.duration))
    np.testing.assert_array_equal(table.codes, recording.codes.values[seconds * 700])
    moment = 400
    step = int(np.flatnonzero(seconds == moment)[0])
    known = beats[beats <= moment]
    assert table.values[step, 2] == pytest.approx(60 / np.diff(known)[-1])
    recent = known[known > known[-1] - 25.0]
    assert table.values[step, 3] == pytest.approx(1000 * np.std(np.diff(recent, n=2), ddof=1))
    parts = neurokit2.eda_phasic(recording.signal("wrist/EDA").values, sampling_rate=4)
    np.testing.assert_array_equal(table.values[:, 0], parts["EDA_Phasic"].to_numpy()[seconds * 4])


def test_missed_and_spurious_beats_do_not_count() -> None:
    random = np.random.default_rng(0)
    beats = np.cumsum(random.integers(48, 57, 400))
    spoiled = np.sort(np.append(np.delete(beats, 200), beats[300] + 12))
    times = np.arange(len(spoiled) - 50)

    def sdsd(kind: str) -> np.ndarray:
        usable = usable_intervals(spoiled, 64.0, np.zeros(spoiled[-1] + 1, bool), config(kind))
        return windowed_sdsd(spoiled, times, times + 49, usable)

    def config(kind: str) -> ExtractionConfig:
        return replace(CORRECTED, beats=kind)

    clean = windowed_sdsd(beats, times, times + 49, np.ones(len(beats) - 1, bool))
    assert np.abs(sdsd("all") / clean - 1).max() > 1
    assert np.abs(sdsd("plausible") / clean - 1).max() < 0.2


def test_corrected_heart_features_know_nothing_of_the_future(recording: Recording) -> None:
    table = extract(recording, CORRECTED).table
    bvp = recording.signal("wrist/BVP").values.copy()
    bvp[-3000:] = bvp[-6000:-3000]
    other = extract(changed(recording, "wrist/BVP", bvp), CORRECTED).table
    before = len(table) - 3000 // 64 - 60
    np.testing.assert_allclose(other.values[:before, 2:], table.values[:before, 2:])


def test_a_gap_is_refused_as_printed_and_bridged_as_meant(recording: Recording) -> None:
    bvp = recording.signal("wrist/BVP").values.copy()
    bvp[300 * 64 : 305 * 64] = np.nan
    gappy = changed(recording, "wrist/BVP", bvp)
    with pytest.raises(DataError, match="wrist/BVP has 320 values that are not finite, first at sample 19200"):
        extract(gappy, SHORT_THESIS)
    whole, bridged = (extract(each, CORRECTED).table for each in (recording, gappy))
    assert len(whole) == len(bridged)
    assert np.isfinite(bridged.values).all()
    # Well after the gap nothing of it is left; right after it no beat has a rate of its own making.
    np.testing.assert_allclose(bridged.values[-200:, 2:], whole.values[-200:, 2:])
    heart_rate = bridged.values[:, 2]
    assert heart_rate.min() >= 30
    assert heart_rate.max() <= 200


def test_too_long_a_gap_is_refused(recording: Recording) -> None:
    eda = recording.signal("wrist/EDA").values.copy()
    eda[400:500] = np.nan
    with pytest.raises(DataError, match="expected gaps of at most 10 s"):
        extract(changed(recording, "wrist/EDA", eda), CORRECTED)


@pytest.mark.parametrize(
    "config", [ThesisFeatures(hrv_window=50.0).extraction, CorrectedFeatures(hrv_window=3600.0).extraction]
)
def test_a_window_longer_than_the_recording_is_refused(recording: Recording, config: object) -> None:
    with pytest.raises(DataError, match="heart beats in 720 s; expected more than"):
        extract(recording, config)  # type: ignore[arg-type]


def test_standardizing_is_sklearns_on_the_baseline() -> None:
    random = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2], 50)
    table = FeatureTable("S2", ("a", "b"), random.normal(5, 3, (150, 2)), codes)
    expected = StandardScaler().fit(table.values[codes == 1]).transform(table.values)
    np.testing.assert_allclose(standardize(table).values, expected, rtol=1e-12)


def test_a_table_without_baseline_or_with_a_constant_one_is_refused() -> None:
    values = np.ones((6, 1))
    with pytest.raises(DataError, match="S2: no step of the baseline"):
        standardize(FeatureTable("S2", ("HR",), values, np.zeros(6, int)))
    with pytest.raises(DataError, match="S2: HR is constant over the baseline"):
        standardize(FeatureTable("S2", ("HR",), values, np.ones(6, int)))


def test_constant_signals_are_refused(recording: Recording, tmp_path: Path) -> None:
    flat = changed(recording, "wrist/EDA", np.ones_like(recording.signal("wrist/EDA").values))
    with pytest.raises(DataError, match="wrist/EDA is constant"):
        extract(flat, SHORT_THESIS)
