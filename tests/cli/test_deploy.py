from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from tests.cli.test_command_line import run as run_command
from tests.commands import run_here
from tests.deployment.test_export import random_card, random_model, write_run
from tff_esn.deployment.export import load_model
from tff_esn.deployment.predict import open_predictor, read_recording, recording_inputs
from tff_esn.store.run_folders import RunStore

COMMAND = (sys.executable, "-m", "tff_esn")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of the features pEDA and tEDA, named after how they read them, `thesis` with that recipe, and `arrays`."""
    folder = tmp_path_factory.mktemp("models")
    for reading in ("window", "carried"):
        write_run(folder / reading, random_model(units=200, card=random_card(reading=reading)))
    write_run(folder / "thesis", random_model(card=random_card(recipe="thesis", hrv_window=2.0)))
    # A readout solved in closed form, with an output for each of two classes, on chunks of 3 steps.
    chunks = replace(random_card(), per_step=True, steps=3, recipe=None)
    write_run(folder / "arrays", random_model(outputs=2, linear=True, card=chunks))
    return folder


def stream(model: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    return run_here("predict", model, "-", *options, text=text)


def as_text(series: np.ndarray) -> str:
    """Lines that read back to the same 32-bit numbers."""
    return "".join(",".join(repr(float(value)) for value in row) + "\n" for row in series.astype(np.float32))


def test_export_writes_a_file_that_predicts_like_its_run(models: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.tflite"
    result = run_command("export", models / "window", "--format", "tflite", "--out", out)
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"tflite model written to {out} ({out.stat().st_size:,} bytes)\n"
    assert result.stderr == ""
    lines = as_text(np.random.default_rng(0).normal(size=(40, 2)))
    expected, found = stream(models / "window", lines), stream(out, lines)
    assert expected.stderr == found.stderr == ""
    rows, others = (list(csv.reader(part.stdout.splitlines())) for part in (expected, found))
    assert rows[18] == others[18] == ["19", "", ""]
    assert len(rows) == len(others) == 40
    for row, other in zip(rows[19:], others[19:]):
        assert float(row[1]) == pytest.approx(float(other[1]), abs=2e-6)


def test_runs_are_found_by_name_and_exports_named_after_them(tmp_path: Path) -> None:
    with RunStore(tmp_path).create("central", {}, 0) as run:
        random_model().save(run.folder / "model.keras")
    command = [*COMMAND, "export", "central", "--format", "keras", "--runs", str(tmp_path)]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert load_model(tmp_path / f"{run.name}.keras").card == random_card()


@pytest.mark.parametrize("reading", ["window", "carried"])
def test_a_stream_prints_what_a_batch_predicts(reading: str, models: Path) -> None:
    series = np.random.default_rng(0).normal(size=(500, 2)).astype(np.float32)
    predictor = open_predictor(models / reading)
    card = predictor.model.card
    # As the command does: with more threads the last bit is another.
    with threadpool_limits(1):
        answers = predictor.run(series)
    expected = ["step,probability,answer"]
    for number, answer in enumerate(answers.tolist(), start=1):
        known = f"{answer:.6f},{card.classes[answer > 0.5]}"
        expected.append(f"{number},{',' if np.isnan(answer) else known}")
    result = stream(models / reading, "pEDA,tEDA\n" + as_text(series))
    assert result.stdout.splitlines() == expected
    assert result.stderr == ""
    objects = [json.loads(line) for line in stream(models / reading, as_text(series), "--json").stdout.splitlines()]
    assert len(objects) == 500
    assert objects[-1] == {"step": 500, "probability": answers[-1], "answer": card.classes[answers[-1] > 0.5]}
    assert objects[0]["probability"] == (None if reading == "window" else answers[0])


def test_a_ridge_readout_has_probabilities_too(models: Path) -> None:
    series = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    scores = open_predictor(models / "arrays").run(series)
    assert scores.min() < 0 and scores.max() > 1
    rows = list(csv.DictReader(stream(models / "arrays", "pEDA,tEDA\n" + as_text(series)).stdout.splitlines()))
    np.testing.assert_allclose([float(row["probability"]) for row in rows], np.clip(scores, 0, 1), atol=2e-6)
    assert [row["answer"] for row in rows] == ["stressed" if score > 0.5 else "not stressed" for score in scores]


def test_a_recording_prints_what_a_stream_of_its_inputs_prints(models: Path, generated: Path, tmp_path: Path) -> None:
    result = run_here("predict", models / "carried", generated, "--subject", "S3")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    rows = list(csv.DictReader(result.stdout.splitlines()))
    assert list(rows[0]) == ["time_seconds", "probability", "answer"]
    assert rows[-1]["time_seconds"] == "599.0"
    inputs = recording_inputs(read_recording(generated, "S3"), load_model(models / "carried").card)
    streamed = stream(models / "carried", as_text(inputs.values)).stdout.splitlines()
    assert [line.split(",", 1)[1] for line in streamed] == [f"{row['probability']},{row['answer']}" for row in rows]


def test_an_unlabelled_recording_is_told_its_baseline(models: Path, generated: Path) -> None:
    folder = generated / "S3" / "S3_E4_Data"
    result = run_here("predict", models / "window", folder, "--baseline", "30-150.5", "--json")
    assert result.returncode == 0, result.stderr
    objects = [json.loads(line) for line in result.stdout.splitlines()]
    assert all(set(line) == {"time_seconds", "probability", "answer"} for line in objects)
    assert objects[-1]["time_seconds"] == 599


def test_a_recipe_that_runs_through_a_study_says_so_once(models: Path, generated: Path) -> None:
    result = run_command("predict", models / "thesis", generated / "S2")
    assert result.returncode == 0, result.stderr
    assert result.stderr == (
        "Features thesis are normalised by statistics that run through a study; here they start with this recording.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("export", "{models}/window", "--format", "onnx"), "'onnx' is not one of 'keras', 'tflite'"),
        (("export", "nothing", "--format", "keras", "--runs", "{models}"), "nothing: no such run in"),
        (("export", "{models}/window", "--format", "keras", "--out", "x.h5"), "x.h5: a name that ends in '.h5'"),
        (("export", "{models}/window", "--format", "keras", "--out", "x.tflite"), "'.tflite'; expected '.keras'"),
        (("predict", "nothing.keras", "-"), "nothing.keras: No such file or directory; expected a trained model"),
        (("predict", "{models}/arrays", "{generated}/S2"), "trained on arrays, which has no recipe for features"),
        (("predict", "{models}/window", "-", "--subject", "S2"), "--subject with a stream"),
        (("predict", "{models}/window", "{models}"), "no recording; expected a study"),
        (("predict", "{models}/window", "{generated}"), "3 subjects; expected --subject with one of S2, S3, S4"),
        (
            ("predict", "{models}/window", "{generated}/S3/S3_E4_Data"),
            "S3_E4_Data: no labelled baseline; expected --baseline START-END in seconds, or labels with a baseline",
        ),
        (
            ("predict", "{models}/window", "{generated}/S2", "--baseline", "1-2-3"),
            "--baseline '1-2-3'; expected START-END in seconds, such as 60-300",
        ),
    ],
)
def test_a_wrong_call_is_one_line_and_status_2(
    arguments: tuple[str, ...], complaint: str, models: Path, generated: Path
) -> None:
    result = run_here(*(argument.format(models=models, generated=generated) for argument in arguments))
    assert result.returncode == 2, result.stderr
    assert complaint in result.stderr
    assert result.stderr.startswith("tff-esn: ")
    assert result.stderr.count("\n") == 1


def test_a_malformed_line_comes_after_all_answers_before_it(models: Path) -> None:
    result = stream(models / "carried", "1,2\n3 4\n5,six\n7,8\n")
    assert result.returncode == 2
    assert [line.split(",")[0] for line in result.stdout.splitlines()] == ["1", "2"]
    assert result.stderr == "tff-esn: standard input:3: tEDA is 'six'; expected a finite number\n"


def test_each_line_is_answered_at_once_and_ctrl_c_is_quiet(models: Path) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(
        [*COMMAND, "predict", str(models / "carried"), "-"],
        text=True,
        bufsize=1,
        **pipes,  # type: ignore[call-overload]
    ) as process:
        for number in range(1, 4):
            process.stdin.write("0.1,0.2\n")
            assert process.stdout.readline().startswith(f"{number},0.")
        process.send_signal(signal.SIGINT)
        output, message = process.communicate(timeout=20)
    assert (process.returncode, output, message) == (130, "", "")


def test_a_reader_that_leaves_is_no_error(models: Path) -> None:
    read_end, write_end = os.pipe()
    with subprocess.Popen(
        [*COMMAND, "predict", str(models / "carried"), "-"],
        text=True,
        stdin=subprocess.PIPE,
        stdout=write_end,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(write_end)
        process.stdin.write("0.1,0.2\n")
        process.stdin.flush()
        assert os.read(read_end, 100)
        os.close(read_end)
        _, message = process.communicate("0.1,0.2\n" * 1000, timeout=20)
    assert (process.returncode, message) == (0, "")


def children_times() -> float:
    used = os.times()
    return used.children_user + used.children_system


def test_a_stream_starts_without_tensorflow_and_keeps_far_ahead_of_the_sensors(models: Path, tmp_path: Path) -> None:
    load_model(models / "carried").save(tmp_path / "out.keras")
    program = """
import sys
from tff_esn.cli.main import app
app(sys.argv[1:], standalone_mode=False)
assert not {"tensorflow", "neurokit2", "pandas"} & set(sys.modules)
"""
    lines = as_text(np.random.default_rng(0).normal(size=(5000, 2)))
    for source in (models / "window", tmp_path / "out.keras"):
        seconds = {}  # of the processor, which others' work does not change
        for count in (1, 5000):
            start = children_times()
            command = [sys.executable, "-c", program, "predict", str(source), "-"]
            text = "\n".join(lines.splitlines()[:count]) + "\n"
            result = subprocess.run(command, input=text, capture_output=True, text=True)
            seconds[count] = children_times() - start
            assert result.returncode == 0, result.stderr
            assert len(result.stdout.splitlines()) == count
        assert seconds[5000] - seconds[1] < 5
