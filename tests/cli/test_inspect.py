from __future__ import annotations

import re
from pathlib import Path
from typing import get_type_hints

import pytest
import typer
from typer.testing import CliRunner

from tff_esn.cli.inspect import inspect
from tff_esn.cli.options import Command, Group
from tff_esn.errors import ConfigError, DataError
from tff_esn.reservoir.esn import ESN

app = typer.Typer(cls=Group)
app.callback()(lambda: None)
app.command(cls=Command)(inspect)


def run(*arguments: object) -> str:
    result = CliRunner(env={"COLUMNS": "120"}).invoke(app, ["inspect", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def row(text: str, measure: str) -> list[str]:
    """The cells of a table's row."""
    (line,) = (line for line in text.splitlines() if measure in line)
    return re.split(r" {2,}", line.strip())


def test_every_setting_of_a_reservoir_is_an_option_with_the_same_default() -> None:
    from inspect import signature

    parameters = signature(inspect).parameters
    for name in get_type_hints(ESN).keys() - {"seed"}:
        assert str(parameters[name].default) == str(getattr(ESN, name)), name


def test_a_reservoir_on_white_noise() -> None:
    text = run("--units", 50, "--inputs", 2, "--spectral-radius", 0.8)
    assert "A reservoir of 50 units on white noise" in text
    assert row(text, "Radius of (1 - a) I + a W")[1:] == ["0.8000", "below 1, as echo states need"]
    assert row(text, "Steps until it is below 1e-6")[2] == "the initial state is forgotten"
    assert 1 < float(row(text, "Memory capacity")[1]) < 50
    assert row(text, "Rank of the states")[1] == "50"


def test_the_same_seed_tells_the_same() -> None:
    arguments = ("--units", 20, "--recurrent-connectivity", 5, "--leaking-rate", 0.5, "--bias-scaling", 0.1)
    assert run(*arguments) == run(*arguments)
    assert run(*arguments, "--seed", 1) != run(*arguments)
    assert "with a bias, a hint" in run(*arguments)


def test_an_unstable_reservoir_is_told() -> None:
    text = run("--units", 50, "--spectral-radius", 3, "--input-scaling", 0.01)
    assert row(text, "Radius of (1 - a) I + a W")[2] == "not below 1: unstable at rest"
    assert row(text, "Distance of two runs")[2] == "they do not meet"
    assert row(text, "Steps until it is below 1e-6")[1:] == ["-", "not within 2000 steps"]


def test_connections_are_told_by_number_or_probability() -> None:
    assert run("--units", 20, "--recurrent-connectivity", "20") != run("--units", 20, "--recurrent-connectivity", "0.9")
    # One connection a unit, not all of them.
    assert run("--units", 20, "--recurrent-connectivity", "1") != run("--units", 20, "--recurrent-connectivity", "1.0")


def test_weights_of_addons() -> None:
    text = run("--units", 20, "--kind", "tfa", "--recurrent-connectivity", 0.5)
    assert row(text, "Radius of (1 - a) I + a W")[1] == "0.9900"


def test_a_reservoir_on_the_features_of_a_subject(generated: Path, tmp_path: Path) -> None:
    options = ("--features", "corrected", "--cache", tmp_path, "--units", 20)
    text = run(generated, *options)
    assert "on S2 (pEDA, tEDA, HR, HRV)" in text
    text = run(generated, *options, "--subject", "S3", "--feature", "HR", "--feature", "pEDA")
    assert "on S3 (HR, pEDA)" in text
    # Only the two that were looked at are prepared.
    assert len(list(tmp_path.glob("corrected/*.npz"))) == 2
    with pytest.raises(ConfigError, match="no feature XY; expected some of pEDA, tEDA, HR, HRV"):
        run(generated, *options, "--feature", "XY")
    with pytest.raises(DataError, match="no subject S99"):
        run(generated, *options, "--subject", "S99")
    with pytest.raises(ConfigError, match="--inputs 3 with a study"):
        run(generated, *options, "--inputs", 3)
    text = run(generated, "--features", "channels", "--device", "wrist", "--rate", 4, "--cache", tmp_path, "--units", 9)
    assert "on S2 (ACCx, ACCy, ACCz, BVP, EDA, TEMP)" in text


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_it_is_drawn(suffix: str, start: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"reservoir.{suffix}"
    assert f"plot written to {path}" in run("--units", 20, "--plot", path).replace("\n", "")
    assert path.read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--units", 0), "options: units = 0: Input should be greater than 0"),
        (("--leaking-rate", 2), r"options: leaking_rate = 2\.0: Input should be less than or equal to 1"),
        (("--recurrent-connectivity", 0), "--recurrent-connectivity 0; expected a probability up to 1.0 or a whole"),
        (("--recurrent-connectivity", 1.5), "--recurrent-connectivity 1.5; expected a probability"),
        (("--input-connectivity", "x"), "--input-connectivity x; expected a probability"),
        (("--recurrent-connectivity", 300), "at most 200, the number of units"),
        (("--units", 5, "--recurrent-connectivity", 0.001), "without a cycle"),
        (("--plot", "reservoir.txt"), r"--plot reservoir\.txt; expected a file that ends in \.png, \.svg, \.pdf"),
        (("--subject", "S2"), "--subject without a study"),
        (("--feature", "HR"), "--feature without a study"),
    ],
)
def test_a_wrong_call_is_one_line(arguments: tuple[object, ...], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        run(*arguments)
    assert "\n" not in str(caught.value)


def test_help_starts_without_the_heavy_imports() -> None:
    import subprocess
    import sys

    heavy = "{'tensorflow', 'numpy', 'matplotlib', 'scipy'}"
    program = f"import sys, tff_esn.cli.inspect; assert not {heavy} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
