"""Steps that several commands take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tff_esn.central.assess import Outcome
    from tff_esn.config import CentralConfig
    from tff_esn.deployment.keras_model import TrainedEsn
    from tff_esn.features.inputs import ModelInputs
    from tff_esn.features.preparation import FeatureRecipe, Preparation, Recipe
    from tff_esn.store.cache import Cache
    from tff_esn.tables import Table


def channel_settings(device: str, rate: float | None) -> dict[str, str | float]:
    """Device and rate of the raw channels; by default the fastest sensor's rate."""
    return {"device": device, "rate": rate if rate is not None else {"chest": 700.0, "wrist": 64.0}[device]}


def feature_recipe(preset: str, window: float) -> FeatureRecipe:
    """The features of chapter 5 under a preset, with a given HRV window."""
    from dataclasses import asdict

    from tff_esn.config import ExtractionConfig, from_mapping
    from tff_esn.features.preparation import FeatureRecipe
    from tff_esn.presets import PRESETS

    switches = {**asdict(PRESETS[preset].extraction), "hrv_window": window}
    return FeatureRecipe(from_mapping(ExtractionConfig, switches, "options"))


def prepared(
    folder: Path,
    recipe: Recipe,
    cache: Cache,
    labels: Path | None,
    subjects: Sequence[str] | None,
    skip_bad: bool,
    jobs: int | None,
) -> Preparation:
    """Prepares a study, and says who was left out."""
    from tff_esn.console import console
    from tff_esn.datasets.study import open_study
    from tff_esn.features.preparation import prepare

    study = open_study(folder, labels)
    preparation = prepare(study, recipe, subjects=subjects, cache=cache, jobs=jobs, skip_bad=skip_bad)
    for subject, error in preparation.errors.items():
        console.print(f"left out {subject}: {error}", markup=False, highlight=False, soft_wrap=True)
    return preparation


def print_statistics(
    folder: Path,
    preparation: Preparation,
    preset: str,
    split: str | None,
    stages: Sequence[str] | None,
    as_json: bool = False,
) -> None:
    """Prints Tables 5.1 to 5.3 of a study's prepared features, or those asked for."""
    import json
    from dataclasses import asdict, replace

    from tff_esn.datasets.splits import SPLITS, named_split
    from tff_esn.datasets.synthetic import is_generated
    from tff_esn.presets import PRESETS
    from tff_esn.runs.feature_statistics import STAGES, stage_statistics
    from tff_esn.runs.kinds.statistics import statistics_table
    from tff_esn.runs.reported import printed_statistics

    subjects = preparation.subjects
    everyone = (*subjects, *preparation.errors)
    name = split or ("thesis" if set(SPLITS["thesis"].subjects) == set(everyone) else "all")
    chosen = named_split(name, everyone).without(tuple(preparation.errors))
    features = preparation.load_all()
    results = []
    for stage in stages or STAGES:
        statistics = asdict(stage_statistics(stage, features, chosen, PRESETS[preset]))
        if as_json:
            facts = {"preset": preset, "generated": is_generated(folder), "printed": printed_statistics(stage)}
            results.append({**statistics.pop("features"), **statistics, **facts})
        else:
            table = statistics_table(stage, {preset: statistics})
            print_tables(folder, replace(table, title=f"{table.title}, preset {preset}"))
    if as_json:
        print(json.dumps(results[0] if len(results) == 1 else results, indent=1))


def assessed(
    inputs: ModelInputs, config: CentralConfig, seeds: Sequence[int], choose_threshold: bool = False
) -> Iterator[tuple[Outcome, TrainedEsn | None]]:
    """The baselines, then the ESN's readouts seed by seed, with a progress bar."""
    from tff_esn.central.assess import assess_baselines, assess_esn
    from tff_esn.console import progress

    for outcome in assess_baselines(inputs):
        yield outcome, None
    with progress("Training", len(seeds)) as bar:
        for seed in seeds:
            yield from assess_esn(inputs, config, seed, choose_threshold)
            bar.advance(note=f"seed {seed}")


def print_tables(folder: Path, *tables: Table) -> None:
    """Prints tables of a study, and says of generated subjects that they are."""
    from tff_esn.console import output
    from tff_esn.datasets.synthetic import GENERATED, is_generated
    from tff_esn.tables import to_terminal

    for table in tables:
        output.print(to_terminal(table), "")
    if is_generated(folder):
        output.print(f"[yellow]{GENERATED}")
