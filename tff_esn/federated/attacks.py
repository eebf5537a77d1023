"""What bad clients do: with their data before they train, or with their update before they send it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tff_esn.errors import ConfigError
from tff_esn.federated.parameters import AttackConfig
from tff_esn.reservoir.samples import Samples
from tff_esn.seeds import generator_for

#: What an honest client does to its update: see `Client.attack`.
HONEST = np.array([1.0, 0.0], np.float32)
#: Attacks on a client's own data; the others change its update.
ON_DATA = ("noise", "label-flip")
#: How strong an attack is if nothing is said.
STRENGTH = {"noise": 1.0, "label-flip": 1.0, "sign-flip": 1.0, "scaled": 10.0, "random": 1.0, "stealthy": 0.3}


def fake_clients(config: AttackConfig | None, clients: Sequence[str], seed: int) -> tuple[str, ...]:
    """Who attacks: those that are named, or a share of all, drawn by the seed."""
    if config is None:
        return ()
    if config.clients is None:
        number = round(config.share * len(clients))
        chosen = generator_for(seed, "fake clients").choice(len(clients), number, replace=False)
        return tuple(clients[i] for i in sorted(chosen))
    unknown = [client for client in config.clients if client not in clients]
    if unknown:
        raise ConfigError(f"attack.clients has {', '.join(unknown)}; expected training clients: {', '.join(clients)}")
    if len(set(config.clients)) < len(config.clients):
        raise ConfigError(f"attack.clients = {', '.join(config.clients)} names a client twice; expected each once")
    return config.clients


def update_attack(config: AttackConfig | None, is_fake: bool) -> NDArray[np.float32]:
    """What a client multiplies its update with, and the size of the noise it adds; see `Client.attack`."""
    if config is None or not is_fake or config.kind in ON_DATA:
        return HONEST
    strength = strength_of(config)
    factors = {
        "sign-flip": (-strength, 0.0),
        "scaled": (strength, 0.0),
        "random": (0.0, strength),
        "stealthy": (1.0, strength),
    }
    return np.array(factors[config.kind], np.float32)


def strength_of(config: AttackConfig) -> float:
    """The strength that is asked for, or the kind's own."""
    return config.strength or STRENGTH[config.kind]


def flipped(examples: Samples, classes: int) -> Samples:
    """The same examples, each with the label of the next class."""
    return Samples(examples.values, (examples.labels + 1) % classes)
