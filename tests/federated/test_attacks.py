from __future__ import annotations

import numpy as np
import pytest

from tff_esn.config import AttackConfig
from tff_esn.federated.attacks import strength_of, update_attack


@pytest.mark.parametrize(
    ("kind", "factor", "noise"),
    [("sign-flip", -1.0, 0.0), ("scaled", 10.0, 0.0), ("random", 0.0, 1.0), ("stealthy", 1.0, 0.3)],
)
def test_an_attack_has_a_strength_of_its_own(kind: str, factor: float, noise: float) -> None:
    np.testing.assert_allclose(update_attack(AttackConfig(kind), True), (factor, noise))  # type: ignore[arg-type]


def test_a_strength_that_is_given_counts() -> None:
    assert strength_of(AttackConfig("noise")) == 1.0
    assert strength_of(AttackConfig("noise", 0.5)) == 0.5
