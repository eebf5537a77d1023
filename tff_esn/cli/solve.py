"""`tff-esn solve`: readouts in closed form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tff_esn.cli.options import AlgorithmGroup

if TYPE_CHECKING:
    from tff_esn.cli.training import Request
    from tff_esn.closed_form.algorithm import ClosedForm

solve = AlgorithmGroup(
    "solve",
    "closed-form",
    "tff_esn.cli.solve",
    """Solve for a readout in closed form, with 25, 50, 75 and 100 % of the training subjects.

    Clients send statistics of their reservoir states; the server adds them and solves. The table shows the test
    accuracy (the training accuracy if the split has no test subjects) and the bytes that a client sends.
    """,
)


def command(name: str) -> click.Command:
    """The command of an algorithm."""
    from typer.core import TyperOption

    from tff_esn.algorithm import ALGORITHMS
    from tff_esn.cli.training import MAIN, RUN, channel_data, training_command
    from tff_esn.cli.worker import fleet_options

    engine = TyperOption(
        param_decls=["--engine"],
        type=click.Choice(["numpy", "tff"]),
        default="numpy",
        help="Backend: the fast NumPy kernel, or TensorFlow Federated.",
        show_default=True,
        rich_help_panel=RUN,
    )
    shares = TyperOption(
        param_decls=["--percent"],
        default="25,50,75,100",
        help="Percentages of the training subjects, joined by commas.",
        show_default=True,
        rich_help_panel=MAIN,
    )
    return training_command(ALGORITHMS[name], train, [shares, engine, *fleet_options()], "corrected", channel_data)


def train(request: Request) -> None:
    """Solves with each share and seed, and prints the table; the model is that of the first seed with all clients."""
    from tff_esn.cli.training import finish_note, print_tables
    from tff_esn.cli.worker import fleet_of
    from tff_esn.errors import ConfigError
    from tff_esn.parameters import from_mapping
    from tff_esn.runs.closed_form_table import ClosedFormConfig
    from tff_esn.runs.kinds.closed_form import ClosedFormRun, closed_form_table, threshold_table
    from tff_esn.runs.plan import run_parts
    from tff_esn.runs.presets import algorithm_of
    from tff_esn.tables import to_csv

    if request.options["engine"] == "tff" or request.options["clients_only"] is not None:
        _solve_with_tff(request)
        return
    if fleet_of(request.options) is not None:
        raise ConfigError("workers with --engine numpy; expected --engine tff")
    parameters = dict(request.algorithm_settings)
    candidates = {"tau": parameters.pop("tau")} if isinstance(parameters.get("tau"), list) else {}
    choices = [{"tau": tau} for tau in candidates.get("tau", ())] or [{}]
    first, *_ = [
        algorithm_of(request.kind.name, request.preset, {**parameters, **choice}, request.source) for choice in choices
    ]
    method = {"name": request.kind.label, "algorithm": request.kind.name, "candidates": candidates, **parameters}
    settings = {
        "kind": "closed-form",
        "title": f"{request.kind.label}, preset {request.preset}",
        "methods": [method],
        "data": request.given["data"],
        "presets": [request.preset],
        "repetitions": request.seeds or 3,
        "percent": _percent(request.options["percent"]),
        "scored": _scored(request),
    }
    config = from_mapping(ClosedFormConfig, settings, request.source)
    run_kind = ClosedFormRun("solve", config, request.study, range(request.seed, request.seed + config.repetitions))
    recorded = request.recorded(
        first, config.settings, candidates=candidates, percent=config.percent, seeds=config.repetitions
    )
    with request.store.resume_or_create("solve", recorded, request.seed) as run:
        found = run_kind.results(run_parts(run_kind, request.jobs))
        (result,) = found.values()
        run.write_json("outcomes.json", result.outcomes)
        table = closed_form_table("solve", found)
        run.write_text("scores.csv", to_csv(table))
        percent = max(config.percent)
        best = result.best_tau(request.kind.label, percent)
        run.save_model(_model(run_kind, best))
        repeated = result.chosen(request.kind.label, percent)
        run.finish({config.scored: sum(one.accuracy(config.scored) for one in repeated) / len(repeated)})
    tables = [table]
    if candidates:
        tables.append(threshold_table(result, request.kind.label, request.preset))
    print_tables(request.study.root, *tables)
    finish_note(run.folder, *request.notes)


def _scored(request: Request) -> str:
    """The part of the split whose accuracy is shown."""
    return "test" if request.study.partition(request.data).test else "train"


def _percent(text: str) -> list[int]:
    from tff_esn.cli.parameter_options import parsed

    value = parsed(text)
    return value if isinstance(value, list) else [value]


def _model(run_kind: Any, tau: float | None) -> Any:
    """The model of the first seed, with all training clients and the best candidate."""
    from tff_esn.runs.closed_form_table import table_dataset, variants_of

    config = run_kind.config
    variants = variants_of(config, config.presets[0], run_kind.seeds[0])
    algorithm = next(one.algorithm for one in variants if tau is None or getattr(one.algorithm, "tau", None) == tau)
    return algorithm.fit(table_dataset(run_kind.study, config.settings))


def _solve_with_tff(request: Request) -> None:
    """Solves on TensorFlow Federated, with all training clients and the first seed."""
    from tff_esn.cli.training import finish_note
    from tff_esn.cli.worker import fleet_of, on_fleet
    from tff_esn.closed_form.federation import fit_with_tff, write_sequences
    from tff_esn.console import console, output
    from tff_esn.runs.presets import algorithm_of
    from tff_esn.store.cache import Cache

    fleet = fleet_of(request.options)
    algorithm: ClosedForm = algorithm_of(  # type: ignore[assignment]
        request.kind.name, request.preset, request.algorithm_settings, request.source
    ).with_seed(request.seed)
    data, part = request.study.dataset(request.data, request.jobs), _scored(request)
    if request.options["clients_only"] is not None:
        console.print(f"Files: {write_sequences(request.options['clients_only'], data)}", soft_wrap=True)
        return
    recorded = request.recorded(algorithm, request.data, engine="tff")
    with Cache(request.study.cache).scratch() as scratch, on_fleet(fleet):
        files = write_sequences(scratch, data)
        seen = files if fleet is None or fleet.data is None else fleet.data / files.name
        with request.store.resume_or_create("solve", recorded, request.seed) as run:
            model = fit_with_tff(algorithm, data, seen)
            score = model.score(data.part(part))
            run.save_model(model)
            run.finish({part: score})
    output.print(f"{algorithm.label}: {part} accuracy {score:.4f} with all training clients, by TFF", highlight=False)
    finish_note(run.folder, *request.notes)
