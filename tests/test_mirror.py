"""The tests mirror the package."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "tff_esn"
#: Modules without a test file at their place, by the file that tests them.
ELSEWHERE = {
    "cli/test_command_line.py": """cli/data cli/demo cli/discriminate cli/main cli/options cli/parameter_options
        runs/feature_statistics""",
    "cli/test_training.py": "cli/central cli/tune",
    "closed_form/test_messages.py": """closed_form/averaging closed_form/central_ridge closed_form/hybrid_pfedrr
        closed_form/incfed closed_form/low_rank closed_form/partial closed_form/pfedrr closed_form/random_incfed
        closed_form/random_pfedrr closed_form/secure_incfed closed_form/selection closed_form/server""",
    "closed_form/test_statistics.py": "closed_form/solver reservoir/moments",
    "datasets/test_study.py": "datasets/recording",
    "datasets/test_synthetic_hhar.py": "datasets/synthetic/hhar",
    "datasets/test_synthetic_wesad.py": "datasets/synthetic/physiology datasets/synthetic/wesad",
    "deployment/test_export.py": "deployment/keras_model",
    "features/test_windows.py": "datasets/tables",
    "features/test_physiology.py": "features/corrected features/thesis",
    "federated/training/test_process.py": """federated/fedavg federated/fedavg_unweighted federated/fedprox
        federated/fedsgd federated/mimelite federated/objective federated/training/builtin
        federated/training/federation federated/training/local""",
    "federated/training/test_rounds.py": "federated/training/client_states federated/training/experiment",
    "readout/test_training.py": "readout/likelihood readout/parameters",
    "reservoir/test_plasticity.py": "closed_form/fedip",
    "reservoir/test_weights.py": "reservoir/esn",
    "runs/errata/test_errata.py": """cli/errata runs/errata/catalogue runs/errata/closed_forms runs/errata/features
        runs/errata/gradients runs/errata/page runs/errata/scores""",
    "runs/test_report.py": """cli/reproduce runs/plan""",
    "runtime/test_fleet.py": "runtime/certificates runtime/remote_executor runtime/server",
    "runtime/test_local_worker.py": "runtime/worker_supervisor",
    "store/test_files.py": "store/checkpoint store/tasks",
    "store/test_run_folders.py": "store/events",
    "test_api.py": "central/esn",
    "test_algorithm.py": "closed_form/algorithm federated/algorithm",
    "test_parameters.py": "errors",
    "test_programs.py": "versions",
    "test_wesad_tables.py": "runs/reported",
}


def modules() -> set[str]:
    """All but those that are for packages."""
    found = {path for folder in (PACKAGE, PACKAGE / "runs", PACKAGE / "tuning") for path in folder.rglob("*.py")}
    return {path.relative_to(PACKAGE).with_suffix("").as_posix() for path in found if not path.stem.startswith("__")}


def has_test(module: str) -> bool:
    """A file of its own, or one for all of its package, such as `test_metrics.py`."""
    place = TESTS / module
    own, of_package = place.parent / f"test_{place.name}.py", place.parent.parent / f"test_{place.parent.name}.py"
    return own.is_file() or of_package.is_file()


def test_every_module_has_its_test_file() -> None:
    elsewhere = [module for listed in ELSEWHERE.values() for module in listed.split()]
    assert sorted(elsewhere) == sorted(module for module in modules() if not has_test(module))
    assert [file for file in ELSEWHERE if not (TESTS / file).is_file()] == []
