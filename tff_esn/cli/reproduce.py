"""`tff-esn reproduce`: reproduces tables and figures of the documents; `tff-esn report`: writes their report."""

# No `from __future__ import annotations`: on Python 3.9 Typer reads options from real annotations only.
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from tff_esn.cli.data import Jobs, Labels
from tff_esn.cli.options import settings

if TYPE_CHECKING:
    from tff_esn.features.study import Study
    from tff_esn.runs.named import NamedRun
    from tff_esn.runs.plan import Plan
    from tff_esn.runs.result import RunResult
    from tff_esn.store.cache import Cache

Out = Annotated[Optional[Path], typer.Option(help="Folder of the report.", show_default="report...")]


def reproduce(
    context: typer.Context,
    names: Annotated[
        Optional[list[str]], typer.Argument(metavar="[NAME]...", help="Named runs, or TOML files of your own.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="All named runs.")] = False,
    list_: Annotated[
        bool, typer.Option("--list", help="List the named runs and their remaining work, and exit.")
    ] = False,
    data: Annotated[
        Optional[list[Path]],
        typer.Option(
            help="Folder of a study; may be repeated, for WESAD and for HHAR.", show_default="generated subjects"
        ),
    ] = None,
    seeds: Annotated[
        Optional[int], typer.Option(min=1, help="Number of seeds, starting at --seed.", show_default="the run's")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Quick preview: one seed, few rounds and trials.")] = False,
    out: Out = None,
    labels: Labels = None,
    jobs: Jobs = None,
) -> None:
    """Reproduce tables and figures of the documents and compare them with the printed numbers.

    Lists the remaining work, runs it on all processors, and writes the report's folder:
    report.html, and every result, table and figure as files. Finished parts are kept: if
    interrupted, the same command resumes; with more seeds, only the new ones run.
    """
    from tff_esn.errors import ConfigError
    from tff_esn.runs.named import load_run, run_names
    from tff_esn.runs.plan import plan_run
    from tff_esn.store.cache import Cache

    wanted = run_names() if all_ or (list_ and not names) else names or []
    if not wanted:
        raise ConfigError(f"no run named; expected --all, or some of {', '.join(run_names())}, or a .toml file")
    runs = [load_run(name, quick) for name in wanted]
    cache = Cache(settings(context).cache)
    studies = _studies(runs, data or [], labels, cache, jobs, make=not list_)
    first, count = settings(context).seed, 1 if quick else seeds
    if list_:
        known = [run for run in runs if run.about.study in studies]
        plans = [plan_run(run, studies[run.about.study], first, count, quick) for run in known]
        _print_list(runs, plans, jobs, quick)
        return
    plans = [plan_run(run, studies[run.about.study], first, count, quick) for run in runs]
    results = run_plans(plans, out or default_folder(plans), jobs)
    print_summary(results)


def report(
    context: typer.Context,
    results: Annotated[
        Optional[Path],
        typer.Argument(metavar="[RESULTS]", help="Folder of results as JSON.", show_default="those of this version"),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("report"),
    docs: Annotated[Optional[Path], typer.Option(help="Markdown file to write instead of the page.")] = None,
) -> None:
    """Write the report, or its documentation page, from existing results; needs no data.

    The results come from `tff-esn reproduce`, which writes them to results/ in its folder.
    """
    from importlib import resources

    from tff_esn.console import console
    from tff_esn.runs.report.docs import reproduction_page
    from tff_esn.runs.report.page import write_report
    from tff_esn.runs.result import read_results
    from tff_esn.store.files import atomic_write

    with resources.as_file(resources.files("tff_esn.runs") / "results") as committed:
        found = read_results(results or committed)
    if docs is not None:
        with atomic_write(docs) as file:
            file.write(reproduction_page(found).encode())
        console.print(f"Written: {docs}", highlight=False, soft_wrap=True)
        return
    page, _ = write_report(out, found)
    console.print(f"Report: {page}", highlight=False, soft_wrap=True)


def run_plans(plans: "Sequence[Plan]", folder: Path, jobs: Optional[int]) -> "list[RunResult]":
    """Prints the plan, runs it, and writes the report, which keeps the earlier results in its folder."""
    from tff_esn.console import console
    from tff_esn.runs.plan import execute
    from tff_esn.runs.report.page import write_report
    from tff_esn.runs.result import read_results

    _print_plan(plans, jobs)
    results = execute(plans, jobs)
    named = {result.name for result in results}
    before = read_results(folder / "results") if (folder / "results").is_dir() else []
    page, changed = write_report(folder, [*results, *(one for one in before if one.name not in named)])
    note = "" if changed else " (nothing was left to do)"
    console.print(f"Report: {page}{note}", highlight=False, soft_wrap=True)
    return results


def print_summary(results: "Sequence[RunResult]") -> None:
    """Prints the headline numbers of some runs, with a note if the subjects are generated."""
    from tff_esn.console import output
    from tff_esn.datasets.synthetic import GENERATED
    from tff_esn.runs.report.summary import summary_table
    from tff_esn.tables import to_terminal

    output.print(to_terminal(summary_table(results)))
    if any(result.provenance.generated for result in results):
        output.print(f"[yellow]{GENERATED}")


def default_folder(plans: "Sequence[Plan]") -> Path:
    """The report's folder; results of generated subjects and of quick runs have folders of their own."""
    from tff_esn.datasets.synthetic import is_generated

    generated = any(is_generated(plan.study.root) for plan in plans if plan.run.about.study == "wesad")
    quick = any(plan.quick for plan in plans)
    return Path("report" + "-generated" * generated + "-quick" * quick)


def _studies(
    runs: "Sequence[NamedRun]",
    folders: Sequence[Path],
    labels: Optional[Path],
    cache: "Cache",
    jobs: Optional[int],
    make: bool,
) -> "dict[str, Study]":
    """By kind of study, the user's or a generated one, which is generated now only if `make`."""
    from tff_esn.datasets.synthetic import is_generated
    from tff_esn.datasets.synthetic.hhar import ensure_hhar
    from tff_esn.datasets.synthetic.wesad import ensure_wesad
    from tff_esn.features.study import Study

    studies: dict[str, Study] = {}
    for folder in folders:
        study = Study(folder, cache.folder, labels)
        studies["hhar" if study.folder.name == "hhar" else "wesad"] = study
    for kind in {str(run.about.study) for run in runs} - set(studies):
        if kind == "hhar":
            made = ensure_hhar(cache.folder, make=make)
        else:
            # Long enough for the longest HRV window of Table 6.1, 50 x 64 beats.
            made = ensure_wesad(cache.folder, minutes=60.0, jobs=jobs, make=make)
        if is_generated(made):
            studies[kind] = Study(made, cache.folder)
    return studies


def _print_list(runs: "Sequence[NamedRun]", plans: "Sequence[Plan]", jobs: Optional[int], quick: bool) -> None:
    from tff_esn.console import output
    from tff_esn.runs.report.summary import DOCUMENTS
    from tff_esn.tables import text_table, to_terminal

    rows, planned = [], {plan.run.name: plan for plan in plans}
    for document, title in DOCUMENTS.items():
        own = [run for run in runs if run.about.document == document]
        for run in sorted(own, key=lambda run: run.about.order):
            covers = f"{title}: {', '.join(run.about.covers)}; takes {run.about.takes}".removesuffix("; takes ")
            plan = planned.get(run.name)
            done = f"{len(plan.kept)}/{len(plan.tasks)}" if plan else ""
            rows.append([run.name, covers, done, _left(plan, jobs) if plan else ""])
    title = "Quick runs: one seed, few rounds and trials" if quick else "Full runs; --quick lists quick ones"
    output.print(to_terminal(text_table(title, ["Name", "Covers", "Done", "Left"], rows, numeric=["Done", "Left"])))
    if len(plans) < len(runs):
        output.print("[dim]No subjects are generated yet; --data DIR shows the remaining work for a study.")


def _print_plan(plans: "Sequence[Plan]", jobs: Optional[int]) -> None:
    from tff_esn.console import console
    from tff_esn.runs.report.summary import seconds_text

    for plan in plans:
        left = len(plan.missing)
        work = f"{left} of {len(plan.tasks)} parts to run, about {_left(plan, jobs)}" if left else "complete"
        console.print(f"{plan.run.name}: {work}", highlight=False, soft_wrap=True)
    keys = [task.key for plan in plans for task in plan.missing]
    if len(plans) > 1 and keys:
        shared = len(keys) - len(set(keys))
        seconds = sum(plan.seconds(_processors(jobs)) for plan in plans)
        work = f"{len(set(keys))} parts in all" + (f" ({shared} shared)" if shared else "")
        console.print(f"{work}, about {seconds_text(seconds)}", highlight=False, soft_wrap=True)


def _left(plan: "Plan", jobs: Optional[int]) -> str:
    from tff_esn.runs.report.summary import seconds_text

    return seconds_text(plan.seconds(_processors(jobs))) if plan.missing else "-"


def _processors(jobs: Optional[int]) -> int:
    import os

    return jobs or os.cpu_count() or 1
