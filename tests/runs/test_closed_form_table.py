"""Tables of closed forms on generated subjects, and what they are made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic.dataclasses import dataclass

from tff_esn.algorithm import ALGORITHMS
from tff_esn.closed_form.algorithm import AdaptedReservoir, ClosedForm
from tff_esn.closed_form.incfed import IncFed
from tff_esn.closed_form.messages import HEADER_BYTES, message_bytes
from tff_esn.closed_form.statistics import confusions
from tff_esn.datasets.federated import FederatedDataset
from tff_esn.errors import ConfigError
from tff_esn.features.study import Study
from tff_esn.parameters import STRICT, from_mapping, help_of
from tff_esn.reservoir.esn import ESN
from tff_esn.reservoir.weights import ReservoirWeights
from tff_esn.runs.closed_form_table import (
    ClosedFormConfig,
    ClosedFormResults,
    check_dataset,
    majorities,
    parts_of,
    run_part,
    share_of,
    variants_of,
)

RESERVOIR = {"units": 20, "leaking_rate": 0.5, "input_scaling": 0.5}
CHANNELS = {"name": "channels", "device": "wrist", "rate": 8.0, "steps": 40}
NAMES = [name for name, kind in ALGORITHMS.items().items() if kind.family == ClosedForm.family]
THRESHOLDED = [name for name in NAMES if "tau" in help_of(ALGORITHMS[name])]


def config(*algorithms: str, **more: Any) -> ClosedFormConfig:
    methods = []
    for name in algorithms:
        method: dict[str, Any] = {"name": name, "algorithm": name, "esn": RESERVOIR, "ridge": 1.0}
        if name in THRESHOLDED:
            method["candidates"] = {"tau": [0.3, 0.8]}
        if name == "fedip":
            method["plasticity"] = {"sigma": 0.3, "eta": 0.001, "epochs": 1}
        methods.append(method)
    data = {"features": CHANNELS, "task": "affect", "split": "wesad-9-3-3"}
    values = {"title": "t", "methods": methods, "data": data, "repetitions": 2, "presets": ["corrected"], **more}
    return from_mapping(ClosedFormConfig, values, "test")


@pytest.fixture(scope="module")
def data(study: Study) -> FederatedDataset:
    return study.dataset(config("incfed").settings)


def run_table(data: FederatedDataset, table: ClosedFormConfig) -> dict[str, ClosedFormResults]:
    outcomes = [one for part in parts_of(table, range(table.repetitions)) for one in run_part(data, table, part)]
    own = {preset: tuple(one for one in outcomes if one.preset == preset) for preset in table.presets}
    share = majorities(data, table)
    return {preset: ClosedFormResults(table, own[preset], share, len(data.classes)) for preset in table.presets}


@pytest.fixture(scope="module")
def result(data: FederatedDataset) -> ClosedFormResults:
    return run_table(data, config(*NAMES, train_scores=True))["corrected"]


def test_a_table_has_every_cell(result: ClosedFormResults) -> None:
    assert len(result.outcomes) == 2 * 4 * (len(NAMES) + len(THRESHOLDED))
    for method in result.config.methods:
        for percent, count in ((25, 3), (50, 5), (75, 7), (100, 9)):
            chosen = result.chosen(method["name"], percent)
            assert [one.seed for one in chosen] == [0, 1]
            assert {one.clients for one in chosen} == {count}
            assert all(0 <= one.accuracy(part) <= 1 for one in chosen for part in ("train", "validation", "test"))


def test_cells_are_what_the_algorithms_alone_give(data: FederatedDataset, result: ClosedFormResults) -> None:
    for percent in (25, 100):
        split = share_of(data, result.config.settings, percent)
        algorithm = IncFed(ESN(**RESERVOIR, seed=1), ridge=1.0)
        model = algorithm.fit(replace(data, partition=split))
        weights = algorithm.drawn(data)
        found = sum(confusions(data.sequences[name], 4, weights, [model.readout])[0] for name in split.test)
        (cell,) = (one for one in result.of("incfed", percent) if one.seed == 1)
        # Sums over clients that are computed together differ in the last bits.
        np.testing.assert_allclose(cell.confusions["test"], found, atol=0.002 * np.sum(found))
        assert cell.bytes_up == message_bytes("full", 4, 20)
        assert cell.bytes_down == message_bytes("readout", 4, 20)
        (central,) = (one for one in result.of("central-ridge", percent) if one.seed == 1)
        assert central.accuracy("test") == pytest.approx(cell.accuracy("test"), abs=1e-3)
        assert central.bytes_up == 0
        (secure,) = (one for one in result.of("secure-incfed", percent) if one.seed == 1)
        assert secure.confusions == cell.confusions
        # The values of the message, and for each client what hides them.
        assert secure.bytes_up == message_bytes("full", 4, 20) - HEADER_BYTES + 64 + len(split.train) * (160 + 66)
    (partial,) = (one for one in result.of("partial", 100) if one.seed == 1)
    assert partial.units_percent == 15.0  # int(150 / 9 / 100 * 20) of 20
    (adapted,) = (one for one in result.of("fedip", 100) if one.seed == 1)
    assert adapted.bytes_up == message_bytes("full", 4, 20) + message_bytes("gains", 0, 20, value_bytes=4)


def test_the_threshold_is_that_of_the_validation_subjects(result: ClosedFormResults) -> None:
    means = {tau: np.mean([one.accuracy("validation") for one in result.of("pfedrr", 100, tau)]) for tau in (0.3, 0.8)}
    assert result.best_tau("pfedrr", 100) == max(means, key=lambda tau: means[tau])
    assert result.best_tau("incfed", 100) is None
    few, many = (np.mean([one.units_percent for one in result.of("pfedrr", 100, tau)]) for tau in (0.3, 0.8))
    assert few < many
    for one, other in zip(result.of("pfedrr", 50), result.of("r-pfedrr", 50)):
        assert (one.units_percent, one.bytes_up) == (other.units_percent, other.bytes_up)


def test_the_majority_class_is_that_of_the_training_sequences(data: FederatedDataset) -> None:
    table = config("incfed", percent=[25, 100])
    for percent, found in majorities(data, table).items():
        split = share_of(data, table.settings, percent)
        parts = (split.train, split.test)
        train, test = (np.concatenate([data.sequences[name].labels for name in own]) for own in parts)
        train, test = train[train >= 0], test[test >= 0]
        assert found == pytest.approx(np.mean(test == np.bincount(train).argmax()))


def test_a_table_on_hhar_has_its_six_classes(hhar: Study) -> None:
    features = {"name": "channels", "device": "phones", "steps": 100}
    own = {"features": features, "task": "activity", "split": "hhar-5-2-2"}
    table = config("incfed", "pfedrr", data=own, repetitions=1, percent=[25, 100])
    result = run_table(hhar.dataset(table.settings), table)["corrected"]
    assert result.classes == 6
    assert [one.clients for one in result.of("incfed", 25) + result.of("incfed", 100)] == [2, 5]
    # Generated walking and sitting are easy to tell apart.
    assert result.of("incfed", 100)[0].accuracy("test") > 1 / 6


def test_a_table_of_a_split_of_ones_own_takes_the_first_training_clients(study: Study) -> None:
    split = {"train": ["S5", "S2", "S3"], "validation": ["S4"], "test": ["S6"]}
    table = config("incfed", repetitions=1, data={"features": CHANNELS, "task": "affect", "split": split})
    data = study.dataset(table.settings)
    result = run_table(data, table)["corrected"]
    assert [result.of("incfed", percent)[0].clients for percent in (25, 50, 75, 100)] == [1, 2, 3, 3]
    assert share_of(data, table.settings, 50).train == ("S5", "S2")


def test_presets_beside_each_other_are_what_each_gives_alone(data: FederatedDataset) -> None:
    table = config("averaging", "incfed", "pfedrr", "fedip", repetitions=1, percent=[25])
    both = replace(table, presets=("thesis", "corrected"))
    parts = parts_of(both, [0])
    # As drawn for both presets; adapted by the printed rule, and by the one that was meant.
    rules = [getattr(part.variants[0].algorithm, "plasticity", None) for part in parts]
    assert sorted(own.rule if own else "" for own in rules) == ["", "printed", "schrauwen"]
    assert [part.adapts for part in parts] == [own is not None for own in rules]
    together = run_table(data, both)
    for preset in both.presets:
        alone = run_table(data, replace(table, presets=(preset,)))[preset].outcomes
        assert {repr(one) for one in together[preset].outcomes} == {repr(one) for one in alone}
    for name in ("averaging", "fedip"):
        thesis, corrected = (together[preset].of(name, 25)[0].confusions for preset in ("thesis", "corrected"))
        assert thesis != corrected


@pytest.fixture
def damped(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An algorithm of another package, whose reservoir has its recurrent weights scaled."""
    monkeypatch.setattr(ALGORITHMS, "_found", dict(ALGORITHMS.items()))

    @ALGORITHMS.register
    @dataclass(frozen=True, repr=False, config=STRICT)
    class Damped(IncFed):
        factor: float = 0.5
        name = "damped"

        def adapted(self, data: FederatedDataset, weights: ReservoirWeights) -> AdaptedReservoir:
            kernel = np.float32(self.factor) * weights.recurrent_kernel
            return AdaptedReservoir(replace(weights, recurrent_kernel=kernel))

    yield


