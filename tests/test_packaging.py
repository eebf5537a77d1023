"""The lists of pins agree, and a wheel works away from the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import tomli
import yaml

ROOT = Path(__file__).parents[1]


def pins(lines: list[str]) -> dict[str, str]:
    return dict(line.split("==") for line in lines)


@pytest.fixture(scope="module")
def requirements() -> dict[str, str]:
    return pins((ROOT / "requirements.txt").read_text().split())


def test_every_requirement_is_pinned(requirements: dict[str, str]) -> None:
    assert len(requirements) > 100
    assert all(requirements.values())


def test_pyproject_agrees(requirements: dict[str, str]) -> None:
    project = tomli.loads((ROOT / "pyproject.toml").read_text())
    direct = pins(project["project"]["dependencies"] + project["project"]["optional-dependencies"]["dev"])
    assert {name: requirements.get(name) for name in direct} == direct
    overrides = project["tool"]["uv"]["override-dependencies"]
    exact = pins([override for override in overrides if "==" in override])
    assert {name: requirements.get(name) for name in exact} == exact


def test_environment_agrees(requirements: dict[str, str]) -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    (pip,) = (entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    assert pins(pip) == requirements


def test_a_wheel_carries_the_run_definitions_and_runs_elsewhere(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "tff_esn/runs/demo.toml" in names
    assert "tff_esn/runs/reported.json" in names
    assert not [name for name in names if name.startswith(("tests/", "runs/"))]
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tff_esn").rglob("*.py")}
    assert not sources - set(names)
    away = tmp_path / "away"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(away), str(wheel)]
    subprocess.run(install, check=True)
    program = (
        "import tff_esn, tff_esn.runs, importlib.resources as r;"
        "print(tff_esn.__file__); print((r.files('tff_esn.runs') / 'demo.toml').read_text());"
        "from tff_esn.cli.main import app; app(['--help'])"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(away)},
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(str(away))
    assert "subjects = 15" in result.stdout
