"""Closed forms on a growing share of the training clients, over repetitions.

Methods that share a reservoir share its states: a client's statistics are computed once for all shares
and methods, and the subjects that are scored are run through the reservoir once for all readouts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import field
from functools import lru_cache
from itertools import groupby, product
from typing import Any, Callable, Literal, Optional

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from tff_esn.algorithm import ALGORITHMS
from tff_esn.closed_form.algorithm import AdaptedReservoir, ClosedForm
from tff_esn.closed_form.fedip import FedIP
from tff_esn.closed_form.server import FederatedReadout
from tff_esn.closed_form.statistics import confusions
from tff_esn.datasets.federated import FederatedDataset
from tff_esn.datasets.splits import ClientSplit, growing_split
from tff_esn.errors import ConfigError
from tff_esn.features.study import DataSettings, Study
from tff_esn.parameters import STRICT, PositiveInt, from_mapping, merged
from tff_esn.runs.presets import PresetName, algorithm_of

Confusion = tuple[tuple[int, ...], ...]
SCORED = ("validation", "test")


@dataclass(frozen=True, config=STRICT)
class ClosedFormConfig:
    """A table of closed forms over a growing share of training clients.

    Attributes:
        kind: Kind of run in `runs/*.toml`.
        title: Title of the table.
        methods: Its columns: each a table with its `name` (where the documents print a number under one, theirs),
            `algorithm`, the algorithm's parameters, and under `candidates` lists of values of which the best on the
            validation subjects is taken.
        data: Features, task and split; names as in `DataSettings`.
        printed: Where in `reported.json` the printed numbers are, such as `thesis.table_b_3`; None for nowhere.
        percent: Its rows: shares of the training clients.
        repetitions: Number of reservoirs, each with its own seed.
        scored: Whose accuracy the table shows; `train` for a split without test subjects.
        train_scores: Whether the training clients are scored too.
        precision: Of states and products of all methods; sums and solutions are in float64.
        presets: Those that are shown beside each other.
    """

    title: str
    methods: tuple[dict[str, Any], ...]
    kind: Literal["closed-form"] = "closed-form"
    data: dict[str, Any] = field(default_factory=dict)
    printed: Optional[str] = None
    percent: tuple[Literal[25, 50, 75, 100], ...] = (25, 50, 75, 100)
    repetitions: PositiveInt = 3
    scored: Literal["train", "validation", "test"] = "test"
    train_scores: bool = False
    precision: Literal["float32", "float64"] = "float32"
    presets: tuple[PresetName, ...] = ("thesis", "corrected")

    @property
    def settings(self) -> DataSettings:
        """Features, task and split."""
        return from_mapping(DataSettings, self.data, self.title)


@plain_dataclass(frozen=True)
class Variant:
    """A method under a preset, with one choice of its candidates.

    Attributes:
        method: Name of the column.
        preset: As published, or with errors fixed.
        algorithm: The algorithm, with its seed.
    """

    method: str
    preset: str
    algorithm: ClosedForm


@plain_dataclass(frozen=True)
class Outcome:
    """One variant on one share of the clients.

    Attributes:
        method: Name of the method.
        preset: As published, or with errors fixed.
        percent: Share of the training clients.
        seed: Of the reservoir and of random choices.
        tau: The threshold, of algorithms that have one.
        confusions: Samples by label and prediction, for `train` (if asked for), `validation` and `test`.
        units_percent: Units that a client sent, in percent of all, the mean over clients.
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
        """Share of right predictions."""
        confusion = np.array(self.confusions[part])
        return float(np.trace(confusion) / confusion.sum())


@plain_dataclass(frozen=True)
class ClosedFormResults:
    """Everything behind a table, under one preset.

    Attributes:
        config: The settings.
        outcomes: One for each method, share, candidate and reservoir.
        majority: Test accuracy of always predicting the training clients' most frequent class, by share.
        classes: Number of classes.
    """

    config: ClosedFormConfig
    outcomes: tuple[Outcome, ...]
    majority: Mapping[int, float]
    classes: int

    def of(self, method: str, percent: int, tau: float | None = None) -> list[Outcome]:
        """The repetitions of a cell of the table, or of a point of the figure."""
        own = [one for one in self.outcomes if (one.method, one.percent) == (method, percent)]
        return [one for one in own if tau is None or one.tau == tau]

    def best_tau(self, method: str, percent: int) -> float | None:
        """The candidate with the highest mean validation accuracy (pFedRR paper, section 3)."""
        candidates = sorted({one.tau for one in self.of(method, percent) if one.tau is not None})
        if len(candidates) < 2:
            return candidates[0] if candidates else None
        return max(
            candidates, key=lambda tau: np.mean([one.accuracy("validation") for one in self.of(method, percent, tau)])
        )

    def chosen(self, method: str, percent: int) -> list[Outcome]:
        """The repetitions of a cell, at its best candidate."""
        return self.of(method, percent, self.best_tau(method, percent))


