"""What TensorFlow Federated computes against what the same mathematics gives without it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tff_esn.closed_form import computations
from tff_esn.closed_form.computations import (
    Shapes,
    build_averaging,
    build_fedip,
    build_incfed,
    build_low_rank,
    build_partial,
    build_pfedrr,
    client_struct,
    reservoir_struct,
)
from tff_esn.closed_form.fedip import fedip
from tff_esn.closed_form.incfed import averaged_readouts, incfed
from tff_esn.closed_form.partial import partial_incfed
from tff_esn.closed_form.pfedrr import low_rank, pfedrr
from tff_esn.closed_form.selection import random_order
from tff_esn.closed_form.statistics import RidgeStatistics, client_statistics
from tff_esn.reservoir.esn import ESN
from tff_esn.reservoir.plasticity import Plasticity
from tff_esn.datasets.tables import AFFECT
from tff_esn.features.windows import Sequences
from tff_esn.presets import CLOSED_FORMS
from tff_esn.reservoir.weights import draw_weights
from tff_esn.store.client_files import write_examples

STEPS, RIDGE, SEED = 30, 0.5, 3
WEIGHTS = draw_weights(ESN(units=16, leaking_rate=0.7, bias_scaling=0.2), 3, seed=0)
RESERVOIR = reservoir_struct(WEIGHTS)
SHAPES = Shapes(16, 3, STEPS, 4, 0.7)


def subject(name: str, n: int) -> Sequences:
    random = np.random.default_rng(n)
    return Sequences(name, ("a", "b", "c"), random.normal(size=(n, STEPS, 3)), random.integers(1, 5, n))


#: One of them has nothing.
SUBJECTS = [subject("S2", 9), subject("S3", 4), subject("S4", 0), subject("S5", 12)]
CLIENTS: list[Any] = []


@pytest.fixture(scope="module", autouse=True)
def clients(tmp_path_factory: pytest.TempPathFactory) -> None:
    for own in SUBJECTS:
        path = tmp_path_factory.mktemp(own.subject) / "sequences.f32"
        write_examples(path, own.values, AFFECT.labels(own.codes))
        CLIENTS.append(client_struct(path, random_order(16, SEED, own.subject)))


@pytest.fixture(scope="module")
def statistics() -> dict[str, RidgeStatistics]:
    return {own.subject: made for own, made in zip(SUBJECTS, client_statistics(SUBJECTS, AFFECT, WEIGHTS))}


def same(found: Any, expected: np.ndarray) -> None:
    np.testing.assert_allclose(np.asarray(found), expected.T, atol=2e-4 * np.abs(expected).max())


def test_incfed_in_one_round_and_as_clients_come(statistics: dict[str, RidgeStatistics]) -> None:
    process = build_incfed(SHAPES, RIDGE)
    expected = incfed(statistics, RIDGE).readout.kernel
    _, readout = process.next(process.initialize(), RESERVOIR, CLIENTS)
    same(readout, expected)
    state = process.initialize()
    for part in (CLIENTS[:1], CLIENTS[1:3], CLIENTS[3:]):
        state, readout = process.next(state, RESERVOIR, part)
    same(readout, expected)


@pytest.mark.parametrize("preset", ["thesis", "corrected"])
def test_averaging(statistics: dict[str, RidgeStatistics], preset: str) -> None:
    found = build_averaging(SHAPES, RIDGE, CLOSED_FORMS[preset])(RESERVOIR, CLIENTS)
    same(found, averaged_readouts(statistics, RIDGE, CLOSED_FORMS[preset]).readout.kernel)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_partial(statistics: dict[str, RidgeStatistics], alpha: float) -> None:
    found = build_partial(SHAPES, RIDGE, alpha, count=6)(RESERVOIR, CLIENTS)
    same(found, partial_incfed(statistics, RIDGE, alpha, SEED, count=6).readout.kernel)


@pytest.mark.parametrize("policy", ["importance", "random", "hybrid"])
@pytest.mark.parametrize("last_unit", ["kept", "dropped"])
def test_pfedrr(statistics: dict[str, RidgeStatistics], policy: Any, last_unit: Any) -> None:
    switches = replace(CLOSED_FORMS["corrected"], last_unit=last_unit)
    found = build_pfedrr(SHAPES, RIDGE, 0.6, policy, switches=switches)(RESERVOIR, CLIENTS)
    expected = pfedrr(statistics, RIDGE, 0.6, policy, SEED, switches=switches)
    assert 0 < max(expected.units.values()) < 16
    same(found, expected.readout.kernel)


def test_the_last_unit_makes_a_difference_here(statistics: dict[str, RidgeStatistics]) -> None:
    kept, dropped = (
        pfedrr(statistics, RIDGE, 0.9, switches=replace(CLOSED_FORMS["corrected"], last_unit=last_unit)).units
        for last_unit in ("kept", "dropped")
    )
    assert kept != dropped


def test_low_rank(statistics: dict[str, RidgeStatistics]) -> None:
    same(build_low_rank(SHAPES, RIDGE, 3)(RESERVOIR, CLIENTS), low_rank(statistics, RIDGE, 3).readout.kernel)


@pytest.mark.parametrize("rule", ["printed", "schrauwen", "normalized"])
def test_fedip(rule: Any) -> None:
    config = Plasticity(sigma=0.4, eta=0.005, epochs=2, rounds=2, batch_size=5, rule=rule)
    process = build_fedip(SHAPES, config)
    state = RESERVOIR
    for _ in range(config.rounds):
        state = process.next(state, CLIENTS)
    expected = fedip({own.subject: own.values for own in SUBJECTS}, WEIGHTS, config).weights
    np.testing.assert_allclose(state["gain"], expected.gain, rtol=1e-4)
    np.testing.assert_allclose(state["bias"], expected.bias, atol=1e-4)
    assert np.abs(expected.gain - 1).max() > 1e-3


def test_blocks_of_steps_change_nothing(
    statistics: dict[str, RidgeStatistics], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(computations, "BLOCK_STEPS", 7)
    process = build_incfed(SHAPES, RIDGE)
    _, readout = process.next(process.initialize(), RESERVOIR, CLIENTS)
    same(readout, incfed(statistics, RIDGE).readout.kernel)
