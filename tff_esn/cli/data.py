"""`tff-esn data`: look at a study, prepare it, generate one."""

# No `from __future__ import annotations`: on Python 3.9 Typer reads options from real annotations only.

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Optional

import typer

from tff_esn.cli.options import Command, Group, settings
from tff_esn.cli.steps import channel_settings, feature_recipe, prepared, print_statistics

if TYPE_CHECKING:
    from tff_esn.features.preparation import Preparation
    from tff_esn.tables import Table

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
Device = Annotated[Literal["chest", "wrist"], typer.Option(help="Device of the raw channels.")]
Rate = Annotated[
    Optional[float], typer.Option(help="Rate of the raw channels in Hz.", show_default="chest 700, wrist 64")
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
    from tff_esn.datasets.hhar import is_hhar
    from tff_esn.datasets.inventory import UNREADABLE, hhar_inventory, study_inventory
    from tff_esn.tables import to_terminal

    inventory = hhar_inventory(folder) if is_hhar(folder) else study_inventory(folder, labels, jobs)
    output.print(to_terminal(inventory.table, {UNREADABLE: "red"}))
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
    device: Device = "chest",
    rate: Rate = None,
    labels: Labels = None,
    subject: Subjects = None,
    skip_bad: SkipBad = False,
    jobs: Jobs = None,
) -> None:
    """Compute the model's inputs once and keep them in the cache.

    Subjects run in parallel. Interrupted, the same command continues where it stopped.
    """
    from tff_esn.config import ChannelConfig, HharConfig, from_mapping
    from tff_esn.console import output
    from tff_esn.datasets.hhar import is_hhar
    from tff_esn.features.preparation import ChannelRecipe, prepare_hhar
    from tff_esn.store.cache import Cache
    from tff_esn.tables import to_terminal

    cache = Cache(settings(context).cache)
    if is_hhar(folder):
        preparation = prepare_hhar(folder, from_mapping(HharConfig, {"rate": rate}, "options"), cache)
    else:
        channels = from_mapping(ChannelConfig, channel_settings(device, rate), "options")
        recipe = ChannelRecipe(channels) if task == "channels" else feature_recipe(preset, window)
        preparation = prepared(folder, recipe, cache, labels, subject, skip_bad, jobs)
    output.print(to_terminal(_preparation_table(preparation)))


def _preparation_table(preparation: "Preparation") -> "Table":
    """A row per subject: how much there is of it, and whether it was ready before."""
    from tff_esn.tables import text_table

    rows = []
    for subject in preparation.subjects:
        loaded = preparation.load(subject)
        series = getattr(loaded, "table", loaded)
        state = "cached" if subject in preparation.cached else "new"
        rows.append([subject, len(series), ", ".join(series.names), state])
    title = f"{preparation.recipe.kind} of {len(preparation.subjects)} subjects"
    return text_table(title, ["Subject", "Steps", "Columns", ""], rows, numeric=["Steps"])


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
    from tff_esn.store.cache import Cache

    cache = Cache(settings(context).cache)
    preparation = prepared(folder, feature_recipe(preset, window), cache, labels, None, skip_bad, jobs)
    print_statistics(folder, preparation, preset, split, [stage] if stage else None, as_json=json_)


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
        from tff_esn.datasets.hhar import ACTIVITY
        from tff_esn.datasets.synthetic.hhar import write_hhar

        seconds = 60 * (minutes or 2.0) / len(ACTIVITY.classes)
        write_hhar(out, users=subjects or 9, seconds=seconds, seed=settings(context).seed)
    print(f"{layout} subjects written to {out}")