@plain_dataclass(frozen=True)
class TablePart:
    """Variants that share a reservoir, in one repetition."""

    variants: tuple[Variant, ...]

    @property
    def seed(self) -> int:
        """Of the reservoir and of random choices."""
        return self.variants[0].algorithm.esn.seed

    @property
    def adapts(self) -> bool:
        """Whether the reservoir is adapted to the clients of each share."""
        return type(self.variants[0].algorithm).adapted is not ClosedForm.adapted


def variants_of(config: ClosedFormConfig, preset: str, seed: int) -> list[Variant]:
    """Every method of a table under a preset, with every choice of its candidates."""
    names = [method.get("name") for method in config.methods]
    if None in names or len(set(names)) < len(names):
        raise ConfigError(f"{config.title}: methods named {', '.join(map(str, names))}; expected a name for each")
    found = []
    for method in config.methods:
        given = merged({"precision": config.precision}, method)
        name, algorithm = str(given.pop("name")), given.pop("algorithm", "incfed")
        candidates, source = given.pop("candidates", {}), f"{config.title}, {name}"
        if not issubclass(ALGORITHMS[algorithm], ClosedForm):
            raise ConfigError(f"{source}: algorithm = {algorithm!r}; expected one in closed form")
        for values in product(*candidates.values()):
            made: Any = algorithm_of(algorithm, preset, {**given, **dict(zip(candidates, values))}, source)
            found.append(Variant(name, preset, made.with_seed(seed)))
    return found


def parts_of(config: ClosedFormConfig, seeds: Sequence[int]) -> list[TablePart]:
    """The parts of a table that run independently: variants that share a reservoir."""
    parts = []
    for seed in seeds:
        variants = [variant for preset in config.presets for variant in variants_of(config, preset, seed)]
        ordered = sorted(variants, key=lambda variant: repr(_sharing(variant)))
        parts += [TablePart(tuple(own)) for _, own in groupby(ordered, key=_sharing)]
    return parts


def _sharing(variant: Variant) -> tuple[Any, ...]:
    """The parameters that a reservoir and its statistics depend on; all of them for an algorithm that adapts it."""
    algorithm = variant.algorithm
    makers = ("drawn", "adapted", "statistics")
    usual = all(getattr(type(algorithm), name) is getattr(ClosedForm, name) for name in makers)
    own = algorithm.plasticity if type(algorithm) is FedIP else None if usual else algorithm
    return algorithm.esn, algorithm.bias, algorithm.class_weight, algorithm.precision, own


@lru_cache(maxsize=1)
def table_dataset(study: Study, settings: DataSettings) -> FederatedDataset:
    """The data set of a table, kept for the parts that follow."""
    return study.dataset(settings)


def share_of(data: FederatedDataset, settings: DataSettings, percent: int) -> ClientSplit:
    """Train, validation and test clients with a share of the training clients."""
    return growing_split(settings.split or data.partition, data.clients, percent)


def check_dataset(data: FederatedDataset, config: ClosedFormConfig) -> None:
    """Refuses a table for which a part of the split that it needs has no sequence."""
    chosen = any(len(values) > 1 for method in config.methods for values in method.get("candidates", {}).values())
    needed = {"train", config.scored, *(["validation"] if chosen else [])}
    for percent in config.percent:
        split = share_of(data, config.settings, percent)
        for part in ("train", *SCORED):
            names = getattr(split, part)
            if (names or part in needed) and not sum(len(data.sequences[name]) for name in names):
                raise ConfigError(f"no sequence among the {part} clients at {percent} %; expected some")


def majorities(data: FederatedDataset, config: ClosedFormConfig) -> dict[int, float]:
    """By share, the accuracy of always predicting the training clients' most frequent class, on the test clients."""
    found: dict[int, float] = {}
    for percent in config.percent:
        split = share_of(data, config.settings, percent)
        # Of sequences, not of steps: they are equally long.
        train, scored = (
            np.concatenate([_sequence_labels(data, name) for name in names])
            for names in (split.train, split.test or split.train)
        )
        found[percent] = float((scored == np.bincount(train).argmax()).mean())
    return found


