"""Clients of a federation: their training examples on disk, and the draw of a round's clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tff_esn.datasets.federated import FederatedDataset
from tff_esn.errors import ConfigError, DataError
from tff_esn.federated.algorithm import GradientAlgorithm
from tff_esn.reservoir.esn import ESN
from tff_esn.reservoir.samples import Samples, sample_states
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
        """A client's file as seen where its work is done."""
        return (self.elsewhere or self.folder) / f"{client}.f32"

    @property
    def bytes(self) -> int:
        """Size of all files together."""
        return sum(self.path(client).stat().st_size for client in self.clients)


def client_reservoirs(
    esn: ESN, inputs: int, clients: Sequence[str], different: bool, seed: int
) -> tuple[ReservoirWeights, list[ReservoirWeights]]:
    """The server's reservoir, and each client's: the server's, or one from a seed of its own."""
    server = draw_weights(esn, inputs, seed)
    if not different:
        return server, [server] * len(clients)
    return server, [draw_weights(esn, inputs, seed_for(seed, "client reservoir", client)) for client in clients]


def training_data(data: FederatedDataset, algorithm: GradientAlgorithm, seed: int) -> FederatedDataset:
    """The training clients' data, with the algorithm's noise and what its attack changes."""
    attack, noisy = algorithm.attack, algorithm.noise.added_to(data.part("train"), seed)
    if attack is None:
        return noisy
    return attack.on_data(noisy, attack.fake_clients(noisy.clients, seed), seed_for(seed, "attack"))


def write_client_states(
    folder: Path, data: FederatedDataset, reservoirs: Sequence[ReservoirWeights], batch_size: int
) -> ClientFiles:
    """Writes the states of each client in its own reservoir."""
    samples: dict[str, Samples] = {}
    if all(weights is reservoirs[0] for weights in reservoirs):
        samples = sample_states(data, reservoirs[0])
    else:
        for client, weights in zip(data.clients, reservoirs):
            samples.update(sample_states(data.of([client]), weights))
    return _write(folder, data, samples, batch_size)


def write_client_windows(folder: Path, data: FederatedDataset, batch_size: int) -> ClientFiles:
    """Writes the windows of each client, for a reservoir in the graph."""
    samples = {}
    for client, own in data.sequences.items():
        if own.per_step or isinstance(own.values, tuple):
            raise ConfigError(
                f"{client}: a label for each step with a reservoir in the graph; expected windows with a label each"
            )
        samples[client] = Samples(own.values[own.counted], own.sample_labels)
    return _write(folder, data, samples, batch_size)


def _write(folder: Path, data: FederatedDataset, samples: dict[str, Samples], batch_size: int) -> ClientFiles:
    for client, own in samples.items():
        if not len(own.labels):
            found = f"no sample of the task {data.task.name!r}"
            raise DataError(client, found, f"classes {', '.join(data.classes)}")
    counts = tuple(len(own.labels) for own in samples.values())
    rows = -(-max(counts) // batch_size) * batch_size
    for client, own in samples.items():
        write_examples(folder / f"{client}.f32", own.values, own.labels, rows)
    return ClientFiles(folder, tuple(samples), counts, rows, next(iter(samples.values())).values.shape[1:])


def clients_per_round(algorithm: GradientAlgorithm, clients: Sequence[str]) -> int:
    """How many clients are drawn each round; more than there are is an error."""
    number = algorithm.clients_per_round or len(clients)
    if number > len(clients):
        raise ConfigError(
            f"clients_per_round = {number}; the split has {len(clients)} training clients: {', '.join(clients)}"
        )
    return number


def drawn_clients(clients: Sequence[str], number: int, seed: int, round_number: int) -> list[str]:
    """The clients of a round, in the clients' order; depends on the seed and the round only."""
    generator = generator_for(seed, "client sampling", str(round_number))
    chosen = generator.choice(len(clients), number, replace=False)
    return [clients[i] for i in sorted(chosen)]
