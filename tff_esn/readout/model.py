"""A trained Echo State Network: a reservoir, its readout, and the description of its inputs."""

from __future__ import annotations

from dataclasses import dataclass as plain_dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from tff_esn.datasets.federated import FederatedDataset
from tff_esn.errors import ConfigError
from tff_esn.features.recipe import FeatureRecipeChoice
from tff_esn.metrics import METRICS, Scores, per_subject, score
from tff_esn.parameters import STRICT, PositiveInt
from tff_esn.readout.readout import Readout, nearest_probabilities
from tff_esn.reservoir.samples import sample_states
from tff_esn.reservoir.weights import ReservoirWeights
from tff_esn.store.json_values import jsonable

if TYPE_CHECKING:
    from tff_esn.algorithm import Algorithm


@dataclass(frozen=True, config=STRICT)
class ModelCard:
    """Description of a model and of its inputs.

    Attributes:
        algorithm: Name of the algorithm that trained it.
        features: Names of its inputs.
        classes: Names of the classes.
        per_step: Whether it predicts at each step of a sequence, or at the last step of a window.
        steps: Steps after which the state is reset: the length of windows or chunks; None if it never is.
        threshold: Output above which the prediction of two classes is class 1.
        trained_on: The clients it was trained on.
        recipe: Feature recipe for recordings; None if it was trained on plain arrays.
    """

    algorithm: str
    features: tuple[str, ...]
    classes: tuple[str, ...]
    per_step: bool
    steps: Optional[PositiveInt]
    threshold: float
    trained_on: tuple[str, ...]
    recipe: Optional[FeatureRecipeChoice] = None

    def to_json(self) -> dict[str, Any]:
        """For `model.json` beside the model."""
        return jsonable(self)


@plain_dataclass(frozen=True)
class TrainedESN:
    """A reservoir with its readout, and the model's card."""

    weights: ReservoirWeights
    readout: Readout
    card: ModelCard

    @classmethod
    def of(
        cls,
        algorithm: Algorithm,
        data: FederatedDataset,
        weights: ReservoirWeights,
        readout: Readout,
        threshold: float = 0.5,
        part: str = "train",
    ) -> TrainedESN:
        """The model that an algorithm trained on a data set.

        Args:
            algorithm: The algorithm.
            data: The data set.
            weights: The reservoir.
            readout: What was trained.
            threshold: As in `ModelCard`.
            part: The part of the data set's partition that it was trained on.
        """
        lengths = {own.steps for own in data.sequences.values() if len(own)}
        card = ModelCard(
            algorithm.name,
            data.features,
            data.classes,
            next(iter(data.sequences.values())).per_step,
            lengths.pop() if len(lengths) == 1 else None,
            threshold,
            getattr(data.partition, part),
            data.recipe,
        )
        return cls(weights, readout, card)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes."""
        return self.card.classes

    def decision_function(self, data: FederatedDataset) -> dict[str, NDArray]:
        """By client, the score of class 1 of each sample, or with more than two classes that of each class."""
        if not data.sequences:
            raise ConfigError("a data set without clients; expected at least one")
        if data.features != self.card.features:
            raise ConfigError(f"features {', '.join(data.features)}; expected {', '.join(self.card.features)}")
        return {client: self.scored(own.values) for client, own in sample_states(data, self.weights).items()}

    def scored(self, states: NDArray) -> NDArray:
        """The scores of states `(n, units)`, as `decision_function`."""
        return self.decision_scores(self.readout.outputs(states))

    def decision_scores(self, outputs: NDArray) -> NDArray:
        """The scores, as `decision_function`, of the readout's outputs `(n,)` or `(n, outputs)`."""
        # Two linear outputs are those of class 0 and of class 1: 0.5 is where they are equal.
        return outputs if outputs.shape[1:] != (2,) else 0.5 + (outputs[:, 1] - outputs[:, 0]) / 2

    def probabilities(self, scores: NDArray) -> NDArray:
        """Probabilities `(n, classes)` of scores, as `predict_proba`."""
        if scores.ndim == 1:
            ones = np.clip(scores, 0.0, 1.0)
            return np.stack([1 - ones, ones], axis=1)
        return scores if self.readout.activation == "softmax" else nearest_probabilities(scores)

    def predicted(self, scores: NDArray) -> NDArray[np.int64]:
        """The class of each score, as `predict`."""
        # Above the threshold, not at it, as in the metrics.
        classes = scores > self.card.threshold if scores.ndim == 1 else scores.argmax(axis=1)
        return classes.astype(np.int64)

    def predict_proba(self, data: FederatedDataset) -> NDArray:
        """Probabilities `(samples, classes)` of all samples, client after client.

        The outputs of ridge regression only estimate probabilities and are projected to the nearest ones.
        """
        return self.probabilities(np.concatenate(list(self.decision_function(data).values())))

    def predict(self, data: FederatedDataset) -> NDArray[np.int64]:
        """The class of each sample, a number into `classes`, client after client."""
        return self.predicted(np.concatenate(list(self.decision_function(data).values())))

    def score(self, data: FederatedDataset, metric: str = "accuracy") -> float:
        """A metric over all samples of a data set."""
        return self.scores(data).values[METRICS[metric].name]

    def scores(self, data: FederatedDataset) -> Scores:
        """All metrics over all samples of a data set."""
        return score(data.labels(), np.concatenate(list(self.decision_function(data).values())), self.card.threshold)

    def client_scores(self, data: FederatedDataset) -> dict[str, Scores]:
        """All metrics by client, and under `all` those of all their samples together."""
        labels = {client: own.sample_labels for client, own in data.sequences.items()}
        return per_subject(labels, self.decision_function(data), self.card.threshold)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the model as one file: `.keras` for Keras, `.tflite` for TensorFlow Lite."""
        from tff_esn.deployment.export import save_model

        save_model(self, Path(path))

    def __repr__(self) -> str:
        card, units = self.card, self.weights.units
        return f"TrainedESN({card.algorithm}, {units} units, {len(card.features)} features, {' / '.join(card.classes)})"
