"""Hypermodels: a trial trains an algorithm on the training subjects and scores it on the validation subjects.

Data sets, reservoirs, states and statistics that trials share are computed once and kept in memory up to a limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, cast

import keras_tuner
import numpy as np

from tff_esn.central.esn import CentralESN
from tff_esn.closed_form.algorithm import ClosedForm
from tff_esn.closed_form.statistics import RidgeStatistics, confusions, reservoir_digest
from tff_esn.datasets.federated import FederatedDataset
from tff_esn.deployment.keras_model import keras_model
from tff_esn.errors import ConfigError, DataError
from tff_esn.features.study import DataSettings, Study
from tff_esn.metrics import Scores, metric_names, score
from tff_esn.readout.model import TrainedESN
from tff_esn.readout.readout import Readout, initial_readout
from tff_esn.readout.training import fit_readout
from tff_esn.reservoir.samples import Samples, sample_states
from tff_esn.reservoir.weights import ReservoirWeights, draw_weights
from tff_esn.store.cache import Shared
from tff_esn.tuning.space import Configuration, SearchSpace


def hypermodel_of(study: Study, space: SearchSpace, base: Mapping[str, Any]) -> HyperModel:
    """The hypermodel of a space's algorithm; arguments as of `HyperModel`."""
    sharing = {CentralESN.fit: CentralHyperModel, ClosedForm.fit: ClosedFormHyperModel}
    return sharing.get(space.kind.fit, HyperModel)(study, space, base)


class HyperModel(keras_tuner.HyperModel):
    """`Reservoir + Dense`, trained by the algorithm's `fit`.

    Args:
        study: The study.
        space: The search space.
        base: Settings that the space does not give, as nested tables.
    """

    #: The scores of a trial, and the one that a search maximises by default.
    metrics: ClassVar[tuple[str, ...]] = metric_names()
    objective: ClassVar[str] = "f1_micro"

    def __init__(self, study: Study, space: SearchSpace, base: Mapping[str, Any]) -> None:
        super().__init__()
        self.study, self.space, self.base = study, space, base
        self._datasets, self._reservoirs = Shared(), Shared()
        # A wrong setting is found before hours of work, not after.
        for settings in space.data_settings(base):
            if not study.partition(settings).validation:
                split = f"split {settings.split!r}" if isinstance(settings.split, str) else "the split"
                raise ConfigError(f"{split} has no validation subjects; expected some, to compare trials on")

    def configuration(self, hp: keras_tuner.HyperParameters) -> Configuration:
        """The trial's configuration."""
        return self.space.configuration(self.space.draw(hp), self.base)

    def prepare(self, jobs: int | None) -> None:
        """Computes and stores the features of the trials, subjects in parallel."""
        for settings in set(self.space.data_settings(self.base)):
            self.study.prepare(settings, jobs)

    def build(self, hp: keras_tuner.HyperParameters) -> Any:
        """The untrained Keras model of a trial."""
        trial = self.configuration(hp)
        data = self.dataset(trial.data)
        readout = self._untrained(trial, len(data.classes))
        return keras_model(TrainedESN.of(trial.algorithm, data, self._reservoir(trial), readout))

    def fit(self, hp: keras_tuner.HyperParameters, model: Any, *args: Any, **options: Any) -> dict[str, float]:
        """Trains the readout and returns the validation scores."""
        layer = model.get_layer("readout")
        kernel, bias = layer.get_weights()
        start = Readout(kernel, bias, layer.activation.__name__)
        readout, scores = self._train(self.configuration(hp), start, options)
        layer.set_weights([readout.kernel, readout.bias])
        # KerasTuner saves a trial's model in its callback at the end of an epoch.
        for callback in options.get("callbacks", []):
            callback.set_model(model)
            callback.on_epoch_end(0, dict(scores))
        return scores

    def dataset(self, settings: DataSettings) -> FederatedDataset:
        """The data set of a trial."""
        return self._datasets.get(
            settings,
            lambda: self.study.dataset(settings),
            lambda made: sum(part.nbytes for own in made.sequences.values() for part in _parts(own.values)),
        )

    def _untrained(self, trial: Configuration, classes: int) -> Readout:
        return initial_readout(trial.algorithm.esn.units, classes, trial.algorithm.esn.seed)

    def _reservoir(self, trial: Configuration) -> ReservoirWeights:
        esn, inputs = trial.algorithm.esn, self.dataset(trial.data).inputs
        return self._reservoirs.get((esn, inputs), lambda: draw_weights(esn, inputs, esn.seed), _size)

    def _train(
        self, trial: Configuration, start: Readout, options: Mapping[str, Any]
    ) -> tuple[Readout, dict[str, float]]:
        """The trained readout, and its scores on the validation subjects."""
        data = self.dataset(trial.data)
        trained = trial.algorithm.fit(data)
        return trained.readout, _values(trained.scores(data.part("validation")))


