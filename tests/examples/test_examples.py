"""The examples of docs/guide.md do what they say, and the notebook runs from top to bottom."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tff_esn.algorithm import ALGORITHMS
from tff_esn.datasets.study import STUDIES, open_study
from tff_esn.parameters import from_mapping

EXAMPLES = Path(__file__).parents[2] / "examples"
GUIDE = EXAMPLES.parent / "docs" / "guide.md"


def example(name: str) -> Any:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]


def test_a_new_algorithm_is_known_by_name_and_makes_readouts_sparse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFF_ESN_CACHE", str(tmp_path))
    monkeypatch.setattr(ALGORITHMS, "_found", dict(ALGORITHMS.items()))
    small = example("new_algorithm")(rounds=10)
    assert small[0.01] > 2 * small[0.0]
    algorithm: Any = from_mapping(ALGORITHMS["fedsparse"], {"strength": 0.2, "esn": {"units": 50}}, "run.toml")
    assert (algorithm.strength, algorithm.engines) == (0.2, ("states", "graph"))


def test_a_new_closed_form_is_known_by_name_and_learns_from_a_fifth_of_the_units(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ALGORITHMS, "_found", dict(ALGORITHMS.items()))
    scores = example("new_policy")()
    assert scores["discriminative units"] > 1 / 4
    algorithm: Any = from_mapping(ALGORITHMS["discriminative"], {"share": 0.5}, "run.toml")
    assert (algorithm.share, algorithm.family) == (0.5, "closed-form")


def test_a_new_data_source_is_opened_and_learned_by_gradients_and_in_closed_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFF_ESN_CACHE", str(tmp_path))
    monkeypatch.setattr(STUDIES, "_found", dict(STUDIES.items()))
    scores = example("new_data")()
    assert min(scores.values()) > 0.7
    (tmp_path / "a.machine.csv").write_text("x,y,code\n0,1,0\n")
    assert open_study(tmp_path).name == "machines"


def test_the_notebook_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFF_ESN_CACHE", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(EXAMPLES / "tour.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.get("outputs") for cell in notebook.cells)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    told = "".join(output.get("text", "") for output in outputs)
    for name in ("central", "FedAvg", "FedCurv", "IncFed"):
        assert name in told


def test_the_guide_shows_the_examples_as_they_are() -> None:
    guide = GUIDE.read_text(encoding="utf-8")
    for name in ("new_algorithm", "new_policy", "new_data"):
        assert f"examples/{name}.py" in guide
    # What the guide quotes stands in the files.
    code = "\n".join(path.read_text(encoding="utf-8") for path in EXAMPLES.glob("new_*.py"))
    quoted = [block.split("```")[0] for block in guide.split("```python\n")[1:]]
    assert quoted
    for block in quoted:
        assert block in code, block
