"""`tff-esn data`: check a study, prepare its features, generate one."""

# No `from __future__ import annotations`: on Python 3.9 Typer reads options from real annotations only.

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Optional

import typer

from tff_esn.cli.options import Command, Group, settings

if TYPE_CHECKING:
    from tff_esn.features.preparation import Preparation

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="""Check a study, prepare its features, or generate one.

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
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Skip subjects with defects, with a message.")]
Jobs = Annotated[Optional[int], typer.Option(min=1, help="Number of processes.", show_default="one per processor")]
Features = Annotated[
    Optional[str], typer.Option(metavar="thesis|corrected|channels", help="Feature recipe.", show_default="the study's")
]
Device = Annotated[
    Optional[str],
    typer.Option(
        metavar="chest|wrist|phones|watches", help="Device of raw channels.", show_default="the study's first"
    ),
]
Rate = Annotated[
    Optional[float],
    typer.Option(help="Rate of raw channels in Hz.", show_default="that of the device's fastest sensor"),
]
HrvWindow = Annotated[
    Optional[float],
    typer.Option(
        help="Sliding window of HRV: x 64 heart beats under thesis, seconds under corrected.", show_default="25"
    ),
]


@app.command(cls=Command)
def check(context: typer.Context, folder: Folder, labels: Labels = None, jobs: Jobs = None) -> None:
    """Report the contents of a folder and every defect in it.

    Exits with status 2 if there is a defect.
    """
    from tff_esn.console import output
    from tff_esn.datasets.study import UNREADABLE, open_study
    from tff_esn.tables import text_table, to_terminal

    study = open_study(folder, labels)
    inventory = study.inventory(jobs)
    title = f"Study of kind {study.name} in {folder}"
    table = text_table(title, inventory.headings, inventory.rows, numeric=inventory.numeric)
    output.print(to_terminal(table, {UNREADABLE: "red"}))
    for defect in inventory.defects:
        print(defect)
    print(f"{len(inventory.defects)} defect(s) found in {folder}")
    raise typer.Exit(2 if inventory.defects else 0)


@app.command(cls=Command)
def prepare(
    context: typer.Context,
    folder: Folder,
    features: Features = None,
    hrv_window: HrvWindow = None,
    device: Device = None,
    rate: Rate = None,
    labels: Labels = None,
    subject: Subjects = None,
    skip_bad: SkipBad = False,
    jobs: Jobs = None,
) -> None:
    """Compute a model's inputs once and store them in the cache.

    Subjects run in parallel. If interrupted, the same command resumes.
    """
    from tff_esn.console import output
    from tff_esn.tables import text_table, to_terminal

    preparation = prepared(context, folder, features, labels, subject, skip_bad, jobs, hrv_window, device, rate)
    rows = []
    for name in preparation.subjects:
        table = preparation.recipe.table(preparation.load(name))
        state = "cached" if name in preparation.cached else "new"
        rows.append([name, len(table), ", ".join(table.names), state])
    title = f"{preparation.recipe.label} of {len(preparation.subjects)} subjects"
    output.print(to_terminal(text_table(title, ["Subject", "Steps", "Columns", ""], rows, numeric=["Steps"])))


def prepared(
    context: typer.Context,
    folder: Path,
    features: Optional[str],
    labels: Optional[Path],
    subjects: Optional[list[str]],
    skip_bad: bool,
    jobs: Optional[int],
    hrv_window: Optional[float] = None,
    device: Optional[str] = None,
    rate: Optional[float] = None,
) -> "Preparation":
    """Prepares a study, and prints which subjects were left out."""
    from tff_esn.console import console
    from tff_esn.datasets.study import open_study
    from tff_esn.features.preparation import prepare as prepare_study
    from tff_esn.features.recipe import FEATURE_RECIPES
    from tff_esn.parameters import from_mapping, help_of
    from tff_esn.store.cache import Cache

    study = open_study(folder, labels)
    kind = FEATURE_RECIPES[features or study.features[0]]
    given = {"hrv_window": hrv_window, "device": device, "rate": rate}
    chosen = {name: value for name, value in given.items() if value is not None}
    if "device" in help_of(kind):
        chosen.setdefault("device", study.devices[0])
    recipe = from_mapping(kind, chosen, "options")
    cache = Cache(settings(context).cache)
    preparation = prepare_study(study, recipe, subjects=subjects, cache=cache, jobs=jobs, skip_bad=skip_bad)
    for subject, error in preparation.errors.items():
        console.print(f"left out {subject}: {error}", markup=False, highlight=False, soft_wrap=True)
    return preparation


@app.command(cls=Command)
def stats(
    context: typer.Context,
    folder: Folder,
    stage: Annotated[
        Optional[Literal["extracted", "standardized", "normalized"]],
        typer.Option(help="Table 5.1, 5.2 or 5.3.", show_default="all three"),
    ] = None,
    features: Annotated[
        Literal["thesis", "corrected"], typer.Option(help="As published, or with errors fixed.")
    ] = "thesis",
    hrv_window: HrvWindow = None,
    split: Annotated[
        Optional[str],
        typer.Option(
            help="Split whose design set Tables 5.2 and 5.3 describe.",
            show_default="thesis for WESAD's subjects, else all",
        ),
    ] = None,
    labels: Labels = None,
    skip_bad: SkipBad = False,
    jobs: Jobs = None,
    json_: Annotated[bool, typer.Option("--json", help="Machine-readable, all digits.")] = False,
) -> None:
    """Print the thesis's Tables 5.1 to 5.3 for a study, next to the printed numbers."""
    import json
    from dataclasses import asdict, replace

    from tff_esn.cli.training import print_tables
    from tff_esn.datasets.splits import SPLITS, named_split
    from tff_esn.datasets.synthetic import is_generated
    from tff_esn.runs.feature_statistics import STAGES, stage_statistics
    from tff_esn.runs.kinds.statistics import statistics_table
    from tff_esn.runs.reported import printed_statistics

    preparation = prepared(context, folder, features, labels, None, skip_bad, jobs, hrv_window)
    everyone = (*preparation.subjects, *preparation.errors)
    name = split or ("thesis" if set(SPLITS["thesis"].subjects) == set(everyone) else "all")
    chosen = named_split(name, everyone).without(tuple(preparation.errors))
    loaded, results = preparation.load_all(), []
    for one in [stage] if stage else STAGES:
        statistics = asdict(stage_statistics(one, loaded, chosen, preparation.recipe))
        if json_:
            facts = {"preset": features, "generated": is_generated(folder), "printed": printed_statistics(one)}
            results.append({**statistics.pop("features"), **statistics, **facts})
        else:
            table = statistics_table(one, {features: statistics})
            print_tables(folder, replace(table, title=f"{table.title}, {features}"))
    if json_:
        print(json.dumps(results[0] if len(results) == 1 else results, indent=1))


