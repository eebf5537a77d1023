"""Whole tables on generated subjects in both layouts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from tff_esn.closed_form.engine import tff_readout, write_sequences
from tff_esn.closed_form.experiments import Clients, TableResult, load_clients, parts_of, run_part, run_table
from tff_esn.closed_form.incfed import incfed
from tff_esn.closed_form.messages import HEADER_BYTES, message_bytes
from tff_esn.closed_form.statistics import client_statistics, ridge_accuracy
from tff_esn.config import ClosedForm, ClosedFormConfig, MethodConfig, PlasticityConfig, from_mapping
from tff_esn.datasets.synthetic.hhar import write_hhar
from tff_esn.datasets.synthetic.wesad import write_wesad
from tff_esn.errors import ConfigError
from tff_esn.presets import CLOSED_FORMS
from tff_esn.privacy.leakage import budget_table, private_accuracies
from tff_esn.reservoir.weights import draw_weights
from tff_esn.runs.kinds.closed_form import closed_form_table, printed_numbers, threshold_table
from tff_esn.runs.named import load_run, run_names
from tff_esn.store.cache import Cache
from tff_esn.tables import PRINTED, Number, text_cells

RESERVOIR = {"units": 20, "leaking_rate": 0.5, "input_scaling": 0.5}


def config(*algorithms: str, **more: object) -> ClosedFormConfig:
    methods = [
        {"name": name, "algorithm": name, "reservoir": RESERVOIR, "ridge": 1.0, "tau": [0.3, 0.8]}
        for name in algorithms
    ]
    channels = {"device": "wrist", "rate": 8.0, "steps": 40}
    values = {"title": "t", "methods": methods, "channels": channels, "repetitions": 2, **more}
    return from_mapping(ClosedFormConfig, values, "test")


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Clients:
    folder = tmp_path_factory.mktemp("study")
    write_wesad(folder, minutes=5.0)
    return load_clients(folder, config("incfed"), Cache(folder / "cache"))


@pytest.fixture(scope="module")
def result(clients: Clients) -> TableResult:
    table = config(*get_args(ClosedForm))
    adapted = replace(table.methods[2], name="fedip", plasticity=PlasticityConfig(epochs=1))
    return run_table(clients, replace(table, methods=(*table.methods, adapted), train_scores=True))


def test_a_table_has_every_cell(result: TableResult) -> None:
    assert len(result.outcomes) == 2 * 4 * (7 + 4 * 2)
    for method in result.config.methods:
        for percent, count in ((25, 3), (50, 5), (75, 7), (100, 9)):
            chosen = result.chosen(method.name, percent)
            assert [one.seed for one in chosen] == [0, 1]
            assert {one.clients for one in chosen} == {count}
            assert all(0 <= one.accuracy(part) <= 1 for one in chosen for part in ("train", "validation", "test"))


def test_cells_are_what_the_methods_alone_give(clients: Clients, result: TableResult) -> None:
    for percent in (25, 100):
        split = clients.part(percent)
        weights = draw_weights(result.config.methods[2].reservoir, clients.inputs, seed=1)
        own = [clients.sequences[name] for name in split.train]
        solved = incfed(dict(zip(split.train, client_statistics(own, clients.task, weights))), 1.0)
        sizes = [len(clients.sequences[name]) for name in split.test]
        accuracies = [ridge_accuracy(clients.sequences[n], clients.task, weights, solved.readout) for n in split.test]
        (cell,) = (one for one in result.of("incfed", percent) if one.seed == 1)
        assert cell.accuracy("test") == pytest.approx(np.average(accuracies, weights=sizes), abs=2e-3)
        assert cell.bytes_up == message_bytes("full", 4, 20)
        assert cell.bytes_down == message_bytes("readout", 4, 20)
        (central,) = (one for one in result.of("central", percent) if one.seed == 1)
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


def test_the_threshold_is_that_of_the_validation_subjects(result: TableResult) -> None:
    means = {tau: np.mean([one.accuracy("validation") for one in result.of("pfedrr", 100, tau)]) for tau in (0.3, 0.8)}
    assert result.best_tau("pfedrr", 100) == max(means, key=lambda tau: means[tau])
    assert result.best_tau("incfed", 100) is None
    few, many = (np.mean([one.units_percent for one in result.of("pfedrr", 100, tau)]) for tau in (0.3, 0.8))
    assert few < many
    for one, other in zip(result.of("pfedrr", 50), result.of("r-pfedrr", 50)):
        assert (one.units_percent, one.bytes_up) == (other.units_percent, other.bytes_up)


def test_the_table_shows_ours_beside_what_is_printed(result: TableResult, tmp_path: Path) -> None:
    named = replace(result.config, printed="pfedrr.table_1")
    assert printed_numbers(named, "wesad")["25"]["I-pFedRR"] == [80.71, 0.37, 49.72, 1.71]
    thesis = replace(result.config, printed="thesis.table_b_3", train_scores=False)
    assert printed_numbers(thesis, "wesad")["100"]["IncFed"] == pytest.approx([78.01, 0.77])
    methods = tuple(replace(one, name={"incfed": "IncFed"}.get(one.name, one.name)) for one in thesis.methods)
    outcomes = tuple(replace(one, method={"incfed": "IncFed"}.get(one.method, one.method)) for one in result.outcomes)
    own = replace(result, config=replace(thesis, methods=methods), outcomes=outcomes)
    table = closed_form_table("t", {"corrected": own}, tmp_path)
    printed = table.cell("100 %", PRINTED, "IncFed.test")
    assert printed is not None and (printed.mean, printed.std, printed.n) == (pytest.approx(78.01), 0.77, 0)
    assert table.cell("100 %", "corrected", "majority") == Number(100 * result.majority[100], n=0)
    up = table.cell("100 %", "corrected", "IncFed.bytes")
    assert up is not None and up.mean == message_bytes("full", 4, 20)
    accuracies = [100 * one.accuracy("test") for one in result.of("incfed", 100)]
    assert table.cell("100 %", "corrected", "IncFed.test") == Number.of(accuracies)
    assert "guessing is right in 25.00 %" in table.notes[0]
    selected = replace(result.config, printed="incfed.table_3_wesad_selected")
    assert printed_numbers(selected, "wesad") == {"100": {"FedAvg": [75.5, 84.03], "IncFed": [85.08, 83.63]}}
    validated = replace(result, config=replace(result.config, scored="validation"))
    assert closed_form_table("t", {"corrected": validated}, tmp_path).cell("50 %", "corrected", "incfed.validation")
    figure = threshold_table(result, "pfedrr")
    assert [row.label for row in figure.rows] == ["0.3", "0.8"]
    few = np.mean([one.units_percent for one in result.of("pfedrr", 100, 0.3)])
    assert figure.cell("0.3", "corrected", "100.units") == Number(few, n=0)


def test_a_table_on_hhar(tmp_path: Path) -> None:
    write_hhar(tmp_path, seconds=8.0, models=("nexus4",))
    table = config("incfed", "pfedrr", split="hhar-5-2-2", repetitions=1, percent=[25, 100])
    table = replace(table, channels=replace(table.channels, steps=100), printed="fedip.table_2")
    clients = load_clients(tmp_path, table, Cache(tmp_path / "cache"))
    result = run_table(clients, table)
    assert result.classes == 6
    assert len(result.outcomes) == 2 * 3
    # Generated walking and sitting are easy to tell apart.
    assert result.of("incfed", 100)[0].accuracy("test") > 1 / 6
    assert printed_numbers(result.config, "hhar")["100"]["FedIP"] == [82.09, 0.29]


def test_presets_beside_each_other_are_what_each_gives_alone(clients: Clients) -> None:
    plasticity = {"sigma": 0.3, "eta": 0.001, "epochs": 1, "rule": "preset"}
    table = config("averaging", "incfed", "pfedrr", repetitions=1, percent=[25])
    adapted = from_mapping(MethodConfig, {"name": "fedip", "reservoir": RESERVOIR, "plasticity": plasticity}, "test")
    table = replace(table, methods=(*table.methods, adapted))
    parts = parts_of(table, [0], ["thesis", "corrected"])
    # As drawn for both presets; adapted by the printed rule, and by the one that was meant.
    assert sorted(part.plasticity.rule if part.plasticity else "" for part in parts) == ["", "printed", "schrauwen"]
    together = [one for part in parts for one in run_part(clients, table, part)]
    for preset in CLOSED_FORMS:
        alone = run_table(clients, replace(table, preset=preset)).outcomes
        assert {repr(one) for one in together if one.preset == preset} == {repr(one) for one in alone}
    thesis, corrected = ([one for one in together if one.preset == preset] for preset in ("thesis", "corrected"))
    for name in ("averaging", "fedip"):
        assert [one.confusions for one in thesis if one.method == name] != [
            one.confusions for one in corrected if one.method == name
        ]


@pytest.mark.parametrize("algorithm", ["incfed", "partial", "pfedrr", "low-rank"])
def test_tff_gives_the_same_readout(clients: Clients, algorithm: str, tmp_path: Path) -> None:
    table = config(algorithm, repetitions=1)
    table = replace(table, methods=(replace(table.methods[0], tau=(0.8,)),), percent=(100,))
    files = write_sequences(tmp_path, clients, table)
    weights, readout = tff_readout(clients, table, table.methods[0], 100, seed=0, folder=files)
    (plain,) = run_table(clients, table).outcomes
    subjects = [clients.sequences[name] for name in clients.part(100).test]
    sizes = [len(own) for own in subjects]
    found = np.average([ridge_accuracy(own, clients.task, weights, readout) for own in subjects], weights=sizes)
    assert found == pytest.approx(plain.accuracy("test"), abs=5e-3)


def test_little_noise_changes_little_and_much_noise_much(clients: Clients) -> None:
    table = config("incfed", repetitions=2)
    found = private_accuracies(clients, table, [0.01, 1e5], 1e-5, 1, 0.5, seed=0)
    exact, strict, loose = (one.accuracy.mean for one in found)
    assert abs(loose - exact) < 0.03
    assert abs(strict - exact) > abs(loose - exact)
    cells = text_cells(budget_table(found, 1e-5, "step"))
    assert cells[:2] == [
        ["epsilon", "test %"],
        ["no noise", f"{100 * exact:.2f} ±{100 * found[0].accuracy.std:.2f}"],
    ]


def test_every_run_definition_is_a_table_there_is() -> None:
    checked = 0
    for name in run_names():
        run = load_run(name)
        if run.settings["kind"] != "closed-form":
            continue
        table = from_mapping(ClosedFormConfig, run.settings, name)
        if table.printed is None:  # a question of our own
            continue
        printed = printed_numbers(table, run.about.study)
        names = {method for row in printed.values() for method in row}
        assert {method.name for method in table.methods} & names, name
        checked += 1
    assert checked >= 10


def test_tables_that_make_no_sense_are_refused(clients: Clients, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="methods incfed, incfed; expected a name for each"):
        run_table(clients, config("incfed", "incfed"))
    with pytest.raises(ConfigError, match=r"methods.0.tau.0 = 1.5"):
        from_mapping(ClosedFormConfig, {"title": "t", "methods": [{"name": "a", "tau": [1.5]}]}, "test")
    nothing = {
        name: replace(own, values=own.values[:0], codes=own.codes[:0]) for name, own in clients.sequences.items()
    }
    table = config("secure-incfed")
    with pytest.raises(ConfigError, match="secure-incfed by TFF, whose secure sum hides nothing; expected --engine n"):
        tff_readout(clients, table, table.methods[0], 100, seed=0, folder=tmp_path)
    with pytest.raises(ConfigError, match="no sequence of 40 steps among the train clients"):
        run_table(replace(clients, sequences=nothing), config("incfed"))
