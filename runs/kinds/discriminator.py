"""The discriminator's own scores (thesis section 6.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tff_esn.config import FederatedConfig, JudgeConfig, from_mapping, merged, nested
from tff_esn.features.source import Source
from tff_esn.presets import settled
from tff_esn.runs.reported import reported
from tff_esn.runs.result import ResultFigure
from tff_esn.store.cache import Cache
from tff_esn.store.json_values import fingerprint
from tff_esn.store.tasks import Arrays, Task, packed, unpacked
from tff_esn.tables import PRINTED, Column, Number, Row, Table
from tff_esn.versions import version_of

if TYPE_CHECKING:
    # It imports TensorFlow, which takes seconds.
    from tff_esn.federated.discriminator import DiscriminatorCard

_ROWS = {
    "validation_accuracy": ("validation accuracy", "validation_binary_accuracy"),
    "train_f1": ("train F1", "train_f1"),
    "test_f1": ("test F1", "test_f1"),
    "real": ("ESN of real clients, test F1", "real_esn_test_f1"),
    "fake": ("ESN of fakes, test F1", "fake_esn_test_f1"),
}
#: Part of every key: raise it when a result changes.
_VERSION = 2


def discriminator_table(title: str, found: Mapping[str, Mapping[str, Any]]) -> Table:
    """A row per score, beside what section 6.1 prints.

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


def discriminator_scores(card: DiscriminatorCard, accuracy: Mapping[str, float]) -> dict[str, float]:
    """The scores of a discriminator, and of the ESNs whose updates it was trained on."""
    names = ("validation_accuracy", "train_f1", "test_f1")
    return {**{name: getattr(card, name) for name in names}, **accuracy}


@dataclass(frozen=True)
class JudgeRun:
    """The discriminators of a study, by preset."""

    config: JudgeConfig
    source: Source
    seeds: Sequence[int]

    def prepare(self, jobs: int | None) -> None:
        """Makes what they see."""
        for own in self._configs.values():
            self.source.prepare(own.inputs, jobs)

    def tasks(self) -> list[Task]:
        """One a preset: the sizes that the first seed chooses serve the others."""
        return list(self._tasks.values())

    def outcome(self, results: Mapping[str, Arrays]) -> tuple[list[Table], list[ResultFigure]]:
        """The scores under each preset."""
        found = {preset: unpacked(results[task.key]) for preset, task in self._tasks.items()}
        return [discriminator_table(self.config.title, found)], []

    @cached_property
    def _configs(self) -> dict[str, FederatedConfig]:
        return {
            preset: settled(
                from_mapping(
                    FederatedConfig,
                    merged(
                        {"preset": preset, "defence": {"kind": "discriminator"}, "inputs": {"preset": preset}},
                        nested(self.config.settings),
                    ),
                    self.config.title,
                )
            )
            for preset in self.config.presets
        }

    @cached_property
    def _tasks(self) -> dict[str, Task]:
        versions = [version_of(name) for name in ("tensorflow", "keras-tuner", "numpy")]
        tasks = {}
        for preset, config in self._configs.items():
            facts = [
                _VERSION,
                config,
                list(self.seeds),
                self.config.trials,
                self.source.content(config.inputs),
                versions,
            ]
            key = fingerprint(facts)
            work = partial(_judges, self.source, config, tuple(self.seeds), self.config.trials, key)
            tasks[preset] = Task(f"discriminator, {preset}", "discriminator", key, work)
        return tasks


def _judges(
    source: Source, config: FederatedConfig, seeds: Sequence[int], trials: int, key: str, scratch: Path
) -> Arrays:
    from tff_esn.federated.discriminator import train_discriminator, update_examples
    from tff_esn.tuning.discriminator import choose_discriminator

    inputs, defence, network = source.inputs(config.inputs), config.defence, config.discriminator
    assert defence is not None
    scores = []
    for seed in seeds:
        examples = update_examples(inputs, config, seed, scratch / key)
        if seed == seeds[0]:
            project = Cache(source.cache).folder / "tuning" / f"discriminator-{key[:8]}"
            network = choose_discriminator(examples.split(seed)[0], network, project, trials, seed)
        card = train_discriminator(examples, network, inputs.split.discriminator, defence, seed).card
        scores.append(discriminator_scores(card, examples.accuracy))
    return packed(
        {"scores": scores, "units": network.units, "dropout": network.dropout, "trained_on": defence.trained_on}
    )
