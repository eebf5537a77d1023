from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tff_esn.datasets.recording import Recording, Signal
from tff_esn.datasets.study import open_study
from tff_esn.datasets.tables import AFFECT
from tff_esn.errors import DataError
from tff_esn.features.channels import channel_table, resample
from tff_esn.features.windows import chunks


@pytest.fixture(scope="module")
def recording(generated: Path) -> Recording:
    return open_study(generated).read("S2")


def test_chest_channels_in_the_papers_order(recording: Recording) -> None:
    table = channel_table(recording, "chest", 700.0)
    assert table.names == ("ACCx", "ACCy", "ACCz", "Resp", "EDA", "ECG", "EMG", "Temp")
    assert table.values.dtype == np.float32
    labelled = table.values[(table.codes >= 1) & (table.codes <= 4)]
    np.testing.assert_allclose(labelled.mean(axis=0), 0, atol=1e-3)
    np.testing.assert_allclose(labelled.std(axis=0), 1, atol=1e-3)
    raw = recording.signal("chest/ECG").values.astype(np.float64)
    own = raw[(recording.codes.values >= 1) & (recording.codes.values <= 4)]
    np.testing.assert_allclose(table.values[:, 5], (raw - own.mean()) / own.std(), atol=1e-4)
    np.testing.assert_array_equal(table.codes, recording.codes.values)


@pytest.mark.parametrize("rate", [4.0, 32.0, 64.0])
def test_wrist_channels_on_a_common_rate(recording: Recording, rate: float) -> None:
    table = channel_table(recording, "wrist", rate)
    assert table.names == ("ACCx", "ACCy", "ACCz", "BVP", "EDA", "TEMP")
    assert len(table) == int(recording.codes.duration * rate)
    sequences = chunks(table, AFFECT, steps=int(rate))
    assert set(np.unique(sequences.codes)) == {1, 2, 3, 4}
    labelled_seconds = sum(share for code, share in recording.code_shares().items() if 1 <= code <= 4)
    assert len(sequences) == pytest.approx(labelled_seconds * recording.codes.duration, abs=6)


def test_resampling_keeps_a_slow_wave_and_stops_a_fast_one() -> None:
    seconds = np.arange(0, 60, 1 / 64)
    slow, fast = np.sin(2 * np.pi * 0.2 * seconds), np.sin(2 * np.pi * 9.3 * seconds)
    for rate in (4.0, 32.0, 128.0):
        steps = int(60 * rate)
        moments = np.arange(steps) / rate
        inside = slice(int(2 * rate), -int(2 * rate))
        np.testing.assert_allclose(
            resample(Signal(slow, 64), rate, steps)[inside], np.sin(2 * np.pi * 0.2 * moments)[inside], atol=0.01
        )
    # At 4 Hz a wave of 9.3 Hz would come back as one of 1.3 Hz; it must be gone instead.
    assert np.abs(resample(Signal(fast, 64), 4.0, 240)[8:-8]).max() < 0.02


def test_a_recording_without_the_chest_says_so(wesad_like: Recording) -> None:
    with pytest.raises(DataError, match="no signal of the device 'chest'; expected a device that was recorded: wrist"):
        channel_table(wesad_like, "chest", 700.0)


@pytest.fixture
def wesad_like(recording: Recording) -> Recording:
    wrist = {name: signal for name, signal in recording.signals.items() if name.startswith("wrist/")}
    return Recording("S2", wrist, recording.codes, recording.source)
