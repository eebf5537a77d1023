"""What a trial trains: a readout fitted by gradients, or one solved in closed form.

States that trials share (same inputs, same reservoir) are computed once and kept in
memory up to a limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Annotated, Any, Optional, Union

import keras_tuner
import numpy as np
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from tff_esn.closed_form.fedip import fedip
from tff_esn.closed_form.incfed import incfed
from tff_esn.closed_form.partial import partial_incfed
from tff_esn.closed_form.statistics import RidgeStatistics, client_statistics, ridge_accuracy
from tff_esn.config import (
    CentralConfig,
    ChannelConfig,
    InputConfig,
    PlasticityConfig,
    PositiveFloat,
    ReservoirConfig,
    from_mapping,
    merged,
    nested,
)
from tff_esn.datasets.splits import ClientSplit, resolve_split
from tff_esn.datasets.study import Study
from tff_esn.datasets.tables import Task
from tff_esn.deployment.keras_model import TrainedEsn, keras_model
from tff_esn.errors import DataError
from tff_esn.features.inputs import Examples, ModelInputs, model_inputs, prepared_features
from tff_esn.features.preparation import Preparation
from tff_esn.features.windows import Sequences, chunks
from tff_esn.metrics import METRICS, score
from tff_esn.readout.readout import Readout, initial_readout
from tff_esn.readout.training import fit_readout
from tff_esn.reservoir.weights import ReservoirWeights, draw_weights
from tff_esn.store.cache import Cache, Shared
from tff_esn.tuning.space import SearchSpace


def _drawn(reservoirs: Shared, config: ReservoirConfig, inputs: int, seed: int) -> ReservoirWeights:
    """A reservoir, drawn once for all trials that have it."""

    def make() -> ReservoirWeights:
        return draw_weights(config, inputs, seed)

    return reservoirs.get((config, inputs), make, lambda made: made.recurrent_kernel.nbytes)


def _checkpoint(model: Any, metrics: Mapping[str, float], callbacks: list[Any]) -> None:
    """KerasTuner saves a trial's model when its callbacks hear of an epoch."""
    for callback in callbacks:
        callback.set_model(model)
        callback.on_epoch_end(0, dict(metrics))


class GradientHyperModel(keras_tuner.HyperModel):
    """`Reservoir + Dense`, the readout fitted on the training subjects and scored on the validation subjects."""

    def __init__(self, space: SearchSpace, base: Mapping[str, Any], study: Study, cache: Cache, seed: int) -> None:
        super().__init__()
        self.space, self.base, self.study, self.cache, self.seed = space, base, study, cache, seed
        self._inputs, self._states, self._reservoirs = Shared(), Shared(), Shared()

    def config(self, hp: keras_tuner.HyperParameters) -> CentralConfig:
        """The trial's configuration."""
        return from_mapping(CentralConfig, merged(self.base, nested(self.space.draw(hp))), self.space.document)

    def prepare(self, jobs: int | None) -> None:
        """Prepares the features of every HRV window that the space has, subjects in parallel."""
        for window in self.space.choice.get("inputs.hrv_window", [InputConfig.hrv_window]):
            inputs = merged(self.base.get("inputs", {}), {"hrv_window": window})
            prepared_features(self.study, from_mapping(InputConfig, inputs, self.space.document), self.cache, jobs)

    def build(self, hp: keras_tuner.HyperParameters) -> Any:
        """The untrained Keras model of a trial."""
        config = self.config(hp)
        return keras_model(
            TrainedEsn(self._weights(config), initial_readout(config.reservoir.units, 2, self.seed)), None
        )

    def fit(self, hp: keras_tuner.HyperParameters, model: Any, *args: Any, **options: Any) -> dict[str, float]:
        """Fits the readout on shared states and returns the validation scores."""
        config = self.config(hp)
        inputs = self.study_inputs(config)
        states = self._study_states(config, inputs)
        train = Examples.concatenate([states[subject] for subject in inputs.split.train])
        validation = Examples.concatenate([states[subject] for subject in inputs.split.validation])
        epochs = options.get("epochs", config.readout.epochs) - options.get("initial_epoch", 0)
        layer = model.get_layer("readout")
        kernel, bias = layer.get_weights()
        start = Readout(kernel, bias, layer.activation.__name__)
        readout = fit_readout(
            train.values, train.labels, 2, replace(config.readout, epochs=max(epochs, 1)), self.seed, start
        )
        layer.set_weights([readout.kernel, readout.bias])
        scores = score(validation.labels, readout.outputs(validation.values))
        metrics = {metric: float(getattr(scores, metric)) for metric in METRICS}
        _checkpoint(model, metrics, options.get("callbacks", []))
        return metrics

    def study_inputs(self, config: CentralConfig) -> ModelInputs:
        """The study under a trial's inputs."""

        def make() -> ModelInputs:
            return model_inputs(prepared_features(self.study, config.inputs, self.cache), config.inputs)

        return self._inputs.get(
            config.inputs, make, lambda made: sum(own.values.nbytes for own in made.windows.values())
        )

    def _study_states(self, config: CentralConfig, inputs: ModelInputs) -> dict[str, Examples]:
        def make() -> dict[str, Examples]:
            return inputs.states(self._weights(config))

        key = (config.inputs, config.reservoir)
        return self._states.get(key, make, lambda made: sum(own.values.nbytes for own in made.values()))

    def _weights(self, config: CentralConfig) -> ReservoirWeights:
        return _drawn(self._reservoirs, config.reservoir, len(config.inputs.features), self.seed)


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class RidgeConfig:
    """A closed-form model of raw channels.

    Attributes:
        ridge: Regularisation lambda.
        alpha: Partial IncFed's share of important units; None for IncFed.
        plasticity: FedIP's adaptation of the reservoir; None for none.
    """

    split: Union[str, ClientSplit]
    reservoir: ReservoirConfig = field(default_factory=ReservoirConfig)
    channels: ChannelConfig = field(default_factory=ChannelConfig)
    ridge: PositiveFloat = 1e-3
    alpha: Optional[Annotated[float, Field(ge=0, le=1)]] = None
    plasticity: Optional[PlasticityConfig] = None


