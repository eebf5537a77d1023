"""Tables of closed forms: every method on a growing share of the training clients, over repetitions.

Methods that share a reservoir share its states: a client's statistics are computed once for all shares
and methods, and the subjects that are scored are run through the reservoir once for all readouts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Callable, Union

import numpy as np
from numpy.typing import NDArray

from tff_esn.closed_form.fedip import AdaptedReservoir, fedip
from tff_esn.closed_form.incfed import (
    FederatedReadout,
    Statistics,
    averaged_readouts,
    central,
    incfed,
    secure_incfed,
)
from tff_esn.closed_form.partial import partial_incfed, random_incfed
from tff_esn.closed_form.pfedrr import Policy, low_rank, pfedrr, rank_of_same_size
from tff_esn.closed_form.statistics import client_statistics, ridge_confusions
from tff_esn.config import ClosedFormConfig, MethodConfig, PlasticityConfig, PresetName, ReservoirConfig
from tff_esn.console import progress
from tff_esn.datasets.hhar import SENSORS, is_hhar, sensor_file
from tff_esn.datasets.splits import ClientSplit, named_split
from tff_esn.datasets.study import open_study
from tff_esn.datasets.tables import ACTIVITY, AFFECT, Task
from tff_esn.errors import ConfigError
from tff_esn.features.preparation import ChannelRecipe, prepare, prepare_hhar, subject_keys
from tff_esn.features.windows import Sequences, chunks
from tff_esn.presets import CLOSED_FORMS, settled_method
from tff_esn.reservoir.weights import draw_weights
from tff_esn.store.cache import Cache
from tff_esn.store.json_values import fingerprint

#: Algorithms with a threshold tau.
THRESHOLDED = ("pfedrr", "r-pfedrr", "hybrid", "low-rank")
_POLICIES: Mapping[str, Policy] = {"pfedrr": "importance", "r-pfedrr": "random", "hybrid": "hybrid"}
Confusion = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Clients:
    """A study's subjects as chunks.

    Attributes:
        sequences: By subject.
        task: What is predicted.
        split: Name of the split.
    """

    sequences: Mapping[str, Sequences]
    task: Task
    split: str

    def part(self, percent: int) -> ClientSplit:
        """Who trains, validates and tests."""
        return named_split(f"{self.split}/{percent}", tuple(self.sequences))

    @property
    def inputs(self) -> int:
        """Number of channels."""
        return next(iter(self.sequences.values())).values.shape[2]


@dataclass(frozen=True)
class MethodOutcome:
    """One method, one share of the clients, one reservoir.

    Attributes:
        method: Name of the method.
        preset: As printed or as meant.
        percent: Share of the training clients.
        seed: Of the reservoir and of random choices.
        tau: The threshold, of methods that have one.
        confusions: Steps by label and answer, for `train` (if asked for), `validation` and `test`.
        units_percent: Units that a client told about, in percent of all, the mean over clients.
        bytes_up: From a client, the mean over clients.
        bytes_down: To a client.
        clients: Number of training clients.
    """

    method: str
    preset: str
    percent: int
    seed: int
    tau: float | None
    confusions: Mapping[str, Confusion]
    units_percent: float
    bytes_up: float
    bytes_down: int
    clients: int

    def accuracy(self, part: str) -> float:
        """Share of right answers."""
        confusion = np.array(self.confusions[part])
        return float(np.trace(confusion) / confusion.sum())


@dataclass(frozen=True)
class TableResult:
    """Everything behind a table.

    Attributes:
        config: What was run.
        outcomes: One for each method, share, threshold and reservoir.
        majority: Test accuracy of always answering the training clients' most frequent class, by share.
        classes: Number of classes; guessing is right in one of so many cases.
    """

    config: ClosedFormConfig
    outcomes: tuple[MethodOutcome, ...]
    majority: Mapping[int, float]
    classes: int

    def of(self, method: str, percent: int, tau: float | None = None) -> list[MethodOutcome]:
        """The repetitions of a cell of the table, or of a point of the figure."""
        own = [one for one in self.outcomes if (one.method, one.percent) == (method, percent)]
        return [one for one in own if tau is None or one.tau == tau]

    def best_tau(self, method: str, percent: int) -> float | None:
        """The threshold with the highest mean validation accuracy (pFedRR paper, section 3)."""
        candidates = sorted({one.tau for one in self.of(method, percent) if one.tau is not None})
        if not candidates:
            return None
        return max(
            candidates, key=lambda tau: np.mean([one.accuracy("validation") for one in self.of(method, percent, tau)])
        )

    def chosen(self, method: str, percent: int) -> list[MethodOutcome]:
        """The repetitions of a cell, at its best threshold."""
        return self.of(method, percent, self.best_tau(method, percent))


def load_clients(
    root: Path, config: ClosedFormConfig, cache: Cache, labels: Path | None = None, jobs: int | None = 1
) -> Clients:
    """Raw channels in chunks: HHAR's six activities, or WESAD's four affective states."""
    steps = config.channels.steps
    if is_hhar(root):
        preparation, task = prepare_hhar(root, config.hhar, cache), ACTIVITY
    else:
        preparation = prepare(open_study(root, labels), ChannelRecipe(config.channels), cache=cache, jobs=jobs)
        task = AFFECT
    subjects = named_split(config.split, preparation.subjects).subjects
    return Clients({name: chunks(preparation.load(name), task, steps) for name in subjects}, task, config.split)


def content_of(root: Path, config: ClosedFormConfig, cache: Cache, labels: Path | None = None) -> str:
    """A name for what `load_clients` reads, known before any of it is prepared."""
    if is_hhar(root):
        files = [root / sensor_file(config.hhar.kind, sensor) for sensor in SENSORS]
        return fingerprint([cache.content_digest(files), config.hhar])
    keys = subject_keys(open_study(root, labels), ChannelRecipe(config.channels), cache)
    return fingerprint(sorted(keys.items()))


@dataclass(frozen=True)
class Variant:
    """A method as printed or as meant."""

    preset: PresetName
    method: MethodConfig


@dataclass(frozen=True)
class TablePart:
    """Variants that share a reservoir, in one repetition."""

    reservoir: ReservoirConfig
    plasticity: PlasticityConfig | None
    variants: tuple[Variant, ...]
    seed: int


def parts_of(config: ClosedFormConfig, seeds: Sequence[int], presets: Sequence[PresetName]) -> list[TablePart]:
    """What of a table, under some presets, can be run apart from the rest."""
    return [
        TablePart(reservoir, plasticity, tuple(variants), seed)
        for seed in seeds
        for (reservoir, plasticity), variants in _groups(config.methods, presets)
    ]


def run_part(
    clients: Clients, config: ClosedFormConfig, part: TablePart, tell: Callable[[str], None] = lambda note: None
) -> list[MethodOutcome]:
    """Runs the variants of a part; `tell` hears of each share that is done."""
    return list(_Group(clients, config, part).outcomes(tell))


def run_table(clients: Clients, config: ClosedFormConfig, seed: int = 0) -> TableResult:
    """Runs every method of a table.

    Args:
        clients: The study.
        config: The table.
        seed: Of the first repetition; the others count on from it.
    """
    check_clients(clients, config)
    parts = parts_of(config, range(seed, seed + config.repetitions), [config.preset])
    steps = sum(len(config.percent) if part.plasticity else 1 for part in parts)
    with progress(config.title, steps) as bar:
        outcomes = [one for part in parts for one in run_part(clients, config, part, partial(bar.advance, 1))]
    return TableResult(config, tuple(outcomes), majorities(clients, config), len(clients.task.classes))


def check_clients(clients: Clients, config: ClosedFormConfig) -> None:
    """Refuses a table for which some part of the split has no sequence."""
    for percent in config.percent:
        empty = [part for part in ("train", "validation", "test") if not _sequences(clients, percent, part)]
        if empty:
            raise ConfigError(
                f"no sequence of {config.channels.steps} steps among the {empty[0]} clients; expected some"
            )


def majorities(clients: Clients, config: ClosedFormConfig) -> dict[int, float]:
    """By share, the test accuracy of always answering the training clients' most frequent class."""
    return {percent: _majority(clients, percent) for percent in config.percent}


