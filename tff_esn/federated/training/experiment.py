"""A study under federated configurations: everything that runs share is made once."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from tff_esn.config import FederatedConfig
from tff_esn.features.inputs import ModelInputs
from tff_esn.federated.attacks import ON_DATA, fake_clients
from tff_esn.federated.clients import (
    ClientFiles,
    check_clients,
    client_reservoirs,
    training_inputs,
    write_client_states,
    write_client_windows,
)
from tff_esn.federated.defences import RULES, Rule
from tff_esn.federated.discriminator import Discriminator, discriminator_for
from tff_esn.federated.federation import build_federation, engine_of
from tff_esn.federated.local import Objective
from tff_esn.federated.rounds import Evaluator, Program
from tff_esn.readout.readout import initial_readout
from tff_esn.reservoir.weights import ReservoirWeights
from tff_esn.store.cache import Shared
from tff_esn.store.json_values import fingerprint


class FederatedStudy:
    """Subjects as clients.

    Args:
        inputs: What a model sees of the subjects.
        scratch: Folder for the clients' files.
        elsewhere: The same folder for whoever computes for the clients, such as a copy of it on another host's disk;
            None if they see this one.
    """

    def __init__(self, inputs: ModelInputs, scratch: Path, elsewhere: Path | None = None) -> None:
        self.inputs, self._scratch, self._elsewhere = inputs, scratch, elsewhere
        self._drawn, self._evaluators, self._discriminators = Shared(), Shared(), Shared()
        self._written = Shared(dropped=lambda files: shutil.rmtree(files.folder))

    def program(self, config: FederatedConfig, seed: int, objective: Objective | None = None) -> Program:
        """The rounds of a configuration, with all that presets decide.

        Args:
            config: Its inputs are those of this study.
            seed: Of every random choice: reservoirs, initial readout, noise, orders and drawing.
            objective: What clients minimise beside their loss; None for that of the configuration's algorithm.
        """
        check_clients(config, self.inputs.split.train)
        classes = len(self.inputs.task.classes)
        in_graph = engine_of(config) == "graph"
        own = self._reservoirs(config, seed)[1] if in_graph else None
        federation = build_federation(
            config,
            self.files(config, seed),
            classes,
            initial_readout(config.reservoir.units, classes, seed),
            seed,
            own,
            self._rule(config, seed),
            objective,
        )
        return Program(
            federation,
            self._evaluator(config, seed),
            config.rounds,
            config.clients_per_round,
            config.evaluate_every,
            seed,
        )

    def reservoir(self, config: FederatedConfig, seed: int) -> ReservoirWeights:
        """The server's."""
        return self._reservoirs(config, seed)[0]

    def discriminator(self, config: FederatedConfig, seed: int) -> Discriminator:
        """That of a configuration whose defence it is."""
        key = (config.defence, config.discriminator, config.reservoir, config.reservoirs, config.readout, seed)

        def make() -> Discriminator:
            return discriminator_for(self.inputs, config, seed, self._scratch / "discriminator")

        return self._discriminators.get(key, make, lambda made: sum(kernel.nbytes for kernel, _ in made.layers))

    def files(self, config: FederatedConfig, seed: int) -> ClientFiles:
        """The clients' examples, in a folder of their own below that of all."""
        assert config.readout is not None
        in_graph = engine_of(config) == "graph"
        size = config.readout.batch_size
        attack = config.attack if config.attack is not None and config.attack.kind in ON_DATA else None
        key = (config.noise, attack, seed, size, None if in_graph else (config.reservoir, config.reservoirs))

        def make() -> ClientFiles:
            inputs = training_inputs(self.inputs, config, seed)
            folder = self._scratch / fingerprint(key)
            lies = attack is not None and attack.kind == "label-flip"
            liars = fake_clients(attack, self.inputs.split.train, seed) if lies else ()
            if in_graph:
                files = write_client_windows(folder, inputs, size, liars)
            else:
                files = write_client_states(folder, inputs, self._reservoirs(config, seed)[1], size, liars)
            return files if self._elsewhere is None else replace(files, elsewhere=self._elsewhere / folder.name)

        return self._written.get(key, make, lambda made: made.bytes)

    def _rule(self, config: FederatedConfig, seed: int) -> Rule | None:
        defence = config.defence
        if defence is None or defence.kind in ("none", "tff-robust"):
            return None
        if defence.kind != "discriminator":
            return RULES[defence.kind]
        assert defence.treatment is not None
        return self.discriminator(config, seed).rule(defence.treatment)

    def _reservoirs(self, config: FederatedConfig, seed: int) -> tuple[ReservoirWeights, list[ReservoirWeights]]:
        different, inputs = config.reservoirs == "different", self.inputs

        def make() -> tuple[ReservoirWeights, list[ReservoirWeights]]:
            return client_reservoirs(config.reservoir, inputs.columns, inputs.split.train, different, seed)

        key = (config.reservoir, different, seed)
        return self._drawn.get(key, make, lambda made: made[0].recurrent_kernel.nbytes * (1 + len(made[1])))

    def _evaluator(self, config: FederatedConfig, seed: int) -> Evaluator:
        def make() -> Evaluator:
            return Evaluator(self.inputs.states(self.reservoir(config, seed)), self.inputs.split)

        return self._evaluators.get((config.reservoir, seed), make, lambda made: made.states.nbytes)
