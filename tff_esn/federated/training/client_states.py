"""A study's subjects as the clients of a federation: what each trains on, on disk; who is drawn in a round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tff_esn.config import FederatedConfig, ReservoirConfig
from tff_esn.errors import ConfigError, DataError
from tff_esn.features.inputs import Examples, ModelInputs
from tff_esn.federated.attacks import fake_clients, flipped, strength_of
from tff_esn.federated.input_noise import InputNoise
from tff_esn.reservoir.weights import ReservoirWeights, draw_weights
from tff_esn.seeds import generator_for, seed_for
from tff_esn.store.client_files import write_examples


@dataclass(frozen=True)
class ClientFiles:
    """The training clients' examples, one file each.

    Attributes:
        folder: Where the files are.
        clients: The clients.
        examples: How many each has.
        rows: Of each file: examples, and what fills up to the most of them in whole batches.
        shape: Of an example: `(units,)` for states, `(steps, columns)` for windows.
        elsewhere: The folder in which those who compute for the clients have the files; None for the same.
    """

    folder: Path
    clients: tuple[str, ...]
    examples: tuple[int, ...]
    rows: int
    shape: tuple[int, ...]
    elsewhere: Path | None = None

    def path(self, client: str) -> Path:
        """A client's file."""
        return self.folder / f"{client}.f32"

    def seen_path(self, client: str) -> Path:
        """The same where its work is done."""
        return (self.elsewhere or self.folder) / f"{client}.f32"

    @property
    def bytes(self) -> int:
        """Of all files together."""
        return sum(self.path(client).stat().st_size for client in self.clients)


def client_reservoirs(
    config: ReservoirConfig, columns: int, clients: Sequence[str], different: bool, seed: int
) -> tuple[ReservoirWeights, list[ReservoirWeights]]:
    """The server's reservoir, and each client's: the server's, or one from a seed of its own."""
    server = draw_weights(config, columns, seed)
    if not different:
        return server, [server] * len(clients)
    return server, [draw_weights(config, columns, seed_for(seed, "client reservoir", client)) for client in clients]


def training_inputs(inputs: ModelInputs, config: FederatedConfig, seed: int) -> ModelInputs:
    """What the training clients see, with noise where it is asked for, and that of an attack."""
    clients, noise, attack = inputs.split.train, config.noise, config.attack
    own = inputs.of(clients)
    if noise.standard_deviation:
        own = InputNoise(noise.standard_deviation, noise.clients or clients, seed).added_to(own)
    if attack is not None and attack.kind == "noise":
        fakes = fake_clients(attack, clients, seed)
        own = InputNoise(strength_of(attack), fakes, seed_for(seed, "attack")).added_to(own)
    return own


def write_client_states(
    folder: Path,
    inputs: ModelInputs,
    reservoirs: Sequence[ReservoirWeights],
    batch_size: int,
    liars: Sequence[str] = (),
) -> ClientFiles:
    """Writes the states of each client in its own reservoir; `liars` have the wrong labels."""
    examples: dict[str, Examples] = {}
    if all(weights is reservoirs[0] for weights in reservoirs):
        examples = inputs.states(reservoirs[0])
    else:
        for client, weights in zip(inputs.windows, reservoirs):
            examples.update(inputs.of([client]).states(weights))
    return _write(folder, inputs, examples, batch_size, liars)


def write_client_windows(folder: Path, inputs: ModelInputs, batch_size: int, liars: Sequence[str] = ()) -> ClientFiles:
    """Writes the windows of each client, for a reservoir in the graph; `liars` have the wrong labels."""
    if inputs.reading != "window":
        raise ConfigError(f"reading = {inputs.reading!r} with a reservoir in the graph; expected reading = 'window'")
    return _write(folder, inputs, inputs.sequences(), batch_size, liars)


def _write(
    folder: Path, inputs: ModelInputs, examples: dict[str, Examples], batch_size: int, liars: Sequence[str]
) -> ClientFiles:
    for client, own in examples.items():
        _check(client, own, inputs)
    counts = tuple(len(own.labels) for own in examples.values())
    rows = -(-max(counts) // batch_size) * batch_size
    examples.update({client: flipped(examples[client], len(inputs.task.classes)) for client in liars})
    for client, own in examples.items():
        write_examples(folder / f"{client}.f32", own.values, own.labels, rows)
    return ClientFiles(folder, tuple(examples), counts, rows, next(iter(examples.values())).values.shape[1:])


def _check(client: str, own: Examples, inputs: ModelInputs) -> None:
    task = inputs.task
    if not len(own.labels):
        raise DataError(client, f"no example of the task {task.name!r}", f"classes {', '.join(task.classes)}")
    held = np.unique(own.labels)
    if len(held) == 1:
        found = f"{len(own.labels)} examples, all of the class {task.classes[held[0]]!r}"
        raise DataError(client, found, "a client with more than one class, or a split without it")


def check_clients(config: FederatedConfig, clients: Sequence[str]) -> None:
    """Refuses more clients a round than there are."""
    if config.clients_per_round > len(clients):
        raise ConfigError(
            f"clients_per_round = {config.clients_per_round}; the split has {len(clients)} training clients: "
            f"{', '.join(clients)}"
        )


def drawn_clients(clients: Sequence[str], number: int, seed: int, round_number: int) -> list[str]:
    """The clients of a round, in the clients' order; the same for the same seed and round, whatever came before."""
    generator = generator_for(seed, "client sampling", str(round_number))
    chosen = generator.choice(len(clients), number, replace=False)
    return [clients[i] for i in sorted(chosen)]
