"""Gaussian noise on the inputs of chosen clients."""

from __future__ import annotations

from dataclasses import replace
from typing import Optional

from pydantic.dataclasses import dataclass

from tff_esn.datasets.federated import FederatedDataset, LabelledSequences
from tff_esn.errors import ConfigError
from tff_esn.parameters import STRICT, Names, NonNegativeFloat, Parameters
from tff_esn.seeds import generator_for


@dataclass(frozen=True, repr=False, config=STRICT)
class InputNoise(Parameters):
    """Gaussian noise on the training inputs of chosen clients.

    Attributes:
        standard_deviation: Standard deviation of the noise, in units of the normalised input; 0 for no noise.
        clients: Clients whose inputs have noise; None for every training client.
    """

    standard_deviation: NonNegativeFloat = 0.0
    clients: Optional[Names] = None

    def added_to(self, data: FederatedDataset, seed: int) -> FederatedDataset:
        """The data set with noise on the inputs of the chosen clients, each from the seed and its name.

        Raises:
            ConfigError: A chosen client is not in the data set.
        """
        if not self.standard_deviation:
            return data
        clients = data.clients if self.clients is None else self.clients
        unknown = [client for client in clients if client not in data.sequences]
        if unknown:
            expected = f"clients out of {', '.join(data.clients)}"
            raise ConfigError(f"input noise for {', '.join(unknown)}; expected {expected}")
        noisy = {client: self._noisy(client, data[client], seed) for client in clients}
        return replace(data, sequences={**data.sequences, **noisy})

    def _noisy(self, client: str, own: LabelledSequences, seed: int) -> LabelledSequences:
        generator = generator_for(seed, "input noise", client)
        if not isinstance(own.values, tuple):
            return replace(own, values=own.values + generator.normal(0.0, self.standard_deviation, own.values.shape))
        values = tuple(part + generator.normal(0.0, self.standard_deviation, part.shape) for part in own.values)
        return replace(own, values=values)
