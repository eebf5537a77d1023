from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tff_esn.features.study import Study
from tff_esn.parameters import from_mapping
from tff_esn.runs.kinds.selection import SelectionConfig, SelectionRun
from tff_esn.runs.named import NamedRun, load_run
from tff_esn.runs.plan import execute, plan_run
from tff_esn.tables import PRINTED

LISTS = {"train": ["S2", "S3"], "validation": ["S4"]}


@pytest.fixture(scope="module")
def study(generated: Path, tmp_path_factory: pytest.TempPathFactory) -> Study:
    return Study(generated, tmp_path_factory.mktemp("cache"))


def selection(name: str, study: Study, **changes: Any) -> SelectionRun:
    config = from_mapping(SelectionConfig, {**load_run(name).settings, **changes}, name)
    return SelectionRun(name, config, study, [3])


def test_table_6_1_is_searched_in_twelve_parts(study: Study) -> None:
    run = selection("model-selection", study)
    searches = run._searches
    assert [search.space.size for search in searches] == [81] * 12
    assert {search.space.fixed["data.features.hrv_window"] for search in searches} == {5.0, 25.0, 50.0}
    assert len({task.key for task in run.tasks()}) == 12
    model = searches[0].space.configuration({}, searches[0].base)
    assert (model.algorithm.esn.kind, model.algorithm.esn.seed, model.data.split) == ("tfa", 3, "thesis")


def test_the_selected_settings_stand_beside_the_printed_ones(study: Study, tmp_path: Path) -> None:
    space = tmp_path / "space.toml"
    space.write_text(
        'document = "mine"\nalgorithm = "central"\n[fixed]\n"data.features.steps" = 5\n'
        '[choice]\n"esn.units" = [10, 200]\n"data.features.columns" = ["pEDA", "tEDA+HR"]\n'
    )
    named = load_run("model-selection")
    settings = {
        **named.settings,
        "spaces": {"ESN": str(space)},
        "shards": ["data.features.columns"],
        "settings": {"data.split": LISTS, "data.features.hrv_window": 1.0, "batch_size": 50},
    }
    (result,) = execute([plan_run(NamedRun(named.name, named.about, settings), study)], jobs=1)
    (table,) = result.tables
    assert result.provenance.cells == 2
    assert [row.label for row in table.rows] == ["features", "units", "validation score"]
    printed = [row.lines[PRINTED][0] for row in table.rows]
    assert [number.text for number in printed if number is not None] == ["pEDA", "200", None]
    assert table.notes[0].startswith("ESN, thesis: 4 configurations tried; the printed one is number ")


def test_closed_forms_are_searched_as_corrected_on_the_wrist(study: Study) -> None:
    run = selection("table-b-2", study)
    assert [(search.column, search.preset) for search in run._searches] == [
        *[("IncFed", "corrected")] * 3,
        *[("PartialIncFed", "corrected")] * 3,
    ]
    assert {(own.features.device, own.features.rate, own.features.steps, own.task) for own in run.datasets} == {  # type: ignore[attr-defined]
        ("wrist", 64.0, 350, "affect")
    }
