"""Model assessment: train on the design set, score design and test set, over seeds (thesis Table 6.3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Callable

from numpy.typing import NDArray

from tff_esn.config import CentralConfig
from tff_esn.deployment.keras_model import TrainedEsn
from tff_esn.errors import ConfigError
from tff_esn.features.inputs import Examples, ModelInputs
from tff_esn.metrics import Scores, best_threshold, majority, per_subject, score
from tff_esn.readout.ridge import CentredMoments
from tff_esn.readout.training import fit_readout
from tff_esn.reservoir.weights import draw_weights

Predictor = Callable[[NDArray], NDArray]
PARTS = ("design", "test")
#: The model that Table 6.3 is about.
PRINTED_MODEL = "ESN, time order"


@dataclass(frozen=True)
class Outcome:
    """One model, trained once.

    Attributes:
        model: Its name in the tables.
        seed: The seed of everything random in it; None for models without chance.
        parts: Scores on the design and the test set.
        subjects: Scores of each subject.
        threshold: Probability above which the answer is 1.
    """

    model: str
    seed: int | None
    parts: dict[str, Scores]
    subjects: dict[str, Scores]
    threshold: float


class _Data:
    """The examples of a split, by part and by subject."""

    def __init__(self, inputs: ModelInputs, examples: dict[str, Examples]) -> None:
        self.classes = len(inputs.task.classes)
        self.examples = examples
        self.split = inputs.split

    def part(self, name: str) -> Examples:
        return Examples.concatenate([self.examples[subject] for subject in getattr(self.split, name)])

    def outcome(self, model: str, seed: int | None, predict: Predictor, threshold: float = 0.5) -> Outcome:
        answers = {subject: predict(own.values) for subject, own in self.examples.items()}
        labels = {subject: own.labels for subject, own in self.examples.items()}
        parts = {}
        for name in PARTS:
            own = getattr(self.split, name)
            pooled = per_subject(
                {subject: labels[subject] for subject in own}, {subject: answers[subject] for subject in own}, threshold
            )
            parts[name] = pooled["all"]
        return Outcome(model, seed, parts, per_subject(labels, answers, threshold), threshold)


def assess_esn(
    inputs: ModelInputs, config: CentralConfig, seed: int, choose_threshold: bool = False
) -> Iterator[tuple[Outcome, TrainedEsn]]:
    """Trains the readouts of one reservoir: by gradients in time order and shuffled, and by ridge regression.

    Args:
        inputs: The study.
        config: The model.
        seed: Seed of reservoir, readout and order.
        choose_threshold: Whether the decision threshold is chosen on the validation set, with a
            readout of the training set, rather than 0.5.
    """
    weights = draw_weights(config.reservoir, inputs.columns, seed)
    data = _Data(inputs, inputs.states(weights))
    if choose_threshold and data.classes > 2:
        raise ConfigError(f"a threshold for {data.classes} classes; expected two, a threshold cannot tell more apart")
    train, validation, design = data.part("train"), data.part("validation"), data.part("design")

    for order in ("time", "shuffled"):
        readout_config = replace(config.readout, order=order)
        threshold = 0.5
        if choose_threshold:
            trial = fit_readout(train.values, train.labels, data.classes, readout_config, seed)
            threshold = best_threshold(validation.labels, trial.probabilities(validation.values))
        readout = fit_readout(design.values, design.labels, data.classes, readout_config, seed)
        name = PRINTED_MODEL if order == "time" else "ESN, shuffled"
        yield data.outcome(name, seed, readout.probabilities, threshold), TrainedEsn(weights, readout)

    ridge, answers = _choose_ridge(train, validation, data.classes, config)
    threshold = best_threshold(validation.labels, answers) if choose_threshold else 0.5
    solved = CentredMoments.of(design.values, design.labels, data.classes, config.readout.class_weight).solve(ridge)
    yield data.outcome("ESN, ridge", seed, solved.answers, threshold), TrainedEsn(weights, solved)


def _choose_ridge(train: Examples, validation: Examples, classes: int, config: CentralConfig) -> tuple[float, NDArray]:
    """The regularisation with the best AUROC on the validation set, and its answers there."""
    moments = CentredMoments.of(train.values, train.labels, classes, config.readout.class_weight)
    answers = {ridge: moments.solve(ridge).answers(validation.values) for ridge in config.ridge}
    best = max(answers, key=lambda ridge: score(validation.labels, answers[ridge]).auroc)
    return best, answers[best]


def assess_baselines(inputs: ModelInputs) -> Iterator[Outcome]:
    """Models without a reservoir: the majority class, logistic regression and, for two classes, thresholds."""
    from sklearn.linear_model import LogisticRegression

    data = _Data(inputs, inputs.features())
    design = data.part("design")
    yield _majority(data, design)
    if data.classes == 2:
        for column, name in enumerate(next(iter(inputs.windows.values())).names):
            threshold = best_threshold(design.labels, design.values[:, column])
            yield data.outcome(f"threshold on {name}", None, partial(_column, column), threshold)
    logistic = LogisticRegression(class_weight="balanced", max_iter=1000).fit(design.values, design.labels)
    yield data.outcome("logistic", None, logistic.predict_proba)


def _column(column: int, values: NDArray) -> NDArray:
    return values[:, column]


def _majority(data: _Data, design: Examples) -> Outcome:
    parts = {name: majority(data.part(name).labels, design.labels, data.classes) for name in PARTS}
    subjects = {subject: majority(own.labels, design.labels, data.classes) for subject, own in data.examples.items()}
    return Outcome("majority class", None, parts, subjects, 0.5)
