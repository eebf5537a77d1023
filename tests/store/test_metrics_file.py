from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tff_esn.errors import ConfigError, DataError
from tff_esn.store.metrics_file import MetricsFile


def text(folder: Path) -> str:
    return (folder / "metrics.csv").read_text()


def test_rows_are_on_disk_at_once_and_come_back_with_their_types(tmp_path: Path) -> None:
    metrics = MetricsFile(tmp_path)
    assert metrics.rows() == []
    metrics.log(step=0, loss=np.float32(0.1), accuracy=1, phase='train, "a"', last=None)
    loss = float(np.float32(0.1))
    assert text(tmp_path) == f'step,loss,accuracy,phase,last\n0,{loss!r},1,"train, ""a""",\n'
    metrics.log(step=np.int64(1), loss=math.nan, last=False)
    assert text(tmp_path).splitlines()[2:] == ["1,nan,,,False"]
    first, second = MetricsFile(tmp_path).rows()
    assert first == {"step": 0, "loss": loss, "accuracy": 1, "phase": 'train, "a"', "last": None}
    assert type(first["accuracy"]) is int
    assert math.isnan(second.pop("loss"))  # type: ignore[arg-type]
    assert second == {"step": 1, "accuracy": None, "phase": None, "last": False}


def test_columns_are_added_as_they_come_up(tmp_path: Path) -> None:
    metrics = MetricsFile(tmp_path)
    metrics.log(step=0, a=1, text="x,\ny")
    metrics.log(step=0, b=2)
    metrics.log(step=1, c=3, a=4)
    assert text(tmp_path) == 'step,a,text,b,c\n0,1,"x,\ny",,\n0,,,2,\n1,4,,,3\n'


def test_a_resumed_run_replaces_the_rows_from_its_first_step_on(tmp_path: Path) -> None:
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    for folder, parts in ((unbroken, [range(12)]), (broken, [range(11), range(9, 10), range(2, 12)])):
        folder.mkdir()
        for steps in parts:
            metrics = MetricsFile(folder)
            for step in steps:
                metrics.log(step=step, part="train", **{f"client {step // 4}/loss": step / 7})
                metrics.log(step=step, part="test")
        assert [row["step"] for row in metrics.rows()] == [step for step in range(12) for _ in range(2)]
    assert text(broken).splitlines()[1:] == text(unbroken).splitlines()[1:]


@pytest.mark.parametrize(("kept", "rows"), [(b"step,loss\n0,0.5\n1,0", 1), (b"step,lo", 0), (b"", 0)])
def test_a_last_line_that_was_cut_off_is_removed(tmp_path: Path, kept: bytes, rows: int) -> None:
    (tmp_path / "metrics.csv").write_bytes(kept)
    metrics = MetricsFile(tmp_path)
    assert len(metrics.rows()) == rows
    metrics.log(step=7, loss=0.25)
    assert len(metrics.rows()) == rows + 1
    assert metrics.rows()[-1] == {"step": 7, "loss": 0.25}


@pytest.mark.parametrize("content", ["loss\n0\n", "loss,step\n0\n", "step\nx\n"])
def test_a_file_of_something_else_is_refused_and_stays(tmp_path: Path, content: str) -> None:
    (tmp_path / "metrics.csv").write_text(content)
    with pytest.raises(DataError, match=r"metrics.csv: a row without a step; expected a number in a column 'step'"):
        MetricsFile(tmp_path).log(step=0, loss=0.5)
    assert text(tmp_path) == content


def test_what_is_no_number_is_not_logged(tmp_path: Path) -> None:
    metrics = MetricsFile(tmp_path)
    with pytest.raises(ConfigError, match=r"metric loss is array\(\[1, 2\]\); expected a number or a text"):
        metrics.log(step=0, loss=np.array([1, 2]))
    with pytest.raises(TypeError):
        metrics.log(step=0.5, loss=1.0)  # type: ignore[arg-type]
    assert metrics.rows() == []


def test_tensorboard_reads_the_same_numbers(tmp_path: Path) -> None:
    import tensorflow as tf
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for steps in (range(12), range(12, 13)):
        metrics = MetricsFile(tmp_path)
        for step in steps:
            metrics.log(step=step, loss=tf.constant(1 / (step + 1)), **{"S2/accuracy": 0.5, "phase": "train"})
    events = EventAccumulator(str(tmp_path / "tensorboard"), size_guidance={"tensors": 0})
    events.Reload()
    assert sorted(events.Tags()["tensors"]) == ["S2/accuracy", "loss"]
    found = [(event.step, float(tf.make_ndarray(event.tensor_proto))) for event in events.Tensors("loss")]
    assert found == [(row["step"], pytest.approx(row["loss"])) for row in metrics.rows()]
    assert len(found) == 13


def test_rows_without_a_number_are_not_for_tensorboard(tmp_path: Path) -> None:
    MetricsFile(tmp_path).log(step=0, phase="train", last=None)
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.csv"]
