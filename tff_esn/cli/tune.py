"""`tff-esn tune`: model selection with KerasTuner, then model assessment."""

# No `from __future__ import annotations`: on Python 3.9 Typer reads options from real annotations only.
from typing import Annotated, Any, Literal, Optional

import typer

from tff_esn.cli.central import PresetName, Reading, Split
from tff_esn.cli.data import Device, Folder, Jobs, Labels, Rate
from tff_esn.cli.options import settings
from tff_esn.cli.runs import Runs
from tff_esn.cli.steps import assessed, channel_settings, print_tables


def tune(
    context: typer.Context,
    folder: Folder,
    space: Annotated[
        str, typer.Option(help="A search space of the documents by name, or a TOML file of your own.")
    ] = "thesis-table-6-1",
    tuner: Annotated[
        Literal["random", "bayesian", "hyperband"], typer.Option(help="KerasTuner's search strategy.")
    ] = "random",
    trials: Annotated[Optional[int], typer.Option(min=1, help="Trials in all.", show_default="60")] = None,
    exhaust: Annotated[bool, typer.Option("--exhaust", help="Run the whole of a finite space.")] = False,
    objective: Annotated[
        Literal["f1_micro", "f1_stress", "balanced_accuracy", "auroc", "mcc", "accuracy"],
        typer.Option(help="Score on the validation subjects."),
    ] = "f1_micro",
    assess: Annotated[int, typer.Option(min=0, help="Then retrain the best on the design set with so many seeds.")] = 3,
    preset: PresetName = "thesis",
    reading: Reading = "window",
    split: Split = "thesis",
    device: Device = "chest",
    rate: Rate = None,
    labels: Labels = None,
    jobs: Jobs = None,
    runs: Runs = None,
) -> None:
    """Search a space of hyper-parameters, then assess the best configuration.

    `--space help`, like any name that is none, tells the names of the spaces. Interrupted, the
    same command goes on where it stopped. `tensorboard --logdir` the folder it names shows the
    trials.
    """
    from dataclasses import asdict

    from tff_esn.config import CentralConfig, from_mapping, merged, nested
    from tff_esn.console import console, output
    from tff_esn.datasets.hhar import is_hhar
    from tff_esn.runs.kinds.central import assessment_table
    from tff_esn.store.cache import Cache
    from tff_esn.store.json_values import fingerprint
    from tff_esn.store.run_folders import RunStore
    from tff_esn.tables import to_terminal
    from tff_esn.tuning.search import search, search_table
    from tff_esn.tuning.setup import gradient_hypermodel, ridge_hypermodel
    from tff_esn.tuning.space import load_space

    chosen = load_space(space)
    cache, seed = Cache(settings(context).cache), settings(context).seed
    if chosen.solver == "gradients":
        base: dict[str, Any] = {"inputs": {"preset": preset, "reading": reading, "split": split}}
        base["reservoir"] = {"kind": "tfa", "recurrent_connectivity": 0.1}
        hypermodel = gradient_hypermodel(chosen, base, folder, labels, cache, seed, jobs)
        target = objective
    else:
        base = {} if is_hhar(folder) else {"channels": channel_settings(device, rate)}
        hypermodel = ridge_hypermodel(chosen, base, folder, labels, cache, seed, rate, jobs)
        target = "accuracy"
    described = {"space": asdict(chosen), "base": base, "study": str(folder.resolve()), "seed": seed}
    project = cache.folder / "tuning" / f"{space.split('/')[-1]}-{tuner}-{fingerprint([described, target])[:8]}"
    limit = None if exhaust else trials or 60
    with RunStore(runs).create("tune", {**described, "tuner": tuner, "trials": limit}, seed) as run:
        run.write_text("project.txt", str(project))
        found = search(hypermodel, chosen, project, tuner=tuner, objective=target, trials=limit, seed=seed)
        run.write_json("trials.json", [asdict(trial) for trial in found.trials])
        run.finish({"best": found.best.settings, target: found.best.scores[target], "trials": len(found.trials)})
    output.print(to_terminal(search_table(found, chosen.document)))
    console.print(f"Run folder: {run.folder}\nKerasTuner's project: {project}", highlight=False, soft_wrap=True)
    if chosen.solver == "gradients" and assess:
        best = from_mapping(CentralConfig, merged(base, nested({**chosen.fixed, **found.best.settings})), space)
        inputs = hypermodel.study_inputs(best)
        outcomes = [outcome for outcome, _ in assessed(inputs, best, range(seed, seed + assess))]
        title = f"Best configuration retrained on the design set, {assess} seeds"
        print_tables(folder, assessment_table(title, {best.inputs.preset: outcomes}))