@app.command(cls=Command)
def synth(
    context: typer.Context,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write to.")],
    layout: Annotated[Literal["wesad", "hhar"], typer.Option(help="File layout.")] = "wesad",
    subjects: Annotated[
        Optional[int], typer.Option(min=1, help="Number of subjects.", show_default="15 for wesad, 9 for hhar")
    ] = None,
    minutes: Annotated[
        Optional[float], typer.Option(min=0.0, help="Length of a subject's recording.", show_default="wesad 45, hhar 2")
    ] = None,
    chest: Annotated[bool, typer.Option(help="Write WESAD's chest signals (700 Hz) too.")] = False,
    e4: Annotated[bool, typer.Option(help="Write WESAD's raw E4 folders and a labels.csv too.")] = False,
    jobs: Jobs = None,
) -> None:
    """Generate synthetic subjects in the file layout of the public releases.

    Baseline, stress, amusement and meditation in WESAD's order and proportions, or HHAR's
    six activities on phones and watches. The same seed gives the same files.
    """
    from tff_esn.errors import ConfigError

    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out}: not an empty folder; expected a new one, nothing is overwritten")
    if layout == "wesad":
        from tff_esn.datasets.synthetic.wesad import write_wesad

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
        from tff_esn.datasets.synthetic.hhar import write_hhar
        from tff_esn.datasets.tables import ACTIVITY

        seconds = 60 * (minutes or 2.0) / len(ACTIVITY.classes)
        write_hhar(out, users=subjects or 9, seconds=seconds, seed=settings(context).seed)
    print(f"{layout} subjects written to {out}")
