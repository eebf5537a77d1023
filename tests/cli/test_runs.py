from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from tff_esn.cli.runs import app
from tff_esn.console import output
from tff_esn.errors import ConfigError, DataError
from tff_esn.store.run_folders import RunStore


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    """Runs in several states."""
    store = RunStore(tmp_path)
    with store.create("fedavg", {"reservoir": {"units": 200}, "preset": "thesis"}, 7) as run:
        for step in range(8):
            run.log(step=step, phase="[train]", zero=0, none=None)
        run.finish({"test": {"accuracy": 0.86931234, "auroc": 0.9, "mcc": float("nan")}, "rounds": 8, "last": 1})
    with pytest.raises(ValueError, match="no good"), store.create("tune", {}, 0):
        raise ValueError("no good [red]")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "run.json").write_text("{")
    return store


def call(*arguments: object, width: int = 200) -> Result:
    before, output.width = output.width, width
    try:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])
    finally:
        output.width = before


def test_list_shows_every_run_in_whatever_state(store: RunStore) -> None:
    result = call("list", "--runs", store.root)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    (fedavg,) = (line for line in lines if "fedavg-" in line)
    assert fedavg.split()[1] == "complete"
    assert "fedavg, seed 7: test.accuracy 0.8693, test.auroc 0.9, rounds 8" in result.output
    assert "ValueError: no good [red]" in result.output
    (damaged,) = (line for line in lines if "damaged" in line)
    assert damaged.split() == ["damaged", "unreadable"]
    assert "run.json: Invalid JSON" in result.output


def test_names_and_statuses_are_whole_on_80_columns(store: RunStore) -> None:
    # The longest that a command makes, in each state.
    with pytest.raises(KeyboardInterrupt), store.create("discriminator", {}, 12345):
        raise KeyboardInterrupt
    text = call("list", "--runs", store.root, width=80).output
    for info in store.list():
        assert any(line.split()[:2] == [info.name, info.status] for line in text.splitlines())
    assert max(map(len, text.splitlines())) <= 80


def test_show_has_the_metrics_that_are_filled_and_counts_the_rest(store: RunStore) -> None:
    with store.create("federate", {}, 0) as run:
        for step in range(3):
            scores = {f"{part}/balanced_accuracy": step / 4 for part in ("train", "validation", "test")}
            clients = {f"S{number}/loss": 0.5 if number % 2 else None for number in range(40)}
            run.log(step=step, unused=None, **scores, **clients)
        run.finish({})
    text = call("show", "federate", "--runs", store.root, width=80).output
    lines = text[text.index("Last metrics") :].splitlines()
    assert max(map(len, lines)) <= 80
    heads = [word for line in lines[1:3] for word in line.split()]
    assert heads[:3] == ["train", "validation", "test"] and "S1" in heads and "S2" not in heads
    last = lines[-2].split()
    assert last[:5] == ["2", "0.5", "0.5", "0.5", "0.5"]
    assert lines[-1] == f"{1 + 3 + 20 - len(last)} more columns in metrics.csv"
    assert "more columns" not in call("show", "federate", "--runs", store.root, width=400).output


def test_list_as_json(store: RunStore) -> None:
    runs = json.loads(call("list", "--runs", store.root, "--json").output)
    assert [run["status"] for run in runs] == ["unreadable", "complete", "failed"]
    assert runs[1]["result"]["test"] == {"accuracy": 0.86931234, "auroc": 0.9, "mcc": None}
    assert (runs[1]["kind"], runs[1]["seed"], runs[2]["problem"]) == ("fedavg", 7, "ValueError: no good [red]")
    assert runs[0]["seed"] is None


def test_list_of_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFF_ESN_RUNS", str(tmp_path / "none"))
    assert call("list").output == f"no runs in {tmp_path / 'none'}\n"
    assert json.loads(call("list", "--json").output) == []


def test_show_tells_all_of_a_run(store: RunStore) -> None:
    result = call("show", "feda", "--runs", store.root, "--rows", 2)
    assert result.exit_code == 0, result.output
    words = [line.split() for line in result.output.splitlines()]
    for line in (["Status", "complete"], ["Seed", "7"], ["reservoir.units", "200"], ["test.accuracy", "0.86931234"]):
        assert line in words
    assert ["6", "[train]", "0"] in words
    assert ["5", "[train]", "0"] not in words
    assert any(line[:1] == ["numpy"] for line in words)
    assert any(line[:1] == ["metrics.csv"] for line in words)


def test_show_as_json(store: RunStore) -> None:
    run = json.loads(call("show", "feda", "--runs", store.root, "--json").output)
    assert run["config"] == {"reservoir": {"units": 200}, "preset": "thesis"}
    assert [row["step"] for row in run["metrics"]] == [3, 4, 5, 6, 7]
    assert run["metrics"][0] == {"step": 3, "phase": "[train]", "zero": 0, "none": None}
    assert run["files"]["metrics.csv"] > 0
    assert run["status"] == "complete"


def test_show_of_a_run_that_died(store: RunStore) -> None:
    run = store.create("died", {}, 0)
    record = json.loads((run.folder / "run.json").read_text())
    record["process"]["started"] -= 1000
    (run.folder / "run.json").write_text(json.dumps(record))
    assert "incomplete" in call("show", "died", "--runs", store.root).output
    assert json.loads(call("show", "died", "--runs", store.root, "--json").output)["status"] == "incomplete"


def test_a_run_that_cannot_be_shown_is_one_line(store: RunStore) -> None:
    unknown = call("show", "nothing", "--runs", store.root).exception
    assert isinstance(unknown, ConfigError)
    assert "nothing: no such run in" in str(unknown)
    damaged = call("show", "damaged", "--runs", store.root).exception
    assert isinstance(damaged, DataError)
    assert "\n" not in f"{unknown}{damaged}"


def test_help_starts_without_the_heavy_imports() -> None:
    program = """
import sys
from tff_esn.cli.runs import app
try:
    app(["list", "--help"], standalone_mode=False)
finally:
    assert not {"tensorflow", "numpy", "pydantic"} & set(sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "TFF_ESN_RUNS" in result.stdout
