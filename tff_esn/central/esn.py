"""The centralised model (thesis chapter 6): a reservoir with a dense readout, trained on all data."""

from __future__ import annotations

from typing import ClassVar

from pydantic.dataclasses import dataclass

from tff_esn.algorithm import ALGORITHMS, Algorithm
from tff_esn.datasets.federated import FederatedDataset
from tff_esn.parameters import STRICT
from tff_esn.readout.model import TrainedESN
from tff_esn.readout.parameters import GradientTraining
from tff_esn.reservoir.samples import Samples, sample_states
from tff_esn.reservoir.weights import draw_weights


@ALGORITHMS.register
@dataclass(frozen=True, repr=False, config=STRICT)
class CentralESN(GradientTraining, Algorithm):
    """A readout trained on the samples of all training clients in one place, as a reference for federated training."""

    name = "central"
    label = "central ESN"
    family: ClassVar[str] = "central"

    def fit(self, data: FederatedDataset) -> TrainedESN:
        """Trains on the samples of all training clients, in one place."""
        from tff_esn.readout.training import fit_readout

        weights = draw_weights(self.esn, data.inputs, self.esn.seed)
        samples = Samples.concatenate(list(sample_states(data.part("train"), weights).values()))
        readout = fit_readout(samples.values, samples.labels, len(data.classes), self.training, self.esn.seed)
        return TrainedESN.of(self, data, weights, readout)