class CentralHyperModel(HyperModel):
    """The centralised model: a readout fitted by gradients, on states that trials share."""

    def __init__(self, study: Study, space: SearchSpace, base: Mapping[str, Any]) -> None:
        super().__init__(study, space, base)
        self._states = Shared()

    def _train(
        self, trial: Configuration, start: Readout, options: Mapping[str, Any]
    ) -> tuple[Readout, dict[str, float]]:
        model, data = cast(CentralESN, trial.algorithm), self.dataset(trial.data)
        states = self._states.get(
            (trial.data, model.esn),
            lambda: sample_states(data, self._reservoir(trial)),
            lambda made: sum(own.values.nbytes for own in made.values()),
        )
        train = Samples.concatenate([states[subject] for subject in data.partition.train])
        validation = Samples.concatenate([states[subject] for subject in data.partition.validation])
        # Hyperband gives a trial the epochs itself, and continues after those of an earlier trial.
        epochs = options.get("epochs", model.epochs) - options.get("initial_epoch", 0)
        training = replace(model.training, epochs=max(epochs, 1))
        readout = fit_readout(train.values, train.labels, len(data.classes), training, model.esn.seed, start)
        return readout, _values(score(validation.labels, readout.outputs(validation.values)))


class ClosedFormHyperModel(HyperModel):
    """An algorithm in closed form, on shared statistics; its score is the validation subjects' mean accuracy."""

    metrics = ("accuracy",)
    objective = "accuracy"

    def __init__(self, study: Study, space: SearchSpace, base: Mapping[str, Any]) -> None:
        super().__init__(study, space, base)
        self._statistics = Shared()

    def _untrained(self, trial: Configuration, classes: int) -> Readout:
        return Readout(np.zeros((trial.algorithm.esn.units, classes)), np.zeros(classes), "linear")

    def _reservoir(self, trial: Configuration) -> ReservoirWeights:
        algorithm, drawn = cast(ClosedForm, trial.algorithm), super()._reservoir(trial)
        # No reservoir is adapted to the regularisation.
        return self._reservoirs.get(
            (trial.data, replace(algorithm, ridge=0.0)),
            lambda: algorithm.adapted(self.dataset(trial.data).part("train"), drawn).weights,
            _size,
        )

    def _train(
        self, trial: Configuration, start: Readout, options: Mapping[str, Any]
    ) -> tuple[Readout, dict[str, float]]:
        algorithm, data, weights = cast(ClosedForm, trial.algorithm), self.dataset(trial.data), self._reservoir(trial)

        def make() -> dict[str, RidgeStatistics]:
            return algorithm.statistics(data.part("train"), weights)

        precision = (algorithm.bias, algorithm.class_weight, algorithm.precision)
        key = (trial.data, reservoir_digest(weights), *precision)
        statistics = self._statistics.get(key, make, lambda made: sum(own.half_b.nbytes for own in made.values()))
        readout = algorithm.solve(statistics).readout
        accuracies = [_accuracy(data, subject, weights, readout) for subject in data.partition.validation]
        return readout, {"accuracy": sum(accuracies) / len(accuracies)}


def _accuracy(data: FederatedDataset, subject: str, weights: ReservoirWeights, readout: Readout) -> float:
    """Share of a subject's samples whose largest output is their label."""
    (confusion,) = confusions(data[subject], len(data.classes), weights, [readout])
    if not confusion.sum():
        raise DataError(subject, "no labelled sequence to validate on", "a longer recording, or shorter sequences")
    return float(np.trace(confusion) / confusion.sum())


def _values(scores: Scores) -> dict[str, float]:
    return {metric: float(value) for metric, value in scores.values.items()}


def _parts(values: Any) -> tuple[Any, ...]:
    return values if isinstance(values, tuple) else (values,)


def _size(weights: ReservoirWeights) -> int:
    return weights.recurrent_kernel.nbytes
