"""`tff-esn demo`: the main job on generated subjects."""

import typer

from tff_esn.cli.options import settings
from tff_esn.cli.steps import assessed, feature_recipe, prepared, print_scores, print_statistics


def demo(context: typer.Context) -> None:
    """Run the main job on generated subjects, with no download.

    Generates 15 subjects in WESAD's layout (once), extracts the features of thesis
    chapter 5 from them, prints its tables, makes each subject a federated client, trains
    the centralised ESN beside its baselines, and then the clients' own by FedAvg and FedCurv.
    """
    from dataclasses import replace
    from importlib import resources

    from tff_esn.cache import Cache
    from tff_esn.central.report import score_rows
    from tff_esn.config import (
        FEATURES,
        CentralConfig,
        DemoConfig,
        FederatedConfig,
        InputConfig,
        from_mapping,
        read_toml,
    )
    from tff_esn.console import console, output
    from tff_esn.data.clients import batched, client_data, write_clients
    from tff_esn.data.synthetic.wesad import ensure_wesad
    from tff_esn.data.tables import STRESS
    from tff_esn.evaluation.tables import clients_table
    from tff_esn.federated.report import majority_rows, model_name
    from tff_esn.federated.report import score_rows as federated_rows
    from tff_esn.federated.study import FederatedStudy
    from tff_esn.model.inputs import model_inputs
    from tff_esn.presets import PRESETS, settled

    with resources.as_file(resources.files("tff_esn.runs") / "demo.toml") as path:
        run = from_mapping(DemoConfig, read_toml(path), "demo.toml")
    cache, seed = Cache(settings(context).cache), settings(context).seed
    folder = ensure_wesad(cache.folder, subjects=run.subjects, minutes=run.minutes, seed=seed, jobs=None)
    console.print(f"Generated subjects in {folder}", highlight=False, soft_wrap=True)
    preparation = prepared(folder, feature_recipe(run.preset, run.hrv_window), cache, None, None, False, None)
    print_statistics(folder, preparation, run.preset, run.split, None)

    config = CentralConfig(inputs=InputConfig(preset=run.preset, hrv_window=run.hrv_window, split=run.split))
    every = replace(config.inputs, features=FEATURES)
    everything = model_inputs(preparation, every)
    clients = cache.folder / "clients" / "demo"
    write_clients(clients, everything.windows, STRESS)
    data = client_data(clients, everything.split.subjects, PRESETS[run.preset].windows.steps, everything.columns)
    output.print(clients_table(batched(data, config.readout.batch_size), everything.split))

    inputs = model_inputs(preparation, config.inputs)
    outcomes = [outcome for outcome, _ in assessed(inputs, config, range(seed, seed + run.seeds))]
    print_scores(f"Central model, Table 6.2's settings, {run.seeds} seeds", score_rows(outcomes), folder)

    rows = []
    with cache.scratch() as scratch:
        study = FederatedStudy(inputs, scratch)
        for algorithm in ("fedavg", "fedcurv"):
            given = {"algorithm": algorithm, "preset": "corrected", "rounds": run.rounds}
            chosen = settled(replace(from_mapping(FederatedConfig, given, "demo.toml"), inputs=config.inputs))
            program = study.program(chosen, seed)
            readout, _ = program.run(description=model_name(chosen))
            rows += federated_rows(model_name(chosen), [program.evaluator(readout)], chosen)
    rows = majority_rows(program.evaluator, len(inputs.task.classes)) + rows
    print_scores(f"Federated clients, {run.rounds} rounds, preset corrected, seed {seed}", rows, folder)
