"""Gaussian noise on the inputs of chosen clients."""

from __future__ import annotations

from dataclasses import dataclass, replace

from numpy.typing import NDArray

from tff_esn.errors import ConfigError
from tff_esn.features.inputs import ModelInputs
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

    def added_to(self, inputs: ModelInputs) -> ModelInputs:
        """The inputs with noise on those of the chosen clients.

        Raises:
            ConfigError: A chosen client is not among them.
        """
        unknown = [client for client in self.clients if client not in inputs.windows]
        if unknown:
            expected = f"clients out of {', '.join(inputs.windows)}"
            raise ConfigError(f"input noise for {', '.join(unknown)}; expected {expected}")
        noisy = {name: replace(own, values=self._noisy(name, own.values)) for name, own in inputs.windows.items()}
        series = {name: self._noisy(name, inputs.series[name]) for name in inputs.windows}
        return replace(inputs, windows=noisy, series=series)

    def _noisy(self, client: str, values: NDArray) -> NDArray:
        if client not in self.clients:
            return values
        generator = generator_for(self.seed, "input noise", client)
        return values + generator.normal(0.0, self.standard_deviation, values.shape)
