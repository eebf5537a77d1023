"""An algorithm on a data set: everything that several trainings share is computed once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tff_esn.datasets.federated import FederatedDataset
from tff_esn.federated.algorithm import GradientAlgorithm
from tff_esn.federated.defences.defence import Defence
from tff_esn.federated.training.client_states import (
    ClientFiles,
    client_reservoirs,
    clients_per_round,
    training_data,
    write_client_states,
    write_client_windows,
)
from tff_esn.federated.training.federation import build_federation
from tff_esn.federated.training.rounds import Evaluator, Program
from tff_esn.readout.model import TrainedESN
from tff_esn.readout.parameters import GradientTraining, class_weights
from tff_esn.readout.readout import Readout, initial_readout
from tff_esn.reservoir.samples import sample_states
from tff_esn.reservoir.weights import ReservoirWeights
from tff_esn.store.cache import Cache, Shared
from tff_esn.store.json_values import fingerprint


class FederatedExperiment:
    """Clients on disk, reservoirs and evaluations of a data set, shared by the algorithms that are run on it.

    Args:
        data: The clients.
        scratch: Folder for the clients' files.
        elsewhere: Path of that folder where the clients' work is done, such as a copy on another host; None if it is
            the same.
    """

    def __init__(self, data: FederatedDataset, scratch: Path, elsewhere: Path | None = None) -> None:
        self.data, self._scratch, self._elsewhere = data, scratch, elsewhere
        self._drawn, self._evaluators, self._defences = Shared(), Shared(), Shared()
        self._written = Shared(dropped=lambda files: shutil.rmtree(files.folder))

    def program(self, algorithm: GradientAlgorithm) -> Program:
        """The rounds of an algorithm; its seed is that of reservoirs, initial readout, noise, orders and drawing."""
        seed, classes = algorithm.esn.seed, len(self.data.classes)
        number = clients_per_round(algorithm, self.data.partition.train)
        in_graph = algorithm.chosen_engine == "graph"
        federation = build_federation(
            algorithm,
            self.training(algorithm),
            self.files(algorithm),
            classes,
            initial_readout(algorithm.esn.units, classes, seed),
            seed,
            self._reservoirs(algorithm)[1] if in_graph else None,
            self._defence(algorithm),
        )
        evaluator = self._evaluator(algorithm)
        return Program(federation, evaluator, algorithm.rounds, number, algorithm.evaluate_every, seed)

    def trained(self, algorithm: GradientAlgorithm, readout: Readout) -> TrainedESN:
        """The model of a readout that an algorithm's rounds ended with."""
        return TrainedESN.of(algorithm, self.data, self._reservoirs(algorithm)[0], readout)

    def training(self, algorithm: GradientAlgorithm) -> GradientTraining:
        """How a client trains, with a number for each class weight."""
        labels = self.data.part("train").labels()
        weights = class_weights(algorithm.class_weight, labels, len(self.data.classes))
        return replace(algorithm.training, class_weight=weights)

    def files(self, algorithm: GradientAlgorithm) -> ClientFiles:
        """The clients' examples, in a subfolder of the scratch folder."""
        in_graph = algorithm.chosen_engine == "graph"
        size, seed = algorithm.batch_size, algorithm.esn.seed
        attack = algorithm.attack if algorithm.attack is not None and algorithm.attack.changes_data else None
        reservoirs = None if in_graph else (algorithm.esn, algorithm.reservoirs)
        key = (algorithm.noise, attack, seed, size, reservoirs)

        def make() -> ClientFiles:
            data = training_data(self.data, algorithm, seed)
            folder = self._scratch / fingerprint(key)
            if in_graph:
                files = write_client_windows(folder, data, size)
            else:
                files = write_client_states(folder, data, self._reservoirs(algorithm)[1], size)
            return files if self._elsewhere is None else replace(files, elsewhere=self._elsewhere / folder.name)

        return self._written.get(key, make, lambda made: made.bytes)

    def _defence(self, algorithm: GradientAlgorithm) -> Defence | None:
        defence, training = algorithm.defence, self.training(algorithm)
        if defence is None:
            return None

        def make() -> Defence:
            return defence.prepared(self.data, algorithm, training, self._scratch / "defence")

        # One object for each, so that one process serves it; they are small.
        return self._defences.get((defence, algorithm.esn, algorithm.reservoirs, training), make, lambda made: 0)

    def _reservoirs(self, algorithm: GradientAlgorithm) -> tuple[ReservoirWeights, list[ReservoirWeights]]:
        different, data, esn = algorithm.reservoirs == "different", self.data, algorithm.esn

        def make() -> tuple[ReservoirWeights, list[ReservoirWeights]]:
            return client_reservoirs(esn, data.inputs, data.partition.train, different, esn.seed)

        return self._drawn.get(
            (esn, different), make, lambda made: made[0].recurrent_kernel.nbytes * (1 + len(made[1]))
        )

    def _evaluator(self, algorithm: GradientAlgorithm) -> Evaluator:
        def make() -> Evaluator:
            return Evaluator(sample_states(self.data, self._reservoirs(algorithm)[0]), self.data.partition)

        return self._evaluators.get(algorithm.esn, make, lambda made: made.states.nbytes)


@contextmanager
def temporary_experiment(data: FederatedDataset) -> Iterator[FederatedExperiment]:
    """An experiment whose files are gone when the block ends."""
    with Cache().scratch() as scratch:
        yield FederatedExperiment(data, scratch)


def train(algorithm: GradientAlgorithm, data: FederatedDataset) -> TrainedESN:
    """Runs all rounds of an algorithm."""
    with temporary_experiment(data) as experiment:
        readout, _ = experiment.program(algorithm).run(description=algorithm.label)
        return experiment.trained(algorithm, readout)
