from __future__ import annotations

from typing import Any

import pytest

from tff_esn.errors import ConfigError
from tff_esn.features.study import Study
from tff_esn.parameters import from_mapping
from tff_esn.runs.kinds.discriminator import DiscriminatorConfig, DiscriminatorRun, discriminator_table, train_first
from tff_esn.runs.plan import run_parts
from tff_esn.tables import PRINTED, Number

DATA = {"data.split": "thesis-discriminative", "data.features.name": "corrected"}
SETTINGS = {"esn.units": 10, "esn.recurrent_connectivity": 1.0, "defence.network.epochs": 1}


def run_of(study: Study, settings: dict[str, Any]) -> DiscriminatorRun:
    values = {"kind": "discriminator", "title": "T", "settings": {**DATA, **settings}, "trials": 0}
    config = from_mapping(DiscriminatorConfig, {**values, "presets": ["thesis"]}, "test")
    return DiscriminatorRun("run", config, study, (3, 4))


def test_a_discriminator_is_trained_with_each_seed_and_again_for_its_file(study: Study) -> None:
    run = run_of(study, SETTINGS)
    results = run_parts(run, 1)
    (table,), _ = run.outcome(results)
    scores = run.found(results)["thesis"]["scores"]
    assert table.cell("test F1", "thesis", "value") == Number.of([one["test_f1"] for one in scores])
    assert table.cell("validation accuracy", PRINTED, "value") == Number(0.9974, n=0)
    assert len(scores) == 2 and scores[0] != scores[1]
    assert table.notes == ["thesis: dense layers of 64 and 32 units, dropout 0.3, trained on steps."]
    again = train_first(run, results, "thesis")
    assert again.card.test_f1 == pytest.approx(scores[0]["test_f1"])
    assert discriminator_table("T", {}).cell("test F1", PRINTED, "value") == Number(0.9925, n=0)


def test_a_run_without_a_discriminator_is_refused(study: Study) -> None:
    with pytest.raises(ConfigError, match=r"defence = Median\(\); expected discriminator"):
        run_parts(run_of(study, {"defence.name": "median"}), 1)
