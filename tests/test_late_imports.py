"""Imports inside functions are for speed of start only, and are listed here; the command line has more of them."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: By module, what it imports late: what takes TensorFlow, TFF or pandas, which take seconds; or, marked, what lies to
#: its right and is needed only when somebody asks for it.
LATE: dict[str, set[str]] = {
    # TensorFlow is loaded when something is trained.
    "tff_esn/central/esn": {"readout.training"},
    "tff_esn/evaluation/assessment": {"readout.training"},
    "tff_esn/federated/algorithm": {"federated.training.experiment"},
    "tff_esn/federated/defences/discriminator": {"federated.training.discriminator"},
    "tff_esn/deployment/keras_model": {"reservoir.layer"},
    "tff_esn/reservoir/weights": {"reservoir.layer"},
    "tff_esn/privacy/secure_aggregation": {"runtime.context"},
    "runs/kinds/discriminator": {
        "federated.training.discriminator",
        "federated.training.experiment",
        "tuning.discriminator",
    },
    "runs/kinds/federated": {
        "federated.training.client_states",
        "federated.training.experiment",
        "runs.sweep_results",  # which knows the cells of this module
    },
    "runs/kinds/selection": {"tuning.hypermodels", "tuning.search"},
    # The evidence of errata trains models.
    "runs/report/page": {"runs.errata.catalogue"},
    "runs/report/summary": {"runs.errata.catalogue"},
    # To the right: a model saves itself, a registry makes objects of tables.
    "tff_esn/readout/model": {"deployment.export"},
    "tff_esn/registry": {"parameters"},
}


def late_imports() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for top in ("tff_esn", "runs", "tuning"):
        for path in sorted((ROOT / top).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if name.startswith(("tff_esn/runs/", "tff_esn/tuning/", "tff_esn/cli/")):
                continue
            tree = ast.parse(path.read_text(encoding="utf-8"))
            functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
            modules = {
                node.module or ""
                for function in functions
                for node in ast.walk(function)
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tff_esn")
            }
            if modules:
                found[name.removesuffix(".py")] = {module.removeprefix("tff_esn.") for module in modules}
    return found


def test_late_imports_are_those_that_are_listed() -> None:
    assert late_imports() == LATE