def _sequence_labels(data: FederatedDataset, client: str) -> NDArray[np.int64]:
    own = data.sequences[client]
    labels = own.labels if isinstance(own.labels, np.ndarray) else own.sample_labels
    labels = labels[:, 0] if labels.ndim == 2 and own.steps is not None else labels
    return labels[labels >= 0]


@plain_dataclass(frozen=True)
class _Cell:
    """A readout that is not scored yet."""

    variant: Variant
    percent: int
    solved: FederatedReadout


def run_part(
    data: FederatedDataset,
    config: ClosedFormConfig,
    part: TablePart,
    report: Callable[[str], None] = lambda note: None,
) -> list[Outcome]:
    """Runs the variants of a part; `report` is called after each share that is done."""
    return list(_Part(data, config, part).outcomes(report))


@plain_dataclass(frozen=True)
class _Part:
    """A part with its clients."""

    data: FederatedDataset
    config: ClosedFormConfig
    part: TablePart

    def outcomes(self, report: Callable[[str], None]) -> Iterator[Outcome]:
        """The reservoir as drawn serves all shares; adapted, each share has its own."""
        first, name = self.part.variants[0].algorithm, self.part.variants[0].method
        drawn = first.drawn(self.data)
        if not self.part.adapts:
            yield from self._scored(AdaptedReservoir(drawn), self.config.percent)
            report(f"{name}, repetition {self.part.seed}")
            return
        for percent in self.config.percent:
            train = self.data.of(self._split(percent).train)
            yield from self._scored(first.adapted(train, drawn), (percent,))
            report(f"{name}, {percent} %, repetition {self.part.seed}")

    def _split(self, percent: int) -> ClientSplit:
        return share_of(self.data, self.config.settings, percent)

    def _scored(self, adapted: AdaptedReservoir, percents: Sequence[int]) -> Iterator[Outcome]:
        everyone = self.data.of(self._split(max(percents)).train)
        statistics = self.part.variants[0].algorithm.statistics(everyone, adapted.weights)
        cells = [
            _Cell(variant, percent, variant.algorithm.solve({name: statistics[name] for name in train}))
            for percent in percents
            for train in (self._split(percent).train,)
            for variant in self.part.variants
        ]
        found = self._confusions(adapted, cells)
        for number, cell in enumerate(cells):
            yield self._outcome(cell, adapted, {part: own[number] for part, own in found[cell.percent].items()})

    def _confusions(self, adapted: AdaptedReservoir, cells: Sequence[_Cell]) -> dict[int, dict[str, NDArray]]:
        """By share and part, the confusions of all cells: every subject runs through the reservoir once."""
        readouts = [cell.solved.readout for cell in cells]
        splits = {percent: self._split(percent) for percent in sorted({cell.percent for cell in cells})}
        parts = ("train", *SCORED) if self.config.train_scores or self.config.scored == "train" else SCORED
        wanted = {name for split in splits.values() for part in parts for name in getattr(split, part)}
        classes = len(self.data.classes)
        own = {
            name: confusions(self.data.sequences[name], classes, adapted.weights, readouts) for name in sorted(wanted)
        }
        return {
            percent: {
                part: np.sum([own[name] for name in names], axis=0) for part in parts if (names := getattr(split, part))
            }
            for percent, split in splits.items()
        }

    def _outcome(self, cell: _Cell, adapted: AdaptedReservoir, found: Mapping[str, NDArray]) -> Outcome:
        solved, train = cell.solved, self._split(cell.percent).train
        all_units = cell.variant.algorithm.esn.units
        units = np.mean(list(solved.units.values())) if solved.units else all_units
        up = [solved.bytes_up.get(name, 0) + adapted.bytes_up.get(name, 0) for name in train]
        return Outcome(
            cell.variant.method,
            cell.variant.preset,
            cell.percent,
            self.part.seed,
            getattr(cell.variant.algorithm, "tau", None),
            {part: tuple(map(tuple, own.tolist())) for part, own in found.items()},
            float(100 * units / all_units),
            float(np.mean(up)),
            solved.bytes_down + adapted.bytes_down,
            len(train),
        )
