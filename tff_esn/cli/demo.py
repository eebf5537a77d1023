"""`tff-esn demo`: a quick demo on synthetic data."""

import os
import sys
from pathlib import Path

import typer

from tff_esn.cli.options import settings
from tff_esn.cli.reproduce import default_folder, print_summary, run_plans


def demo(context: typer.Context) -> None:
    """Run a quick demo on synthetic data, with no download.

    Generates 15 subjects in WESAD's layout (once) and runs a small version of each chapter:
    the features, the central model, FedAvg and FedCurv, both with the discriminator against
    noisy clients, and the closed forms IncFed, Partial IncFed, pFedRR and FedIP. Ends with
    the report, which it opens if there is a desktop.
    """
    from importlib import resources

    from tff_esn.console import console
    from tff_esn.datasets.synthetic.wesad import ensure_wesad
    from tff_esn.features.study import Study
    from tff_esn.parameters import from_mapping, read_toml
    from tff_esn.runs.named import DemoConfig, load_run
    from tff_esn.runs.plan import plan_run
    from tff_esn.store.cache import Cache

    with resources.as_file(resources.files("tff_esn.runs") / "demo.toml") as path:
        config = from_mapping(DemoConfig, read_toml(path), "demo.toml")
    cache, seed = Cache(settings(context).cache), settings(context).seed
    folder = ensure_wesad(cache.folder, subjects=config.subjects, minutes=config.minutes, jobs=None)
    console.print(f"Generated subjects in {folder}", highlight=False, soft_wrap=True)
    study = Study(folder, cache.folder)
    plans = [plan_run(load_run(name, quick=True), study, seed, 1, quick=True) for name in config.runs]
    report = default_folder(plans)
    print_summary(run_plans(plans, report, None))
    _show(report / "report.html")


def _show(page: Path) -> None:
    """Opens the page if there is a desktop."""
    import webbrowser

    if sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(page.resolve().as_uri())
