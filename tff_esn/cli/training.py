"""Commands that train: one per algorithm, with options from its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import click
from typer.core import TyperArgument, TyperOption

from tff_esn.algorithm import Algorithm
from tff_esn.cli.options import MAIN, Command, settings
from tff_esn.cli.parameter_options import (
    Parameter,
    combined,
    given_values,
    named_choices,
    option_of,
    parameters_of,
    set_values,
)
from tff_esn.console import console, output
from tff_esn.datasets.splits import LEAVE_OUT_LAST, SPLITS
from tff_esn.datasets.study import StudyFolder
from tff_esn.datasets.synthetic import GENERATED, is_generated
from tff_esn.features.recipe import FEATURE_RECIPES
from tff_esn.features.study import DataSettings, Study
from tff_esn.parameters import from_mapping, help_of, merged, read_toml
from tff_esn.registry import expected
from tff_esn.runs.presets import PRESETS, PresetName
from tff_esn.store.json_values import flat
from tff_esn.store.run_folders import RunStore
from tff_esn.tables import Table, to_terminal

DATA, RUN = "Data", "Run"
_PRESET = Parameter("preset", "--preset", PresetName, None, "As published, or with errors fixed.", MAIN)
#: Parameters that stand first in the help.
_FIRST = (
    "rounds",
    "clients_per_round",
    "learning_rate",
    "ridge",
    "tau",
    "esn.units",
    "esn.spectral_radius",
    "esn.leaking_rate",
)


@dataclass(frozen=True)
class Request:
    """What a training command was asked for.

    Attributes:
        kind: The algorithm.
        study: The study.
        given: Settings as nested tables: `preset`, `data`, and the algorithm's parameters.
        names_split: Whether a split was named.
        seed: The first seed.
        seeds: Number of seeds; None for the command's default.
        jobs: Processes; None for one per processor.
        options: The other options by name.
        source: Where settings come from, for messages.
    """

    kind: type[Algorithm]
    study: Study
    given: dict[str, Any]
    names_split: bool
    seed: int
    seeds: int | None
    jobs: int | None
    options: Mapping[str, Any]
    source: str

    @property
    def preset(self) -> str:
        """Name of the preset."""
        return self.given["preset"]

    @cached_property
    def data(self) -> DataSettings:
        """Features, task and split."""
        return from_mapping(DataSettings, self.given["data"], self.source)

    @property
    def algorithm_settings(self) -> dict[str, Any]:
        """The algorithm's parameters that were given."""
        return {key: value for key, value in self.given.items() if key not in ("preset", "data")}

    @property
    def notes(self) -> list[str]:
        """Names the split if none was given and those of the documents do not fit."""
        if self.names_split or self.given["data"]["split"] != LEAVE_OUT_LAST:
            return []
        return [f"--split {LEAVE_OUT_LAST}, as the study does not have the subjects of the documents' splits"]

    def recorded(self, algorithm: Algorithm, data: DataSettings, **more: Any) -> dict[str, Any]:
        """The settings of a run, to keep and to know it by."""
        study = {"study": str(self.study.root), "content": self.study.key(data)}
        return {"algorithm": algorithm, "data": data, "preset": self.preset, **study, **more}

    @property
    def store(self) -> RunStore:
        """Where run folders are."""
        return RunStore(self.options.get("runs"))


def training_command(
    kind: type[Algorithm],
    train: Callable[[Request], None],
    extra: Sequence[click.Parameter] = (),
    preset: str = "thesis",
    defaults: Callable[[StudyFolder, str], Mapping[str, Any]] | None = None,
) -> Command:
    """A command that trains an algorithm.

    Args:
        kind: The algorithm.
        train: What the command does.
        extra: Options that are not parameters of the algorithm.
        preset: The default preset.
        defaults: Default settings of the data, given a study and a preset.
    """
    own = [one for one in parameters_of(kind, kind.label) if one.key != "esn.seed"]
    of_data = [*_data_parameters(), *_recipe_parameters()]
    known = (*own, *of_data, _PRESET)

    def callback(folder: Path, **values: Any) -> None:
        context = click.get_current_context()
        common = settings(context)  # type: ignore[arg-type]
        tables = {} if values["config"] is None else read_toml(values["config"])
        values["fleet"], file = tables.pop("fleet", None), flat(tables)
        given = combined(
            *given_values(known, values),
            ("--set", named_choices(set_values(values["set_"]), known)),
            (str(values["config"]), named_choices(file, known)),
        )
        if given.get("algorithm", kind.name) != kind.name:
            raise click.UsageError(
                f"algorithm = {given['algorithm']!r} in {values['config']} with {kind.name}", context
            )
        given.pop("algorithm", None)
        study = Study(folder, common.cache, values["labels"])
        chosen = given.get("preset", preset)
        if chosen not in PRESETS:
            raise click.UsageError(f"no preset {chosen!r}; {expected(chosen, PRESETS)}", context)
        data, given_data = dict((defaults or default_data)(study.folder, chosen)), given.get("data", {})
        if "name" in given_data.get("features", {}):
            data["features"] = _features(study.folder, given_data["features"]["name"])
        given = merged({"preset": chosen, "data": data}, given)
        source = str(values["config"] or "options")
        chosen_split = "split" in given_data
        train(Request(kind, study, given, chosen_split, common.seed, values["seeds"], values["jobs"], values, source))

    params: list[click.Parameter] = [
        TyperArgument(
            param_decls=["folder"],
            required=True,
            nargs=1,
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="The study's folder.",
        ),
        *_ordered(own, kind),
        *(option_of(one) for one in (*of_data, _PRESET)),
        *run_options(),
        *extra,
    ]
    return Command(name=kind.name, callback=callback, params=params, help=_described(kind), rich_markup_mode="rich")


