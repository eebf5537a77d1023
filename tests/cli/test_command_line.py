from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.commands import run_here
from tff_esn.cli.main import cli
from tff_esn.cli.options import MAIN, Command
from tff_esn.cli.parameter_options import Parameter, option_of, parsed, set_values
from tff_esn.datasets.synthetic.hhar import write_hhar
from tff_esn.datasets.synthetic.wesad import write_wesad
from tff_esn.errors import ConfigError


def run(
    *arguments: object, cache: Path | None = None, folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tff_esn", *map(str, arguments)]
    if cache is not None:
        environment["TFF_ESN_CACHE"] = str(cache)
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, cwd=folder)


def fails_with(*arguments: object, cache: Path | None = None) -> str:
    """The one line on standard error of a command that must exit with status 2."""
    result = run(*arguments, cache=cache)
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("tff-esn: ")
    return lines[0]


def test_help_teaches_and_starts_without_the_heavy_imports() -> None:
    heavy = "{'tensorflow', 'numpy', 'pandas', 'neurokit2'}"
    program = f"""
import sys
from tff_esn.cli.main import app
try:
    app(["data", "--help"], standalone_mode=False)
finally:
    assert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    for word in ("check", "prepare", "stats", "synth", "labels.csv"):
        assert word in result.stdout


def test_version_names_the_stack() -> None:
    lines = run("--version").stdout.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["tff-esn", "tensorflow", "tensorflow-federated"]
    assert lines[-2].startswith("python 3.")
    assert "neurokit2 0.2.0" in lines


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("data", "stats", "/nowhere"), "/nowhere: no such folder; expected a study: "),
        (("data", "check", "/nowhere"), "/nowhere: no such folder; expected a study: "),
        (("data", "stats"), "Missing argument"),
        (("data", "stats", ".", "--features", "wrong"), "'wrong' is not one of 'thesis', 'corrected'"),
        (("data", "stats", ".", "--jobs", "0"), "0 is not in the range x>=1"),
        (("nonsense",), "No such command 'nonsense'"),
        (("--seed", "-1", "demo"), "-1 is not in the range x>=0"),
    ],
)
def test_a_wrong_call_is_one_line_and_status_2(arguments: tuple[str, ...], complaint: str, tmp_path: Path) -> None:
    assert complaint in fails_with(*arguments, cache=tmp_path)


def test_a_wrong_setting_of_features_is_one_line(generated: Path, tmp_path: Path) -> None:
    for arguments, complaint in (
        (("--features", "corected"), "no feature 'corected'; did you mean 'corrected'?"),
        (("--hrv-window", "0"), "options: hrv_window = 0.0: Input should be greater than 0"),
        (("--features", "channels", "--rate", "-1"), "options: rate = -1.0: Input should be greater than 0"),
    ):
        result = run_here("data", "prepare", generated, *arguments, TFF_ESN_CACHE=str(tmp_path))
        assert (result.returncode, len(result.stderr.splitlines())) == (2, 1)
        assert complaint in result.stderr


def test_a_subjects_folder_is_not_taken_for_a_study(generated: Path, tmp_path: Path) -> None:
    for command in (("data", "check"), ("data", "prepare"), ("central",), ("federate", "fedavg"), ("solve", "incfed")):
        result = run_here(*command, generated / "S2", TFF_ESN_CACHE=str(tmp_path))
        assert (result.returncode, len(result.stderr.splitlines())) == (2, 1)
        assert f"a subject's folder, not a study's; expected the study: {generated}" in result.stderr


def test_synth_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for layout in ("wesad", "hhar"):
        result = run_here("data", "synth", tmp_path, "--layout", layout, "--subjects", 1, "--minutes", 1)
        assert result.returncode == 2
        assert f"{tmp_path}: not an empty folder; expected a new one, nothing is overwritten" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


# ---- Help ----


def commands(command: click.Command, context: click.Context, *path: str) -> Iterator[tuple[str, ...]]:
    """The words of every command and group."""
    yield path
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, context, *path, name)


@pytest.mark.parametrize("columns", [60, 80])
def test_every_help_fits_its_terminal_and_the_short_one_is_shorter(columns: int) -> None:
    group = cli()
    found = list(commands(group, click.Context(group)))
    assert {(), ("data", "synth"), ("central",), ("federate", "fedcurv"), ("solve", "fedip"), ("runs",)} <= {*found}
    for words in found:
        whole, short = (run_here(*words, flag, COLUMNS=str(columns)) for flag in ("--help", "-h"))
        for result in (whole, short):
            assert (result.returncode, result.stderr) == (0, ""), words
            assert max(map(len, result.stdout.splitlines())) <= columns, words
        assert short.stdout.splitlines()[-1] == "--help shows all options."
        assert len(short.stdout) <= len(whole.stdout) + 100, words
    whole, short = (run_here("federate", "fedcurv", flag, COLUMNS="80").stdout for flag in ("--help", "-h"))
    assert len(whole.splitlines()) > 2 * len(short.splitlines())
    for option in ("--rounds", "--clients-per-round", "--units", "--preset", "--seeds", "--features"):
        assert option in whole and option in short
    for option in ("--server-learning-rate", "--input-scaling", "--hrv-window", "--columns", "--set", "--config"):
        assert option in whole and option not in short


def test_brackets_stay_in_the_help() -> None:
    parameter = Parameter("a", "--a", float, None, "In [low, high) or (0, 1], not [bold].", MAIN)
    command = Command(name="c", params=[option_of(parameter)], callback=lambda **_: None, rich_markup_mode="rich")
    shown = CliRunner(env={"COLUMNS": "120"}).invoke(command, ["--help"]).output
    assert "In [low, high) or (0, 1], not [bold]." in shown
    shown = " ".join(run_here("federate", "fedavg", "--help", COLUMNS="200").stdout.split())
    assert "a (the thesis's alpha), in (0, 1]." in shown


def test_values_are_read_as_toml_would_write_them() -> None:
    assert [parsed(text) for text in ("0.5", "10", "1e-4", "none", "True", "S2")] == [0.5, 10, 1e-4, None, True, "S2"]
    assert parsed("12,88") == [12, 88] and parsed("S1, S2") == ["S1", "S2"]
    assert parsed("1_000") == "1_000"
    assert set_values(["esn.units=50", "name = a=b"]) == {"esn.units": 50, "name": "a=b"}
    for wrong, complaint in ((["units"], "expected KEY=VALUE"), (["a=1", "a=2"], "--set a is given twice")):
        with pytest.raises(ConfigError, match=complaint):
            set_values(wrong)


def test_list_counts_the_parts_of_quick_runs_or_of_whole_ones(tmp_path: Path) -> None:
    study, found = tmp_path / "study", {}
    write_wesad(study, minutes=1.0)
    for flags in ((), ("--quick",)):
        names = ("central-model", "fedcurv-factor")
        result = run_here("reproduce", "--list", *names, "--data", study, *flags, TFF_ESN_CACHE=str(tmp_path))
        assert result.returncode == 0, result.stderr
        found[flags] = result.stdout
    assert found[()].startswith("Full runs") and found["--quick",].startswith("Quick runs")
    whole, quick = ([int(count) for count in re.findall(r"\b0/(\d+)", text)] for text in found.values())
    assert len(whole) == len(quick) == 2
    assert all(few < many for few, many in zip(quick, whole))


# ---- Studies ----


def test_check_tells_what_a_folder_holds(generated: Path) -> None:
    result = run("data", "check", generated, COLUMNS="200")
    assert result.returncode == 0, result.stderr
    for text in ("S2", "chest: ACC 700", "ECG 700", "wrist: ACC 32, BVP 64, EDA 4, TEMP 4", "600 s", "baseline"):
        assert text in result.stdout
    assert "0 defect(s) found" in result.stdout


def test_check_lists_every_defect(generated: Path, tmp_path: Path) -> None:
    for subject in ("S2", "S3"):
        (tmp_path / subject).mkdir()
    (tmp_path / "S2" / "S2.pkl").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    content = pickle.loads((generated / "S3" / "S3.pkl").read_bytes(), encoding="latin1")
    content["signal"]["wrist"]["EDA"][7] = float("nan")
    content["signal"]["wrist"]["TEMP"][:] = 33.0
    (tmp_path / "S3" / "S3.pkl").write_bytes(pickle.dumps(content, protocol=2))
    result = run("data", "check", tmp_path)
    assert result.returncode == 2
    assert "S2.pkl: not a usable pickle (it asks for os.system); expected" in result.stdout
    assert "S3.pkl: wrist/EDA has 1 values that are not finite, first at sample 7" in result.stdout
    assert "S3.pkl: wrist/TEMP is constant" in result.stdout
    assert "3 defect(s) found" in result.stdout


def test_skip_bad_goes_on_and_says_so(generated: Path, tmp_path: Path) -> None:
    study = tmp_path / "study"
    shutil.copytree(generated, study)
    (study / "S3" / "S3.pkl").write_bytes(b"broken")
    arguments = ("data", "prepare", study, "--features", "corrected")
    assert "S3.pkl: not a usable pickle" in fails_with(*arguments, cache=tmp_path / "cache")
    result = run(*arguments, "--skip-bad", cache=tmp_path / "cache")
    assert result.returncode == 0, result.stderr
    assert "left out S3: " in result.stderr
    assert result.stdout.count("cached") == 2


def test_stats_prints_tables_beside_the_printed_numbers(generated: Path, tmp_path: Path) -> None:
    arguments = ("data", "stats", generated, "--features", "corrected")
    text = run(*arguments, cache=tmp_path).stdout
    for table in ("Table 5.1: extracted", "Table 5.2: standardized", "Table 5.3: normalized"):
        assert table in text
    assert "printed" in text
    tables = json.loads(run(*arguments, "--json", cache=tmp_path).stdout)
    assert [table["stage"] for table in tables] == ["extracted", "standardized", "normalized"]
    for table in tables:
        for feature in ("pEDA", "tEDA", "HR", "HRV"):
            row = table[feature]
            assert row["min"] <= row["mean"] <= row["max"]
            assert row["var"] > 0
    # Standardised on the baseline, the baseline's own mean is 0; the printed rows of Table 5.3 come true-named.
    assert tables[2]["printed"]["tEDA"]["min"] == -2.9826


def test_hhar_is_checked_and_prepared(tmp_path: Path) -> None:
    out = tmp_path / "hhar"
    write_hhar(out, users=2, seconds=5.0)
    check = run("data", "check", out, COLUMNS="200")
    assert check.returncode == 0, check.stdout
    assert "Phones_accelerometer.csv" in check.stdout
    prepared = run("data", "prepare", out, "--rate", 100, cache=tmp_path / "cache")
    assert prepared.returncode == 0, prepared.stderr
    assert "acc_x" in prepared.stdout


def test_quiet_leaves_results_only(generated: Path, tmp_path: Path) -> None:
    result = run("-q", "data", "prepare", generated, "--features", "corrected", cache=tmp_path)
    assert result.stderr == ""
    assert "S2" in result.stdout


def test_an_unwritable_cache_is_one_line(generated: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    line = fails_with("data", "prepare", generated, "--features", "corrected", "--jobs", 1, cache=blocked)
    assert str(blocked) in line


def test_interrupted_it_leaves_no_process_and_continues(tmp_path: Path) -> None:
    study = tmp_path / "study"
    assert run("data", "synth", study, "--subjects", 6, "--minutes", 30).returncode == 0
    command = [sys.executable, "-m", "tff_esn", "data", "prepare", str(study), "--hrv-window", "5"]
    environment = {**os.environ, "TFF_ESN_CACHE": str(tmp_path / "cache")}
    # Every process holds standard error open: it ends when the last of them has ended.
    process = subprocess.Popen(
        command,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    entries = tmp_path / "cache" / "corrected"
    deadline = time.monotonic() + 60
    while not (entries.is_dir() and list(entries.glob("*.npz"))) and time.monotonic() < deadline:
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGINT)
    _, message = process.communicate(timeout=30)
    assert process.returncode == 130
    assert message.strip().splitlines()[-1].startswith("tff-esn: interrupted")
    assert "Traceback" not in message
    done = len(list(entries.glob("*.npz")))
    assert 1 <= done < 6
    result = run("data", "prepare", study, "--hrv-window", "5", cache=tmp_path / "cache")
    assert result.stdout.count("cached") == done
    assert result.stdout.count("new") == 6 - done
    # What was being written is gone too.
    assert not list(entries.glob(".*"))


@pytest.mark.slow
def test_the_demo_runs_and_the_second_time_generates_nothing(tmp_path: Path) -> None:
    first = run("demo", cache=tmp_path, folder=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "Generated subjects" in first.stderr
    for text in ("Table 5.1", "FedAvg-1.0", "FedAvg-1.0+Disc", "IncFed", "Partial", "I-pFedRR", "FedIP"):
        assert text in first.stdout
    assert "report-generated-quick/report.html" in first.stderr
    assert "tensorflow" not in first.stderr.lower()
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.pkl")}
    assert len(files) == 15
    second = run("demo", cache=tmp_path, folder=tmp_path)
    assert second.stdout == first.stdout
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.pkl")} == files
