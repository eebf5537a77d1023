"""What all kinds of runs have in common, those of other packages too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tff_esn.errors import ConfigError
from tff_esn.features.study import DataSettings, Study
from tff_esn.metrics import METRICS
from tff_esn.metrics.accuracy import Accuracy
from tff_esn.parameters import merged
from tff_esn.runs.kind import KINDS, RunKind
from tff_esn.runs.named import AboutConfig, NamedRun, load_run
from tff_esn.runs.plan import execute, kind_of, plan_run
from tff_esn.runs.result import ResultFigure
from tff_esn.store.tasks import Arrays, Task
from tff_esn.tables import Column, Number, Row, Table

#: By kind: a run, changes of it that make other results, and changes that do not.
RUNS: dict[str, tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]] = {
    "federated": (
        {"settings": {"rounds": 2, "esn.units": 10}, "grid": {"algorithm": ["fedavg"]}},
        [
            # The same parameters by another name.
            {"grid": {"algorithm": ["fedavg-unweighted"]}},
            {"settings": {"rounds": 3}},
            {"settings": {"esn.units": 11}},
            {"settings": {"learning_rate": 0.2}},
            {"settings": {"evaluate_every": 2}},
            {"settings": {"noise.standard_deviation": 0.5}},
            {"settings": {"attack.name": "noise"}},
            {"settings": {"attack.name": "sign-flip"}},
            {"settings": {"defence.name": "median"}},
            {"settings": {"preset": "corrected"}},
            {"settings": {"data.features.name": "corrected"}},
            {"settings": {"data.features.columns": "HR"}},
            {"settings": {"data.split": "thesis-discriminative"}},
            {"presets": {"thesis": {"batch_size": 10}}},
        ],
        [
            {"tables": [{"name": "t", "title": "T", "rows": ["algorithm"]}]},
            # Nobody attacks.
            {"settings": {"attack.name": "noise", "attack.share": 0.0}},
            {"presets": {"corrected": {"batch_size": 10}}},
        ],
    ),
    "central": (
        {"settings": {"esn.units": 10}, "presets": {"thesis": {}}},
        [
            {"settings": {"esn.units": 11}},
            {"settings": {"learning_rate": 0.2}},
            {"settings": {"data.features.columns": "HR"}},
            {"settings": {"data.split": "thesis-discriminative"}},
            {"presets": {"thesis": {"epochs": 2}}},
            {"ridge": [1.0]},
            {"threshold": "validation"},
        ],
        [],
    ),
    "closed-form": (
        {
            "data": {"features": {"name": "channels", "device": "wrist", "steps": 40}, "split": "wesad-9-3-3"},
            "methods": [{"name": "A", "algorithm": "incfed"}],
            "presets": ["corrected"],
        },
        [
            {"methods": [{"name": "A", "algorithm": "central-ridge"}]},
            {"methods": [{"name": "A", "algorithm": "incfed", "ridge": 2.0}]},
            {"methods": [{"name": "A", "algorithm": "incfed", "esn": {"units": 11}}]},
            {"methods": [{"name": "B", "algorithm": "incfed"}]},
            {"data": {"features": {"steps": 50}}},
            {"data": {"features": {"rate": 8.0}}},
            {"data": {"task": "stress"}},
            {"data": {"split": "thesis"}},
            {"percent": [100]},
            {"train_scores": True},
            {"precision": "float64"},
            {"presets": ["thesis"]},
        ],
        [{"printed": "fedip.table_2"}, {"methods": [{"name": "A"}]}],
    ),
    "discriminator": (
        {"settings": {"data.split": "thesis-discriminative"}, "presets": ["thesis"], "trials": 2},
        [
            {"trials": 3},
            {"presets": ["corrected"]},
            {"settings": {"learning_rate": 0.2}},
            {"settings": {"defence.network.epochs": 2}},
            {"settings": {"data.features.columns": "HR"}},
        ],
        [],
    ),
    "selection": (
        {"spaces": {"ESN": "thesis-table-6-1"}, "trials": 2},
        [
            {"spaces": {"ESN": "incfed-table-2"}, "settings": {"data.features.device": "wrist"}},
            {"trials": 3},
            {"objective": "auroc"},
            {"shards": ["esn.units"]},
            {"presets": ["corrected"]},
            {"settings": {"epochs": 2}},
        ],
        [{"printed": {"ESN": "thesis.table_6_2"}}, {"names": {"esn.leaking_rate": "leaky"}}, {"score": "f1"}],
    ),
    "statistics": (
        {"presets": ["thesis"]},
        [{"presets": ["corrected"]}, {"split": "thesis-discriminative"}],
        [],
    ),
}
#: What stands beside the models; no setting of theirs changes it.
REFERENCES = ("majority class", "baselines")


def tasks(study: Study, kind: str, settings: Mapping[str, Any], first: int = 0, name: str = "run") -> list[Task]:
    run = NamedRun(name, AboutConfig(), {"kind": kind, "title": name, **settings})
    return kind_of(run, study, first, 1).tasks()


def keys(*arguments: Any, references: bool = False, **options: Any) -> set[str]:
    own = tasks(*arguments, **options)
    return {task.key for task in own if any(name in task.label for name in REFERENCES) == references}


def test_every_kind_is_among_those_tested() -> None:
    assert set(RUNS) == set(KINDS.names())


@pytest.mark.parametrize("kind", RUNS)
def test_parts_are_known_by_all_that_decides_on_their_results(study: Study, kind: str) -> None:
    run, other, same = RUNS[kind]
    found = keys(study, kind, run)
    assert found
    seen = set(found)
    for change in other:
        changed = keys(study, kind, merged(run, change))
        assert changed and not changed & seen, change
        seen |= changed
    for change in same:
        assert keys(study, kind, merged(run, change)) == found, change
    assert keys(study, kind, run, name="another") == found
    # Statistics have no seed.
    assert (keys(study, kind, run, first=1) == found) == (kind == "statistics")


@pytest.mark.parametrize("kind", ["federated", "central", "closed-form"])
def test_references_are_known_by_the_data_alone(study: Study, kind: str) -> None:
    run, other, _ = RUNS[kind]
    (found,) = keys(study, kind, run, references=True)
    assert keys(study, kind, run, first=1, references=True) == {found}
    changed = {str(change): keys(study, kind, merged(run, change), references=True) for change in other}
    kept = {change for change, own in changed.items() if own == {found}}
    assert kept == {change for change in changed if "data" not in change and "percent" not in change}


@pytest.mark.parametrize("kind", ["federated", "central"])
def test_scores_are_computed_anew_where_there_is_another_metric(
    study: Study, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Mine(Accuracy):
        name = "mine"

    before = {task.key for task in tasks(study, kind, RUNS[kind][0])}
    monkeypatch.setattr(METRICS, "_found", {**METRICS.items(), "mine": Mine()})
    assert not before & {task.key for task in tasks(study, kind, RUNS[kind][0])}


@dataclass(frozen=True)
class CountConfig:
    kind: str
    subjects: int = 2


class CountRun(RunKind):
    """A kind of run that another package has."""

    name = "count"
    settings = CountConfig

    @property
    def datasets(self) -> list[DataSettings]:
        return []

    @cached_property
    def parts(self) -> dict[str, Task]:
        chosen = self.study.subjects[: self.config.subjects]
        return {name: Task(name, "count", f"{name}-{self.seeds[0]}", partial(_count, self.study)) for name in chosen}

    def outcome(self, results: Mapping[str, Arrays]) -> tuple[list[Table], list[ResultFigure]]:
        rows = [Row(name, {"": [Number(float(results[task.key]["count"]), n=0)]}) for name, task in self.parts.items()]
        return [Table(self.run, "Counted", "subject", [Column("n", "n")], rows)], []


def _count(study: Study, scratch: Path) -> Arrays:
    return {"count": np.array(len(study.subjects))}


def test_a_kind_of_another_package_is_run_by_its_name(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KINDS, "_found", dict(KINDS.items()))
    KINDS.register(CountRun)
    file = tmp_path / "mine.toml"
    file.write_text('kind = "count"\nsubjects = 3\n[quick]\nsubjects = 1\n')
    plan = plan_run(load_run(str(file)), study)
    assert len(plan.missing) == 3
    (result,) = execute([plan], 1)
    (table,) = result.tables
    assert (result.name, result.title, [row.label for row in table.rows]) == ("mine", "mine", ["S2", "S3", "S4"])
    assert table.cell("S3", "", "n") == Number(15.0, n=0)
    assert not plan_run(load_run(str(file)), study).missing
    assert not plan_run(load_run(str(file), quick=True), study, quick=True).missing
    assert len(plan_run(load_run(str(file)), study, first=1).missing) == 3
    file.write_text('kind = "cuont"\n')
    with pytest.raises(ConfigError, match="no kind 'cuont'; did you mean 'count'"):
        plan_run(load_run(str(file)), study)