def default_data(study: StudyFolder, preset: str) -> dict[str, Any]:
    """The features named like the preset if the study has them, and the thesis's split."""
    features = preset if preset in study.features else study.features[0]
    return {"features": _features(study, features), "split": default_split(study, "thesis")}


def default_split(study: StudyFolder, wanted: str) -> str:
    """A split of the documents if the study has its subjects, else the one that leaves out the last subject."""
    for name in (wanted, study.growing_split):
        if set(SPLITS[name].subjects) <= set(study.subjects):
            return name
    return LEAVE_OUT_LAST


def _features(study: StudyFolder, name: str) -> dict[str, Any]:
    has_device = "device" in help_of(FEATURE_RECIPES[name])
    return {"name": name, **({"device": study.devices[0]} if has_device else {})}


def channel_data(study: StudyFolder, preset: str) -> dict[str, Any]:
    """Raw channels and the split with 25-100 % subsets, as in the papers on closed forms."""
    task = "affect" if any(task.name == "affect" for task in study.tasks) else study.tasks[0].name
    return {"features": _features(study, "channels"), "task": task, "split": default_split(study, study.growing_split)}


def run_options() -> list[click.Parameter]:
    """Options of every command that trains."""
    return [
        _option("--seeds", type=click.IntRange(1), help="Number of seeds, starting at --seed.", panel=MAIN),
        _option(
            "--config",
            type=click.Path(path_type=Path),
            help="TOML file of settings, with the same names; setting a value twice is an error.",
            panel=RUN,
        ),
        TyperOption(
            param_decls=["--set", "set_"],
            multiple=True,
            metavar="KEY=VALUE",
            help="Any other parameter, by its dotted name; may be repeated.",
            rich_help_panel=RUN,
        ),
        _option(
            "--labels",
            type=click.Path(path_type=Path),
            help="CSV of labelled intervals for E4 folders: subject,start,end,label.",
            panel=DATA,
        ),
        _option("--jobs", type=click.IntRange(1), help="Processes; default one per processor.", panel=RUN),
        _option(
            "--runs",
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="Folder of the runs; default $TFF_ESN_RUNS or ./results.",
            panel=RUN,
        ),
    ]


def _option(name: str, panel: str, **options: Any) -> TyperOption:
    return TyperOption(param_decls=[name], rich_help_panel=panel, **options)


def _ordered(parameters: Sequence[Parameter], kind: type[Algorithm]) -> list[TyperOption]:
    """The most important parameters first, in the main group."""
    first = sorted((one for one in parameters if one.key in _FIRST), key=lambda one: _FIRST.index(one.key))
    others = [one for one in parameters if one.key not in _FIRST]
    return [option_of(one, _preset_default(kind, one.key), MAIN if one in first else None) for one in (*first, *others)]


def _preset_default(kind: type[Algorithm], key: str) -> str | None:
    """A parameter's value in the presets, shown as its default."""
    found = {name: values[kind.family][key] for name, values in PRESETS.items() if key in values[kind.family]}
    if not found:
        return None
    texts = {
        name: ",".join(map(str, value)) if isinstance(value, tuple) else str(value).lower()
        for name, value in found.items()
    }
    return (
        next(iter(texts.values()))
        if len(set(texts.values())) == 1
        else "; ".join(f"{name} {text}" for name, text in texts.items())
    )


def _recipe_parameters() -> list[Parameter]:
    """The parameters of all feature recipes, each once."""
    found: dict[str, Parameter] = {}
    for recipe in FEATURE_RECIPES.items().values():
        for parameter in parameters_of(recipe, DATA, "data.features."):
            found.setdefault(parameter.key, parameter)
    return list(found.values())


def _data_parameters() -> list[Parameter]:
    """The parameters of `DataSettings`."""
    texts = help_of(DataSettings)
    recipes = Literal[FEATURE_RECIPES.names()]  # type: ignore[valid-type]
    features = "Feature recipe; default that of the preset, or of the study."
    return [
        Parameter("data.features.name", "--features", recipes, None, features, MAIN),
        Parameter("data.task", "--task", str, None, texts["task"], DATA),
        Parameter("data.split", "--split", str, None, "Train/validation/test split.", DATA),
    ]


def _described(kind: type[Algorithm]) -> str:
    """The docstring's first paragraph."""
    return (kind.__doc__ or "").split("\n\n")[0]


def print_tables(folder: Path, *tables: Table) -> None:
    """Prints tables of a study, with a note if its subjects are generated."""
    for table in tables:
        output.print(to_terminal(table), "")
    if is_generated(folder):
        output.print(f"[yellow]{GENERATED}")


def finish_note(folder: Path, *notes: str) -> None:
    """Prints notes on a run, and its folder."""
    for note in (*notes, f"Run folder: {folder}"):
        console.print(note, highlight=False, soft_wrap=True)
