"""Figures as Vega-Lite: the same chart for the page and, as PNG and SVG, for files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tff_esn.runs.result import ResultFigure, Series
from tff_esn.store.files import atomic_write

# Okabe and Ito's colours, which colour-blind readers can distinguish, readable on white and on black.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#999933", "#AA4499")
_LEVEL = "#888888"
#: Dashes distinguish lines beyond the number of colours, and constant levels.
_DASHES = ([1, 0], [6, 3], [2, 2])
_LEVEL_DASHES = ([2, 3], [8, 4])
_HEIGHT = 190
PNG_SCALE = 2.0


def chart(figure: ResultFigure, preset: str | None, legend: bool = True) -> dict[str, Any]:
    """The figure's Vega-Lite specification.

    Its parameters `preset` and `hidden` (names of curves) choose what is drawn. Domains are given, not found by Vega:
    a curve that is hidden moves no axis.

    Args:
        figure: The figure.
        preset: The preset that is shown first; None where it has none.
        legend: Whether there is one inside the chart.
    """
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "background": "transparent",
        "params": [{"name": "preset", "value": preset}, {"name": "hidden", "value": []}],
        "data": {"values": [_values(one) for one in figure.series]},
        "transform": [
            {"filter": "datum.preset === null || datum.preset === preset"},
            {"filter": "indexof(hidden, datum.name) < 0"},
            {"flatten": ["x", "y", "low", "high"]},
        ],
        "concat": [_panel(figure, title, legend) for title in figure.panels],
        "columns": figure.columns,
        "config": {
            "view": {"stroke": None},
            "axis": {"grid": True, "domain": False},
            "title": {"fontSize": 11, "fontWeight": 600},
        },
    }


def _panel(figure: ResultFigure, title: str, legend: bool) -> dict[str, Any]:
    own = [one for one in figure.series if one.panel == title]
    colours, dashes = styles(figure)
    names = list(colours)
    symbols = {"symbolType": "stroke", "symbolOpacity": 1, "symbolStrokeWidth": 2}
    legend_of = {"title": None, "orient": "bottom", "columns": 4, "labelLimit": 260, **symbols}
    by_name = {"field": "name", "type": "nominal", "legend": legend_of if legend else None}
    colour = {**by_name, "scale": {"domain": names, "range": [colours[name] for name in names]}}
    dash = {**by_name, "scale": {"domain": names, "range": [dashes[name] for name in names]}}
    bars = any(one.mark == "bar" for one in figure.series)
    across = [value for one in figure.series for value in one.x]
    x: dict[str, Any] = {"field": "x", "type": "quantitative", "title": figure.x, "axis": {"tickCount": 6}}
    x["scale"] = {"domain": [min(across), max(across)], "padding": 5 if bars else 0}
    if figure.log_x:
        x["scale"] = {"domain": [min(across), max(across)], "type": "log"}
        x["axis"] = {"format": "~s", "tickCount": 5}
    y: dict[str, Any] = {"field": "y", "type": "quantitative", "title": figure.y or None}
    y["scale"] = {"domain": list(figure.y_range or _reach(own, bars)), "nice": True}
    limits = {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": colour}
    lines = {"x": x, "y": y, "color": colour, "strokeDash": dash}
    tooltip = [
        {"field": "name", "title": " "},
        {"field": "x", "title": figure.x},
        {"field": "y", "title": figure.y or " "},
    ]
    layers = {
        "bar": {
            "mark": {"type": "bar", "opacity": 0.55},
            "encoding": {"x": x, "y": {**y, "stack": None}, "color": colour},
        },
        "band": {"mark": {"type": "area", "opacity": 0.13}, "encoding": limits},
        "line": {"mark": {"type": "line", "strokeWidth": 1.7}, "encoding": lines},
        "level": {"mark": {"type": "line", "strokeWidth": 1.2}, "encoding": lines},
        "step": {"mark": {"type": "line", "interpolate": "step", "strokeWidth": 1.7}, "encoding": lines},
        "points": {
            "mark": {"type": "line", "point": True, "strokeWidth": 1.2},
            "encoding": {**lines, "tooltip": tooltip},
        },
    }
    marks: set[str] = {one.mark for one in own} | ({"band"} if any(one.low for one in own) else set())
    wanted = {"band": "datum.banded"}
    return {
        "title": title,
        "width": 640 // figure.columns if figure.columns > 1 else 520,
        "height": _HEIGHT,
        "transform": [{"filter": {"field": "panel", "equal": title}}],
        "layer": [
            {"transform": [{"filter": wanted.get(name, f"datum.mark === '{name}'")}], **layer}
            for name, layer in layers.items()
            if name in marks
        ],
    }


def _reach(series: Sequence[Series], from_zero: bool) -> tuple[float, float]:
    values = [value for one in series for value in (*one.y, *one.low, *one.high)]
    return min(0.0, *values) if from_zero else min(values), max(values)


def styles(figure: ResultFigure) -> tuple[dict[str, str], dict[str, list[int]]]:
    """By curve, its colour and its dashes."""
    colours: dict[str, str] = {}
    dashes: dict[str, list[int]] = {}
    marks = {one.name: one.mark for one in figure.series}
    levels = [name for name in figure.names if marks[name] == "level"]
    for i, name in enumerate(name for name in figure.names if name not in levels):
        colours[name] = _COLOURS[i % len(_COLOURS)]
        dashes[name] = list(_DASHES[i // len(_COLOURS) % len(_DASHES)])
    for i, name in enumerate(levels):
        colours[name], dashes[name] = _LEVEL, list(_LEVEL_DASHES[i % len(_LEVEL_DASHES)])
    return colours, dashes


def write_figure(figure: ResultFigure, folder: Path) -> None:
    """Writes PNG and SVG, for each preset."""
    import vl_convert

    presets: list[str | None] = [*figure.presets] or [None]
    for preset in presets:
        spec = chart(figure, preset)
        spec["title"] = {"text": figure.title, "subtitle": f"preset {preset}" if preset else "", "anchor": "start"}
        spec["background"] = "white"
        name = f"{figure.name}-{preset}" if preset else figure.name
        svg = vl_convert.vegalite_to_svg(spec)
        with atomic_write(folder / f"{name}.svg") as file:
            file.write(svg.encode())
        with atomic_write(folder / f"{name}.png") as file:
            file.write(vl_convert.svg_to_png(svg, scale=PNG_SCALE))


def _values(series: Series) -> dict[str, Any]:
    low, high = series.low or series.y, series.high or series.y
    facts = {"panel": series.panel, "name": series.name, "preset": series.preset, "mark": series.mark}
    return {**facts, "banded": bool(series.low), "x": series.x, "y": series.y, "low": low, "high": high}
