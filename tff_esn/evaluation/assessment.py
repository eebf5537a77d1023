"""Model assessment: train on the design set, score design and test set, over seeds (thesis Table 6.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Callable

from numpy.typing import NDArray

from tff_esn.central.esn import CentralESN
from tff_esn.datasets.federated import FederatedDataset
from tff_esn.errors import ConfigError
from tff_esn.metrics import Scores, best_threshold, majority, per_subject, score
from tff_esn.readout.model import TrainedESN
from tff_esn.readout.parameters import class_weights
from tff_esn.readout.ridge import CentredMoments
from tff_esn.reservoir.samples import Samples, sample_features, sample_states
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
        seed: Seed of every random choice; None for deterministic models.
        parts: Scores on the design and the test set.
        subjects: Scores of each subject.
        threshold: Probability above which class 1 is predicted.
    """

    model: str
    seed: int | None
    parts: dict[str, Scores]
    subjects: dict[str, Scores]
    threshold: float


class _Data:
    """The samples of a data set, by part and by subject."""

    def __init__(self, data: FederatedDataset, samples: dict[str, Samples]) -> None:
        self.classes = len(data.classes)
        self.examples = samples
        self.split = data.partition

    @property
    def parts(self) -> tuple[str, ...]:
        """Those of `PARTS` that have subjects."""
        return tuple(name for name in PARTS if getattr(self.split, name))

    def part(self, name: str) -> Samples:
        return Samples.concatenate([self.examples[subject] for subject in getattr(self.split, name)])

    def outcome(self, model: str, seed: int | None, predict: Predictor, threshold: float = 0.5) -> Outcome:
        answers = {subject: predict(own.values) for subject, own in self.examples.items()}
        labels = {subject: own.labels for subject, own in self.examples.items()}
        parts = {}
        for name in self.parts:
            own = getattr(self.split, name)
            pooled = per_subject(
                {subject: labels[subject] for subject in own}, {subject: answers[subject] for subject in own}, threshold
            )
            parts[name] = pooled["all"]
        return Outcome(model, seed, parts, per_subject(labels, answers, threshold), threshold)


def assess_esn(
    data: FederatedDataset, model: CentralESN, ridge: Sequence[float], choose_threshold: bool = False
) -> Iterator[tuple[Outcome, TrainedESN]]:
    """Trains the readouts of one reservoir: by gradients in time order and shuffled, and by ridge regression.

    Args:
        data: The study.
        model: The model, with its seed.
        ridge: Candidates for the ridge readout's regularisation, chosen on the validation set.
        choose_threshold: Whether the decision threshold is chosen on the validation set, with a
            readout of the training set, rather than 0.5.
    """
    from tff_esn.readout.training import fit_readout

    seed, weights = model.esn.seed, draw_weights(model.esn, data.inputs, model.esn.seed)
    own = _Data(data, sample_states(data, weights))
    if choose_threshold and own.classes > 2:
        raise ConfigError(f"a threshold for {own.classes} classes; expected two, for a threshold")
    design = own.part("design")
    # Without validation subjects there is nothing to choose on.
    train, validation = (own.part("train"), own.part("validation")) if data.partition.validation else (design, None)

    for order in ("time", "shuffled"):
        training = replace(model.training, order=order)
        threshold = 0.5
        if choose_threshold and validation is not None:
            trial = fit_readout(train.values, train.labels, own.classes, training, seed)
            threshold = best_threshold(validation.labels, trial.outputs(validation.values))
        readout = fit_readout(design.values, design.labels, own.classes, training, seed)
        name = PRINTED_MODEL if order == "time" else "ESN, shuffled"
        trained = TrainedESN.of(model, data, weights, readout, threshold, "design")
        yield own.outcome(name, seed, readout.outputs, threshold), trained

    strength, threshold = ridge[0], 0.5
    if validation is not None:
        strength, answers = _choose_ridge(train, validation, own.classes, model, ridge)
        threshold = best_threshold(validation.labels, answers) if choose_threshold else 0.5
    solved = _moments(design, own.classes, model).solve(strength)
    trained = TrainedESN.of(model, data, weights, solved, threshold, "design")
    yield own.outcome("ESN, ridge", seed, solved.outputs, threshold), trained


def _moments(samples: Samples, classes: int, model: CentralESN) -> CentredMoments:
    weights = class_weights(model.class_weight, samples.labels, classes)
    return CentredMoments.of(samples.values, samples.labels, classes, weights)


def _choose_ridge(
    train: Samples, validation: Samples, classes: int, model: CentralESN, ridge: Sequence[float]
) -> tuple[float, NDArray]:
    """The regularisation with the best AUROC on the validation set, and its outputs there."""
    moments = _moments(train, classes, model)
    answers = {strength: moments.solve(strength).outputs(validation.values) for strength in ridge}
    best = max(answers, key=lambda strength: score(validation.labels, answers[strength]).auroc)
    return best, answers[best]


def assess_baselines(inputs: FederatedDataset) -> Iterator[Outcome]:
    """Models without a reservoir: the majority class, logistic regression and, for two classes, thresholds."""
    from sklearn.linear_model import LogisticRegression

    data = _Data(inputs, sample_features(inputs))
    design = data.part("design")
    yield _majority(data, design)
    if data.classes == 2:
        for column, name in enumerate(inputs.features):
            threshold = best_threshold(design.labels, design.values[:, column])
            yield data.outcome(f"threshold on {name}", None, partial(_column, column), threshold)
    logistic = LogisticRegression(class_weight="balanced", max_iter=1000).fit(design.values, design.labels)
    yield data.outcome("logistic", None, logistic.predict_proba)


def _column(column: int, values: NDArray) -> NDArray:
    return values[:, column]


def _majority(data: _Data, design: Samples) -> Outcome:
    parts = {name: majority(data.part(name).labels, design.labels, data.classes) for name in data.parts}
    subjects = {subject: majority(own.labels, design.labels, data.classes) for subject, own in data.examples.items()}
    return Outcome("majority class", None, parts, subjects, 0.5)
