"""Readouts in closed form: Table B.3, IncFed Tables III to VI, FedIP Table 2, pFedRR Table 1 and Figure 1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import Any

import numpy as np

from tff_esn.algorithm import ALGORITHMS
from tff_esn.features.study import DataSettings, Study
from tff_esn.metrics import spread
from tff_esn.parameters import help_of
from tff_esn.runs.closed_form_table import (
    ClosedFormConfig,
    ClosedFormResults,
    Outcome,
    TablePart,
    check_dataset,
    majorities,
    parts_of,
    run_part,
    table_dataset,
)
from tff_esn.runs.kind import KINDS, RunKind
from tff_esn.runs.reported import reported
from tff_esn.runs.result import ResultFigure, Series
from tff_esn.store.json_values import fingerprint
from tff_esn.store.tasks import Arrays, Task, packed, unpacked
from tff_esn.tables import PRINTED, Column, Number, Row, Table
from tff_esn.versions import version_of

#: Part of every key: raise it when a result changes.
_VERSION = 3
_MAJORITY = "majority class"
Method = Mapping[str, Any]


@KINDS.register
class ClosedFormRun(RunKind):
    """A table of a study, under each of its presets."""

    name = "closed-form"
    settings = ClosedFormConfig

    @property
    def datasets(self) -> list[DataSettings]:
        """Features, task and split of all methods."""
        return [self.config.settings]

    def prepare(self, jobs: int | None) -> None:
        """Prepares the channels, and checks that every part of the split has some."""
        super().prepare(jobs)
        check_dataset(table_dataset(self.study, self.config.settings), self.config)

    @cached_property
    def parts(self) -> dict[Any, Task]:
        """Methods that share a reservoir, by repetition, and the majority class."""
        tasks: dict[Any, Task] = {part: self._task(part) for part in parts_of(self.config, self.seeds)}
        config = self.config
        key = fingerprint([_VERSION, _MAJORITY, config.percent, config.settings, self._content])
        work = partial(_majority, self.study, config)
        return {**tasks, _MAJORITY: Task(f"{self.run}, {_MAJORITY}", "closed-form", key, work)}

    def outcome(self, results: Mapping[str, Arrays]) -> tuple[list[Table], list[ResultFigure]]:
        """The table, and accuracy against thresholds and against bytes."""
        found = self.results(results)
        return [closed_form_table(self.run, found)], list(self._figures(found))

    def results(self, results: Mapping[str, Arrays]) -> dict[str, ClosedFormResults]:
        """By preset, the results behind the table."""
        frequent = unpacked(results[self.parts[_MAJORITY].key])
        share = {int(percent): value for percent, value in frequent["majority"].items()}
        done = (task for part, task in self.parts.items() if part != _MAJORITY)
        outcomes = [Outcome(**one) for task in done for one in unpacked(results[task.key])]
        return {
            preset: ClosedFormResults(
                self.config, tuple(one for one in outcomes if one.preset == preset), share, frequent["classes"]
            )
            for preset in self.config.presets
        }

    def _figures(self, found: Mapping[str, ClosedFormResults]) -> Iterator[ResultFigure]:
        config, name, title = self.config, self.run, self.config.title
        thresholded = [method for method in config.methods if len(_taus(method)) > 1]
        if thresholded:
            series = [
                _against(result, method, percent, panel, quantity, preset)
                for panel, quantity in (("test accuracy, %", "accuracy"), ("units sent, %", "units"))
                for preset, result in found.items()
                for method in thresholded
                for percent in config.percent
            ]
            yield ResultFigure(
                f"{name}-tau", f"{title}: accuracy and units against tau", "tau", "", series, 2, y_range=None
            )
        series = [
            _over_bytes(result, method, percent, preset)
            for percent in config.percent
            for preset, result in found.items()
            for method in config.methods
            if method.get("algorithm") != "central-ridge"
        ]
        if len({value for one in series for value in one.x}) > 1:
            yield ResultFigure(
                f"{name}-bytes",
                f"{title}: accuracy against bytes",
                "bytes from a client",
                f"{config.scored} accuracy, %",
                series,
                2,
                y_range=(0.0, 100.0),
                log_x=True,
            )

    @cached_property
    def _content(self) -> str:
        return self.study.key(self.config.settings)

    def _task(self, part: TablePart) -> Task:
        config = self.config
        facts = (config.percent, config.settings, config.scored, config.train_scores, part, self._content)
        label = f"{self.run}, {part.variants[0].method}, seed {part.seed}"
        key = fingerprint([_VERSION, *facts, version_of("numpy")])
        return Task(label, "closed-form", key, partial(_run, self.study, config, part))


def closed_form_table(name: str, found: Mapping[str, ClosedFormResults]) -> Table:
    """A row per share of the training clients; across, each method's accuracy, units and bytes.

    Args:
        name: Name of the table's files.
        found: The results by preset.
    """
    first = next(iter(found.values()))
    config = first.config
    columns = [Column("majority", "majority class", digits=2)]
    for method in config.methods:
        columns += _columns(method, config)
    printed = printed_numbers(config)
    rows = []
    for percent in config.percent:
        lines: dict[str, list[Number | None]] = {}
        if str(percent) in printed:
            own = printed[str(percent)]
            cells = [cell for method in config.methods for cell in _printed(own.get(method["name"]), method, config)]
            lines[PRINTED] = [None, *cells]
        for preset, result in found.items():
            cells = [cell for method in config.methods for cell in _cells(result, method, percent)]
            lines[preset] = [Number(100 * result.majority[percent], n=0), *cells]
        rows.append(Row(f"{percent} %", lines))
    notes = [
        f"Accuracies in percent; guessing is right in {100 / first.classes:.2f} % of cases.",
        "up: bytes from a client.",
    ]
    return Table(name, config.title, "training clients", columns, rows, notes)


def threshold_table(result: ClosedFormResults, method: str, preset: str) -> Table:
    """Figure 1 of the pFedRR paper as numbers: accuracy and share of units against tau."""
    percents, scored = result.config.percent, result.config.scored
    columns = [
        Column(f"{percent}.{name}", heading, f"{percent} % of clients", digits)
        for percent in percents
        for name, heading, digits in ((scored, scored, 2), ("units", "units %", 1))
    ]
    rows = []
    for tau in sorted({one.tau for one in result.outcomes if one.method == method and one.tau is not None}):
        line: list[Number | None] = []
        for percent in percents:
            own = result.of(method, percent, tau)
            units = spread([one.units_percent for one in own]).mean
            line += [Number.of([100 * one.accuracy(scored) for one in own]), Number(units, n=0)]
        rows.append(Row(f"{tau:g}", {preset: line}))
    return Table("tau", f"{method}: {scored} accuracy and units against tau", "tau", columns, rows)


def printed_numbers(config: ClosedFormConfig) -> dict[str, Any]:
    """By share and method, what the document prints; accuracies in percent."""
    if config.printed is None:
        return {}
    table = reduce(lambda found, key: found[key], config.printed.split("."), reported())
    if any("train_acc" in row for row in table.values()):  # of Tables III and IV: selected settings
        return {"100": {name: [row["train_acc"], row["val_acc"]] for name, row in table.items()}}
    # Some tables have both studies.
    table = table.get("hhar" if config.settings.task == "activity" else "wesad", table)
    # The thesis prints shares of 1 where the papers print percent.
    scale = 100 if config.printed == "thesis.table_b_3" else 1
    return {
        percent: {name: [scale * values[0], *values[1:]] for name, values in row.items()}
        for percent, row in table.items()
        if percent.isdigit()
    }


def _run(study: Study, config: ClosedFormConfig, part: TablePart, scratch: Path) -> Arrays:
    return packed([asdict(one) for one in run_part(table_dataset(study, config.settings), config, part)])


def _majority(study: Study, config: ClosedFormConfig, scratch: Path) -> Arrays:
    data = table_dataset(study, config.settings)
    return packed({"majority": majorities(data, config), "classes": len(data.classes)})


def _taus(method: Method) -> list[float]:
    return list(method.get("candidates", {}).get("tau", ()))


def _thresholded(method: Method) -> bool:
    """Whether a client sends only some of its units, by a threshold."""
    return "tau" in help_of(ALGORITHMS[method.get("algorithm", "incfed")])


def _columns(method: Method, config: ClosedFormConfig) -> Iterator[Column]:
    name = method["name"]
    if config.train_scores:
        yield Column(f"{name}.train", "train", name, 2)
    yield Column(f"{name}.{config.scored}", config.scored, name, 2)
    if _thresholded(method):
        yield Column(f"{name}.units", "units %", name, 2)
        yield Column(f"{name}.tau", "tau", name, 1)
    yield Column(f"{name}.bytes", "up", name, 0, "bytes")


def _cells(result: ClosedFormResults, method: Method, percent: int) -> Iterator[Number | None]:
    config, own = result.config, result.chosen(method["name"], percent)
    for part in (["train"] if config.train_scores else []) + [config.scored]:
        answers = [np.array(one.confusions[part]).sum(axis=0) for one in own]
        single = sum(np.count_nonzero(one) == 1 for one in answers)
        yield Number.of([100 * one.accuracy(part) for one in own], single)
    if _thresholded(method):
        yield Number.of([one.units_percent for one in own])
        yield Number(own[0].tau, n=0)
    yield Number(spread([one.bytes_up for one in own]).mean, n=0)


def _printed(values: Sequence[float] | None, method: Method, config: ClosedFormConfig) -> Iterator[Number | None]:
    """Tables with training scores print two accuracies; the others each number with its deviation."""
    numbers = list(values or [])
    if config.train_scores:
        yield from (Number(one, n=0) for one in numbers[:2])
        yield from [None] * (2 - len(numbers[:2]))
    else:
        yield Number(numbers[0], numbers[1], 0) if numbers else None
    if _thresholded(method):
        yield Number(numbers[2], numbers[3], 0) if len(numbers) > 3 else None
        yield None
    yield None


def _against(result: ClosedFormResults, method: Method, percent: int, panel: str, quantity: str, preset: str) -> Series:
    taus = sorted(_taus(method))
    values = [
        [100 * one.accuracy("test") if quantity == "accuracy" else one.units_percent for one in own]
        for own in (result.of(method["name"], percent, tau) for tau in taus)
    ]
    means, lows, highs = (np.round([of(own) for own in values], 2).tolist() for of in (np.mean, min, max))
    return Series(panel, f"{method['name']}, {percent} %", list(taus), means, preset, "line", lows, highs)


def _over_bytes(result: ClosedFormResults, method: Method, percent: int, preset: str) -> Series:
    taus: list[float | None] = [*sorted(_taus(method))] or [None]
    groups = [result.of(method["name"], percent, tau) for tau in taus]
    points = sorted(
        (
            float(np.mean([one.bytes_up for one in own])),
            round(100 * float(np.mean([one.accuracy(result.config.scored) for one in own])), 2),
        )
        for own in groups
    )
    x, y = ([point[i] for point in points] for i in (0, 1))
    return Series(f"{percent} % of the training clients", method["name"], x, y, preset, "points")
