"""Table 6.3: the centralised model over seeds, and its baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

from pydantic.dataclasses import dataclass

from tff_esn.central.esn import CentralESN
from tff_esn.evaluation.assessment import PARTS, PRINTED_MODEL, Outcome, assess_baselines, assess_esn
from tff_esn.features.study import DataSettings, Study
from tff_esn.metrics import Scores, metric_names, scores_from
from tff_esn.parameters import STRICT, PositiveFloat, PositiveInt, from_mapping, merged, nested
from tff_esn.runs.kind import KINDS, RunKind
from tff_esn.runs.presets import PresetName, preset_values
from tff_esn.runs.reported import printed_assessment
from tff_esn.runs.result import ResultFigure
from tff_esn.store.json_values import fingerprint
from tff_esn.store.tasks import Arrays, Task, packed, unpacked
from tff_esn.tables import Table, score_table
from tff_esn.versions import version_of

#: Part of every key: raise it when a result changes.
_VERSION = 2


@dataclass(frozen=True, config=STRICT)
class AssessmentConfig:
    """The centralised model over seeds, and its baselines.

    Attributes:
        settings: Of the model: parameters of `CentralESN` and under `data` those of `DataSettings`, with dots between
            the levels.
        presets: By preset, what it changes.
        seeds: Number of seeds.
        ridge: Candidates for the ridge readout's regularisation, chosen on the validation set.
        threshold: Decision threshold: 0.5, or chosen on the validation set.
    """

    kind: Literal["central"]
    title: str
    settings: dict[str, Any] = field(default_factory=dict)
    presets: dict[PresetName, dict[str, Any]] = field(default_factory=lambda: {"thesis": {}, "corrected": {}})
    seeds: PositiveInt = 3
    ridge: tuple[PositiveFloat, ...] = (0.01, 1.0, 100.0, 10000.0)
    threshold: Literal["0.5", "validation"] = "0.5"


def assessment_table(title: str, found: Mapping[str, Sequence[Outcome]], printed: bool = True) -> Table:
    """Table 6.3: a row per model, design and test set side by side.

    Args:
        title: Its title.
        found: By preset, every model of every seed.
        printed: Whether the thesis's numbers are shown.
    """
    scores: dict[str, dict[str, dict[str, list[Scores]]]] = {}
    for preset, outcomes in found.items():
        for outcome in outcomes:
            parts = scores.setdefault(outcome.model, {}).setdefault(
                preset, {part: [] for part in PARTS if part in outcome.parts}
            )
            for part, own in parts.items():
                own.append(outcome.parts[part])
    constant = {outcome.model for outcomes in found.values() for outcome in outcomes if outcome.seed is None}
    reference = {PRINTED_MODEL: printed_assessment()} if printed else {}
    return score_table("table-6-3", title, scores, reference, constant)


@KINDS.register
class AssessmentRun(RunKind):
    """The centralised models of a study."""

    name = "central"
    settings = AssessmentConfig

    @property
    def datasets(self) -> list[DataSettings]:
        """Features, task and split of each preset."""
        return [data for data, _ in self.models.values()]

    @cached_property
    def parts(self) -> dict[tuple[str, int | None], Task]:
        """The baselines and each seed, by preset."""
        tasks: dict[tuple[str, int | None], Task] = {}
        versions = [version_of(name) for name in ("tensorflow", "numpy", "scikit-learn")]
        for preset, (data, model) in self.models.items():
            content = self.study.key(data)
            for seed in (None, *self.seeds):
                name = "baselines" if seed is None else f"seed {seed}"
                chosen = None if seed is None else model.with_seed(seed)
                own = None if seed is None else [chosen, self.config.ridge, self.config.threshold]
                key = fingerprint([_VERSION, data, own, content, metric_names(), versions])
                work = partial(_assess, self.study, data, chosen, self.config)
                tasks[preset, seed] = Task(f"central model, {preset}, {name}", "central", key, work)
        return tasks

    def outcome(self, results: Mapping[str, Arrays]) -> tuple[list[Table], list[ResultFigure]]:
        """Table 6.3 under each preset."""
        return [assessment_table(self.config.title, self.outcomes(results))], []

    def outcomes(self, results: Mapping[str, Arrays]) -> dict[str, list[Outcome]]:
        """By preset, every model of every seed."""
        found: dict[str, list[Outcome]] = {preset: [] for preset in self.models}
        for (preset, _), task in self.parts.items():
            found[preset] += [outcome_from(one) for one in unpacked(results[task.key])]
        return found

    @cached_property
    def models(self) -> dict[str, tuple[DataSettings, CentralESN]]:
        """By preset, the data settings and the model."""
        return {
            preset: central_model(preset, merged(nested(self.config.settings), nested(changed)), self.run)
            for preset, changed in self.config.presets.items()
        }


def central_model(preset: str, settings: Mapping[str, Any], source: str) -> tuple[DataSettings, CentralESN]:
    """The data settings and the centralised model of a preset."""
    given = merged({"data": {"features": {"name": preset}, "split": "thesis"}}, settings)
    data = from_mapping(DataSettings, given.pop("data"), source)
    model = from_mapping(CentralESN, merged(preset_values(CentralESN, preset, given), given), source)
    return data, model


def outcome_from(values: Mapping[str, Any]) -> Outcome:
    """An outcome from its JSON."""
    scores = {name: {key: scores_from(own) for key, own in values[name].items()} for name in ("parts", "subjects")}
    return Outcome(**{**values, **scores})


def _assess(
    study: Study, data: DataSettings, model: CentralESN | None, config: AssessmentConfig, scratch: Path
) -> Arrays:
    dataset = study.dataset(data)
    if model is None:
        return packed([asdict(outcome) for outcome in assess_baselines(dataset)])
    return packed(
        [asdict(outcome) for outcome, _ in assess_esn(dataset, model, config.ridge, config.threshold == "validation")]
    )
