"""Tables 6.1, 6.2, B.1 and B.2: searches of KerasTuner over the documents' spaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from itertools import product
from pathlib import Path
from typing import Any

from tff_esn.config import ClosedFormConfig, InputConfig, SelectionConfig, from_mapping
from tff_esn.datasets.study import open_study
from tff_esn.datasets.tables import AFFECT
from tff_esn.features.preparation import ChannelRecipe, prepare, subject_keys
from tff_esn.features.source import Source
from tff_esn.runs.reported import reported
from tff_esn.runs.result import ResultFigure
from tff_esn.store.cache import Cache
from tff_esn.store.json_values import fingerprint
from tff_esn.store.tasks import Arrays, Task, packed, unpacked
from tff_esn.tables import PRINTED, Column, Number, Row, Table
from tff_esn.tuning.space import SearchSpace, as_text, load_space
from tff_esn.versions import version_of

#: Part of every key: raise it when a result changes.
_VERSION = 1
#: Searches by ridge regression solve as meant.
_RIDGE_PRESET = ClosedFormConfig.preset
_SCORE = "validation score"


@dataclass(frozen=True)
class _Search:
    """A part of a search: one of a table's columns, one preset, one of the space's shards."""

    column: str
    preset: str
    space: SearchSpace
    trials: int | None
    objective: str
    base: dict[str, Any]
    seed: int


@dataclass(frozen=True)
class SelectionRun:
    """The searches of a table; the first seed is theirs."""

    name: str
    config: SelectionConfig
    source: Source
    seeds: Sequence[int]

    def prepare(self, jobs: int | None) -> None:
        """Makes what the trials see."""
        for search in self._searches:
            if search.space.solver == "gradients":
                self.source.prepare(self._inputs(search), jobs)
            else:
                study = open_study(self.source.study, self.source.labels)
                prepare(study, ChannelRecipe(self.config.channels), cache=Cache(self.source.cache), jobs=jobs)

    def tasks(self) -> list[Task]:
        """One for each part of a search."""
        return list(self._tasks.values())

    def outcome(self, results: Mapping[str, Arrays]) -> tuple[list[Table], list[ResultFigure]]:
        """What was selected: a row a setting, a column a search."""
        trials: dict[tuple[str, str], list[Any]] = {}
        for position, task in self._tasks.items():
            search = self._searches[position]
            trials.setdefault((search.column, search.preset), []).extend(unpacked(results[task.key]))
        ranked = {
            key: sorted(own, key=lambda one: (-one["score"], str(one["settings"]))) for key, own in trials.items()
        }
        columns = [Column(name, name) for name in self.config.spaces]
        presets = list(dict.fromkeys(preset for _, preset in ranked))
        settings = list(dict.fromkeys(name for own in ranked.values() for name in own[0]["settings"]))
        rows = []
        for setting in (*settings, _SCORE):
            lines = {}
            printed = [self._printed(column.name, setting) for column in columns]
            if any(printed):
                lines[PRINTED] = printed
            for preset in presets:
                own = [ranked.get((column.name, preset)) for column in columns]
                lines[preset] = [_cell(found[0], setting) if found else None for found in own]
            rows.append(Row(setting.split(".")[-1].replace("_", " "), lines))
        notes = [self._note(column, preset, own) for (column, preset), own in ranked.items()]
        return [Table(self.name, self.config.title, "setting", columns, rows, notes)], []

    def _note(self, column: str, preset: str, ranked: Sequence[Any]) -> str:
        told = f"{column}, {preset}: {len(ranked)} configurations tried"
        wanted = {name: self._printed(column, name) for name in ranked[0]["settings"]}
        known = {name: cell.text for name, cell in wanted.items() if cell is not None}
        places = [
            place
            for place, one in enumerate(ranked, 1)
            if known and all(_cell(one, name).text == text for name, text in known.items())
        ]
        return f"{told}; the printed one is number {places[0]} of them." if places else f"{told}."

    def _printed(self, column: str, setting: str) -> Number | None:
        if column not in self.config.printed:
            return None
        table: Any = reduce(lambda found, key: found[key], self.config.printed[column].split("."), reported())
        if setting == _SCORE:
            return Number(table[self.config.score], n=0) if self.config.score in table else None
        value = table.get(self.config.names.get(setting, setting.split(".")[-1]))
        return None if value is None else Number(text=_text(value), n=0)

    @cached_property
    def _searches(self) -> list[_Search]:
        searches = []
        for column, name in self.config.spaces.items():
            space = load_space(name)
            gradients = space.solver == "gradients"
            for preset, shard in product(self.config.presets if gradients else (_RIDGE_PRESET,), self._shards(space)):
                channels = self.config.channels
                base: dict[str, Any] = {"channels": {"device": channels.device, "rate": channels.rate}}
                if gradients:
                    base = {"inputs": {"preset": preset}}
                    base["reservoir"] = {"kind": "tfa", "recurrent_connectivity": 0.1}
                objective = self.config.objective if gradients else "accuracy"
                searches.append(_Search(column, preset, shard, self.config.trials, objective, base, self.seeds[0]))
        return searches

    def _shards(self, space: SearchSpace) -> list[SearchSpace]:
        apart = [name for name in self.config.shards if name in space.choice]
        rest = {name: values for name, values in space.choice.items() if name not in apart}
        return [
            replace(space, fixed={**space.fixed, **dict(zip(apart, values))}, choice=rest)
            for values in product(*(space.choice[name] for name in apart))
        ]

    @cached_property
    def _tasks(self) -> dict[int, Task]:
        versions = [version_of(name) for name in ("tensorflow", "keras-tuner", "numpy")]
        tasks = {}
        for position, search in enumerate(self._searches):
            key = fingerprint([_VERSION, search, self._content(search), versions])
            work = partial(_search, self.source, search, self.config, key)
            tasks[position] = Task(f"search, {search.column}, {search.preset}", "selection", key, work)
        return tasks

    def _content(self, search: _Search) -> str:
        if search.space.solver == "gradients":
            return self.source.content(self._inputs(search))
        study = open_study(self.source.study, self.source.labels)
        return fingerprint(
            sorted(subject_keys(study, ChannelRecipe(self.config.channels), Cache(self.source.cache)).items())
        )

    def _inputs(self, search: _Search) -> InputConfig:
        window = search.space.fixed.get("inputs.hrv_window", InputConfig.hrv_window)
        return from_mapping(InputConfig, {"preset": search.preset, "hrv_window": window}, self.name)


def _search(source: Source, wanted: _Search, config: SelectionConfig, key: str, scratch: Path) -> Arrays:
    from tff_esn.tuning.hypermodels import GradientHyperModel, RidgeHyperModel
    from tff_esn.tuning.search import search

    study, cache, space = open_study(source.study, source.labels), Cache(source.cache), wanted.space
    if space.solver == "gradients":
        hypermodel: Any = GradientHyperModel(space, wanted.base, study, cache, wanted.seed)
    else:
        preparation = prepare(study, ChannelRecipe(config.channels), cache=cache)
        hypermodel = RidgeHyperModel(space, wanted.base, preparation, AFFECT, wanted.seed)
    # A search that was stopped goes on in its folder.
    project = cache.folder / "tuning" / f"selection-{key[:12]}"
    found = search(hypermodel, space, project, objective=wanted.objective, trials=wanted.trials, seed=wanted.seed)
    return packed(
        [
            {"settings": {**_shared(space), **trial.settings}, "score": trial.scores[wanted.objective]}
            for trial in found.trials
        ]
    )


def _shared(space: SearchSpace) -> dict[str, Any]:
    """The settings of a shard that its trials have in common and a reader wants to see."""
    return {name: value for name, value in space.fixed.items() if name not in ("split", "channels.steps")}


def _cell(trial: Mapping[str, Any], setting: str) -> Number:
    if setting == _SCORE:
        return Number(trial["score"])
    value = trial["settings"].get(setting)
    return Number(text="" if value is None else _text(value), n=0)


def _text(value: Any) -> str:
    # The documents' orders of features differ from ours.
    return "+".join(sorted(as_text(value).split("+"))) if isinstance(value, (str, list)) else f"{value:g}"
