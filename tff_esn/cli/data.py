"""`tff-esn data`: look at a study, prepare it, generate one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Optional

import typer

from tff_esn.cli.options import Command, Group, settings

if TYPE_CHECKING:
    from tff_esn.cache import Cache
    from tff_esn.data.prepare import FeatureRecipe, Preparation, Recipe

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="""Look at a study, prepare its features, or generate one.

    A study is a folder with WESAD's subjects (S2/S2.pkl, ...), with Empatica E4 folders
    and a labels.csv (subject,start,end,label), or with HHAR's CSV files.
    """,
)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The study's folder.")]
Labels = Annotated[
    Optional[Path],
    typer.Option(
        help="CSV of labelled intervals for E4 folders: subject,start,end,label.", show_default="DIR/labels.csv"
    ),
]
Subjects = Annotated[Optional[list[str]], typer.Option("--subject", help="Only this subject; may be repeated.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Go on without subjects that have a defect, and say so.")]
Jobs = Annotated[Optional[int], typer.Option(min=1, help="Processes.", show_default="one per processor")]
PresetName = Annotated[
    Literal["thesis", "corrected"], typer.Option(help="Everything as printed, or everything as meant.")
]
HrvWindow = Annotated[
    float, typer.Option("--window", help="Sliding window of HRV: x 64 beats under thesis, seconds under corrected.")
]


@app.command(cls=Command)
def check(context: typer.Context, folder: Folder, labels: Labels = None, jobs: Jobs = None) -> None:
    """Tell what a folder holds and every defect found in it.

    Exit status 2 if there is any defect.
    """
    from tff_esn.console import output
    from tff_esn.data.hhar import is_hhar
    from tff_esn.evaluation.inventory import hhar_inventory, study_inventory

    inventory = hhar_inventory(folder) if is_hhar(folder) else study_inventory(folder, labels, jobs)
    output.print(inventory.table)
    for defect in inventory.defects:
        print(defect)
    print(f"{len(inventory.defects)} defect(s) found in {folder}")
    raise typer.Exit(2 if inventory.defects else 0)


@app.command(cls=Command)
def prepare(
    context: typer.Context,
    folder: Folder,
    task: Annotated[
        Literal["features", "channels"],
        typer.Option(help="The features of thesis chapter 5, or the raw channels of the other papers."),
    ] = "features",
    preset: PresetName = "thesis",
    window: HrvWindow = 25.0,
    device: Annotated[Literal["chest", "wrist"], typer.Option(help="Device of the raw channels.")] = "chest",
    rate: Annotated[
        Optional[float], typer.Option(help="Common rate of the raw channels in Hz.", show_default="chest 700, wrist 64")
    ] = None,
    labels: Labels = None,
    subject: Subjects = None,
    skip_bad: SkipBad = False,
    jobs: Jobs = None,
) -> None:
    """Compute the model's inputs once and keep them in the cache.

    Subjects run in parallel. Interrupted, the same command continues where it stopped.
    """
    from tff_esn.cache import Cache
    from tff_esn.config import ChannelConfig, HharConfig, from_mapping
    from tff_esn.console import output
    from tff_esn.data.hhar import is_hhar
    from tff_esn.data.prepare import ChannelRecipe, prepare_hhar
    from tff_esn.evaluation.inventory import preparation_table

    cache = Cache(settings(context).cache)
    if is_hhar(folder):
        preparation = prepare_hhar(folder, from_mapping(HharConfig, {"rate": rate}, "options"), cache)
    else:
        recipe: Recipe = feature_recipe(preset, window)
        if task == "channels":
            options = {"device": device, "rate": {"chest": 700.0, "wrist": 64.0}[device] if rate is None else rate}
            recipe = ChannelRecipe(from_mapping(ChannelConfig, options, "options"))
        preparation = prepared(folder, recipe, cache, labels, subject, skip_bad, jobs)
    output.print(preparation_table(preparation))


@app.command(cls=Command)
def stats(
    context: typer.Context,
    folder: Folder,
    stage: Annotated[
        Optional[Literal["extracted", "standardized", "normalized"]],
        typer.Option(help="Table 5.1, 5.2 or 5.3.", show_default="all three"),
    ] = None,
    preset: PresetName = "thesis",
    window: HrvWindow = 25.0,
    split: Annotated[
        Optional[str],
        typer.Option(help="Whose design set 5.2 and 5.3 count.", show_default="thesis for WESAD's subjects, else all"),
    ] = None,
    labels: Labels = None,
    skip_bad: SkipBad = False,
    jobs: Jobs = None,
    json_: Annotated[bool, typer.Option("--json", help="Machine-readable, all digits.")] = False,
) -> None:
    """Print the thesis's Tables 5.1 to 5.3 for a study, beside the printed numbers."""
    from tff_esn.cache import Cache

    cache = Cache(settings(context).cache)
    preparation = prepared(folder, feature_recipe(preset, window), cache, labels, None, skip_bad, jobs)
    print_statistics(preparation, preset, split, [stage] if stage else None, as_json=json_)


