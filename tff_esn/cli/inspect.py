"""`tff-esn inspect`: memory and stability of a reservoir."""

# No `from __future__ import annotations`: on Python 3.9 Typer reads options from real annotations only.

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, Union

import typer

from tff_esn.cli.data import Device, Features, HrvWindow, Labels, Rate, prepared
from tff_esn.cli.options import settings

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes

    from tff_esn.datasets.tables import FeatureTable
    from tff_esn.reservoir.diagnostics import Convergence, Diagnosis, Memory
    from tff_esn.reservoir.esn import ESN
    from tff_esn.reservoir.weights import ReservoirWeights
    from tff_esn.tables import Table

#: Steps of white noise that a reservoir is run on without a study.
NOISE_STEPS = 2000
FORMATS = (".png", ".svg", ".pdf")
STABLE, UNSTABLE = "below 1, as echo states need", "not below 1: unstable at rest"
GUARANTEED, APART = "below 1: echo states on any input", "they do not meet"
STYLES = {STABLE: "green", UNSTABLE: "yellow", GUARANTEED: "green", APART: "red"}
BLUE, ORANGE, GREY = "#2166ac", "#d6604d", "#8a8a8a"


def inspect(
    context: typer.Context,
    folder: Annotated[
        Optional[Path],
        typer.Argument(metavar="[DIR]", help="A study, to use a subject's features as input instead of white noise."),
    ] = None,
    inputs: Annotated[
        Optional[int], typer.Option(min=1, help="Number of inputs without a study.", show_default="1")
    ] = None,
    kind: Annotated[
        Literal["esn", "tfa"], typer.Option(help="Uniform weights, or weights as tfa.layers.ESN draws them.")
    ] = "esn",
    units: Annotated[int, typer.Option(help="Number of units.")] = 200,
    spectral_radius: Annotated[float, typer.Option(help="Largest absolute eigenvalue.")] = 0.99,
    leaking_rate: Annotated[float, typer.Option(help="Leaking rate a, in (0, 1].")] = 1.0,
    input_scaling: Annotated[float, typer.Option(help="Largest absolute input weight.")] = 1.0,
    input_connectivity: Annotated[
        str, typer.Option(help="Inputs connected to a unit: a probability (0.1) or their number (10).")
    ] = "1.0",
    recurrent_connectivity: Annotated[
        str, typer.Option(help="Units connected to a unit: a probability (0.1) or their number (10).")
    ] = "1.0",
    bias_scaling: Annotated[float, typer.Option(help="Largest absolute bias.")] = 0.0,
    radius_of: Annotated[
        Literal["recurrent", "leaky"], typer.Option(help="Matrix with that spectral radius: W, or (1 - a) I + a W.")
    ] = "recurrent",
    subject: Annotated[
        Optional[str], typer.Option(help="Subject whose features are used.", show_default="the first")
    ] = None,
    feature: Annotated[
        Optional[list[str]], typer.Option(help="Only this feature; may be repeated.", show_default="all")
    ] = None,
    features: Features = None,
    hrv_window: HrvWindow = None,
    device: Device = None,
    rate: Rate = None,
    labels: Labels = None,
    plot: Annotated[
        Optional[Path],
        typer.Option(metavar="FILE", help="Also write a plot, as .png, .svg or .pdf.", show_default=False),
    ] = None,
) -> None:
    """Report a reservoir's memory and stability.

    Shows whether it forgets its initial state, by its weights and in two runs on the same
    input, and how much of its past input a linear readout recovers.
    """
    from tff_esn.console import output
    from tff_esn.errors import ConfigError
    from tff_esn.parameters import from_mapping
    from tff_esn.reservoir.diagnostics import diagnose
    from tff_esn.reservoir.esn import ESN
    from tff_esn.reservoir.weights import draw_weights
    from tff_esn.seeds import generator_for
    from tff_esn.tables import to_terminal

    if plot is not None and plot.suffix not in FORMATS:
        raise ConfigError(f"--plot {plot}; expected a file that ends in {', '.join(FORMATS)}")
    chosen = {
        "kind": kind,
        "units": units,
        "spectral_radius": spectral_radius,
        "leaking_rate": leaking_rate,
        "input_scaling": input_scaling,
        "input_connectivity": _connectivity("--input-connectivity", input_connectivity),
        "recurrent_connectivity": _connectivity("--recurrent-connectivity", recurrent_connectivity),
        "bias_scaling": bias_scaling,
        "radius_of": radius_of,
        "seed": settings(context).seed,
    }
    esn = from_mapping(ESN, chosen, "options")
    if folder is None:
        for name, value in (("subject", subject), ("feature", feature)):
            if value is not None:
                raise ConfigError(f"--{name} without a study; expected its folder too")
        source = "white noise in ± 1"
        series = generator_for(esn.seed, "inspect", "noise").uniform(-1, 1, (NOISE_STEPS, inputs or 1))
    else:
        if inputs is not None:
            raise ConfigError(f"--inputs {inputs} with a study; its features are the inputs")
        table = _features(context, folder, features, labels, subject, feature, hrv_window, device, rate)
        source = f"{table.subject} ({', '.join(table.names)})"
        series = table.values
    weights = draw_weights(esn, series.shape[1], esn.seed)
    diagnosis = diagnose(weights, series, esn.seed, memory_values=None if folder is None else series)
    output.print(to_terminal(_table(esn, diagnosis, len(series), source), STYLES))
    if plot is not None:
        _draw(plot, weights, diagnosis)
        print(f"plot written to {plot}")


