"""Federated runs over a grid of settings and over seeds: Tables 6.4 and 6.5, appendix A, and the defences."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, replace
from dataclasses import dataclass as plain_dataclass
from functools import cached_property, lru_cache, partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from tff_esn.algorithm import ALGORITHMS
from tff_esn.datasets.federated import FederatedDataset
from tff_esn.errors import ConfigError
from tff_esn.features.study import DataSettings, Study
from tff_esn.federated.algorithm import GradientAlgorithm
from tff_esn.metrics import Scores, majority, metric_names, scores_from
from tff_esn.parameters import STRICT, PositiveInt, from_mapping, merged, nested
from tff_esn.registry import expected
from tff_esn.runs.kind import KINDS, RunKind
from tff_esn.runs.presets import algorithm_of
from tff_esn.runs.result import ResultFigure
from tff_esn.store.json_values import fingerprint
from tff_esn.store.tasks import Arrays, Task, packed, unpacked
from tff_esn.tables import Table
from tff_esn.versions import version_of

if TYPE_CHECKING:
    from tff_esn.federated.training.experiment import FederatedExperiment
    from tff_esn.federated.training.federation import RoundReport

PARTS = ("train", "validation", "test")
#: Part of every key: raise it when a result changes.
VERSION = 5
#: Default settings of the data in the documents' runs.
DATA = {"data": {"features": {"name": "thesis"}, "split": "thesis"}}


@dataclass(frozen=True, config=STRICT)
class SweepTable:
    """A table of a sweep, one for each preset: the scores of the last round.

    Attributes:
        name: Name of its files.
        title: Its name in the documents.
        rows: Settings that distinguish its rows.
        where: Values of the other settings.
    """

    name: str
    title: str
    rows: list[str]
    where: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, config=STRICT)
class SweepFigure:
    """A figure of a sweep, one for each preset: accuracy over rounds, validation above test.

    Attributes:
        kind: `curves`; or `rejections`: accuracy on the test subjects, and below it the numbers of accepted and of
            honest clients of each round, of the first seed.
        name: Name of its files.
        title: Its name in the documents.
        columns: The setting that distinguishes its columns.
        lines: Settings that distinguish its lines.
        where: Values of the other settings.
        each: Settings with one figure per value.
    """

    name: str
    title: str
    columns: str
    lines: list[str]
    kind: Literal["curves", "rejections"] = "curves"
    where: dict[str, Any] = field(default_factory=dict)
    each: list[str] = field(default_factory=list)


@dataclass(frozen=True, config=STRICT)
class SweepPivot:
    """A metric of the last round on the test subjects, by one setting down and others across; one for each preset.

    Attributes:
        name: Name of its files.
        title: Its title.
        rows: The setting that distinguishes its rows.
        columns: Settings that distinguish its columns.
        metrics: Metrics, with one table each.
        where: Values of the other settings.
    """

    name: str
    title: str
    rows: str
    columns: list[str]
    metrics: list[str]
    where: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, config=STRICT)
class SweepConfig:
    """Federated runs over a grid of settings and over seeds.

    Attributes:
        kind: Kind of run.
        title: Its name in the documents.
        settings: Of every run: `algorithm` and its parameters, `preset`, and under `data` those of `DataSettings`, with
            dots between the levels.
        grid: The values of each setting that varies, in the order that tables show them.
        presets: Settings of each preset.
        seeds: Number of seeds.
        tables: Its tables.
        pivots: Its tables by two settings.
        figures: Its figures.
    """

    kind: Literal["federated"]
    title: str
    settings: dict[str, Any]
    grid: dict[str, list[Any]]
    presets: dict[str, dict[str, Any]] = field(default_factory=dict)
    seeds: PositiveInt = 3
    tables: list[SweepTable] = field(default_factory=list)
    pivots: list[SweepPivot] = field(default_factory=list)
    figures: list[SweepFigure] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Checks, before hours of work, that tables and figures use settings of the grid."""
        everything: list[Any] = [*self.tables, *self.pivots, *self.figures]
        for shown in everything:
            for part in ("rows", "columns", "lines", "each"):
                given = getattr(shown, part, [])
                for name in [given] if isinstance(given, str) else given:
                    if name not in self.grid:
                        raise ConfigError(f"{shown.name}: {part} {name!r} not in the grid; {expected(name, self.grid)}")


