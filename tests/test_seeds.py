from __future__ import annotations

from tff_esn.seeds import generator_for, seed_for


def test_seeds_are_split_by_purpose() -> None:
    assert seed_for(0, "noise", "S2") == seed_for(0, "noise", "S2")
    different = {
        seed_for(0, "noise", "S2"),
        seed_for(0, "noise", "S3"),
        seed_for(0, "reservoir"),
        seed_for(1, "noise", "S2"),
    }
    assert len(different) == 4
    assert generator_for(0, "a").normal() == generator_for(0, "a").normal()
