"""Names of federated models, what the thesis prints about them, and the majority class beside them."""

from __future__ import annotations

from tff_esn.config import FederatedConfig
from tff_esn.federated.rounds import Evaluator
from tff_esn.metrics import Scores, majority
from tff_esn.runs.reported import reported

MAJORITY = "majority class"
NAMES = {
    "fedavg": "FedAvg",
    "fedavg-unweighted": "FedAvg, unweighted",
    "fedprox": "FedProx",
    "fedsgd": "FedSGD",
    "mimelite": "MimeLite",
    "fedcurv": "FedCurv",
}
_TABLES = {"same": "table_6_4_same_reservoir", "different": "table_6_5_different_reservoirs"}
#: What Tables 6.4 and 6.5 call "train" are scores of the validation subjects: a model that always predicts "not
#: stressed" has 0.8878 there, the number they print most often.
_COLUMNS = {"validation": "train_f1", "test": "test_f1"}


def model_name(config: FederatedConfig) -> str:
    """As in Tables 6.4 and 6.5: the algorithm with the server's learning rate, and the defence."""
    defence = config.defence.kind if config.defence else "none"
    suffix = {"none": "", "discriminator": "+Disc"}.get(defence, f"+{defence}")
    return f"{NAMES[config.algorithm]}-{config.server_learning_rate}{suffix}"


def printed_scores(config: FederatedConfig) -> dict[str, float]:
    """What Table 6.4 or 6.5 prints after 78 rounds, by part and metric: its micro-averaged F1 is the accuracy."""
    if config.rounds != reported()["thesis"]["federated"]["rounds"]:
        return {}
    row = reported()["thesis"][_TABLES[config.reservoirs]].get(model_name(config), {})
    return {f"{part}.accuracy": row[column] for part, column in _COLUMNS.items() if column in row}


def majority_of(evaluator: Evaluator, classes: int) -> dict[str, Scores]:
    """Scores of the model that always predicts the most frequent class of the training examples, by part."""
    train = evaluator.labels("train")
    return {part: majority(evaluator.labels(part), train, classes) for part in evaluator.parts}
