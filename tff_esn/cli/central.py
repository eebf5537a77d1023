"""`tff-esn central`: trains the centralised model and the baselines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tff_esn.cli.options import LazyCommand

if TYPE_CHECKING:
    from tff_esn.cli.training import Request

central = LazyCommand(
    "central",
    """Train the centralised ESN and the baselines; score design and test set over seeds.

    The defaults are those of the thesis's Table 6.2; the output is its Table 6.3. Writes a run folder with the scores
    of every seed and subject, and the model of the first seed. If interrupted, the same command resumes.
    """,
    "tff_esn.cli.central",
)


def command() -> click.Command:
    """The command."""
    from typer.core import TyperOption

    from tff_esn.central.esn import CentralESN
    from tff_esn.cli.training import MAIN, training_command

    threshold = TyperOption(
        param_decls=["--threshold"],
        type=click.Choice(["0.5", "validation"]),
        default="0.5",
        show_default=True,
        help="Decision threshold: 0.5, or chosen on the validation set.",
        rich_help_panel=MAIN,
    )
    return training_command(CentralESN, train, [threshold])


def train(request: Request) -> None:
    """Trains with each seed, prints the scores of design and test set, and keeps the model of the first seed."""
    from tff_esn.cli.training import finish_note, print_tables
    from tff_esn.evaluation.assessment import PRINTED_MODEL, assess_esn
    from tff_esn.parameters import from_mapping
    from tff_esn.runs.kinds.central import AssessmentConfig, AssessmentRun, assessment_table, central_model
    from tff_esn.runs.plan import run_parts
    from tff_esn.tables import to_csv

    seeds = request.seeds or 10
    given = {key: value for key, value in request.given.items() if key != "preset"}
    settings = {"kind": "central", "title": "", "presets": {request.preset: given}, "seeds": seeds}
    config = from_mapping(AssessmentConfig, {**settings, "threshold": request.options["threshold"]}, request.source)
    data, model = central_model(request.preset, given, request.source)
    assessment = AssessmentRun("central", config, request.study, range(request.seed, request.seed + seeds))
    recorded = request.recorded(model, data, seeds=seeds, threshold=config.threshold, ridge=config.ridge)
    with request.store.resume_or_create("central", recorded, request.seed) as run:
        outcomes = assessment.outcomes(run_parts(assessment, request.jobs))[request.preset]
        for outcome in outcomes:
            for part, scores in outcome.parts.items():
                run.log(step=outcome.seed or 0, model=outcome.model, part=part, **_numbers(scores))
        dataset = request.study.dataset(data)
        first = model.with_seed(request.seed)
        trained = next(
            own
            for outcome, own in assess_esn(dataset, first, config.ridge, config.threshold == "validation")
            if outcome.model == PRINTED_MODEL
        )
        run.save_model(trained)
        title, printed = _title(request, data, seeds), dataset.task.name == "stress"
        table = assessment_table(title, {request.preset: outcomes}, printed)
        run.write_text("scores.csv", to_csv(table))
        run.write_json("outcomes.json", outcomes)
        run.finish(_headline(outcomes))
    print_tables(request.study.root, table)
    finish_note(run.folder, *request.notes)


def _numbers(scores: Any) -> dict[str, float]:
    return dict(scores.values)


def _headline(outcomes: Any) -> dict[str, dict[str, float]]:
    """Mean accuracy and AUROC of the ESNs on the test set, for the list of runs."""
    from tff_esn.metrics import spread

    tested = [one for one in outcomes if one.seed is not None and "test" in one.parts]
    return {
        name: {
            metric: spread([getattr(one.parts["test"], metric) for one in tested if one.model == name]).mean
            for metric in ("accuracy", "auroc")
        }
        for name in dict.fromkeys(one.model for one in tested)
    }


def _title(request: Request, data: Any, seeds: int) -> str:
    columns = getattr(data.features, "columns", (data.features.label,))
    reading = f", {data.features.reading} reading" if hasattr(data.features, "reading") else ""
    drawn = f"seed {request.seed}" if seeds == 1 else f"{seeds} seeds"
    return f"Central model{reading}, {'+'.join(columns)}, preset {request.preset}, {drawn}"
