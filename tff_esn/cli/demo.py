"""`tff-esn demo`: the main job on generated subjects."""

import typer

from tff_esn.cli.options import settings
from tff_esn.cli.steps import feature_recipe, prepared, print_statistics


def demo(context: typer.Context) -> None:
    """Run the main job on generated subjects, with no download.

    Generates 15 subjects in WESAD's layout (once), extracts the features of thesis
    chapter 5 from them, prints its tables and makes each subject a federated client.
    """
    from importlib import resources

    from tff_esn.cache import Cache
    from tff_esn.config import DemoConfig, from_mapping, read_toml
    from tff_esn.console import console, output
    from tff_esn.data.clients import batched, client_data, write_clients
    from tff_esn.data.features import standardize
    from tff_esn.data.splits import named_split
    from tff_esn.data.synthetic.wesad import ensure_wesad
    from tff_esn.data.tables import STRESS
    from tff_esn.data.windows import normalized_windows
    from tff_esn.evaluation.tables import clients_table
    from tff_esn.presets import PRESETS

    with resources.as_file(resources.files("tff_esn.runs") / "demo.toml") as path:
        run = from_mapping(DemoConfig, read_toml(path), "demo.toml")
    cache = Cache(settings(context).cache)
    folder = ensure_wesad(
        cache.folder, subjects=run.subjects, minutes=run.minutes, seed=settings(context).seed, jobs=None
    )
    console.print(f"Generated subjects in {folder}", highlight=False, soft_wrap=True)
    preparation = prepared(folder, feature_recipe(run.preset, run.hrv_window), cache, None, None, False, None)
    print_statistics(folder, preparation, run.preset, run.split, None)

    split = named_split(run.split, preparation.subjects)
    config = PRESETS[run.preset].windows
    tables = [standardize(preparation.load(subject).table) for subject in split.subjects]
    sequences = normalized_windows(tables, config)
    clients = cache.folder / "clients" / "demo"
    write_clients(clients, sequences, STRESS)
    steps, columns = config.steps, len(tables[0].names)
    output.print(clients_table(batched(client_data(clients, split.subjects, steps, columns), batch_size=20), split))