@plain_dataclass(frozen=True)
class Cell:
    """One training of a sweep.

    Attributes:
        data: Features, task and split.
        algorithm: The algorithm, with its seed.
        preset: Preset of the values that are not given.
    """

    data: DataSettings
    algorithm: GradientAlgorithm
    preset: str

    @property
    def seed(self) -> int:
        """Seed of every random choice."""
        return self.algorithm.esn.seed

    def setting(self, name: str) -> Any:
        """A setting by its dotted name; None if its parent is None."""
        if name == "preset":
            return self.preset
        if name == "algorithm":
            return self.algorithm.name
        value: Any = self if name.startswith("data.") else self.algorithm
        for key in name.split("."):
            value = getattr(value, key, None)
        # Of an attack or a defence that there is not.
        return "none" if value is None and name.endswith(".name") else value

    def __str__(self) -> str:
        return f"{self.algorithm.label}-{self.algorithm.server_learning_rate} {self.preset}, seed {self.seed}"


@plain_dataclass(frozen=True)
class CellResult:
    """The result of a cell.

    Attributes:
        rounds: The rounds that were evaluated; 0 is before the first.
        curves: `(rounds, parts, metrics)`, parts and metrics in the order of `PARTS` and `metric_names()`.
        scores: Of the last round, by part.
        single_class: `(rounds, parts)`: whether every prediction was the same.
        rejections: `(all rounds, 4)`: clients drawn, fakes among them, clients rejected, fakes among these.
        seconds: Median duration of a round.
    """

    rounds: NDArray[np.int64]
    curves: NDArray[np.float64]
    scores: Mapping[str, Scores]
    single_class: NDArray[np.bool_]
    rejections: NDArray[np.int64]
    seconds: float

    def curve(self, part: str, metric: str) -> NDArray[np.float64]:
        """A metric on a part, round by round."""
        return self.curves[:, PARTS.index(part), metric_names().index(metric)]


def detection(results: Sequence[CellResult]) -> dict[str, float]:
    """How well fakes were detected, over all rounds of some runs.

    `precision` and `recall` of rejecting fakes, and the mean absolute `error` of the number of accepted clients
    as an estimate of the number of honest ones (thesis Figure 6.13).
    """
    _, fake, rejected, right = np.concatenate([result.rejections for result in results]).T
    with np.errstate(invalid="ignore", divide="ignore"):
        precision, recall = right.sum() / rejected.sum(), right.sum() / fake.sum()
    return {"precision": float(precision), "recall": float(recall), "error": float(np.abs(fake - rejected).mean())}


def cell_of(settings: Mapping[str, Any], source: str, seed: int = 0) -> Cell:
    """A cell of nested settings: `algorithm`, `preset`, `data`, and the algorithm's parameters."""
    given = merged(DATA, settings)
    preset, name, data = given.pop("preset", "thesis"), given.pop("algorithm", "fedavg"), given.pop("data")
    if not issubclass(ALGORITHMS[name], GradientAlgorithm):
        known = [name for name, kind in ALGORITHMS.items().items() if issubclass(kind, GradientAlgorithm)]
        raise ConfigError(f"{source}: algorithm = {name!r}; expected one of {', '.join(known)}")
    algorithm: Any = algorithm_of(name, preset, given, source)
    algorithm.chosen_engine  # noqa: B018 - an engine that the algorithm does not have is refused here.
    return Cell(from_mapping(DataSettings, data, source), algorithm.with_seed(seed), preset)


def cells_of(sweep: SweepConfig, seeds: Sequence[int], source: str) -> list[Cell]:
    """Every training of a sweep, so ordered that neighbours share reservoirs and states."""
    settings = []
    for values in product(*sweep.grid.values()):
        chosen = nested({**sweep.settings, **dict(zip(sweep.grid, values))})
        settings.append(merged(chosen, nested(sweep.presets.get(chosen.get("preset", "thesis"), {}))))
    cells = [cell_of(chosen, source, seed) for seed in seeds for chosen in settings]
    return sorted(cells, key=_sharing)


def _sharing(cell: Cell) -> tuple[Any, ...]:
    algorithm = cell.algorithm
    return str(cell.data), str(algorithm.esn), cell.seed, str(algorithm.noise), algorithm.reservoirs


def tasks_of(cells: Sequence[Cell], study: Study) -> list[Task]:
    """A task per cell; equivalent cells, such as those of an attack without attackers, have the same key."""
    from tff_esn.federated.training.client_states import clients_per_round

    contents = {data: study.key(data) for data in {cell.data for cell in cells}}
    for cell in cells:
        clients_per_round(cell.algorithm, study.partition(cell.data).train)
    return [Task(str(cell), "federated", _key(cell, contents[cell.data]), partial(_run, study, cell)) for cell in cells]


def _key(cell: Cell, content: str) -> str:
    versions = [version_of(name) for name in ("tensorflow", "tensorflow-federated", "numpy")]
    algorithm, attack = cell.algorithm, cell.algorithm.attack
    if attack is not None and attack.share == 0 and not attack.clients:
        algorithm = replace(algorithm, attack=None)
    return fingerprint([VERSION, cell.data, algorithm, content, metric_names(), versions])