class RidgeHyperModel(keras_tuner.HyperModel):
    """IncFed, Partial IncFed or FedIP on the training subjects, scored on the validation subjects."""

    def __init__(
        self, space: SearchSpace, base: Mapping[str, Any], preparation: Preparation, task: Task, seed: int
    ) -> None:
        super().__init__()
        self.space, self.base, self.preparation, self.task, self.seed = space, base, preparation, task, seed
        self._chunks, self._statistics, self._reservoirs = Shared(), Shared(), Shared()
        self._columns = len(preparation.load(preparation.subjects[0]).names)

    def config(self, hp: keras_tuner.HyperParameters) -> RidgeConfig:
        """The trial's configuration."""
        return from_mapping(RidgeConfig, merged(nested(self.space.draw(hp)), self.base), self.space.document)

    def build(self, hp: keras_tuner.HyperParameters) -> Any:
        """The Keras model of a trial, its readout not yet solved."""
        config = self.config(hp)
        classes = len(self.task.classes)
        unsolved = Readout(np.zeros((config.reservoir.units, classes)), np.zeros(classes), "linear")
        return keras_model(TrainedEsn(self._weights(config), unsolved), None)

    def fit(self, hp: keras_tuner.HyperParameters, model: Any, *args: Any, **options: Any) -> dict[str, float]:
        """Solves for the readout and returns the validation accuracy."""
        config = self.config(hp)
        weights = self._weights(config)
        split = resolve_split(config.split, self.preparation.subjects)

        def make() -> dict[str, RidgeStatistics]:
            sequences = (self._subject(name, config) for name in split.train)
            return dict(zip(split.train, client_statistics(sequences, self.task, weights)))

        key = (config.channels, config.reservoir, config.plasticity)
        statistics = self._statistics.get(key, make, lambda made: sum(own.half_b.nbytes for own in made.values()))
        if config.alpha is None:
            readout = incfed(statistics, config.ridge).readout
        else:
            readout = partial_incfed(statistics, config.ridge, config.alpha, self.seed).readout
        accuracies = [
            ridge_accuracy(self._subject(name, config), self.task, weights, readout) for name in split.validation
        ]
        model.get_layer("readout").set_weights([readout.kernel, readout.bias])
        metrics = {"accuracy": sum(accuracies) / len(accuracies)}
        _checkpoint(model, metrics, options.get("callbacks", []))
        return metrics

    def _weights(self, config: RidgeConfig) -> ReservoirWeights:
        drawn = _drawn(self._reservoirs, config.reservoir, self._columns, self.seed)
        plasticity = config.plasticity
        if plasticity is None:
            return drawn

        def make() -> ReservoirWeights:
            split = resolve_split(config.split, self.preparation.subjects)
            return fedip({name: self._subject(name, config).values for name in split.train}, drawn, plasticity).weights

        key = (config.channels, config.reservoir, plasticity)
        return self._reservoirs.get(key, make, lambda made: made.recurrent_kernel.nbytes)

    def _subject(self, subject: str, config: RidgeConfig) -> Sequences:
        def make() -> Sequences:
            made = chunks(self.preparation.load(subject), self.task, config.channels.steps)
            if not len(made):
                raise DataError(subject, f"no labelled stretch of {config.channels.steps} steps", "a longer recording")
            return made

        return self._chunks.get((subject, config.channels.steps), make, lambda made: made.values.nbytes)
