"""Ours against reservoirpy's Ridge."""

from __future__ import annotations

import numpy as np
import pytest
from reservoirpy.nodes import Ridge

from tff_esn.closed_form.statistics import RidgeStatistics


@pytest.mark.parametrize("bias", [False, True])
def test_reservoirpys_ridge(bias: bool) -> None:
    random = np.random.default_rng(0)
    states, targets = random.normal(size=(300, 12)) + 0.5, np.eye(3)[random.integers(0, 3, 300)]
    peer = Ridge(ridge=0.1, fit_bias=bias)
    peer.fit(states, targets)
    ours = RidgeStatistics.of(states, targets, bias=bias).solve(0.1).outputs(states)
    theirs = states @ peer.Wout + peer.bias
    assert np.abs(ours - theirs).max() <= 1e-9 * np.abs(theirs).max()
