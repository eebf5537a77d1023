"""Base of the algorithms that learn in rounds of local training: shared parameters, and `fit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Optional

from pydantic.dataclasses import dataclass

from tff_esn.algorithm import Algorithm
from tff_esn.datasets.federated import FederatedDataset
from tff_esn.errors import ConfigError
from tff_esn.federated.attacks.attack import AttackChoice
from tff_esn.federated.defences.defence import DefenceChoice
from tff_esn.federated.input_noise import InputNoise
from tff_esn.parameters import STRICT, PositiveFloat, PositiveInt
from tff_esn.readout.parameters import GradientTraining

if TYPE_CHECKING:
    from collections.abc import Callable

    import tensorflow_federated as tff

    from tff_esn.federated.objective import Objective
    from tff_esn.readout.model import TrainedESN

Engine = Literal["states", "builtin", "graph"]


@dataclass(frozen=True, repr=False, config=STRICT)
class GradientAlgorithm(GradientTraining, Algorithm):
    """In each round some clients train the server's readout on their data, and the server averages their updates.

    Attributes:
        rounds: Number of rounds.
        clients_per_round: Number of clients drawn per round; None for all.
        server_learning_rate: Learning rate of the server's SGD; with 1 the server's weights are the clients' mean.
        reservoirs: Clients have the `same` reservoir as the server, or each a `different` one.
        evaluate_every: Rounds between evaluations.
        engine: How rounds are computed. `states`: train on states that are computed once, in one compiled loop per
            client. `builtin`: TFF's built-in process on the same states. `graph`: the reservoir inside TFF's model.
            None for the fastest that the algorithm has.
        noise: Gaussian noise on the training inputs of chosen clients.
        attack: Attack by some of the clients, such as `sign-flip`; None for no attack.
        defence: Defence of the server against attacks, such as `median`; None or `none` for no defence.
    """

    rounds: PositiveInt = 50
    clients_per_round: Optional[PositiveInt] = None
    server_learning_rate: PositiveFloat = 1.0
    reservoirs: Literal["same", "different"] = "same"
    evaluate_every: PositiveInt = 1
    engine: Optional[Engine] = None
    noise: InputNoise = InputNoise()
    attack: Optional[AttackChoice] = None
    defence: DefenceChoice = None

    family: ClassVar[str] = "federated"

    @property
    def client_weighting(self) -> str:
        """Weight of a client's update in the mean: its number of `examples`, or `uniform`."""
        return "examples"

    def objective(self) -> Objective | None:
        """What a client minimises in addition to its loss; None for an algorithm without the engine `states`."""
        return None

    def build(
        self,
        model: Callable[[], Any],
        client_optimizer: tff.learning.optimizers.Optimizer,
        server_optimizer: tff.learning.optimizers.Optimizer,
    ) -> tff.learning.templates.LearningProcess:
        """TFF's built-in process of the algorithm, for the engines `builtin` and `graph`."""
        raise ConfigError(f"engine = {self.engine!r} with {self.name}; expected {' or '.join(self.engines)}")

    @property
    def engines(self) -> tuple[str, ...]:
        """The engines that the algorithm has, the default one first."""
        own = ("states",) if self.objective() is not None else ()
        return (*own, "builtin", "graph") if type(self).build is not GradientAlgorithm.build else (*own, "graph")

    @property
    def chosen_engine(self) -> str:
        """The chosen engine, or the algorithm's default."""
        if self.engine not in (None, *self.engines):
            raise ConfigError(f"engine = {self.engine!r} with {self.name}; expected {' or '.join(self.engines)}")
        return self.engine or self.engines[0]

    def fit(self, data: FederatedDataset) -> TrainedESN:
        """Runs all rounds, with a progress bar."""
        from tff_esn.federated.training.experiment import train

        return train(self, data)