@app.command(cls=Command)
def synth(
    context: typer.Context,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write to.")],
    layout: Annotated[Literal["wesad", "hhar"], typer.Option(help="Whose on-disk layout.")] = "wesad",
    subjects: Annotated[
        Optional[int], typer.Option(min=1, help="How many.", show_default="15 for wesad, 9 for hhar")
    ] = None,
    minutes: Annotated[
        Optional[float], typer.Option(min=0.0, help="Length of a subject's recording.", show_default="wesad 45, hhar 2")
    ] = None,
    chest: Annotated[bool, typer.Option(help="Write WESAD's chest signals (700 Hz) too.")] = False,
    e4: Annotated[bool, typer.Option(help="Write WESAD's raw E4 folders and a labels.csv too.")] = False,
    jobs: Jobs = None,
) -> None:
    """Generate subjects in exactly the public releases' layout.

    Baseline, stress, amusement and meditation in WESAD's order and proportions, or HHAR's
    six activities on phones and watches. The same seed gives the same files.
    """
    if layout == "wesad":
        from tff_esn.data.synthetic.wesad import write_wesad

        write_wesad(
            out,
            subjects=subjects or 15,
            minutes=minutes or 45.0,
            chest=chest,
            e4_csv=e4,
            seed=settings(context).seed,
            jobs=jobs,
        )
    else:
        from tff_esn.data.hhar import ACTIVITY
        from tff_esn.data.synthetic.hhar import write_hhar

        seconds = 60 * (minutes or 2.0) / len(ACTIVITY.classes)
        write_hhar(out, users=subjects or 9, seconds=seconds, seed=settings(context).seed)
    print(f"{layout} subjects written to {out}")


def feature_recipe(preset: str, window: float) -> FeatureRecipe:
    """The features of chapter 5 under a preset, with a given HRV window."""
    from dataclasses import asdict

    from tff_esn.config import ExtractionConfig, from_mapping
    from tff_esn.data.prepare import FeatureRecipe
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
    from tff_esn.data.prepare import prepare
    from tff_esn.data.study import open_study

    study = open_study(folder, labels)
    preparation = prepare(study, recipe, subjects=subjects, cache=cache, jobs=jobs, skip_bad=skip_bad)
    for subject, error in preparation.errors.items():
        console.print(f"left out {subject}: {error}", markup=False, highlight=False, soft_wrap=True)
    return preparation


def print_statistics(
    preparation: Preparation, preset: str, split: str | None, stages: Sequence[str] | None, as_json: bool = False
) -> None:
    """Prints Tables 5.1 to 5.3 of prepared features, or those asked for."""
    import json
    from dataclasses import asdict

    from tff_esn.console import output
    from tff_esn.data.splits import SPLITS, named_split
    from tff_esn.evaluation.reported import TABLE_OF_STAGE, printed_statistics
    from tff_esn.evaluation.statistics import STAGES, stage_statistics
    from tff_esn.evaluation.tables import statistics_table
    from tff_esn.presets import PRESETS

    subjects = preparation.subjects
    everyone = {*subjects, *preparation.errors}
    name = split or ("thesis" if set(SPLITS["thesis"].subjects) == everyone else "all")
    chosen = named_split(name, tuple(everyone)).without(tuple(preparation.errors))
    features = preparation.load_all()
    results = []
    for stage in stages or STAGES:
        statistics = stage_statistics(stage, features, chosen, PRESETS[preset])
        printed = printed_statistics(stage)
        table = TABLE_OF_STAGE[stage].replace("table_", "").replace("_", ".")
        if as_json:
            rows = {feature: asdict(row) for feature, row in statistics.features.items()}
            facts = {"stage": stage, "preset": preset, "table": table, "samples": statistics.samples}
            labels = {"label_1_percent": statistics.label_1_percent, "subjects": statistics.subjects}
            results.append({**rows, **labels, **facts, "printed": printed})
        else:
            output.print(statistics_table(f"Table {table}: {stage} features, preset {preset}", statistics, printed))
    if as_json:
        print(json.dumps(results[0] if len(results) == 1 else results, indent=1))
