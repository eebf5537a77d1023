"""Federated scores as rows of a table, beside what the thesis prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tff_esn.config import FederatedConfig
from tff_esn.evaluation.score_tables import ScoreRow
from tff_esn.federated.rounds import PARTS, Evaluator
from tff_esn.metrics import Scores, majority
from tff_esn.runs.reported import reported

NAMES = {
    "fedavg": "FedAvg",
    "fedavg-unweighted": "FedAvg, unweighted",
    "fedprox": "FedProx",
    "fedsgd": "FedSGD",
    "mimelite": "MimeLite",
    "fedcurv": "FedCurv",
}
_TABLES = {"same": "table_6_4_same_reservoir", "different": "table_6_5_different_reservoirs"}
#: What Tables 6.4 and 6.5 call "train" are scores of the validation subjects: a model that always answers "not
#: stressed" has 0.8878 there, the number they print most often.
_COLUMNS = {"validation": "train_f1", "test": "test_f1"}


def model_name(config: FederatedConfig) -> str:
    """As in Tables 6.4 and 6.5: the algorithm with the server's learning rate, and the defence."""
    defence = config.defence.kind if config.defence else "none"
    suffix = {"none": "", "discriminator": "+Disc"}.get(defence, f"+{defence}")
    return f"{NAMES[config.algorithm]}-{config.server_learning_rate}{suffix}"


def printed_scores(config: FederatedConfig, part: str) -> dict[str, float]:
    """What Table 6.4 or 6.5 prints after 78 rounds, by metric; micro-averaged F1 is the accuracy."""
    if config.rounds != reported()["thesis"]["federated"]["rounds"]:
        return {}
    row = reported()["thesis"][_TABLES[config.reservoirs]].get(model_name(config), {})
    value = row.get(_COLUMNS.get(part, ""))
    return {} if value is None else {"accuracy": value, "f1_micro": value}


def majority_of(evaluator: Evaluator, classes: int) -> dict[str, Scores]:
    """Scores of the model that always answers the class that most training examples have, by part."""
    train = evaluator.labels("train")
    return {part: majority(evaluator.labels(part), train, classes) for part in evaluator.parts}


def majority_rows(evaluator: Evaluator, classes: int) -> list[ScoreRow]:
    """The same as rows of a table."""
    return [ScoreRow("majority class", part, [scores]) for part, scores in majority_of(evaluator, classes).items()]


def score_rows(name: str, scores: Sequence[Mapping[str, Scores]], config: FederatedConfig) -> list[ScoreRow]:
    """One row a part, all seeds in it, with what the thesis prints for the configuration."""
    parts = [part for part in PARTS if part in scores[0]]
    return [ScoreRow(name, part, [one[part] for one in scores], printed_scores(config, part)) for part in parts]
