"""`tff-esn tune`: model selection with KerasTuner, then model assessment."""

# No `from __future__ import annotations`: on Python 3.9 Typer reads options from real annotations only.
from typing import Annotated, Literal, Optional

import typer

from tff_esn.cli.data import Device, Folder, Jobs, Labels, Rate
from tff_esn.cli.options import settings
from tff_esn.cli.runs import Runs


def tune(
    context: typer.Context,
    folder: Folder,
    space: Annotated[
        str, typer.Option(help="A search space of the documents by name, or a TOML file of your own.")
    ] = "thesis-table-6-1",
    tuner: Annotated[
        Literal["random", "bayesian", "hyperband"], typer.Option(help="KerasTuner's search strategy.")
    ] = "random",
    trials: Annotated[Optional[int], typer.Option(min=1, help="Total number of trials.", show_default="60")] = None,
    exhaust: Annotated[bool, typer.Option("--exhaust", help="Try every configuration of a finite space.")] = False,
    objective: Annotated[
        Optional[str],
        typer.Option(help="Validation score to maximise.", show_default="f1_micro; accuracy for closed forms"),
    ] = None,
    assess: Annotated[
        int, typer.Option(min=0, help="Number of seeds with which the best is retrained on the design set.")
    ] = 3,
    preset: Annotated[
        Literal["thesis", "corrected"], typer.Option(help="As published, or with errors fixed; not for closed forms.")
    ] = "thesis",
    reading: Annotated[
        Optional[Literal["window", "carried"]],
        typer.Option(help="Reset the state for each window, or keep it.", show_default="window"),
    ] = None,
    split: Annotated[
        Optional[str], typer.Option(help="Train/validation/test split.", show_default="the space's, or thesis")
    ] = None,
    device: Device = None,
    rate: Rate = None,
    set_: Annotated[
        Optional[list[str]],
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Any other setting that the space does not vary; may be repeated."
        ),
    ] = None,
    labels: Labels = None,
    jobs: Jobs = None,
    runs: Runs = None,
) -> None:
    """Search a space of hyper-parameters, then assess the best configuration.

    `--space help`, like any unknown name, lists the spaces. If interrupted, the same command
    resumes. `tensorboard --logdir` with the printed folder shows the trials.
    """
    from dataclasses import asdict, replace

    from tff_esn.central.esn import CentralESN
    from tff_esn.cli.parameter_options import set_values
    from tff_esn.cli.training import finish_note, print_tables
    from tff_esn.console import console
    from tff_esn.evaluation.assessment import assess_baselines, assess_esn
    from tff_esn.features.study import Study
    from tff_esn.runs.kinds.central import AssessmentConfig, assessment_table
    from tff_esn.runs.kinds.selection import base_settings
    from tff_esn.store.cache import Cache
    from tff_esn.store.json_values import fingerprint
    from tff_esn.store.run_folders import RunStore
    from tff_esn.tuning.hypermodels import hypermodel_of
    from tff_esn.tuning.search import search, search_table
    from tff_esn.tuning.space import load_space

    cache, seed = Cache(settings(context).cache), settings(context).seed
    study = Study(folder, settings(context).cache, labels)
    options = {"features.reading": reading, "features.device": device, "features.rate": rate, "split": split}
    given = {f"data.{name}": value for name, value in options.items() if value is not None}
    loaded = load_space(space)
    chosen = replace(loaded, fixed={**loaded.fixed, **given, **set_values(set_ or ())})
    base = base_settings(chosen, preset, seed)
    hypermodel = hypermodel_of(study, chosen, base)
    hypermodel.prepare(jobs)
    described = {"space": asdict(chosen), "base": base, "study": str(folder.resolve()), "seed": seed}
    name = f"{space.split('/')[-1]}-{tuner}-{fingerprint([described, objective or hypermodel.objective])[:8]}"
    project = cache.folder / "tuning" / name
    limit = None if exhaust else trials or 60
    with RunStore(runs).create("tune", {**described, "tuner": tuner, "trials": limit}, seed) as run:
        run.write_text("project.txt", str(project))
        found = search(hypermodel, project, tuner=tuner, objective=objective, trials=limit, seed=seed)
        run.write_json("trials.json", found.trials)
        best = {"best": found.best.settings, found.objective: found.best.scores[found.objective]}
        run.finish({**best, "trials": len(found.trials)})
    tables = [search_table(found, chosen.document)]
    selected = chosen.configuration(found.best.settings, base)
    if isinstance(selected.algorithm, CentralESN) and assess:
        data, model = hypermodel.dataset(selected.data), selected.algorithm
        outcomes = list(assess_baselines(data))
        for number in range(seed, seed + assess):
            outcomes += [own for own, _ in assess_esn(data, model.with_seed(number), AssessmentConfig.ridge)]
        title = f"Best configuration retrained on the design set, {assess} seeds"
        tables.append(assessment_table(title, {preset: outcomes}, data.task.name == "stress"))
    print_tables(folder, *tables)
    finish_note(run.folder)
    console.print(f"KerasTuner's project: {project}", highlight=False, soft_wrap=True)