def _connectivity(option: str, text: str) -> Union[int, float]:
    """10 is a number of connections, and 0.1 or 1.0 a probability."""
    from tff_esn.errors import ConfigError

    try:
        number = int(text) if text.isdecimal() else float(text)
    except ValueError:
        number = 0
    if number > 0 and (number <= 1 or isinstance(number, int)):
        return number
    raise ConfigError(f"{option} {text}; expected a probability up to 1.0 or a whole number of connections")


def _features(
    context: typer.Context,
    folder: Path,
    features: Optional[str],
    labels: Optional[Path],
    subject: Optional[str],
    names: Optional[list[str]],
    *options: Any,
) -> "FeatureTable":
    """The chosen features of a subject, standardised."""
    from dataclasses import replace

    from tff_esn.datasets.study import chosen_subjects, open_study
    from tff_esn.errors import ConfigError

    name = chosen_subjects(open_study(folder, labels), subject and [subject])[0]
    preparation = prepared(context, folder, features, labels, [name], False, 1, *options)
    table = preparation.table(name)
    chosen = names or table.names
    unknown = [name for name in chosen if name not in table.names]
    if unknown:
        raise ConfigError(f"no feature {', '.join(unknown)}; expected some of {', '.join(table.names)}")
    columns = [table.names.index(name) for name in chosen]
    return replace(table, names=tuple(chosen), values=table.values[:, columns])


def _table(esn: "ESN", diagnosis: "Diagnosis", steps: int, source: str) -> "Table":
    from tff_esn.tables import text_table

    necessary, sufficient, memory = diagnosis.necessary, diagnosis.sufficient, diagnosis.memory
    convergence, dimension = diagnosis.convergence, diagnosis.dimension
    stable = STABLE if necessary.holds else UNSTABLE
    met = convergence.forgotten_after is not None
    forgotten = "the initial state is forgotten" if met else f"not within {len(convergence.distances) - 1} steps"
    horizon = f"> {len(memory.curve)}" if memory.horizon is None else str(memory.horizon)
    most = f"of at most {esn.units}"
    rows = [
        ["Radius of (1 - a) I + a W", f"{necessary.radius:.4f}", stable if necessary.exact else "with a bias, a hint"],
        [
            "Largest singular value of W",
            f"{sufficient.singular_value:.4f}",
            GUARANTEED if sufficient.holds else "not below 1: no guarantee",
        ],
        ["Distance of two runs, per step", f"x {convergence.rate:.4f}", "they meet" if met else APART],
        ["Steps until it is below 1e-6", str(convergence.forgotten_after) if met else "-", forgotten],
        ["Memory capacity", f"{memory.capacity:.1f}", most],
        ["Memory horizon", horizon, "delay at which r² is below 0.5"],
        ["Rank of the states", str(dimension.rank), most],
        ["Effective dimension", f"{dimension.effective:.1f}", "directions, if all were used alike"],
    ]
    title = f"A reservoir of {esn.units} units on {source}, {steps} steps"
    return text_table(title, ["Measure", "Value", "Meaning"], rows, numeric=["Value"])


