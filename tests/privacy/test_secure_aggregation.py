"""The secure sum is the sum, single messages are noise, and who drops out is handled."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cryptography.exceptions import InvalidTag
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

from tff_esn.errors import ConfigError
from tff_esn.privacy.secure_aggregation import (
    FixedPoint,
    SecureAggregationError,
    SecureClient,
    join_secret,
    secure_sum,
    simulated_secure_sum,
    split_secret,
    unmasked_sum,
)


def vectors(clients: int, length: int = 50, scale: float = 1000.0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(clients)
    return {f"S{i}": random.uniform(-scale, scale, length) for i in range(clients)}


@settings(deadline=None, max_examples=15)
@given(clients=st.integers(2, 9), data=st.data())
def test_the_secure_sum_is_within_its_stated_error(clients: int, data: st.DataObject) -> None:
    own = vectors(clients)
    dropped = data.draw(st.lists(st.sampled_from(sorted(own)), max_size=clients - 2, unique=True))
    found = secure_sum(own, bound=1000.0, threshold=2, dropped=dropped)
    arrived = [vector for name, vector in own.items() if name not in dropped]
    expected = np.array([math.fsum(numbers) for numbers in zip(*arrived)])
    assert np.abs(found.total - expected).max() <= found.error
    assert found.error < 1e-10
    assert set(found.sent) == set(own) - set(dropped)
    # Two keys, a sealed pair of shares for each client, the vector, and one share of each client's secrets.
    sealed = 12 + 2 * 66 + 16
    for name, size in found.bytes_up.items():
        assert size == 64 + clients * sealed + (8 * 50 + clients * 66) * (name not in dropped)
    assert found.bytes_down == clients * (64 + sealed)


def test_a_single_message_is_indistinguishable_from_noise() -> None:
    """Bytes uniform, numbers uniform, and no correlation with what they hide: all zeros, or the same numbers."""
    own = {"S2": np.zeros(20_000), "S3": np.full(20_000, 7.0), "S4": np.linspace(-1000, 1000, 20_000)}
    sent = secure_sum(own, bound=1000.0).sent
    for name, message in sent.items():
        counts = np.bincount(message.view(np.uint8), minlength=256)
        assert chisquare(counts).pvalue > 1e-6, name
        assert kstest(message / 2.0**64, "uniform").pvalue > 1e-6, name
    plain = FixedPoint(1000.0, 3).encode(own["S4"]).view(np.int64).astype(float)
    assert abs(np.corrcoef(plain, sent["S4"].view(np.int64).astype(float))[0, 1]) < 0.04
    # The tests can tell: the same message without its masks fails them.
    assert kstest(FixedPoint(1000.0, 3).encode(own["S4"]) / 2.0**64, "uniform").pvalue < 1e-12
    again = secure_sum(own, bound=1000.0).sent
    assert (again["S2"] != sent["S2"]).mean() > 0.999


def test_shares_give_the_secret_and_fewer_do_not() -> None:
    secret = bytes(range(32))
    shares = dict(enumerate(split_secret(secret, 3, 5), start=1))
    for chosen in ((1, 2, 3), (5, 2, 4)):
        assert join_secret({x: shares[x] for x in chosen}) == secret
    assert join_secret({x: shares[x] for x in (1, 2)}) != secret


def test_a_client_answers_once_and_only_when_enough_arrived() -> None:
    clients = {name: SecureClient(name, 2) for name in ("S2", "S3", "S4")}
    public = {name: client.public for name, client in clients.items()}
    sealed = {name: client.share(public) for name, client in clients.items()}
    values = FixedPoint(10.0, 3).encode(np.ones(4))
    sent = {
        name: client.masked(values, {other: own[name] for other, own in sealed.items()})
        for name, client in clients.items()
    }
    with pytest.raises(SecureAggregationError, match="1 vectors arrived; expected at least 2"):
        clients["S2"].reveal(["S2"])
    revealed = {"S2": clients["S2"].reveal(list(sent))}
    with pytest.raises(SecureAggregationError, match="S2 is asked again"):
        clients["S2"].reveal(["S3", "S4"])
    with pytest.raises(SecureAggregationError, match="1 shares of S2's secret; expected at least 2"):
        unmasked_sum(sent, revealed, public, 2)
    # Sealed shares are for one client, and cannot be changed on the way.
    with pytest.raises(InvalidTag):
        clients["S3"].masked(values, {"S2": sealed["S2"]["S4"]})


@pytest.mark.parametrize(
    ("own", "options", "complaint"),
    [
        ({"S2": np.zeros(3), "S3": np.zeros(4)}, {}, "vectors of different lengths"),
        ({"S2": np.zeros(3)}, {}, "threshold 2 of 1 clients"),
        (vectors(3), {"threshold": 1}, "threshold 1 of 3 clients; expected from 2 to all"),
        (vectors(3), {"bound": 10.0}, "values beyond 10"),
        ({"S2": np.full(2, np.nan), "S3": np.zeros(2)}, {}, "values beyond 1000"),
        (vectors(3), {"dropped": ("S0", "S1")}, "1 vectors arrived; expected at least 2"),
    ],
)
def test_what_cannot_be_added_securely_is_refused(own: dict, options: dict, complaint: str) -> None:
    with pytest.raises(SecureAggregationError, match=complaint):
        secure_sum(own, **{"bound": 1000.0, **options})
    with pytest.raises(ConfigError, match="bound = 0; expected a positive number"):
        secure_sum(vectors(3), bound=0.0)


def test_tffs_own_secure_sum_in_its_test_backend() -> None:
    own = [np.array([1.5, -2.25, 1000.0]), np.array([0.25, -1.0, -999.0])]
    np.testing.assert_allclose(simulated_secure_sum(own, 1000.0), own[0] + own[1], atol=1e-9)
