"""Gaussian noise on the inputs of chosen clients."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tff_esn.datasets.federated import FederatedDataset, LabelledSequences
from tff_esn.errors import ConfigError
from tff_esn.seeds import generator_for


@dataclass(frozen=True)
class InputNoise:
    """Gaussian noise added to the inputs of chosen clients.

    Attributes:
        standard_deviation: In units of the (normalised) input.
        clients: Who gets it.
        seed: Each client's noise comes from this seed and its name.
    """

    standard_deviation: float
    clients: tuple[str, ...]
    seed: int = 0

    def added_to(self, data: FederatedDataset) -> FederatedDataset:
        """The data set with noise on the inputs of the chosen clients.

        Raises:
            ConfigError: A chosen client is not among them.
        """
        unknown = [client for client in self.clients if client not in data.sequences]
        if unknown:
            expected = f"clients out of {', '.join(data.clients)}"
            raise ConfigError(f"input noise for {', '.join(unknown)}; expected {expected}")
        noisy = {client: self._noisy(client, data.sequences[client]) for client in self.clients}
        return replace(data, sequences={**data.sequences, **noisy})

    def _noisy(self, client: str, own: LabelledSequences) -> LabelledSequences:
        generator = generator_for(self.seed, "input noise", client)
        if not isinstance(own.values, tuple):
            return replace(own, values=own.values + generator.normal(0.0, self.standard_deviation, own.values.shape))
        values = tuple(part + generator.normal(0.0, self.standard_deviation, part.shape) for part in own.values)
        return replace(own, values=values)