def _draw(path: Path, weights: "ReservoirWeights", diagnosis: "Diagnosis") -> None:
    """Eigenvalues in the unit circle, the distance of two runs, and the memory curve."""
    import matplotlib as mpl
    import numpy as np
    from matplotlib.figure import Figure

    from tff_esn.reservoir.diagnostics import linearized

    style: dict[str, Any] = {
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlelocation": "left",
        "axes.titlesize": 11,
        "axes.labelcolor": "#444444",
        "font.size": 9,
        "svg.fonttype": "none",
    }
    with mpl.rc_context(style):
        # A bare Figure draws with Agg, svg or pdf by the file's name, and never opens a window.
        figure = Figure(figsize=(11, 3.6), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        _draw_eigenvalues(left, np.linalg.eigvals(linearized(weights)))
        _draw_distances(middle, diagnosis.convergence)
        _draw_memory(right, diagnosis.memory)
        figure.savefig(path, dpi=150)


def _draw_eigenvalues(axes: "Axes", eigenvalues: "np.ndarray") -> None:
    import numpy as np

    angles = np.linspace(0, 2 * np.pi, 400)
    axes.plot(np.cos(angles), np.sin(angles), color=GREY, linewidth=1)
    colors = np.where(np.abs(eigenvalues) < 1, BLUE, ORANGE)
    axes.scatter(eigenvalues.real, eigenvalues.imag, s=9, c=colors, alpha=0.7, linewidth=0)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set(title="Eigenvalues of $(1 - a)\\,I + a\\,W$", xlabel="real part", ylabel="imaginary part")


def _draw_distances(axes: "Axes", convergence: "Convergence") -> None:
    from tff_esn.reservoir.diagnostics import FORGOTTEN

    axes.semilogy(convergence.distances, color=BLUE, linewidth=1.4)
    axes.axhline(FORGOTTEN, color=GREY, linewidth=1, linestyle="--")
    if convergence.forgotten_after is not None:
        axes.plot(convergence.forgotten_after, FORGOTTEN, "o", color=ORANGE, markersize=5)
        label = f"{convergence.forgotten_after} steps"
        axes.annotate(label, (convergence.forgotten_after, FORGOTTEN), (6, 6), textcoords="offset points", color=ORANGE)
    axes.set(
        title=f"Distance of two runs ($\\times$ {convergence.rate:.3f} per step)", xlabel="step", ylabel="distance"
    )
    axes.set_xlim(left=0)


def _draw_memory(axes: "Axes", memory: "Memory") -> None:
    import numpy as np

    delays = np.arange(1, len(memory.curve) + 1)
    axes.fill_between(delays, memory.curve, color=BLUE, alpha=0.15, linewidth=0)
    axes.plot(delays, memory.curve, color=BLUE, linewidth=1.4)
    axes.axhline(0.5, color=GREY, linewidth=1, linestyle="--")
    if memory.horizon is not None:
        value = memory.curve[memory.horizon - 1]
        axes.plot(memory.horizon, value, "o", color=ORANGE, markersize=5)
        label = f"delay {memory.horizon}"
        axes.annotate(label, (memory.horizon, value), (7, 3), textcoords="offset points", color=ORANGE)
    axes.set(title=f"Memory of the input (capacity {memory.capacity:.1f})", xlabel="delay in steps", ylabel="r²")
    # Cut the axis where the curve has reached zero.
    remembered = np.flatnonzero(memory.curve > 0.01)
    axes.set_xlim(0, max(10, 1.1 * remembered[-1]) if len(remembered) else 10)
    axes.set_ylim(0, 1.05)
