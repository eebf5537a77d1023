"""Reconstruction from messages, and accuracy against epsilon, on a data set of three classes."""

from __future__ import annotations

import numpy as np
import pytest

from tff_esn.datasets.federated import FederatedDataset
from tff_esn.datasets.splits import ClientSplit
from tff_esn.errors import ConfigError
from tff_esn.evaluation.leakage import budget_table, leakage, leakage_table, private_accuracies
from tff_esn.privacy.accounting import PrivacyBudget
from tff_esn.reservoir.esn import ESN
from tff_esn.tables import text_cells

STEPS = 20
NETWORK = ESN(units=20, leaking_rate=0.5, input_scaling=0.5)


def clients(sequences: int = 60) -> FederatedDataset:
    """Four clients with sequences about a class's own mean."""
    arrays = {}
    for number in range(4):
        random = np.random.default_rng(number)
        labels = random.integers(0, 3, sequences)
        arrays[f"S{number}"] = (random.normal(size=(sequences, STEPS, 3)) + np.eye(3)[labels][:, None], labels)
    per_step = {name: (values, np.repeat(own[:, None], STEPS, 1)) for name, (values, own) in arrays.items()}
    split = ClientSplit(("S0", "S1", "S2"), (), ("S3",))
    return FederatedDataset.from_arrays(per_step, classes=("a", "b", "c"), partition=split)


def test_a_message_of_few_states_is_the_recording_unless_it_is_hidden() -> None:
    one, two = leakage(clients(), "S0", NETWORK, [1, 2], epsilon=8.0)
    assert one.plain < 1e-6 < two.plain < 1e-2
    assert min(one.secure, one.private, two.secure, two.private) > 0.5
    cells = text_cells(leakage_table("S0", [one, two], 8.0))
    assert cells[0] == ["States", "Message as sent", "Secure aggregation", "Noise, epsilon 8"]
    assert cells[2][:2] == ["2", f"{two.plain:.2g}"]


def test_a_client_with_little_to_attack_is_refused() -> None:
    with pytest.raises(ConfigError, match="S1: 50 sequences of 20 steps; expected more than 50"):
        leakage(clients(50), "S1", NETWORK, [1], 8.0)
    with pytest.raises(ConfigError, match="S1: sequences of 20 steps; expected at least 21 each"):
        leakage(clients(), "S1", NETWORK, [1, 21], 8.0)


def test_little_noise_changes_little_and_much_noise_much() -> None:
    budgets = [PrivacyBudget(epsilon) for epsilon in (0.01, 1e5)]
    found = private_accuracies(clients(), NETWORK, 1.0, budgets, 0.5, seeds=2)
    assert [one.epsilon for one in found] == [None, 0.01, 1e5]
    exact, strict, loose = (one.accuracy.mean for one in found)
    assert exact > 0.6
    assert abs(loose - exact) < 0.03
    assert exact - strict > 0.1
    assert [one.accuracy.n for one in found] == [2, 2, 2]
    cells = text_cells(budget_table(found, 1e-5, "step"))
    first = ["no noise", f"{100 * exact:.2f} ±{100 * found[0].accuracy.std:.2f}"]
    assert cells[:2] == [["epsilon", "test %"], first]


def test_a_data_set_without_test_clients_is_refused() -> None:
    data = clients().partitioned(ClientSplit(("S0", "S1")))
    with pytest.raises(ConfigError, match="no sample of a test client"):
        private_accuracies(data, NETWORK, 1.0, [PrivacyBudget(1.0)], 0.5, seeds=1)
