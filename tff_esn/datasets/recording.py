"""A subject's recording as it comes off a disk, before any feature is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tff_esn.errors import DataError

#: What a protocol code stands for; the codes are WESAD's.
BASELINE, STRESS_CODE = 1, 2
CODES = {
    0: "transient",
    BASELINE: "baseline",
    STRESS_CODE: "stress",
    3: "amusement",
    4: "meditation",
    5: "reading",
    6: "reading",
    7: "reading",
}


@dataclass(frozen=True)
class Signal:
    """Evenly sampled values: `(samples,)` or `(samples, axes)` at `rate` Hz."""

    values: NDArray
    rate: float

    @property
    def duration(self) -> float:
        """Length in seconds."""
        return len(self.values) / self.rate


@dataclass(frozen=True)
class Recording:
    """The synchronised signals of one subject and the protocol code of each moment.

    Attributes:
        subject: The subject's name, for example `S2`.
        signals: Signals by `device/sensor`, for example `wrist/EDA`. All start together.
        codes: The protocol code over time, on the same clock as the signals.
        source: The file or folder it was read from, for messages.
    """

    subject: str
    signals: Mapping[str, Signal]
    codes: Signal
    source: Path

    def code_shares(self) -> dict[int, float]:
        """The share of the recording that has each code, from the stretches of equal codes."""
        codes = self.codes.values
        edges = np.concatenate(([0], np.flatnonzero(np.diff(codes)) + 1, [len(codes)]))
        shares: dict[int, float] = {}
        for code, length in zip(codes[edges[:-1]].tolist(), np.diff(edges)):
            shares[code] = shares.get(code, 0.0) + length / len(codes)
        return dict(sorted(shares.items()))

    def signal(self, name: str) -> Signal:
        """The signal called `name`, or an error that lists those there are."""
        if name not in self.signals:
            raise DataError(self.source, f"signals {', '.join(self.signals) or 'none'}", f"a signal {name}")
        return self.signals[name]
