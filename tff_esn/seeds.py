"""One seed, split by purpose.

Every random choice draws from its own stream, named by its purpose and, if any, its
client, so that adding a client or a step changes no other stream.
"""

from __future__ import annotations

import hashlib

import numpy as np


def seed_for(seed: int, *purpose: str) -> int:
    """A 31-bit seed for `purpose`, for libraries that take an integer.

    >>> seed_for(0, "noise", "S2") == seed_for(0, "noise", "S2")
    True
    """
    digest = hashlib.sha256("\0".join((str(seed), *purpose)).encode()).digest()
    return int.from_bytes(digest[:4], "little") & 0x7FFFFFFF


def generator_for(seed: int, *purpose: str) -> np.random.Generator:
    """A NumPy generator for `purpose`, independent of every other purpose's."""
    return np.random.default_rng(seed_for(seed, *purpose))