@dataclass(frozen=True)
class _Cell:
    """A readout that waits to be scored."""

    variant: Variant
    percent: int
    tau: float | None
    solved: FederatedReadout


@dataclass(frozen=True)
class _Group:
    """A part with its clients."""

    clients: Clients
    config: ClosedFormConfig
    part: TablePart

    def outcomes(self, tell: Callable[[str], None]) -> Iterator[MethodOutcome]:
        """The reservoir as drawn serves all shares; adapted, each share has its own."""
        seed, plasticity, name = self.part.seed, self.part.plasticity, self.part.variants[0].method.name
        drawn = draw_weights(self.part.reservoir, self.clients.inputs, seed)
        if plasticity is None:
            yield from self._scored(AdaptedReservoir(drawn, {}, 0), self.config.percent)
            tell(f"{name}, repetition {seed}")
            return
        for percent in self.config.percent:
            train = self.clients.part(percent).train
            sequences = {name: self.clients.sequences[name].values for name in train}
            yield from self._scored(fedip(sequences, drawn, plasticity), (percent,))
            tell(f"{name}, {percent} %, repetition {seed}")

    def _scored(self, adapted: AdaptedReservoir, percents: Sequence[int]) -> Iterator[MethodOutcome]:
        everyone, weights = self.clients.part(max(percents)).train, adapted.weights
        dtype = np.float64 if self.config.precision == "float64" else np.float32
        sequences = (self.clients.sequences[name] for name in everyone)
        statistics = dict(zip(everyone, client_statistics(sequences, self.clients.task, weights, dtype=dtype)))
        cells = [
            _Cell(variant, percent, tau, self._solve(variant, tau, {name: statistics[name] for name in train}))
            for percent in percents
            for train in (self.clients.part(percent).train,)
            for variant in self.part.variants
            for tau in (variant.method.tau if variant.method.algorithm in THRESHOLDED else (None,))
        ]
        confusions = self._confusions(adapted, cells)
        for number, cell in enumerate(cells):
            yield self._outcome(cell, adapted, {part: own[number] for part, own in confusions[cell.percent].items()})

    def _solve(self, variant: Variant, tau: float | None, statistics: Statistics) -> FederatedReadout:
        wire, seed = np.float64 if self.config.wire == "float64" else np.float32, self.part.seed
        method, switches, name = variant.method, CLOSED_FORMS[variant.preset], variant.method.algorithm
        if name == "central":
            return FederatedReadout(central(statistics, method.ridge), {}, 0)
        if name == "averaging":
            return averaged_readouts(statistics, method.ridge, switches, wire)
        if name == "secure-incfed":
            return secure_incfed(statistics, method.ridge, switches)
        if name == "partial":
            return partial_incfed(statistics, method.ridge, method.alpha, seed, None, switches, wire)
        if name == "random":
            return random_incfed(statistics, method.ridge, seed, None, switches, wire)
        if tau is None:
            return incfed(statistics, method.ridge, switches, wire)
        if name == "low-rank":
            selected = pfedrr(statistics, method.ridge, tau, switches=switches, dtype=wire).units
            rank = rank_of_same_size(method.reservoir.units, int(np.mean(list(selected.values()))))
            return low_rank(statistics, method.ridge, rank, switches, wire)
        return pfedrr(statistics, method.ridge, tau, _POLICIES[name], seed, method.alpha, switches, wire)

    def _confusions(self, adapted: AdaptedReservoir, cells: Sequence[_Cell]) -> dict[int, dict[str, NDArray]]:
        """By share and part, the confusions of all cells: every subject runs through the reservoir once."""
        readouts = [cell.solved.readout for cell in cells]
        percents = sorted({cell.percent for cell in cells})
        parts = ("train", "validation", "test") if self.config.train_scores else ("validation", "test")
        wanted = {name for percent in percents for part in parts for name in getattr(self.clients.part(percent), part)}
        own = {
            name: ridge_confusions(self.clients.sequences[name], self.clients.task, adapted.weights, readouts)
            for name in sorted(wanted)
        }
        return {
            percent: {
                part: np.sum([own[name] for name in getattr(self.clients.part(percent), part)], axis=0)
                for part in parts
            }
            for percent in percents
        }

    def _outcome(self, cell: _Cell, adapted: AdaptedReservoir, confusions: Mapping[str, NDArray]) -> MethodOutcome:
        solved, train, all_units = cell.solved, self.clients.part(cell.percent).train, self.part.reservoir.units
        units = np.mean(list(solved.units.values())) if solved.units else all_units
        up = [solved.bytes_up.get(name, 0) + adapted.bytes_up.get(name, 0) for name in train]
        return MethodOutcome(
            cell.variant.method.name,
            cell.variant.preset,
            cell.percent,
            self.part.seed,
            cell.tau,
            {part: tuple(map(tuple, own.tolist())) for part, own in confusions.items()},
            float(100 * units / all_units),
            float(np.mean(up)),
            solved.bytes_down + adapted.bytes_down,
            len(train),
        )


_Shared = tuple[ReservoirConfig, Union[PlasticityConfig, None]]


def _groups(methods: Sequence[MethodConfig], presets: Sequence[PresetName]) -> list[tuple[_Shared, list[Variant]]]:
    def shared(variant: Variant) -> _Shared:
        return variant.method.reservoir, variant.method.plasticity

    names = [method.name for method in methods]
    if len(set(names)) < len(names):
        raise ConfigError(f"methods {', '.join(names)}; expected a name for each")
    variants = [Variant(preset, settled_method(method, preset)) for preset in presets for method in methods]
    return [(key, list(own)) for key, own in groupby(sorted(variants, key=lambda one: repr(shared(one))), key=shared)]


def _sequences(clients: Clients, percent: int, part: str) -> int:
    return sum(len(clients.sequences[name]) for name in getattr(clients.part(percent), part))


def _majority(clients: Clients, percent: int) -> float:
    split = clients.part(percent)
    labels = {
        part: np.concatenate([clients.task.labels(clients.sequences[name].codes) for name in getattr(split, part)])
        for part in ("train", "test")
    }
    return float((labels["test"] == np.bincount(labels["train"]).argmax()).mean())
