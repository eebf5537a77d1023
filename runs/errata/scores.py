"""Errata of what scores are said to mean."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import hypergeom

from tff_esn.datasets.splits import SPLITS
from tff_esn.datasets.tables import AFFECT, STRESS, Task
from tff_esn.metrics import majority, score
from tff_esn.runs.errata.catalogue import Evidence, Source, erratum, evidence
from tff_esn.runs.reported import reported
from tff_esn.seeds import generator_for

_TABLES = {"6.4": "table_6_4_same_reservoir", "6.5": "table_6_5_different_reservoirs"}


def _labels(source: Source, subjects: tuple[str, ...], task: Task) -> np.ndarray:
    features = source.features()
    labels = np.concatenate([task.labels(features[name].table.codes) for name in subjects])
    return labels[labels >= 0]


@erratum(
    "micro-f1",
    "thesis, section 6.1 and Tables 6.2 to 6.5, columns F1",
    says="F1 is chosen because “it is more suitable for task with unbalanced class distribution”; Table 6.3 prints "
    "“F1 (micro)”, equal to the accuracy in all digits.",
    correction="Balanced accuracy, AUROC, average precision, MCC and the F1 of the stress class stand beside it in "
    "every table.",
    changes="What was selected and compared is plain accuracy: no score in the tables distinguishes a "
    "model that never predicts “stressed” from one that does.",
)
def micro_f1(source: Source) -> Evidence:
    """Micro-averaged F1 of a task with one label an example is the accuracy."""
    random = generator_for(0, "errata", "micro-f1")
    labels = (random.random(1000) < 0.12).astype(int)
    scored = [score(labels, random.random(1000)), majority(labels)]
    names = ("random answers", "always “not stressed”")
    lines = [
        f"{name:22} accuracy {own.accuracy:.4f}   micro-F1 {own.f1_micro:.4f}   F1 of stress {own.f1_stress:.4f}"
        for name, own in zip(names, scored)
    ]
    return evidence(
        all(own.accuracy == own.f1_micro for own in scored) and scored[1].f1_stress == 0,
        "1000 examples, 12 % stress",
        *lines,
    )


@erratum(
    "majority-class",
    "thesis, Tables 6.4 and 6.5",
    says="FedAvg-1.0, FedCurv-0.1 and others are among the best federated models with a test F1 of 0.8693.",
    correction="The majority class's row belongs into the tables, and a mark on models that answer with a single "
    "class.",
    changes="Eight rows print the test score of “always not stressed”, six of them with its score on the validation "
    "subjects under “Train F1”: nothing was learned there.",
    recordings=True,
)
def majority_class(source: Source) -> Evidence:
    """0.8693 on test with 0.8878 (or 0.8810) on validation are the scores of always answering “not stressed”."""
    test = majority(_labels(source, source.split.test, STRESS)).accuracy
    lines = [f"always “not stressed”: test {test:.5f}"]
    if not source.generated:
        for name in ("thesis", "thesis-discriminative"):
            share = majority(_labels(source, SPLITS[name].validation, STRESS)).accuracy
            lines.append(f"always “not stressed”: validation of the split {name} {share:.4f}")
    rows = [
        (f"{table} {row}", own["train_f1"], own["test_f1"])
        for table, key in _TABLES.items()
        for row, own in reported()["thesis"][key].items()
        if own.get("test_f1") == 0.8693
    ]
    lines += [f"Table {name:21} train {train:.4f}   test {test_f1:.4f}" for name, train, test_f1 in rows]
    # The thesis cuts digits.
    same = source.generated or math.floor(test * 1e4) / 1e4 == 0.8693
    return evidence(len(rows) == 8 and same, *lines)


@erratum(
    "overcome-sota",
    "slides, “Our Contributions” and “Conclusions”; thesis, section 6.2 and chapter 7",
    says="“Our Echo State Network outperforms SOTA”: 0.9018 against 0.7792; “Since, the accuracy and F1 scores of "
    "the centralized model are the same, we can compare it with the SOTA”.",
    correction="Two tasks are compared by what each score is above its own majority class.",
    changes="The claim falls: 0.9018 is 0.03 above the majority class of two classes on one subject, 0.7792 is 0.39 "
    "above that of four classes on three (those of the authors' public code).",
    recordings=True,
)
def overcome_sota(source: Source) -> Evidence:
    """A binary score of a skewed class is set beside a score of four classes."""
    split = SPLITS["wesad-9-3-3"]
    others = split.test if set(split.subjects) <= set(source.study.subjects) else source.split.test
    table = reported()["thesis"]["table_6_4_same_reservoir"]
    gains, lines = [], []
    for name, printed, subjects, task in (
        ("thesis, 2 classes", table["Central"]["test_acc"], source.split.test, STRESS),
        ("SOTA, 4 classes", table["SOTA"]["test_acc"], others, AFFECT),
    ):
        usual = majority(_labels(source, subjects, task), classes=len(task.classes)).accuracy
        gains.append(printed - usual)
        lines.append(f"{name:18} printed {printed:.4f}   majority class {usual:.4f}   difference {gains[-1]:+.4f}")
    return evidence(gains[0] < gains[1], *lines)


@erratum(
    "valid-clients",
    "thesis, Figure 6.13 and section 6.2",
    says="“The discriminator has a Mean Absolute Error of 1.1410. So at each round, on average, it wrongly "
    "recognizes one client as valid.”",
    correction="Count whom it rejects: precision and recall of the fakes (`tff-esn reproduce discriminative-phase`).",
    changes="The error says nothing about the clients. A constant answer has a lower one, and two errors of "
    "opposite kind cancel in it.",
)
def valid_clients(source: Source) -> Evidence:
    """The error is that of a count; always answering “three of five” has a lower one."""
    printed = reported()["thesis"]["discriminator"]["fig_6_13_mae"]
    valid = np.arange(6)
    share = hypergeom(10, 5, 5).pmf(valid)
    errors = {answer: float(share @ np.abs(valid - answer)) for answer in valid.tolist()}
    return evidence(
        errors[3] < printed,
        "five of ten clients are fakes, five are drawn; mean error of a constant answer:",
        *(f"  “{answer} of five are valid”  {error:.4f}" for answer, error in errors.items()),
        f"printed for the discriminator  {printed:.4f}",
    )


@erratum(
    "table-b-3-deviation",
    "thesis, Table B.3",
    says="“0.7801 ± 0.77 … The values reported are the test accuracy and the standard deviation of the errors.”",
    correction="The deviations are in percent: 78.01 ± 0.77 %.",
    changes="Read as percent the rows are comparable with the other papers'.",
)
def table_b_3_deviation(source: Source) -> Evidence:
    """No deviation of an accuracy between 0 and 1 can be as large as printed."""
    deviations = [value[1] for row in reported()["thesis"]["table_b_3"].values() for value in row.values()]
    # Half of the values at 0 and half at 1: the population's deviation; that of a sample of two is larger.
    most = float(np.std([0.0, 1.0]))
    return evidence(
        min(deviations) > most,
        f"printed deviations: from {min(deviations):.2f} to {max(deviations):.2f}",
        f"the largest that values between 0 and 1 can have: {most:.2f}",
    )


@erratum(
    "balanced-classes",
    "IncFed paper, section IV-C",
    says="“Since the distribution of the classes is balanced, the random model sets a baseline”, of 25 %.",
    correction="The majority class is the baseline; `tff-esn solve` prints it beside every table.",
    changes="The margin of the printed 65.96 to 77.92 % shrinks by 14 points.",
    recordings=True,
)
def balanced_classes(source: Source) -> Evidence:
    """WESAD's four states last 20, 10, 6 and 14 minutes or so: always answering “baseline” is right far above 25 %."""
    split = SPLITS["wesad-9-3-3"]
    subjects = split.test if set(split.subjects) <= set(source.study.subjects) else source.study.subjects
    labels = _labels(source, subjects, AFFECT)
    shares = np.bincount(labels, minlength=4) / len(labels)
    return evidence(
        shares.max() > 0.3,
        f"shares of the classes in {', '.join(subjects)}:",
        *(f"  {name:10} {100 * share:5.1f} %" for name, share in zip(AFFECT.classes, shares)),
    )
