"""Attacks by name: a bad client changes its data before it trains, or its update before it sends it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Optional

from pydantic import BeforeValidator, InstanceOf
from pydantic.dataclasses import dataclass

from tff_esn.datasets.federated import FederatedDataset
from tff_esn.errors import ConfigError
from tff_esn.parameters import STRICT, Names, Parameters, Share
from tff_esn.registry import Registry
from tff_esn.seeds import generator_for

#: Factor and noise of an honest client's update; see `Attack.on_update`.
HONEST = (1.0, 0.0)


@dataclass(frozen=True, repr=False, config=STRICT)
class Attack(Parameters):
    """Base of attacks, which override `on_data` or `on_update`.

    Attributes:
        share: Share of the training clients that attack, drawn by the seed.
        clients: Names of the clients that attack, instead of a share.
    """

    share: Share = 0.5
    clients: Optional[Names] = None

    name: ClassVar[str]

    @property
    def changes_data(self) -> bool:
        """Whether it is an attack on data."""
        return type(self).on_data is not Attack.on_data

    def on_data(self, data: FederatedDataset, clients: Sequence[str], seed: int) -> FederatedDataset:
        """The data that the clients train on.

        Args:
            data: The training clients' data.
            clients: Those of them that attack.
            seed: Seed of random changes.
        """
        return data

    def on_update(self) -> tuple[float, float]:
        """The factor of an attacker's update, and the standard deviation of Gaussian noise on it.

        The noise is in units of the update's root mean square.
        """
        return HONEST

    def fake_clients(self, clients: Sequence[str], seed: int) -> tuple[str, ...]:
        """The clients that attack: those that are named, or a share of all, drawn by the seed."""
        if self.clients is None:
            number = round(self.share * len(clients))
            chosen = generator_for(seed, "fake clients").choice(len(clients), number, replace=False)
            return tuple(clients[i] for i in sorted(chosen))
        unknown = [client for client in self.clients if client not in clients]
        if unknown:
            raise ConfigError(
                f"attack.clients has {', '.join(unknown)}; expected training clients: {', '.join(clients)}"
            )
        if len(set(self.clients)) < len(self.clients):
            raise ConfigError(f"attack.clients = {', '.join(self.clients)} names a client twice; expected each once")
        return self.clients


ATTACKS: Registry[type[Attack]] = Registry("attacks", ["tff_esn.federated.attacks"])
#: An attack as a parameter: itself, its name, or a table with its name and parameters.
AttackChoice = Annotated[InstanceOf[Attack], BeforeValidator(lambda given: ATTACKS.create(given, "attack"))]
