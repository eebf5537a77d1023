"""Tables 6.1, 6.2, B.1 and B.2: searches of KerasTuner over the documents' spaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import field, replace
from functools import cached_property, partial, reduce
from itertools import product
from pathlib import Path
from typing import Any, Literal, Optional

from pydantic.dataclasses import dataclass

from tff_esn.features.study import DataSettings, Study
from tff_esn.parameters import STRICT, PositiveInt, merged, nested
from tff_esn.runs.kind import KINDS, RunKind
from tff_esn.runs.presets import PresetName, preset_values
from tff_esn.runs.reported import reported
from tff_esn.runs.result import ResultFigure
from tff_esn.store.cache import Cache
from tff_esn.store.json_values import fingerprint
from tff_esn.store.tasks import Arrays, Task, packed, unpacked
from tff_esn.tables import PRINTED, Column, Number, Row, Table
from tff_esn.tuning.space import SearchSpace, load_space, setting_label
from tff_esn.versions import version_of

#: Part of every key: raise it when a result changes.
_VERSION = 2
_SCORE = "validation score"
#: Fixed settings that say what a space is for; tables leave them out.
_HIDDEN = ("data.features.name", "data.features.device", "data.features.steps", "data.task", "data.split")


@dataclass(frozen=True, config=STRICT)
class SelectionConfig:
    """A search of KerasTuner over a space.

    Attributes:
        spaces: By name of a column of the documents' table of what was selected, the space.
        printed: By the same names, where in `reported.json` the printed selection is.
        names: Names of the settings there.
        score: Name of the best validation score there.
        objective: Validation score that is maximised; None for the algorithm's usual one.
        shards: Settings with one search per value, so that parts run in parallel.
        trials: Number of trials in each of these parts; None for the whole of a finite space.
        presets: Of the searches by gradients. Closed forms are solved as corrected.
        settings: What the spaces do not give, with dots between the levels.
    """

    kind: Literal["selection"]
    title: str
    spaces: dict[str, str]
    printed: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    score: Optional[str] = None
    objective: Optional[str] = None
    shards: tuple[str, ...] = ()
    trials: Optional[PositiveInt] = None
    presets: tuple[PresetName, ...] = ("thesis",)
    settings: dict[str, Any] = field(default_factory=dict)


def base_settings(space: SearchSpace, preset: str, seed: int) -> dict[str, Any]:
    """Settings that a space does not give: a preset's features and values, except for closed forms."""
    base: dict[str, Any] = {}
    if space.kind.family != "closed-form":
        base = {**preset_values(space.kind, preset, {}), "data": {"features": {"name": preset}, "split": "thesis"}}
    return merged(base, {"esn": {"seed": seed}})


@plain_dataclass(frozen=True)
class _Search:
    """A part of a search: one of a table's columns, one preset, one of the space's shards."""

    column: str
    preset: str
    space: SearchSpace
    trials: int | None
    objective: str | None
    base: dict[str, Any]
    seed: int

    @property
    def datasets(self) -> list[DataSettings]:
        """Features, task and split of its trials."""
        return list(dict.fromkeys(self.space.data_settings(self.base)))


@KINDS.register
class SelectionRun(RunKind):
    """The searches of a table; the first seed is theirs."""

    name = "selection"
    settings = SelectionConfig

    @property
    def datasets(self) -> list[DataSettings]:
        """Features, task and split of the trials of all searches."""
        return [data for search in self._searches for data in search.datasets]

    @cached_property
    def parts(self) -> dict[int, Task]:
        """One for each part of a search, by its place."""
        versions = [version_of(name) for name in ("tensorflow", "keras-tuner", "numpy")]
        tasks = {}
        for position, search in enumerate(self._searches):
            key = fingerprint([_VERSION, search, [self.study.key(data) for data in search.datasets], versions])
            work = partial(_search, self.study, search, key)
            tasks[position] = Task(f"search, {search.column}, {search.preset}", "selection", key, work)
        return tasks

    def outcome(self, results: Mapping[str, Arrays]) -> tuple[list[Table], list[ResultFigure]]:
        """The selected settings: a row per setting, a column per search."""
        trials: dict[tuple[str, str], list[Any]] = {}
        for position, task in self.parts.items():
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
            rows.append(Row(setting_label(setting), lines))
        notes = [self._note(column, preset, own) for (column, preset), own in ranked.items()]
        return [Table(self.run, self.config.title, "setting", columns, rows, notes)], []

    def _note(self, column: str, preset: str, ranked: Sequence[Any]) -> str:
        tried = f"{column}, {preset}: {len(ranked)} configurations tried"
        wanted = {name: self._printed(column, name) for name in ranked[0]["settings"]}
        known = {name: cell.text for name, cell in wanted.items() if cell is not None}
        places = [
            place
            for place, one in enumerate(ranked, 1)
            if known and all(_cell(one, name).text == text for name, text in known.items())
        ]
        return f"{tried}; the printed one is number {places[0]} of them." if places else f"{tried}."

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
        config, seed = self.config, self.seeds[0]
        for column, name in config.spaces.items():
            space = load_space(name)
            presets = ("corrected",) if space.kind.family == "closed-form" else config.presets
            for preset, shard in product(presets, self._shards(space)):
                base = merged(base_settings(space, preset, seed), nested(config.settings))
                searches.append(_Search(column, preset, shard, config.trials, config.objective, base, seed))
        return searches

    def _shards(self, space: SearchSpace) -> list[SearchSpace]:
        apart = [name for name in self.config.shards if name in space.choice]
        rest = {name: values for name, values in space.choice.items() if name not in apart}
        return [
            replace(space, fixed={**space.fixed, **dict(zip(apart, values))}, choice=rest)
            for values in product(*(space.choice[name] for name in apart))
        ]


def _search(study: Study, wanted: _Search, key: str, scratch: Path) -> Arrays:
    from tff_esn.tuning.hypermodels import hypermodel_of
    from tff_esn.tuning.search import search

    hypermodel = hypermodel_of(study, wanted.space, wanted.base)
    # A search that was stopped is resumed in its folder.
    project = Cache(study.cache).folder / "tuning" / f"selection-{key[:12]}"
    found = search(hypermodel, project, objective=wanted.objective, trials=wanted.trials, seed=wanted.seed)
    shared = {name: value for name, value in wanted.space.fixed.items() if name not in _HIDDEN}
    return packed(
        [{"settings": {**shared, **trial.settings}, "score": trial.scores[found.objective]} for trial in found.trials]
    )


def _cell(trial: Mapping[str, Any], setting: str) -> Number:
    if setting == _SCORE:
        return Number(trial["score"])
    value = trial["settings"].get(setting)
    return Number(text="" if value is None else _text(value), n=0)


def _text(value: Any) -> str:
    names = value.split("+") if isinstance(value, str) else value
    # The documents' orders of features differ from ours.
    return "+".join(sorted(names)) if isinstance(names, list) else f"{names:g}"
