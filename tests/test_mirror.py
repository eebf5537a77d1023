"""The tests mirror the package."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "tff_esn"
#: Modules whose tests lie elsewhere, by the file that has them. The demo, which is slow, runs every kind of run.
ELSEWHERE = {
    "central/test_assess.py": "central/report features/inputs",
    "cli/test_command_line.py": """cli/data cli/demo cli/discriminate cli/main cli/options cli/steps datasets/inventory
        runs/feature_statistics""",
    "cli/test_training.py": "cli/central cli/tune tuning/report",
    "closed_form/test_messages.py": "closed_form/incfed closed_form/partial closed_form/pfedrr closed_form/selection",
    "closed_form/test_statistics.py": "closed_form/solver reservoir/moments",
    "datasets/test_study.py": "datasets/recording",
    "datasets/test_synthetic_hhar.py": "datasets/synthetic/hhar",
    "datasets/test_synthetic_wesad.py": "datasets/synthetic/physiology datasets/synthetic/wesad",
    "deployment/test_export.py": "deployment/keras_model",
    "features/test_windows.py": "datasets/tables",
    "federated/test_process.py": "federated/builtin federated/fedavg federated/federation federated/local",
    "federated/test_rounds.py": "federated/clients federated/study",
    "privacy/test_accounting.py": "privacy/reconstruction",
    "readout/test_training.py": "readout/readout",
    "reservoir/test_plasticity.py": "closed_form/fedip",
    "runs/errata/test_errata.py": """cli/errata runs/errata/catalogue runs/errata/closed_forms runs/errata/features
        runs/errata/gradients runs/errata/page runs/errata/scores""",
    "runs/kinds/test_federated.py": "store/tasks",
    "runs/test_kind.py": "runs/plan",
    "runs/test_report.py": "cli/reproduce runs/report/charts runs/report/page runs/report/summary",
    "runs/test_result.py": "runs/report/docs",
    "runtime/test_fleet.py": "runtime/certificates runtime/remote_executor runtime/server",
    "runtime/test_local_worker.py": "runtime/worker_supervisor",
    "store/test_files.py": "store/checkpoint",
    "store/test_run_folders.py": "store/events",
    "test_config.py": "errors presets seeds",
    "test_programs.py": "versions",
    "test_wesad_tables.py": "runs/reported",
    "tuning/test_search.py": "tuning/discriminator tuning/setup",
    "tuning/test_space.py": "tuning/hypermodels",
}


def modules() -> set[str]:
    """All but those that are for packages."""
    found = {path for folder in (PACKAGE, PACKAGE / "runs", PACKAGE / "tuning") for path in folder.rglob("*.py")}
    return {path.relative_to(PACKAGE).with_suffix("").as_posix() for path in found if not path.stem.startswith("__")}


def has_test(module: str) -> bool:
    place = TESTS / module
    return (place.parent / f"test_{place.name}.py").is_file()


def test_every_module_has_its_test_file() -> None:
    elsewhere = [module for listed in ELSEWHERE.values() for module in listed.split()]
    assert sorted(elsewhere) == sorted(module for module in modules() if not has_test(module))
    assert not [name for name in ELSEWHERE if not (TESTS / name).is_file()]
