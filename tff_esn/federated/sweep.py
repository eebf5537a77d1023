"""Federated runs over a grid of settings and over seeds, each kept as soon as it is done."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tff_esn.config import FederatedConfig, InputConfig, SweepConfig, from_mapping, merged, nested
from tff_esn.errors import ConfigError
from tff_esn.features.source import Source
from tff_esn.federated.clients import check_clients
from tff_esn.federated.federation import RoundReport, engine_of
from tff_esn.federated.rounds import PARTS
from tff_esn.federated.study import FederatedStudy
from tff_esn.metrics import METRICS, Scores, scores_from
from tff_esn.presets import settled
from tff_esn.store.json_values import fingerprint
from tff_esn.store.tasks import Arrays, Task
from tff_esn.versions import version_of

#: Part of every key: raise it when a result changes.
VERSION = 4


@dataclass(frozen=True)
class Cell:
    """One run of a sweep.

    Attributes:
        config: Its settings, with all that presets decide.
        seed: Of every random choice.
    """

    config: FederatedConfig
    seed: int

    def __str__(self) -> str:
        config = self.config
        return f"{config.algorithm}-{config.server_learning_rate} {config.preset}, seed {self.seed}"


@dataclass(frozen=True)
class CellResult:
    """What came out of a run.

    Attributes:
        rounds: The rounds that were evaluated; 0 is before the first.
        curves: `(rounds, parts, metrics)`, parts and metrics in the order of `PARTS` and `METRICS`.
        scores: Of the last round, by part.
        single_class: `(rounds, parts)`: whether every answer was the same.
        judged: `(all rounds, 4)`: clients drawn, fakes among them, clients rejected, fakes among these.
        seconds: A round took, the median of them.
    """

    rounds: NDArray[np.int64]
    curves: NDArray[np.float64]
    scores: Mapping[str, Scores]
    single_class: NDArray[np.bool_]
    judged: NDArray[np.int64]
    seconds: float

    def curve(self, part: str, metric: str) -> NDArray[np.float64]:
        """A metric on a part, round by round."""
        return self.curves[:, PARTS.index(part), METRICS.index(metric)]


def detection(results: Sequence[CellResult]) -> dict[str, float]:
    """How well fakes were told from others, over all rounds of some runs.

    `precision` and `recall` of rejecting fakes, and the mean absolute `error` of the number of clients accepted
    against those that are no fakes (thesis Figure 6.13).
    """
    _, fake, rejected, right = np.concatenate([result.judged for result in results]).T
    with np.errstate(invalid="ignore", divide="ignore"):
        precision, recall = right.sum() / rejected.sum(), right.sum() / fake.sum()
    return {"precision": float(precision), "recall": float(recall), "error": float(np.abs(fake - rejected).mean())}


def cells_of(sweep: SweepConfig, seeds: Sequence[int], source: str) -> list[Cell]:
    """Every run of a sweep, so ordered that neighbours share reservoirs and states."""
    configs = []
    for values in product(*sweep.grid.values()):
        chosen = nested({**sweep.settings, **dict(zip(sweep.grid, values))})
        overridden = merged(chosen, nested(sweep.presets.get(chosen.get("preset", FederatedConfig.preset), {})))
        config = settled(from_mapping(FederatedConfig, overridden, source))
        engine_of(config)
        configs.append(config)
    cells = [Cell(config, seed) for seed in seeds for config in configs]
    return sorted(cells, key=_sharing)


def _sharing(cell: Cell) -> tuple[Any, ...]:
    config = cell.config
    return str(config.inputs), str(config.reservoir), cell.seed, str(config.noise), config.reservoirs


def tasks_of(cells: Sequence[Cell], source: Source) -> list[Task]:
    """A part of the work for each cell; cells that come to the same, such as attacks of nobody, have the same key."""
    contents = {}
    for config in {cell.config.inputs: cell.config for cell in cells}.values():
        contents[config.inputs] = source.content(config.inputs)
        check_clients(config, source.split(config.inputs).train)
    return [
        Task(str(cell), "federated", _key(cell, contents[cell.config.inputs]), partial(_run, source, cell))
        for cell in cells
    ]


def _key(cell: Cell, content: str) -> str:
    versions = [version_of(name) for name in ("tensorflow", "tensorflow-federated", "numpy")]
    config, attack = cell.config, cell.config.attack
    if attack is not None and attack.clients is None and not attack.share:
        config = replace(config, attack=None)
    return fingerprint([VERSION, asdict(config), cell.seed, content, versions])


def restored(arrays: Arrays) -> CellResult:
    """A result from what is kept of it."""
    scores = {part: scores_from(values) for part, values in json.loads(str(arrays["scores"])).items()}
    own = (arrays["single_class"], arrays["judged"], float(arrays["seconds"]))
    return CellResult(arrays["rounds"], arrays["curves"], scores, *own)


def _run(source: Source, cell: Cell, scratch: Path) -> Arrays:
    result = run_cell(_study(source, scratch, cell.config.inputs), cell)
    scores = json.dumps({part: asdict(values) for part, values in result.scores.items()})
    return {
        "rounds": result.rounds,
        "curves": result.curves,
        "single_class": result.single_class,
        "judged": result.judged,
        "seconds": np.array(result.seconds),
        "scores": np.array(scores),
    }


@lru_cache(maxsize=2)
def _study(source: Source, scratch: Path, config: InputConfig) -> FederatedStudy:
    """A study of this process, whose clients' files nobody else writes."""
    import os

    return FederatedStudy(source.inputs(config), scratch / str(os.getpid()))


def run_cell(study: FederatedStudy, cell: Cell) -> CellResult:
    """One run, all its rounds in memory."""
    _, records = study.program(cell.config, cell.seed).run(description="")
    evaluated = [record for record in records if record.scores is not None]
    parts = [part for part in PARTS if part in (evaluated[0].scores or {})]
    if parts != list(PARTS):
        raise ConfigError(f"a split with {', '.join(parts)} alone; a sweep expected {', '.join(PARTS)}")
    table: list[list[Any]] = [[(record.scores or {})[part] for part in PARTS] for record in evaluated]
    return CellResult(
        np.array([record.number for record in evaluated]),
        np.array([[[getattr(one, metric) for metric in METRICS] for one in row] for row in table]),
        dict(zip(PARTS, table[-1])),
        np.array([[one.single_class is not None for one in row] for row in table]),
        np.array([_judged(record.report) for record in records if record.report is not None]).reshape(-1, 4),
        median([record.seconds for record in records[1:]]),
    )


def _judged(report: RoundReport) -> tuple[int, int, int, int]:
    rejected = [client for client, accepted in report.accepted.items() if not accepted]
    return len(report.clients), len(report.fake), len(rejected), sum(client in report.fake for client in rejected)
