from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tff_esn.algorithm import ALGORITHMS
from tff_esn.closed_form.algorithm import ClosedForm
from tff_esn.closed_form.federation import fit_with_tff, write_sequences
from tff_esn.datasets.federated import FederatedDataset, LabelledSequences
from tff_esn.datasets.splits import ClientSplit
from tff_esn.datasets.tables import TASKS
from tff_esn.errors import ConfigError
from tff_esn.reservoir.esn import ESN


def chunks(lengths: tuple[int, int] = (12, 12)) -> FederatedDataset:
    """Three clients with two chunks of each class, whose level says which it is."""
    sequences = {}
    for client in "abc":
        random = np.random.default_rng(ord(client))
        values = [np.full((steps, 2), level) + random.normal(size=(steps, 2)) for level in (0, 2) for steps in lengths]
        labels = [np.full(len(own), number // 2) for number, own in enumerate(values)]
        equal = len(set(lengths)) == 1
        sequences[client] = (
            LabelledSequences(np.array(values), np.array(labels))
            if equal
            else LabelledSequences(tuple(values), tuple(labels))
        )
    return FederatedDataset(sequences, TASKS["stress"], ("x", "y"), ClientSplit(("a", "b"), (), ("c",)))


def algorithm_of(name: str) -> ClosedForm:
    algorithm: ClosedForm = ALGORITHMS[name](ESN(units=12, leaking_rate=0.5, seed=3), ridge=1.0)  # type: ignore[call-arg]
    return algorithm


@pytest.mark.parametrize("name", ["incfed", "central-ridge", "averaging", "partial", "pfedrr", "low-rank", "fedip"])
def test_tff_gives_the_same_readout(name: str, tmp_path: Path) -> None:
    data, algorithm = chunks(), algorithm_of(name)
    found = fit_with_tff(algorithm, data, write_sequences(tmp_path, data))
    np.testing.assert_allclose(found.readout.kernel, algorithm.fit(data).readout.kernel, rtol=0.02, atol=2e-4)


def test_what_tff_cannot_do_is_refused(tmp_path: Path) -> None:
    data = chunks()
    with pytest.raises(ConfigError, match=r"secure-incfed.*; expected engine numpy"):
        fit_with_tff(algorithm_of("secure-incfed"), data, write_sequences(tmp_path, data))
    with pytest.raises(ConfigError, match="a: other than one label for all steps of a chunk; expected chunks"):
        write_sequences(tmp_path, chunks((12, 9)))
