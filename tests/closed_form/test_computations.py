"""What TensorFlow Federated computes against what the same mathematics gives without it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.readout.test_ridge import chunked
from tff_esn.algorithm import ALGORITHMS
from tff_esn.closed_form import computations
from tff_esn.closed_form.algorithm import ClosedForm
from tff_esn.closed_form.computations import Shapes, build_fedip, build_incfed, client_struct, reservoir_struct
from tff_esn.closed_form.fedip import fedip
from tff_esn.closed_form.incfed import IncFed
from tff_esn.closed_form.pfedrr import PFedRR
from tff_esn.closed_form.secure_incfed import SecureIncFed
from tff_esn.closed_form.selection import random_order
from tff_esn.closed_form.statistics import RidgeStatistics, client_statistics
from tff_esn.datasets.federated import LabelledSequences
from tff_esn.errors import ConfigError
from tff_esn.reservoir.esn import ESN
from tff_esn.reservoir.plasticity import Plasticity
from tff_esn.reservoir.weights import draw_weights
from tff_esn.store.client_files import write_examples

STEPS, RIDGE, SEED = 30, 0.5, 3
NETWORK = ESN(units=16, leaking_rate=0.7, bias_scaling=0.2, seed=SEED)
WEIGHTS = draw_weights(NETWORK, 3, seed=0)
RESERVOIR = reservoir_struct(WEIGHTS)
SHAPES = Shapes(16, 3, STEPS, 4, 0.7)


def subject(n: int) -> LabelledSequences:
    random = np.random.default_rng(n)
    return chunked(random.normal(size=(n, STEPS, 3)), random.integers(0, 4, n))


#: One of them has nothing.
SUBJECTS = {"S2": subject(9), "S3": subject(4), "S4": subject(0), "S5": subject(12)}
CLIENTS: list[Any] = []


@pytest.fixture(scope="module", autouse=True)
def clients(tmp_path_factory: pytest.TempPathFactory) -> None:
    for name, own in SUBJECTS.items():
        path = tmp_path_factory.mktemp(name) / "sequences.f32"
        write_examples(path, own.values, own.labels[:, 0])
        CLIENTS.append(client_struct(path, random_order(16, SEED, name)))


@pytest.fixture(scope="module")
def statistics() -> dict[str, RidgeStatistics]:
    return dict(zip(SUBJECTS, client_statistics(SUBJECTS.values(), 4, WEIGHTS)))


def same(found: Any, expected: np.ndarray) -> None:
    np.testing.assert_allclose(np.asarray(found), expected.T, atol=2e-4 * np.abs(expected).max())


def test_incfed_in_one_round_and_as_clients_come(statistics: dict[str, RidgeStatistics]) -> None:
    process = build_incfed(SHAPES, RIDGE)
    expected = IncFed(ridge=RIDGE).solve(statistics).readout.kernel
    _, readout = process.next(process.initialize(), RESERVOIR, CLIENTS)
    same(readout, expected)
    state = process.initialize()
    for part in (CLIENTS[:1], CLIENTS[1:3], CLIENTS[3:]):
        state, readout = process.next(state, RESERVOIR, part)
    same(readout, expected)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("incfed", {}),
        ("incfed", {"regularization": "per_client"}),
        ("central-ridge", {}),
        ("averaging", {}),
        ("averaging", {"averaging": "1/N_c"}),
        ("partial", {"alpha": 0.5}),
        ("partial", {"alpha": 1.0, "count": 9, "regularization": "per_client"}),
        ("random", {}),
        ("pfedrr", {"tau": 0.6}),
        ("pfedrr", {"tau": 0.6, "regularization": "per_client"}),
        ("r-pfedrr", {"tau": 0.6}),
        ("r-pfedrr", {"tau": 0.6, "last_unit": "dropped"}),
        ("hybrid", {"tau": 0.6}),
        ("hybrid", {"tau": 0.6, "last_unit": "dropped"}),
        ("pfedrr", {"tau": 0.6, "last_unit": "dropped"}),
        ("low-rank", {"tau": 0.9}),
    ],
)
def test_every_closed_form_by_tff(
    statistics: dict[str, RidgeStatistics], name: str, parameters: dict[str, Any]
) -> None:
    algorithm: Any = ALGORITHMS[name](NETWORK, ridge=RIDGE, **parameters)  # type: ignore[call-arg]
    assert isinstance(algorithm, ClosedForm)
    expected = algorithm.solve(statistics)
    if "tau" in parameters and name != "low-rank":
        assert 0 < max(expected.units.values()) < 16
    same(algorithm.build(SHAPES, len(CLIENTS))(RESERVOIR, CLIENTS), expected.readout.kernel)


def test_tff_has_no_secure_sum() -> None:
    with pytest.raises(ConfigError, match="secure-incfed by TFF, whose secure sum hides nothing"):
        SecureIncFed(NETWORK).build(SHAPES, len(CLIENTS))


def test_the_last_unit_makes_a_difference_here(statistics: dict[str, RidgeStatistics]) -> None:
    kept, dropped = (
        PFedRR(NETWORK, ridge=RIDGE, tau=0.9, last_unit=last_unit).solve(statistics).units  # type: ignore[arg-type]
        for last_unit in ("kept", "dropped")
    )
    assert kept != dropped


@pytest.mark.parametrize("rule", ["printed", "schrauwen", "normalized"])
def test_fedip(rule: Any) -> None:
    config = Plasticity(sigma=0.4, eta=0.005, epochs=2, rounds=2, batch_size=5, rule=rule)
    process = build_fedip(SHAPES, config)
    state = RESERVOIR
    for _ in range(config.rounds):
        state = process.next(state, CLIENTS)
    expected = fedip({name: own.values for name, own in SUBJECTS.items()}, WEIGHTS, config).weights
    np.testing.assert_allclose(state["gain"], expected.gain, rtol=1e-4)
    np.testing.assert_allclose(state["bias"], expected.bias, atol=1e-4)
    assert np.abs(expected.gain - 1).max() > 1e-3


def test_blocks_of_steps_change_nothing(
    statistics: dict[str, RidgeStatistics], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(computations, "BLOCK_STEPS", 7)
    process = build_incfed(SHAPES, RIDGE)
    _, readout = process.next(process.initialize(), RESERVOIR, CLIENTS)
    same(readout, IncFed(ridge=RIDGE).solve(statistics).readout.kernel)
