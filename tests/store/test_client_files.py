from __future__ import annotations

from pathlib import Path

import numpy as np

from tff_esn.store.client_files import read_examples, write_examples


def test_examples_come_back_and_files_are_filled_up(tmp_path: Path) -> None:
    file, random = tmp_path / "S2.f32", np.random.default_rng(0)
    values, labels = random.normal(size=(5, 2, 3)), np.array([0, 1, 2, 1, 0])
    write_examples(file, values, labels)
    found, found_labels = read_examples(str(file), columns=6)
    np.testing.assert_array_equal(found, values.reshape(5, 6).astype(np.float32))
    np.testing.assert_array_equal(found_labels, labels)
    write_examples(file, values, labels, rows=8)
    found, found_labels = read_examples(str(file), columns=6, rows=8)
    np.testing.assert_array_equal(found[:5], values.reshape(5, 6).astype(np.float32))
    np.testing.assert_array_equal(found[5:], np.zeros((3, 6)))
    np.testing.assert_array_equal(found_labels, [*labels, -1, -1, -1])
