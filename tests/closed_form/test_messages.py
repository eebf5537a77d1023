"""Masks and messages worked out by hand for reservoirs of four units."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest

from tff_esn.closed_form.averaging import AveragedRidge
from tff_esn.closed_form.central_ridge import CentralRidge
from tff_esn.closed_form.hybrid_pfedrr import HybridPFedRR
from tff_esn.closed_form.incfed import IncFed
from tff_esn.closed_form.low_rank import LowRank, rank_of_same_size
from tff_esn.closed_form.messages import (
    HEADER_BYTES,
    Message,
    MessageError,
    block_message,
    columns_message,
    full_message,
    low_rank_message,
    message_bytes,
)
from tff_esn.closed_form.partial import PartialIncFed
from tff_esn.closed_form.pfedrr import PFedRR
from tff_esn.closed_form.random_incfed import RandomIncFed
from tff_esn.closed_form.random_pfedrr import RandomPFedRR
from tff_esn.closed_form.secure_incfed import SecureIncFed
from tff_esn.closed_form.selection import (
    importance,
    mixed_units,
    partial_count,
    random_order,
    squared_importance,
    threshold_units,
    top_units,
)
from tff_esn.closed_form.server import federate, receive
from tff_esn.closed_form.statistics import RidgeStatistics, pack
from tff_esn.errors import ConfigError
from tff_esn.privacy.secure_aggregation import SecureAggregationError
from tff_esn.reservoir.esn import ESN

B = np.array(
    [
        [4.0, 1.0, 0.0, -2.0],
        [1.0, 3.0, 1.0, 0.0],
        [0.0, 1.0, 2.0, 1.0],
        [-2.0, 0.0, 1.0, 5.0],
    ]
)
A = np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
RESERVOIR = "00" * 8
OWN = RidgeStatistics(A, pack(B), 10, RESERVOIR)


def test_importances_by_hand() -> None:
    np.testing.assert_array_equal(importance(B), [3, 5, 4, 4])
    # Rows' squares sum to 21, 11, 6, 30; scaled (21 - 6) / 24 and so on.
    np.testing.assert_allclose(squared_importance(B), [15 / 24, 5 / 24, 0, 1])
    np.testing.assert_array_equal(squared_importance(np.eye(3)), 0)


def test_selections_by_hand() -> None:
    order = np.array([3, 0, 2, 1])
    assert top_units(importance(B), 2).tolist() == [1, 2]  # 2 and 3 are equal: the first
    assert mixed_units(importance(B), 2, 1.0, order).tolist() == [1, 2]
    assert mixed_units(importance(B), 2, 0.5, order).tolist() == [1, 3]
    assert mixed_units(importance(B), 3, 1 / 3, order).tolist() == [0, 1, 3]
    assert mixed_units(importance(B), 2, 0.0, order).tolist() == [0, 3]
    assert threshold_units(B, 0.5).tolist() == [0, 3]
    assert threshold_units(B, 0.3).tolist() == [3]
    assert threshold_units(B, 0.5, "dropped").tolist() == [0]
    assert threshold_units(np.diag([0.0, 1.0, 2.0]), 0.75).tolist() == [2]  # the second is at the threshold
    assert mixed_units(importance(B), 3, 0.6, order).tolist() == [1, 2, 3]  # 1.8 by importance are two
    assert top_units(np.arange(100) // 50, 53).tolist() == [0, 1, 2, *range(50, 100)]
    assert partial_count(3, 4) == 2
    assert sorted(random_order(4, 0, "S2").tolist()) == [0, 1, 2, 3]
    assert any(random_order(50, 0, "S2") != random_order(50, 0, "S3"))


def test_masks_by_hand() -> None:
    a, b = Message.decode(columns_message(OWN, np.array([1, 3])).encode()).rebuilt()
    np.testing.assert_array_equal(a, [[0, 2, 0, 4], [0, 6, 0, 8]])
    np.testing.assert_array_equal(b, [[0, 1, 0, -2], [0, 3, 0, 0], [0, 1, 0, 1], [0, 0, 0, 5]])
    a, b = Message.decode(block_message(OWN, np.array([0, 2, 3])).encode()).rebuilt()
    np.testing.assert_array_equal(a, A)
    np.testing.assert_array_equal(b, [[4, 0, 0, -2], [0, 3, 0, 0], [0, 0, 2, 1], [-2, 0, 1, 5]])
    a, b = Message.decode(full_message(OWN).encode()).rebuilt()
    np.testing.assert_array_equal(a, A)
    np.testing.assert_array_equal(b, B)


def test_a_low_rank_keeps_the_diagonal_and_all_of_it_keeps_everything() -> None:
    _, b = Message.decode(low_rank_message(OWN, 2).encode()).rebuilt()
    values, vectors = np.linalg.eigh(B)
    leading = (vectors[:, 2:] * values[2:]) @ vectors[:, 2:].T
    np.testing.assert_allclose(b, leading + np.diag(np.diag(B - leading)), atol=1e-12)
    np.testing.assert_allclose(np.diag(b), np.diag(B))
    np.testing.assert_allclose(Message.decode(low_rank_message(OWN, 4).encode()).rebuilt()[1], B, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bytes_on_the_wire_are_those_of_the_formulas(dtype: type[np.floating]) -> None:
    size = np.dtype(dtype).itemsize
    n, outputs, k = 4, 2, 3
    units = np.array([0, 1, 3])
    assert len(full_message(OWN).encode(dtype)) == HEADER_BYTES + size * (outputs * n + n * (n + 1) // 2)
    assert len(columns_message(OWN, units).encode(dtype)) == HEADER_BYTES + 2 * k + size * k * (outputs + n)
    expected = HEADER_BYTES + 2 * k + size * (outputs * n + n + k * (k - 1) // 2)
    assert len(block_message(OWN, units).encode(dtype)) == expected
    assert len(low_rank_message(OWN, 2).encode(dtype)) == HEADER_BYTES + size * (outputs * n + n + 2 * (1 + n))
    assert message_bytes("columns", 1, 70_000, 5, 4) == HEADER_BYTES + 5 * 4 + 4 * 5 * 70_001


def clients(n: int = 3, units: int = 4, samples: int = 30) -> dict[str, RidgeStatistics]:
    random = np.random.default_rng(0)
    return {
        f"S{i}": RidgeStatistics.of(
            random.normal(size=(samples + i, units)) + 0.3,
            np.eye(2)[random.integers(0, 2, samples + i)],
            reservoir=RESERVOIR,
        )
        for i in range(n)
    }


def test_partial_incfed_solves_what_its_masks_left() -> None:
    everyone = clients()
    found = PartialIncFed(ESN(seed=7), ridge=1e-6, alpha=0.5).solve(everyone)
    a, b = np.zeros((2, 4)), np.zeros((4, 4))
    for client, own in everyone.items():
        chosen = mixed_units(own.b.sum(axis=1), 2, 0.5, random_order(4, 7, client))
        mask = np.isin(np.arange(4), chosen)
        a, b = a + own.a * mask, b + own.b @ np.diag(mask)
    assert np.abs(b - b.T).max() > 1  # as printed, the sum is not symmetric
    np.testing.assert_allclose(found.readout.kernel.T @ (b + 1e-6 * np.eye(4)), a, atol=1e-9)
    assert set(found.units.values()) == {2}
    assert set(found.bytes_up.values()) == {message_bytes("columns", 2, 4, 2)}
    assert found.bytes_down == message_bytes("readout", 2, 4)
    assert found.total_bytes == 3 * (found.bytes_down + message_bytes("columns", 2, 4, 2))
    by_chance, without_importance = (
        kind(ESN(seed=7), ridge=1e-6, **more).solve(everyone)
        for kind, more in ((RandomIncFed, {}), (PartialIncFed, {"alpha": 0.0}))
    )
    np.testing.assert_array_equal(by_chance.readout.kernel, without_importance.readout.kernel)


def test_pfedrr_solves_what_its_masks_left() -> None:
    everyone = clients()
    sizes = {}
    for kind in (PFedRR, RandomPFedRR, HybridPFedRR):
        found = kind(ESN(seed=3), ridge=0.1, tau=0.6).solve(everyone)
        sizes[kind] = found.units
        a, b = np.zeros((2, 4)), np.zeros((4, 4))
        for client, own in everyone.items():
            important = np.flatnonzero(squared_importance(own.b) > 0.4)
            order = random_order(4, 3, client)
            chosen = {
                PFedRR: important,
                RandomPFedRR: order[: len(important)],
                HybridPFedRR: mixed_units(squared_importance(own.b), len(important), 0.5, order),
            }[kind]
            mask = np.isin(np.arange(4), chosen)
            a, b = a + own.a, b + own.b * np.where(np.eye(4), 1, np.outer(mask, mask))
        np.testing.assert_allclose(found.readout.kernel.T @ (b + 0.1 * np.eye(4)), a, atol=1e-9)
    assert sizes[PFedRR] == sizes[RandomPFedRR] == sizes[HybridPFedRR]


def test_everything_selected_is_incfed() -> None:
    everyone = clients()
    expected = IncFed(ridge=0.1).solve(everyone).readout.kernel
    whole = PartialIncFed(ridge=0.1, alpha=1.0, count=4).solve(everyone)
    np.testing.assert_allclose(whole.readout.kernel, expected, atol=1e-9)
    low_rank = federate(everyone, lambda _, own: low_rank_message(own, 4), 0.1)
    np.testing.assert_allclose(low_rank.readout.kernel, expected, atol=1e-9)
    np.testing.assert_allclose(CentralRidge(ridge=0.1).solve(everyone).readout.kernel, expected, atol=1e-12)
    narrow = IncFed(ridge=0.1, wire="float32").solve(everyone)
    np.testing.assert_allclose(narrow.readout.kernel, expected, atol=1e-5)
    assert max(narrow.bytes_up.values()) == message_bytes("full", 2, 4, value_bytes=4)


def test_regularisation_and_averaging_as_printed_and_as_meant() -> None:
    everyone = clients()
    printed, meant = IncFed(ridge=0.1, regularization="per_client"), IncFed(ridge=0.3)
    np.testing.assert_allclose(printed.solve(everyone).readout.kernel, meant.solve(everyone).readout.kernel, atol=1e-12)
    local = {client: np.linalg.solve(own.b + 0.1 * np.eye(4), own.a.T) for client, own in everyone.items()}
    total = sum(own.samples for own in everyone.values())
    np.testing.assert_allclose(
        AveragedRidge(ridge=0.1).solve(everyone).readout.kernel,
        sum(everyone[client].samples / total * kernel for client, kernel in local.items()),
    )
    np.testing.assert_allclose(
        AveragedRidge(ridge=0.1, averaging="1/N_c").solve(everyone).readout.kernel,
        sum(kernel / everyone[client].samples for client, kernel in local.items()),
    )


def test_secure_aggregation_gives_the_same_readout() -> None:
    random = np.random.default_rng(0)
    everyone = {
        f"S{n}": RidgeStatistics.of(random.uniform(-1, 1, (n, 4)), np.eye(2)[random.integers(0, 2, n)], bias=True)
        for n in (30, 0, 50)
    }
    for regularization in ("once", "per_client"):
        plain, secure = (
            kind(ridge=0.1, regularization=regularization).solve(everyone) for kind in (IncFed, SecureIncFed)
        )
        np.testing.assert_allclose(secure.readout.kernel, plain.readout.kernel, atol=1e-12)
        np.testing.assert_allclose(secure.readout.bias, plain.readout.bias, atol=1e-12)
        assert secure.units == plain.units
    beyond = {**everyone, "S9": RidgeStatistics.of(np.full((2, 4), 9.0), np.eye(2), bias=True)}
    with pytest.raises(SecureAggregationError, match="values beyond 50"):
        SecureIncFed(ridge=0.1).solve(beyond)
    with pytest.raises(ConfigError, match="different reservoirs"):
        SecureIncFed().solve({**everyone, "S9": replace(everyone["S30"], reservoir="1234567890abcdef")})


def test_a_client_without_sequences_changes_nothing() -> None:
    everyone = clients()
    nobody = RidgeStatistics(np.zeros((2, 4)), np.zeros(10), 0, RESERVOIR)
    for algorithm in (IncFed(ridge=0.1), AveragedRidge(ridge=0.1)):
        np.testing.assert_allclose(
            algorithm.solve({**everyone, "S9": nobody}).readout.kernel, algorithm.solve(everyone).readout.kernel
        )
    with pytest.raises(ConfigError, match="no client has samples"):
        AveragedRidge().solve({"S9": nobody})


def damaged(data: bytes, offset: int, new: bytes) -> bytes:
    body = bytearray(data)
    body[offset : offset + len(new)] = new
    return bytes(body)


def resealed(data: bytes) -> bytes:
    """With a checksum that fits, as a client with a defect of its own would send it."""
    header, body = data[: HEADER_BYTES - 4], data[HEADER_BYTES:]
    return header + struct.pack("<I", zlib.crc32(header + body)) + body


GOOD = full_message(OWN).encode()


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "0 bytes; expected at least"),
        (GOOD[:-8], f"{len(GOOD) - 8} bytes; expected {len(GOOD)}"),
        (GOOD + b"x", f"expected {len(GOOD)}"),
        (damaged(GOOD, 0, b"PK"), "a header of something else"),
        (damaged(GOOD, HEADER_BYTES, b"\1"), "a checksum that does not fit"),
        (damaged(GOOD, 25, b"\7"), "a checksum that does not fit"),  # in its number of samples
        (resealed(damaged(GOOD, HEADER_BYTES, struct.pack("<d", float("nan")))), "1 values are not finite"),
        (full_message(RidgeStatistics(np.zeros((2, 3)), np.zeros(6), 1)).encode(), "3 columns; expected full, 2 of 4"),
        (resealed(damaged(columns_message(OWN, np.array([1, 3])).encode(), HEADER_BYTES, b"\3\0\1\0")), "not in order"),
    ],
)
def test_a_message_that_cannot_be_used_is_left_out_and_named(
    data: bytes, complaint: str, caplog: pytest.LogCaptureFixture
) -> None:
    sent = {"S2": GOOD, "S3": data, "S4": GOOD}
    received = receive(sent)
    assert received.clients == ("S2", "S4")
    assert complaint in received.left_out["S3"]
    assert "client S3 is left out" in caplog.text
    np.testing.assert_array_equal(received.a, 2 * A)
    if complaint[0] != "3":
        with pytest.raises(ConfigError, match="no client sent a message that can be used"):
            receive({"S3": data})


def test_different_reservoirs_are_refused() -> None:
    other = RidgeStatistics(A, pack(B), 10, "ff" * 8)
    for algorithm in (IncFed(), AveragedRidge()):
        with pytest.raises(ConfigError, match=r"different reservoirs \(S2 0000000000000000, S3 ffffffffffffffff\)"):
            algorithm.solve({"S2": OWN, "S3": other})


def test_counts_and_thresholds_out_of_range_are_refused() -> None:
    everyone = clients()
    with pytest.raises(ConfigError, match="k = 5 units out of 4; expected at most 4"):
        PartialIncFed(count=5).solve(everyone)
    with pytest.raises(ConfigError, match="k = 6 units with 1 clients out of 4"):
        PartialIncFed().solve({"S2": OWN})
    with pytest.raises(ConfigError, match=r"alpha = 1.5; expected a share"):
        mixed_units(importance(B), 2, 1.5, np.arange(4))
    for tau in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(ConfigError, match="expected a threshold between 0 and 1"):
            threshold_units(B, tau)
        with pytest.raises(ValueError, match="tau"):
            PFedRR(tau=tau)
    with pytest.raises(MessageError, match="rank 5; expected 1 to 4"):
        low_rank_message(OWN, 5)
    with pytest.raises(ConfigError, match="k = -1 units out of 4"):
        top_units(importance(B), -1)


def test_a_low_rank_is_that_of_the_units_that_the_threshold_selects() -> None:
    everyone = clients(units=30)
    algorithm = LowRank(ESN(units=30), ridge=0.1, tau=0.9)
    rank = rank_of_same_size(30, int(np.mean([len(threshold_units(own.b, 0.9)) for own in everyone.values()])))
    assert rank > 1
    found, expected = algorithm.solve(everyone), federate(everyone, lambda _, own: low_rank_message(own, rank), 0.1)
    np.testing.assert_array_equal(found.readout.kernel, expected.readout.kernel)
    assert set(found.units.values()) == {rank}


# ---- The bytes ----

HEADER = struct.Struct("<4sBBBBIIIQ8s")
COLUMNS, READOUT = 1, 4


def sealed(kind: int, size: int, bias: int, columns: int, count: int, body: bytes) -> bytes:
    """A message with a checksum that fits, of two outputs."""
    header = HEADER.pack(b"ESNM", 2, kind, size, bias, 2, columns, count, 10, bytes(8))
    return header + struct.pack("<I", zlib.crc32(header + body)) + body


def test_what_travels() -> None:
    values = np.arange(12.0)  # of two columns of A, then of B
    body = np.array([1, 3], "<u2").tobytes() + values.astype("<f4").tobytes()
    own = Message.decode(sealed(COLUMNS, 4, 0, 4, 2, body))
    assert (own.kind, own.outputs, own.columns, own.samples, own.units.tolist()) == ("columns", 2, 4, 10, [1, 3])
    np.testing.assert_array_equal(np.concatenate([part.ravel() for part in own.values]), values)
    assert own.encode(np.float32) == sealed(COLUMNS, 4, 0, 4, 2, body)
    for columns, index_bytes in ((1 << 16, 2), ((1 << 16) + 1, 4)):
        assert message_bytes("columns", 2, columns, 1) == HEADER_BYTES + index_bytes + 8 * (2 + columns)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (bytes(HEADER_BYTES - 1), "39 bytes; expected at least the 40 of a header"),
        (sealed(6, 8, 0, 4, 0, bytes(64)), "a header of something else"),
        (sealed(READOUT, 2, 0, 4, 0, bytes(16)), "a header of something else"),
        (sealed(READOUT, 8, 2, 4, 0, bytes(64)), "a header of something else"),
        (sealed(COLUMNS, 8, 0, 4, 5, bytes(10 + 8 * 30)), "5 units of 4"),
        (sealed(COLUMNS, 8, 0, 4, 1, b"\4\0" + bytes(8 * 6)), "not below 4"),
        (sealed(COLUMNS, 8, 0, 4, 2, b"\1\0\1\0" + bytes(8 * 12)), "units that are not in order"),
    ],
    ids=["short", "kind", "size", "bias", "count", "unit", "twice"],
)
def test_bytes_that_are_no_message(data: bytes, complaint: str) -> None:
    with pytest.raises(MessageError, match=complaint):
        Message.decode(data)


def test_a_rank_costs_what_as_many_units_cost() -> None:
    rank = rank_of_same_size(1000, 500)
    block, low = message_bytes("block", 4, 1000, 500), message_bytes("low_rank", 4, 1000, rank)
    assert low <= block < message_bytes("low_rank", 4, 1000, rank + 1)
