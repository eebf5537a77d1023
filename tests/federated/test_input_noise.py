from __future__ import annotations

import numpy as np
import pytest

from tests.federated.small import small_data
from tff_esn.errors import ConfigError
from tff_esn.federated.input_noise import InputNoise


@pytest.mark.parametrize("reading", ["window", "carried"])
def test_noise_reaches_the_chosen_clients_only_and_comes_from_the_seed(reading: str) -> None:
    clean = small_data(reading=reading)
    first, again, other = (InputNoise(0.5, ("S3",)).added_to(clean, seed) for seed in (1, 1, 2))
    for client in clean.clients:
        assert np.array_equal(first[client].values, clean[client].values) == (client != "S3")
    added = np.subtract(first["S3"].values, clean["S3"].values)
    assert added.std() == pytest.approx(0.5, rel=0.15)
    np.testing.assert_array_equal(again["S3"].values, first["S3"].values)
    assert not np.array_equal(other["S3"].values, first["S3"].values)


def test_each_client_has_noise_of_its_own() -> None:
    clean = small_data()
    noisy = InputNoise(0.5).added_to(clean, 0)
    two, three = (noisy[client].values - clean[client].values for client in ("S2", "S3"))
    assert not np.allclose(two, three[: len(two)])


def test_noise_for_somebody_else_is_refused() -> None:
    with pytest.raises(ConfigError, match="input noise for S9; expected clients out of S2, S3, S4, S5, S6"):
        InputNoise(0.5, ("S9", "S3")).added_to(small_data(), 0)
