from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from tests.conftest import DEAF
from tff_esn.datasets.tables import AFFECT, STRESS
from tff_esn.errors import ConfigError, DataError
from tff_esn.features.windows import Sequences
from tff_esn.runtime.context import load_tff
from tff_esn.store.client_files import InputNoise, batched, client_data, write_clients

tff = load_tff()


def sequences() -> dict[str, Sequences]:
    random = np.random.default_rng(0)
    return {
        name: Sequences(name, ("a", "b"), random.normal(size=(n, 4, 2)), random.integers(0, 5, n))
        for name, n in (("S2", 45), ("S3", 30))
    }


def examples(clients: tff.simulation.datasets.ClientData, client: str) -> tuple[np.ndarray, np.ndarray]:
    inputs, labels = zip(*clients.create_tf_dataset_for_client(client).as_numpy_iterator())
    return np.array(inputs), np.array(labels)


def test_each_subject_is_a_client_with_its_own_examples_in_time_order(tmp_path: Path) -> None:
    subjects = sequences()
    write_clients(tmp_path, subjects, STRESS)
    clients = client_data(tmp_path, ("S2", "S3"), 4, 2)
    assert isinstance(clients, tff.simulation.datasets.ClientData)
    assert clients.client_ids == ["S2", "S3"]
    for name, own in subjects.items():
        inputs, labels = examples(clients, name)
        np.testing.assert_array_equal(inputs, own.values.astype(np.float32))
        np.testing.assert_array_equal(labels, own.codes == 2)


def test_tff_reads_a_client_by_its_name_and_its_worker_ends_with_the_process(tmp_path: Path) -> None:
    write_clients(tmp_path, sequences(), STRESS)
    program = f"""
from pathlib import Path
import numpy as np, psutil, tensorflow as tf
from tff_esn.store.client_files import client_data
from tff_esn.runtime.context import load_tff

clients = client_data(Path({str(tmp_path)!r}), ("S2", "S3"), 4, 2)

@load_tff().tensorflow.computation(np.str_)
def stressed(client):
    dataset = clients.serializable_dataset_fn(client)
    return dataset.reduce(tf.constant(0, tf.int32), lambda total, example: total + example[1])

print(int(stressed("S3")), *(child.pid for child in psutil.Process().children()))
"""
    result = subprocess.run([*DEAF, sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert "Exception ignored" not in result.stderr
    count, *workers = map(int, result.stdout.split())
    assert count == int((sequences()["S3"].codes == 2).sum())
    assert len(workers) == 1
    assert not psutil.pid_exists(workers[0])


def test_a_task_leaves_out_codes_without_a_class(tmp_path: Path) -> None:
    write_clients(tmp_path, sequences(), AFFECT)
    _, labels = examples(client_data(tmp_path, ("S2",), 4, 2), "S2")
    codes = sequences()["S2"].codes
    np.testing.assert_array_equal(labels, codes[codes > 0] - 1)


def test_noise_reaches_the_chosen_clients_only_and_comes_from_the_seed(tmp_path: Path) -> None:
    subjects = sequences()

    def with_noise(name: str, seed: int) -> np.ndarray:
        write_clients(tmp_path / name, subjects, STRESS, InputNoise(0.5, ("S3",), seed))
        return examples(client_data(tmp_path / name, ("S2", "S3"), 4, 2), "S3")[0]

    first, again, other = with_noise("first", 1), with_noise("again", 1), with_noise("other", 2)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert (first - subjects["S3"].values).std() == pytest.approx(0.5, rel=0.15)
    clean = examples(client_data(tmp_path / "first", ("S2", "S3"), 4, 2), "S2")[0]
    np.testing.assert_array_equal(clean, subjects["S2"].values.astype(np.float32))
    with pytest.raises(ConfigError, match="input noise for S9; expected clients out of S2, S3"):
        write_clients(tmp_path / "bad", subjects, STRESS, InputNoise(0.5, ("S9",)))


def test_batches_are_in_time_order_or_shuffled_by_a_seed(tmp_path: Path) -> None:
    write_clients(tmp_path, sequences(), STRESS)
    clients = client_data(tmp_path, ("S2",), 4, 2)

    def epoch(seed: int | None) -> np.ndarray:
        dataset = batched(clients, 20, seed).create_tf_dataset_for_client("S2")
        batches = [inputs.numpy() for inputs, _ in dataset]
        assert [len(batch) for batch in batches] == [20, 20, 5]
        return np.concatenate(batches)

    ordered = epoch(None)
    np.testing.assert_array_equal(ordered, sequences()["S2"].values.astype(np.float32))
    shuffled = epoch(3)
    assert not np.array_equal(shuffled, ordered)
    np.testing.assert_array_equal(shuffled, epoch(3))
    np.testing.assert_array_equal(np.sort(shuffled, axis=0), np.sort(ordered, axis=0))


def test_a_missing_or_foreign_client_file_is_named(tmp_path: Path) -> None:
    write_clients(tmp_path, sequences(), STRESS)
    with pytest.raises(DataError, match=r"S9\.f32: 0 bytes for client S9"):
        client_data(tmp_path, ("S9",), 4, 2)
    with pytest.raises(DataError, match="expected rows of 28 float32 values"):
        client_data(tmp_path, ("S2",), 9, 3)


def test_a_client_without_examples_is_refused(tmp_path: Path) -> None:
    empty = {"S2": Sequences("S2", ("a",), np.ones((3, 2, 1)), np.zeros(3, int))}
    with pytest.raises(DataError, match="S2: no example of the task 'affect'"):
        write_clients(tmp_path, empty, AFFECT)
