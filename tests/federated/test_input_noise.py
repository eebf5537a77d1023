from __future__ import annotations

import numpy as np
import pytest

from tests.federated.small import small_inputs
from tff_esn.errors import ConfigError
from tff_esn.federated.input_noise import InputNoise


def test_noise_reaches_the_chosen_clients_only_and_comes_from_the_seed() -> None:
    clean = small_inputs()
    first, again, other = (InputNoise(0.5, ("S3",), seed).added_to(clean) for seed in (1, 1, 2))
    for client in clean.windows:
        same = np.array_equal(first.windows[client].values, clean.windows[client].values)
        assert same == np.array_equal(first.series[client], clean.series[client]) == (client != "S3")
    added = first.windows["S3"].values - clean.windows["S3"].values
    assert added.std() == pytest.approx(0.5, rel=0.15)
    np.testing.assert_array_equal(again.windows["S3"].values, first.windows["S3"].values)
    assert not np.array_equal(other.windows["S3"].values, first.windows["S3"].values)


def test_each_client_has_noise_of_its_own() -> None:
    clean = small_inputs()
    noisy = InputNoise(0.5, ("S2", "S3")).added_to(clean)
    two, three = (noisy.windows[client].values - clean.windows[client].values for client in ("S2", "S3"))
    assert not np.allclose(two, three[: len(two)])


def test_noise_for_somebody_else_is_refused() -> None:
    with pytest.raises(ConfigError, match="input noise for S9; expected clients out of S2, S3, S4, S5, S6"):
        InputNoise(0.5, ("S9", "S3")).added_to(small_inputs())
