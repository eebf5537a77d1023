"""Scores of the discriminator (thesis section 6.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from tff_esn.errors import ConfigError
from tff_esn.features.study import DataSettings, Study
from tff_esn.federated.algorithm import GradientAlgorithm
from tff_esn.federated.defences.discriminator import DiscriminatorDefence
from tff_esn.parameters import STRICT, PositiveInt, merged, nested
from tff_esn.runs.kind import KINDS, RunKind
from tff_esn.runs.kinds.federated import Cell, cell_of
from tff_esn.runs.presets import PresetName
from tff_esn.runs.reported import reported
from tff_esn.runs.result import ResultFigure
from tff_esn.store.cache import Cache
from tff_esn.store.json_values import fingerprint
from tff_esn.store.tasks import Arrays, Task, packed, unpacked
from tff_esn.tables import PRINTED, Column, Number, Row, Table
from tff_esn.versions import version_of

if TYPE_CHECKING:
    from tff_esn.federated.training.discriminator import Discriminator, DiscriminatorCard

_ROWS = {
    "validation_accuracy": ("validation accuracy", "validation_binary_accuracy"),
    "train_f1": ("train F1", "train_f1"),
    "test_f1": ("test F1", "test_f1"),
    "real": ("ESN of real clients, test F1", "real_esn_test_f1"),
    "fake": ("ESN of fakes, test F1", "fake_esn_test_f1"),
}
#: Part of every key: raise it when a result changes.
_VERSION = 3


def discriminator_table(title: str, found: Mapping[str, Mapping[str, Any]]) -> Table:
    """A row per score, compared with those of section 6.1.

    Args:
        title: Its title.
        found: By preset, the `scores` of each seed (`discriminator_scores`), the layers' `units` and `dropout`, and
            what the network was `trained_on`.
    """
    printed = reported()["thesis"]["discriminator"]
    rows = []
    for name, (label, key) in _ROWS.items():
        lines: dict[str, list[Number | None]] = {PRINTED: [Number(printed[key], n=0)]}
        for preset, own in found.items():
            if name in own["scores"][0]:
                lines[preset] = [Number.of([one[name] for one in own["scores"]])]
        rows.append(Row(label, lines))
    notes = [
        f"{preset}: dense layers of {own['units'][0]} and {own['units'][1]} units, dropout {own['dropout']:g}, "
        f"trained on {own['trained_on']}."
        for preset, own in found.items()
    ]
    return Table("discriminator", title, "score", [Column("value", "value")], rows, notes)


@dataclass(frozen=True, config=STRICT)
class DiscriminatorConfig:
    """Scores of the discriminator over seeds.

    Attributes:
        settings: Parameters of FedAvg and under `data` those of `DataSettings`, with dots between the levels.
        presets: Presets to train with.
        trials: Number of networks that KerasTuner tries per preset; 0 for no search.
        seeds: Number of seeds.
    """

    kind: Literal["discriminator"]
    title: str
    settings: dict[str, Any] = field(default_factory=dict)
    presets: tuple[PresetName, ...] = ("thesis", "corrected")
    trials: Annotated[int, Field(ge=0)] = 30
    seeds: PositiveInt = 3


def discriminator_scores(card: DiscriminatorCard, accuracy: Mapping[str, float]) -> dict[str, float]:
    """The scores of a discriminator, and of the ESNs whose updates it was trained on."""
    names = ("validation_accuracy", "train_f1", "test_f1")
    return {**{name: getattr(card, name) for name in names}, **accuracy}


@KINDS.register
class DiscriminatorRun(RunKind):
    """The discriminators of a study, by preset."""

    name = "discriminator"
    settings = DiscriminatorConfig

    @property
    def datasets(self) -> list[DataSettings]:
        """Features, task and split of each preset."""
        return [cell.data for cell in self.cells.values()]

    @cached_property
    def parts(self) -> dict[str, Task]:
        """One part per preset: the sizes chosen with the first seed are used for the others."""
        versions = [version_of(name) for name in ("tensorflow", "keras-tuner", "numpy")]
        tasks = {}
        for preset, cell in self.cells.items():
            facts = [cell.algorithm, cell.data, list(self.seeds), self.config.trials, self.study.key(cell.data)]
            key = fingerprint([_VERSION, *facts, versions])
            work = partial(_train, self.study, cell, tuple(self.seeds), self.config.trials, key)
            tasks[preset] = Task(f"discriminator, {preset}", "discriminator", key, work)
        return tasks

    def found(self, results: Mapping[str, Arrays]) -> dict[str, Any]:
        """By preset, the scores of each seed, and the network that was chosen."""
        return {preset: unpacked(results[task.key]) for preset, task in self.parts.items()}

    def outcome(self, results: Mapping[str, Arrays]) -> tuple[list[Table], list[ResultFigure]]:
        """The scores under each preset."""
        return [discriminator_table(self.config.title, self.found(results))], []

    @cached_property
    def cells(self) -> dict[str, Cell]:
        """By preset, the federation that the discriminator is for."""
        base = {"algorithm": "fedavg", "defence": {"name": "discriminator"}}
        given = nested(self.config.settings)
        return {
            preset: cell_of(
                merged({**base, "preset": preset, "data": {"features": {"name": preset}}}, given),
                self.run,
                self.seeds[0],
            )
            for preset in self.config.presets
        }


def train_first(run: DiscriminatorRun, results: Mapping[str, Arrays], preset: str) -> Discriminator:
    """The discriminator of the first seed, trained again."""
    from tff_esn.federated.training.discriminator import train_discriminator

    cell, found = run.cells[preset], run.found(results)[preset]
    defence = _defence(cell.algorithm)
    network = replace(defence.network, units=tuple(found["units"]), dropout=found["dropout"])
    data, seed = run.study.dataset(cell.data), run.seeds[0]
    with Cache(run.study.cache).scratch() as scratch:
        examples = _examples(data, cell.algorithm.with_seed(seed), scratch)
    return train_discriminator(replace(defence, network=network), examples, data.partition.discriminator, seed)


def _defence(algorithm: GradientAlgorithm) -> DiscriminatorDefence:
    if not isinstance(algorithm.defence, DiscriminatorDefence):
        raise ConfigError(f"defence = {algorithm.defence!r}; expected discriminator")
    return algorithm.defence


def _examples(data: Any, algorithm: GradientAlgorithm, scratch: Path) -> Any:
    from tff_esn.federated.training.discriminator import update_examples
    from tff_esn.federated.training.experiment import FederatedExperiment

    training = FederatedExperiment(data, scratch).training(algorithm)
    return update_examples(_defence(algorithm), data, algorithm, training, scratch)


def _train(study: Study, cell: Cell, seeds: Sequence[int], trials: int, key: str, scratch: Path) -> Arrays:
    from tff_esn.federated.training.discriminator import train_discriminator
    from tff_esn.tuning.discriminator import choose_discriminator

    data, defence = study.dataset(cell.data), _defence(cell.algorithm)
    network, scores = defence.network, []
    for seed in seeds:
        examples = _examples(data, cell.algorithm.with_seed(seed), scratch / key)
        if seed == seeds[0] and trials:
            project = Cache(study.cache).folder / "tuning" / f"discriminator-{key[:8]}"
            network = choose_discriminator(examples.split(seed)[0], network, project, trials, seed)
        trained = train_discriminator(replace(defence, network=network), examples, data.partition.discriminator, seed)
        scores.append(discriminator_scores(trained.card, examples.accuracy))
    return packed(
        {"scores": scores, "units": network.units, "dropout": network.dropout, "trained_on": defence.trained_on}
    )
