from __future__ import annotations

from importlib import resources

import pytest

from tff_esn.errors import ConfigError
from tff_esn.features.study import Study
from tff_esn.parameters import from_mapping, read_toml
from tff_esn.runs.errata.catalogue import errata
from tff_esn.runs.named import DemoConfig, load_run, run_names
from tff_esn.runs.plan import plan_run


@pytest.mark.parametrize("name", run_names())
def test_every_named_run_is_described_and_has_parts(name: str, study: Study, hhar: Study) -> None:
    known = {one.name for one in errata()}
    parts = []
    for quick in (True, False):
        run = load_run(name, quick)
        assert run.about.covers and run.about.claimed and run.about.takes
        assert set(run.about.errata) <= known
        plan = plan_run(run, hhar if run.about.study == "hhar" else study, quick=quick)
        assert plan.missing == plan.tasks
        parts.append(len(plan.tasks))
    quick_parts, all_parts = parts
    assert 1 <= quick_parts <= all_parts


def test_the_runs_are_of_all_documents_and_the_demo_names_some() -> None:
    assert {load_run(name).about.document for name in run_names()} == {"thesis", "incfed", "fedip", "pfedrr", "beyond"}
    with resources.as_file(resources.files("tff_esn.runs") / "demo.toml") as path:
        demo = from_mapping(DemoConfig, read_toml(path), path.name)
    assert set(demo.runs) <= set(run_names())


def test_an_unknown_run_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="no run 'table-b3'; did you mean 'table-b-3'"):
        load_run("table-b3")