@pytest.mark.usefixtures("damped")
def test_algorithms_that_adapt_reservoirs_in_their_own_way_share_none(data: FederatedDataset) -> None:
    table = config("incfed", "damped", repetitions=1, percent=[25])
    factors = {"weak": 0.1, "none": 1.0}
    damped = ({**table.methods[1], "name": name, "factor": factor} for name, factor in factors.items())
    result = run_table(data, replace(table, methods=(table.methods[0], *damped)))["corrected"]
    plain, weak, same = (result.of(name, 25)[0].confusions for name in ("incfed", "weak", "none"))
    assert same == plain != weak


def test_methods_under_a_preset_have_its_values_and_their_own_before_them() -> None:
    table = config("incfed", "pfedrr")
    given = replace(table, methods=(*table.methods, {"name": "mine", "regularization": "once"}))
    found = {variant.method: variant.algorithm for variant in variants_of(given, "thesis", 3)}
    assert {name: own.regularization for name, own in found.items()} == {
        "incfed": "per_client",
        "pfedrr": "per_client",
        "mine": "once",
    }
    assert isinstance(found["mine"], IncFed) and {own.esn.seed for own in found.values()} == {3}


def test_tables_that_make_no_sense_are_refused(data: FederatedDataset) -> None:
    with pytest.raises(ConfigError, match="methods named incfed, incfed; expected a name for each"):
        parts_of(config("incfed", "incfed"), [0])
    for name, own, complaint in (
        ("pfedrr", {"candidates": {"tau": [1.5]}}, "t, a: tau = 1.5"),
        ("fedavg", {}, "t, a: algorithm = 'fedavg'; expected one in closed form"),
        ("incfed", {"tau": 0.5}, "t, a: no setting 'tau'"),
    ):
        with pytest.raises(ConfigError, match=complaint):
            parts_of(replace(config(), methods=({"name": "a", "algorithm": name, **own},)), [0])
    empty = {name: replace(own, values=own.values[:0], labels=own.labels[:0]) for name, own in data.sequences.items()}
    with pytest.raises(ConfigError, match="no sequence among the train clients at 25 %"):
        check_dataset(replace(data, sequences=empty), config("incfed"))
