from __future__ import annotations

from typing import Any

import pytest

from tff_esn.algorithm import ALGORITHMS
from tff_esn.errors import ConfigError
from tff_esn.federated.defences.median import Median
from tff_esn.parameters import nested
from tff_esn.runs.presets import PRESETS, algorithm_of
from tff_esn.runs.reported import reported

VALUES = [(preset, family, name) for preset, own in PRESETS.items() for family in own for name in own[family]]


def value_of(algorithm: Any, name: str) -> Any:
    for key in name.split("."):
        algorithm = getattr(algorithm, key, None)
    return algorithm


@pytest.mark.parametrize(("preset", "family", "name"), VALUES)
def test_every_value_is_that_of_a_parameter_of_some_algorithm_of_its_family(
    preset: str, family: str, name: str
) -> None:
    given = {"defence": "discriminator"} if name.startswith("defence.") else {}
    own = [kind.name for kind in ALGORITHMS.items().values() if kind.family == family]
    found = [value_of(algorithm_of(kind, preset, given, "test"), name) for kind in own]
    assert PRESETS[preset][family][name] in found


def test_presets_differ_in_what_the_documents_print_and_in_nothing_else() -> None:
    thesis, corrected = PRESETS["thesis"], PRESETS["corrected"]
    assert {family: list(own) for family, own in thesis.items()} == {
        family: list(own) for family, own in corrected.items()
    }
    changed = {
        family: {name for name, value in own.items() if corrected[family][name] != value}
        for family, own in thesis.items()
    }
    fedcurv = {"fisher", "divisor", "fisher_of", "anchor", "own_share", "penalty", "weighting", "factor"}
    training = {"learning_rate", "class_weight", "order", "defence.treatment", "defence.trained_on"}
    assert changed == {"central": set(), "federated": fedcurv | training, "closed-form": set(thesis["closed-form"])}


def test_what_is_given_comes_before_the_preset() -> None:
    given = nested({"learning_rate": 0.5, "esn.units": 7})
    chosen = algorithm_of("fedavg", "thesis", given, "test")
    assert (value_of(chosen, "learning_rate"), chosen.esn.units, chosen.esn.kind) == (0.5, 7, "tfa")


def test_a_defence_gets_what_it_has() -> None:
    assert value_of(algorithm_of("fedavg", "thesis", {"defence": "median"}, "test"), "defence") == Median()
    chosen = algorithm_of("fedavg", "thesis", {"defence": {"name": "discriminator", "trained_on": "rounds"}}, "test")
    assert value_of(chosen, "defence.treatment") == "replaced"
    assert value_of(chosen, "defence.trained_on") == "rounds"


def test_an_unknown_preset_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="no preset 'thesys'; did you mean 'thesis'"):
        algorithm_of("fedavg", "thesys", {}, "test")


@pytest.mark.parametrize("preset", PRESETS)
def test_both_presets_have_the_model_and_the_federation_that_the_thesis_prints(preset: str) -> None:
    model, federation = reported()["thesis"]["table_6_2"], reported()["thesis"]["federated"]
    central: Any = algorithm_of("central", preset, {}, "test")
    gradient: Any = algorithm_of("fedcurv", preset, {}, "test")
    for algorithm in (central, gradient):
        assert (algorithm.batch_size, algorithm.epochs) == (model["batch_size"], model["epochs"])
        assert (algorithm.esn.kind, algorithm.esn.recurrent_connectivity) == ("tfa", 0.1)
        assert (algorithm.esn.units, algorithm.esn.spectral_radius) == (model["units"], model["spectral_radius"])
    assert central.learning_rate == model["learning_rate"]
    assert central.class_weight == tuple(federation["class_weight"].values())
    assert (gradient.rounds, gradient.clients_per_round) == (federation["rounds"], federation["clients_per_round"])
    assert (gradient.factor == federation["penalty_factor"]) == (preset == "thesis")