def restored(arrays: Arrays) -> CellResult:
    """A result from what is kept of it."""
    scores = {part: scores_from(values) for part, values in json.loads(str(arrays["scores"])).items()}
    own = (arrays["single_class"], arrays["judged"], float(arrays["seconds"]))
    return CellResult(arrays["rounds"], arrays["curves"], scores, *own)


def _run(study: Study, cell: Cell, scratch: Path) -> Arrays:
    result = run_cell(_experiment(study, scratch, cell.data), cell)
    scores = json.dumps({part: asdict(values) for part, values in result.scores.items()})
    return {
        "rounds": result.rounds,
        "curves": result.curves,
        "single_class": result.single_class,
        "judged": result.rejections,
        "seconds": np.array(result.seconds),
        "scores": np.array(scores),
    }


@lru_cache(maxsize=2)
def _experiment(study: Study, scratch: Path, data: DataSettings) -> FederatedExperiment:
    """An experiment of this process, with its own files of the clients."""
    from tff_esn.federated.training.experiment import FederatedExperiment

    return FederatedExperiment(study.dataset(data), scratch / str(os.getpid()))


def run_cell(experiment: FederatedExperiment, cell: Cell) -> CellResult:
    """One training, all its rounds in memory."""
    _, records = experiment.program(cell.algorithm).run(description="")
    evaluated = [record for record in records if record.scores is not None]
    parts = [part for part in PARTS if part in (evaluated[0].scores or {})]
    if parts != list(PARTS):
        raise ConfigError(f"a split with {', '.join(parts)} alone; a sweep expected {', '.join(PARTS)}")
    table: list[list[Any]] = [[(record.scores or {})[part] for part in PARTS] for record in evaluated]
    return CellResult(
        np.array([record.number for record in evaluated]),
        np.array([[[one.values[metric] for metric in metric_names()] for one in row] for row in table]),
        dict(zip(PARTS, table[-1])),
        np.array([[one.single_class is not None for one in row] for row in table]),
        np.array([_rejections(record.report) for record in records if record.report is not None]).reshape(-1, 4),
        median([record.seconds for record in records[1:]]),
    )


def _rejections(report: RoundReport) -> tuple[int, int, int, int]:
    rejected = [client for client, accepted in report.accepted.items() if not accepted]
    return len(report.clients), len(report.fake), len(rejected), sum(client in report.fake for client in rejected)


@KINDS.register
class SweepRun(RunKind):
    """Federated trainings over a grid."""

    name = "federated"
    settings = SweepConfig

    @cached_property
    def cells(self) -> list[Cell]:
        """Every training."""
        return cells_of(self.config, self.seeds, self.run)

    @property
    def datasets(self) -> list[DataSettings]:
        """Features, task and split of the cells."""
        return [cell.data for cell in self.cells]

    @cached_property
    def parts(self) -> dict[Any, Task]:
        """The cells, and the majority class of each preset's data."""
        return {**dict(zip(self.cells, tasks_of(self.cells, self.study))), **self._majority_tasks}

    def outcome(self, results: Mapping[str, Arrays]) -> tuple[list[Table], list[ResultFigure]]:
        """Tables and figures of the finished cells."""
        from tff_esn.runs.sweep_results import SweepResults

        finished = {cell: restored(results[self.parts[cell].key]) for cell in self.cells}
        most_frequent = {
            preset: {part: scores_from(own) for part, own in unpacked(results[task.key]).items()}
            for preset, task in self._majority_tasks.items()
        }
        return SweepResults(self.config, finished, most_frequent, self.quick).shown()

    @cached_property
    def _majority_tasks(self) -> dict[str, Task]:
        tasks: dict[str, Task] = {}
        for preset, data in {cell.preset: cell.data for cell in self.cells}.items():
            key = fingerprint([VERSION, "majority", data, self.study.key(data), metric_names()])
            work = partial(_majority, self.study, data)
            tasks[preset] = Task(f"majority class, {preset}", "majority", key, work)
        return tasks


def _majority(study: Study, data: DataSettings, scratch: Path) -> Arrays:
    return packed(majority_scores(study.dataset(data)))


def majority_scores(data: FederatedDataset) -> dict[str, Scores]:
    """Scores of the model that always predicts the most frequent class of the training clients, by part."""
    labels = {part: data.part(part).labels() for part in PARTS if getattr(data.partition, part)}
    return {part: majority(own, labels["train"], len(data.classes)) for part, own in labels.items()}
