"""What can be configured: one frozen dataclass per thing, checked when it is made.

Each deviation from the printed thesis is one field with the printed behaviour as
one of its values; `tff_esn.presets` names the combinations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, TypeVar, Union, get_args

import tomli
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from tff_esn.datasets.splits import ClientSplit
from tff_esn.errors import ConfigError

_strict = ConfigDict(extra="forbid")
_T = TypeVar("_T")

PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
PositiveInt = Annotated[int, Field(gt=0)]
PresetName = Literal["thesis", "corrected"]
Feature = Literal["pEDA", "tEDA", "HR", "HRV"]
FEATURES = get_args(Feature)


@dataclass(frozen=True, config=_strict)
class ExtractionConfig:
    """How EDA and BVP become the four features of thesis chapter 5.

    Attributes:
        eda_rate: Sampling rate NeuroKit is told for the 4 Hz EDA: its default of
            1000 Hz, as the thesis left it, or the true one.
        hrv_window: Length of the sliding window of HRV, in `hrv_window_unit`.
        hrv_window_unit: The thesis multiplies by 64 "to consider a timing of
            seconds" but counts heart beats: 25 stands for 1600 beats. Or seconds.
        hrv_unit: SDSD in samples of the 64 Hz signal (the thesis: NeuroKit's default
            rate makes them look like milliseconds) or in milliseconds.
        beats: `all` intervals between beats count (the thesis), or only `plausible` ones:
            0.3 to 2 s long, within 30 % of the usual interval, with no gap inside.
        alignment: `stretch` resamples each feature to the length of the shortest,
            whatever time it covers (the thesis); `clock` reads each at the same moment.
        step_rate: Steps a second under `clock`.
        max_gap: Longest gap in a signal, in seconds, that is bridged; the beats in it
            do not count. 0 refuses signals with gaps (the thesis).
    """

    eda_rate: Literal["neurokit_default", "true"]
    hrv_window_unit: Literal["64_beats", "seconds"]
    hrv_unit: Literal["samples", "milliseconds"]
    beats: Literal["all", "plausible"]
    alignment: Literal["stretch", "clock"]
    hrv_window: PositiveFloat = 25.0
    step_rate: PositiveFloat = 1.0
    max_gap: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0


@dataclass(frozen=True, config=_strict)
class WindowConfig:
    """How the standardised features become the model's input windows.

    Attributes:
        normalization: `divide_by_mean` divides a window by the running mean of all
            windows so far (the thesis's "online moving average"); `zscore` subtracts
            that mean and divides by the running standard deviation; `none`.
        scope: Whether the running statistics and the windows run through the
            `study`, from one subject into the next (the thesis), or start anew with
            each `subject`, so that nothing of one client reaches another.
        steps: Length of a window; stride 1.
    """

    normalization: Literal["divide_by_mean", "zscore", "none"]
    scope: Literal["study", "subject"]
    steps: PositiveInt = 20


@dataclass(frozen=True, config=_strict)
class ChannelConfig:
    """The raw channels of the IncFed, FedIP and pFedRR papers.

    Attributes:
        device: `chest` (ACC x3, Resp, EDA, ECG, EMG, Temp) or `wrist` (ACC x3, BVP, EDA, TEMP).
        rate: Common rate in Hz; the chest's own is 700.
        steps: Length of a chunk, cut inside each labelled stretch.
    """

    device: Literal["chest", "wrist"] = "chest"
    rate: PositiveFloat = 700.0
    steps: PositiveInt = 700


@dataclass(frozen=True, config=_strict)
class HharConfig:
    """Which of HHAR's devices are read, and how accelerometer and gyroscope are joined.

    Attributes:
        kind: Phones or watches.
        models: Models to keep, None for all. The FedIP and pFedRR papers use the Nexus 4.
        rate: Rate in Hz to resample to; None keeps the samples as they arrived.
        tolerance: Longest time in seconds between joined samples.
        max_gap: Longest time in seconds between samples that is no break.
    """

    kind: Literal["phones", "watches"] = "phones"
    models: Optional[tuple[str, ...]] = ("nexus4",)
    rate: Optional[PositiveFloat] = None
    tolerance: PositiveFloat = 0.02
    max_gap: PositiveFloat = 1.0


#: A probability in (0, 1], or a number of connections per unit.
Connectivity = Union[Annotated[int, Field(ge=1, strict=True)], Annotated[float, Field(gt=0, le=1, strict=True)]]


@dataclass(frozen=True, config=_strict)
class ReservoirConfig:
    """A reservoir: x(t) = (1 - a) x(t-1) + a tanh(g * (W_in u(t) + W x(t-1)) + b).

    Attributes:
        kind: `esn` draws uniform weights; `tfa` draws them as `tfa.layers.ESN` does
            (glorot-uniform, the recurrent ones masked, no input scaling, no bias).
        units: N_x.
        spectral_radius: rho, the largest absolute eigenvalue of what `radius_of` names.
        leaking_rate: a (the thesis's alpha), in (0, 1].
        input_scaling: Largest absolute weight of W_in.
        input_connectivity: Which inputs reach a unit: a probability, or a number of them.
        recurrent_connectivity: Which units reach a unit: a probability, or a number of them.
        bias_scaling: Largest absolute value of b.
        radius_of: `recurrent` for W itself, `leaky` for (1 - a) I + a W.
    """

    kind: Literal["esn", "tfa"] = "esn"
    units: PositiveInt = 200
    spectral_radius: PositiveFloat = 0.99
    leaking_rate: Annotated[float, Field(gt=0, le=1)] = 1.0
    input_scaling: PositiveFloat = 1.0
    input_connectivity: Connectivity = 1.0
    recurrent_connectivity: Connectivity = 1.0
    bias_scaling: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    radius_of: Literal["recurrent", "leaky"] = "recurrent"


@dataclass(frozen=True, config=_strict)
class ReadoutConfig:
    """A dense readout learned by gradients on the cross-entropy.

    Attributes:
        optimizer: `adam` or `sgd`.
        learning_rate: Its step, eta.
        batch_size: Examples a step.
        epochs: Passes over the data.
        class_weight: Weight of each class in the loss; None for equal ones.
        order: Examples in `time` order, subject after subject, or `shuffled` anew every epoch.
    """

    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: PositiveFloat = 0.1
    batch_size: PositiveInt = 20
    epochs: PositiveInt = 1
    class_weight: Optional[tuple[PositiveFloat, ...]] = (12.0, 88.0)
    order: Literal["time", "shuffled"] = "time"


@dataclass(frozen=True, config=_strict)
class InputConfig:
    """What of a study a model sees.

    Attributes:
        preset: `thesis` or `corrected` features.
        hrv_window: As in `ExtractionConfig`.
        features: Columns of the feature table.
        reading: `window`: each window is an example, read from a zero state, with the label of its
            last step. `carried`: the state runs through the whole recording, each step is an example.
        task: `stress` or not, every step counting; or `affect`, the four states of codes 1 to 4.
        split: Name of the split, or its lists of subjects.
    """

    preset: PresetName = "thesis"
    hrv_window: PositiveFloat = 25.0
    features: tuple[Feature, ...] = ("pEDA",)
    reading: Literal["window", "carried"] = "window"
    task: Literal["stress", "affect"] = "stress"
    split: Union[str, ClientSplit] = "thesis"


@dataclass(frozen=True, config=_strict)
class CentralConfig:
    """The centralised model; the defaults are thesis Table 6.2.

    Attributes:
        ridge: Candidates for the closed-form readout's regularisation, chosen on the validation set.
    """

    inputs: InputConfig = InputConfig()
    reservoir: ReservoirConfig = ReservoirConfig(kind="tfa", recurrent_connectivity=0.1)
    readout: ReadoutConfig = ReadoutConfig()
    ridge: tuple[PositiveFloat, ...] = (0.01, 1.0, 100.0, 10000.0)


@dataclass(frozen=True, config=_strict)
class FedCurvConfig:
    """FedCurv's switches; `tff_esn.presets` has their values as printed and as meant.

    Attributes:
        fisher: The diagonal of the Fisher information that a client computes.
            `listing`: squared gradient of log-softmax of the readout's output, summed over a batch (thesis Listing
            3.6), which is 0 for one output unit; `batch`: the same of the log-likelihood of the labels;
            `empirical`: squared gradients of the single examples' log-likelihood, summed;
            `true`: the same in expectation over the labels the model itself expects.
        divisor: What that is divided by: the number of `tensors` in a batch, 2 (Listing 3.6), or of `examples`.
        fisher_of: The `last_batch`, before the step on it (Listing 3.4), or `all` examples with the final weights.
        anchor: Weights that v pairs the diagonal with: those one step `behind` (Listing 3.4), or the `same`.
        own_share: What a client subtracts from the server's u and v before it penalises: its share of the current
            `batch` (Listing 3.4), what it sent itself in the `previous` round, or `nothing`.
        penalty: `outside` the gradient tape, where it shifts the loss and no weight (Listing 3.4), or `inside`.
        send: A client's own `diagonal` (Listing 3.4), or the `remainder` u - D (Algorithm 2).
        weighting: Of the clients' updates in the mean: `uniform` (Listing 3.3), or by `examples` (Algorithm 2).
        factor: lambda, by which the penalty is multiplied.
    """

    fisher: Literal["listing", "batch", "empirical", "true"]
    divisor: Literal["tensors", "examples"]
    fisher_of: Literal["last_batch", "all"]
    anchor: Literal["behind", "same"]
    own_share: Literal["batch", "previous", "nothing"]
    penalty: Literal["outside", "inside"]
    send: Literal["diagonal", "remainder"]
    weighting: Literal["uniform", "examples"]
    factor: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1e-4


@dataclass(frozen=True, config=_strict)
class NoiseConfig:
    """Gaussian noise on the inputs of chosen clients, while they train.

    Attributes:
        standard_deviation: In units of the normalised input; 0 for none.
        clients: Who gets it; None for every training client.
    """

    standard_deviation: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    clients: Optional[tuple[str, ...]] = None


@dataclass(frozen=True, config=_strict)
class AttackConfig:
    """What bad clients do.

    Attributes:
        kind: `noise`: Gaussian noise on its inputs. `label-flip`: every label is the next class. Or what it sends:
            `sign-flip`: its update with the opposite sign; `scaled`: enlarged; `random`: noise of its update's size;
            `stealthy`: its update with a little such noise.
        strength: The noise's standard deviation (in units of the input, or of the update's root mean square), or the
            factor of the update; `label-flip` has none. None for the kind's own.
        share: Of the training clients, drawn by the seed.
        clients: Who instead.
    """

    kind: Literal["noise", "label-flip", "sign-flip", "scaled", "random", "stealthy"] = "noise"
    strength: Optional[PositiveFloat] = None
    share: Annotated[float, Field(ge=0, le=1)] = 0.5
    clients: Optional[tuple[str, ...]] = None


@dataclass(frozen=True, config=_strict)
class DefenceConfig:
    """How the server defends itself.

    Attributes:
        kind: `none`; `discriminator`: a network judges each update; `tff-robust`: TFF's zeroing and clipping; or a rule
            over a round's updates.
        treatment: Of a client the discriminator rejects: its update is `replaced` by none and still counts in the
            mean (thesis Algorithms 3 and 4), or it is `left_out`. None for the preset's.
        trained_on: What the discriminator learns from: the `steps` of a training (the thesis), or the updates of whole
            `rounds`, which are what it judges. None for the preset's.
        file: A discriminator that is there already; None to train one on the split's discriminator subjects.
    """

    kind: Literal[
        "none",
        "discriminator",
        "tff-robust",
        "median",
        "trimmed-mean",
        "geometric-median",
        "krum",
        "multi-krum",
        "norm-filter",
        "cosine-filter",
    ]
    treatment: Optional[Literal["replaced", "left_out"]] = None
    trained_on: Optional[Literal["steps", "rounds"]] = None
    file: Optional[str] = None


@dataclass(frozen=True, config=_strict)
class DiscriminatorConfig:
    """The network that judges updates: two dense layers, each followed by dropout, and a sigmoid (thesis Figure 6.2).

    Attributes:
        units: Of the two dense layers.
        dropout: After each of them.
        learning_rate: Adam's.
        epochs: Passes over its examples.
        batch_size: Examples a step.
        noise: Standard deviation of the input noise of the clients it learns to reject.
        readout: The training whose steps it learns from: the centralised model's, as in the thesis.
    """

    units: tuple[PositiveInt, PositiveInt] = (64, 32)
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.3
    learning_rate: PositiveFloat = 0.001
    epochs: PositiveInt = 5
    batch_size: PositiveInt = 64
    noise: PositiveFloat = 1.0
    readout: ReadoutConfig = ReadoutConfig()


GradientAlgorithm = Literal["fedavg", "fedavg-unweighted", "fedprox", "fedsgd", "mimelite", "fedcurv"]


@dataclass(frozen=True, config=_strict)
class FederatedConfig:
    """A readout learned by rounds of local training; the defaults are those of thesis chapter 6.

    Attributes:
        algorithm: What a round is.
        engine: `states`: readouts train on states that are computed once, as one compiled loop a client.
            `builtin`: TFF's own process, fed with the same states. `graph`: TFF's own process (for FedCurv ours)
            with the reservoir inside the model. None for the fastest that the algorithm has.
        reservoirs: Clients have the `same` reservoir as the server, or `different` ones, each its own.
        preset: What decides on the local training and on FedCurv where they are not given; the inputs have their own.
        readout: A client's local training; None for the preset's.
        server_learning_rate: Of the server's SGD; with 1 the server's weights are the clients' mean.
        rounds: How many.
        clients_per_round: Drawn anew each round.
        evaluate_every: Rounds between evaluations; the last round is always evaluated.
        proximal_strength: FedProx's mu.
        fedcurv: FedCurv's switches; None for the preset's.
        attack: What some of the clients do, if any do.
        defence: What the server does against it; None for nothing.
        discriminator: The network of that defence.
    """

    algorithm: GradientAlgorithm = "fedavg"
    preset: PresetName = "thesis"
    engine: Optional[Literal["states", "builtin", "graph"]] = None
    inputs: InputConfig = InputConfig()
    reservoir: ReservoirConfig = ReservoirConfig(kind="tfa", recurrent_connectivity=0.1)
    reservoirs: Literal["same", "different"] = "same"
    readout: Optional[ReadoutConfig] = None
    noise: NoiseConfig = NoiseConfig()
    server_learning_rate: PositiveFloat = 1.0
    rounds: PositiveInt = 78
    clients_per_round: PositiveInt = 5
    evaluate_every: PositiveInt = 1
    proximal_strength: PositiveFloat = 0.1
    fedcurv: Optional[FedCurvConfig] = None
    attack: Optional[AttackConfig] = None
    defence: Optional[DefenceConfig] = None
    discriminator: DiscriminatorConfig = DiscriminatorConfig()


@dataclass(frozen=True, config=_strict)
class SweepTable:
    """A table of a sweep, one for each preset: the scores of the last round.

    Attributes:
        name: Of its files.
        title: What the documents call it.
        rows: Settings that tell its rows apart.
        where: Values of the other settings.
    """

    name: str
    title: str
    rows: list[str]
    where: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, config=_strict)
class SweepFigure:
    """A figure of a sweep, one for each preset: accuracy over rounds, validation above test.

    Attributes:
        kind: `curves`; or `judged`: accuracy on the test subjects above the clients of each round, those accepted
            against those that are no fakes, of the first seed.
        name: Of its files.
        title: What the documents call it.
        columns: The setting that tells its columns apart.
        lines: Settings that tell its lines apart.
        where: Values of the other settings.
        each: Settings for whose values there is a figure each.
    """

    name: str
    title: str
    columns: str
    lines: list[str]
    kind: Literal["curves", "judged"] = "curves"
    where: dict[str, Any] = field(default_factory=dict)
    each: list[str] = field(default_factory=list)


@dataclass(frozen=True, config=_strict)
class SweepPivot:
    """A metric of the last round on the test subjects, by one setting down and others across; one for each preset.

    Attributes:
        name: Of its files.
        title: What it shows.
        rows: The setting that tells its rows apart.
        columns: Settings that tell its columns apart.
        metrics: One table each.
        where: Values of the other settings.
    """

    name: str
    title: str
    rows: str
    columns: list[str]
    metrics: list[str]
    where: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, config=_strict)
class SweepConfig:
    """Federated runs over a grid of settings and over seeds.

    Attributes:
        kind: What `tff-esn reproduce` makes of it.
        title: What the documents call it.
        settings: Of every run; names as in `FederatedConfig`, with dots between the levels.
        grid: The values of each setting that varies, in the order that tables show them.
        presets: What a preset changes beside the switches.
        seeds: How many.
        tables: What is shown of it.
        pivots: The same by two settings.
        figures: What is drawn of it.
    """

    kind: Literal["federated"]
    title: str
    settings: dict[str, Any]
    grid: dict[str, list[Any]]
    presets: dict[str, dict[str, Any]] = field(default_factory=dict)
    seeds: PositiveInt = 3
    tables: list[SweepTable] = field(default_factory=list)
    pivots: list[SweepPivot] = field(default_factory=list)
    figures: list[SweepFigure] = field(default_factory=list)


@dataclass(frozen=True, config=_strict)
class Headline:
    """A number of a run that stands for it in the summary.

    Attributes:
        claim: What the number is.
        table: Name of the run's table that holds it.
        row: Label of its row.
        column: Name of its column.
    """

    claim: str
    table: str
    row: str
    column: str


@dataclass(frozen=True, config=_strict)
class AboutConfig:
    """What a named run is to its reader: the `[about]` of `runs/*.toml`.

    Attributes:
        document: Whose tables it makes; `beyond` for what no document has.
        order: Its place among the document's runs.
        covers: The tables and figures.
        takes: What it takes to run it, beside the study's recordings.
        claimed: What the document says.
        why: Why ours differs, where it does.
        notes: What a reader must know of the printed numbers, each a sentence.
        errata: Names of those that bear on it.
        headlines: Its numbers in the summary.
        study: Whose recordings it needs.
        cell_seconds: What one part of it took on one processor, for estimates before anything was measured.
    """

    document: Literal["thesis", "incfed", "fedip", "pfedrr", "beyond"] = "beyond"
    order: int = 0
    covers: tuple[str, ...] = ()
    takes: str = ""
    claimed: str = ""
    why: str = ""
    notes: tuple[str, ...] = ()
    errata: tuple[str, ...] = ()
    headlines: tuple[Headline, ...] = ()
    study: Literal["wesad", "hhar"] = "wesad"
    cell_seconds: PositiveFloat = 5.0


@dataclass(frozen=True, config=_strict)
class StatisticsConfig:
    """Tables 5.1 to 5.3 of a study's features.

    Attributes:
        split: Whose design set Tables 5.2 and 5.3 count.
    """

    kind: Literal["statistics"]
    title: str
    presets: tuple[PresetName, ...] = ("thesis", "corrected")
    split: str = "thesis"


@dataclass(frozen=True, config=_strict)
class AssessmentConfig:
    """The centralised model over seeds, beside its baselines.

    Attributes:
        settings: Of the model, names as in `CentralConfig`, with dots between the levels.
        presets: By preset, what it changes.
        seeds: How many.
    """

    kind: Literal["central"]
    title: str
    settings: dict[str, Any] = field(default_factory=dict)
    presets: dict[PresetName, dict[str, Any]] = field(default_factory=lambda: {"thesis": {}, "corrected": {}})
    seeds: PositiveInt = 3


@dataclass(frozen=True, config=_strict)
class SelectionConfig:
    """A search of KerasTuner over a space.

    Attributes:
        spaces: By name of a row of the documents' table of what was selected, the space.
        printed: By the same names, where in `reported.json` the printed selection is.
        names: What that calls the settings.
        score: What that calls the best validation score.
        objective: Validation score that is sought.
        shards: Settings for whose values the search is done apart, so that parts run side by side.
        trials: In each of these parts; None for the whole of a finite space.
        presets: Features of the searches by gradients.
        channels: Raw channels of the others.
    """

    kind: Literal["selection"]
    title: str
    spaces: dict[str, str]
    printed: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    score: Optional[str] = None
    objective: str = "f1_micro"
    shards: tuple[str, ...] = ()
    trials: Optional[PositiveInt] = None
    presets: tuple[PresetName, ...] = ("thesis",)
    channels: ChannelConfig = ChannelConfig()


@dataclass(frozen=True, config=_strict)
class JudgeConfig:
    """The discriminator's own scores, over seeds.

    Attributes:
        settings: Names as in `FederatedConfig`, with dots between the levels.
        presets: Whose training.
        trials: Networks that KerasTuner tries, for each preset.
        seeds: How many.
    """

    kind: Literal["discriminator"]
    title: str
    settings: dict[str, Any] = field(default_factory=dict)
    presets: tuple[PresetName, ...] = ("thesis", "corrected")
    trials: PositiveInt = 30
    seeds: PositiveInt = 3


@dataclass(frozen=True, config=_strict)
class DemoConfig:
    """What `tff-esn demo` generates and runs.

    Attributes:
        subjects: Number of generated subjects.
        minutes: Length of each recording.
        runs: Named runs, each in its quick form.
    """

    subjects: PositiveInt
    minutes: PositiveFloat
    runs: tuple[str, ...]


@dataclass(frozen=True, config=_strict)
class FleetConfig:
    """Workers on other hosts, for the clients' work.

    Nothing here changes a result, so a run may go on with other workers.

    Attributes:
        workers: Where they listen, each `host:port`.
        certificates: Folder of this host's certificates; None for connections in the clear.
        insecure: Asks for connections in the clear.
        data: Folder in which the workers find the clients' files, each on its own disk; below a worker's `--data`
            if it is not absolute. None for the folder in which this process writes them, which all must share.
        timeout: Seconds that one client's work may take.
        heartbeat: Seconds between two questions whether a worker is there.
        answer: Seconds within which it must answer.
        retries: How often one client's work may be lost with a worker before the run stops.
        patience: Seconds to wait for a worker when there is none.
        slots: Clients whose work a worker does at the same time.
    """

    workers: Annotated[tuple[Annotated[str, Field(pattern=r"^.+:[0-9]+$")], ...], Field(min_length=1)]
    certificates: Optional[Path] = None
    insecure: bool = False
    data: Optional[Path] = None
    timeout: PositiveFloat = 600.0
    heartbeat: PositiveFloat = 2.0
    answer: PositiveFloat = 5.0
    retries: Annotated[int, Field(ge=0)] = 3
    patience: PositiveFloat = 30.0
    slots: PositiveInt = 2

    def __post_init__(self) -> None:
        if (self.certificates is None) != self.insecure:
            raise ConfigError("workers need certificates, or insecure = true and then none")


def from_mapping(kind: type[_T], values: Mapping[str, Any], source: str) -> _T:
    """Builds a configuration, or says in one line which key has which wrong value."""
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        # Of a setting with several types, the names of the types are not part of its own.
        key = ".".join(str(part) for part in first["loc"] if not str(part).startswith(("constrained-", "ClientSplit")))
        raise ConfigError(f"{source}: {key} = {first['input']!r}: {first['msg']}") from None


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted paths as nested tables; feature sets joined by + as lists.

    >>> nested({"inputs.features": "HR+HRV", "reservoir.units": 50})
    {'inputs': {'features': ['HR', 'HRV']}, 'reservoir': {'units': 50}}
    """
    tables: dict[str, Any] = {}
    for name, value in settings.items():
        *path, key = name.split(".")
        table = tables
        for part in path:
            table = table.setdefault(part, {})
        table[key] = value.split("+") if key == "features" and isinstance(value, str) else value
    return tables


def merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Nested tables, later ones over earlier ones."""
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
            result[key] = merged(result[key], value) if both else value
    return result


def read_toml(path: Path) -> dict[str, Any]:
    """Reads a TOML file, or says in one line what keeps it from being read."""
    try:
        return tomli.loads(path.read_bytes().decode())
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; expected a TOML file") from None
    # Numbers may be too long and tables too deep.
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: {' '.join(str(error).split())}; expected a TOML file") from None


@dataclass(frozen=True, config=_strict)
class ClosedFormSwitches:
    """Where the papers on closed forms print something else than they mean; `tff_esn.presets` has both.

    Attributes:
        averaging: Weight of a client's readout (IncFed paper, eq. 5): `1/N_c` as printed, `N_c/N` as meant.
        regularization: beta inside every B_c (eq. 7, thesis eq. 2.20), so that the sum carries it |C| times,
            or lambda added `once` at the server (thesis eq. B.4).
        last_unit: pFedRR's set of units ends before the last one, which is never selected, or keeps it.
        plasticity: FedIP's eq. 2 as `printed`; the rule that descends the KL divergence (`schrauwen`), step by
            step; or the authors' code (`normalized`): gradients summed over time, averaged over sequences and
            divided by their norm over the units.
    """

    averaging: Literal["1/N_c", "N_c/N"]
    regularization: Literal["per_client", "once"]
    last_unit: Literal["dropped", "kept"]
    plasticity: Literal["printed", "schrauwen", "normalized"]


@dataclass(frozen=True, config=_strict)
class PlasticityConfig:
    """Intrinsic plasticity of a reservoir's gains and biases (FedIP paper, Table 1).

    Attributes:
        mu: Mean of the Gaussian that a unit's activation should follow.
        sigma: Its standard deviation.
        eta: Learning rate; under `normalized` the length of a step.
        epochs: E, passes over a client's data in a round.
        rounds: Rounds of averaging over the clients.
        batch_size: Sequences that run together; one update is their mean.
        rule: As `ClosedFormSwitches.plasticity`, or `preset` for what a table's preset has.
    """

    mu: Annotated[float, Field(gt=-1, lt=1)] = 0.0
    sigma: PositiveFloat = 0.1
    eta: PositiveFloat = 0.01
    epochs: PositiveInt = 3
    rounds: PositiveInt = 1
    batch_size: PositiveInt = 100
    rule: Literal["preset", "printed", "schrauwen", "normalized"] = "normalized"


ClosedForm = Literal[
    "central", "averaging", "incfed", "secure-incfed", "partial", "random", "pfedrr", "r-pfedrr", "hybrid", "low-rank"
]


@dataclass(frozen=True, config=_strict)
class MethodConfig:
    """A way to a readout: a column of a table.

    Attributes:
        name: Heading of the column; where the documents print a number under it, theirs.
        algorithm: How statistics become a readout.
        reservoir: What makes the states.
        ridge: Regularisation lambda.
        alpha: Share of important units (`partial`, `hybrid`).
        tau: Candidates for the threshold of `pfedrr`, `r-pfedrr`, `hybrid` and (for its size) `low-rank`; the
            best on the validation subjects is taken.
        plasticity: FedIP's adaptation of the reservoir before; None for none.
    """

    name: str
    algorithm: ClosedForm = "incfed"
    reservoir: ReservoirConfig = ReservoirConfig()
    ridge: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1e-3
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.5
    tau: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = (0.5,)
    plasticity: Optional[PlasticityConfig] = None


@dataclass(frozen=True, config=_strict)
class ClosedFormConfig:
    """A table of closed forms over a growing share of training clients.

    Attributes:
        kind: What `runs/*.toml` says it is.
        title: Of the table.
        printed: Where in `reported.json` the printed numbers are, such as `thesis.table_b_3`; None for nowhere.
        methods: Its columns.
        split: Name of a split that has `/25` to `/100`.
        percent: Its rows: shares of the training clients.
        repetitions: Reservoirs, each with a seed of its own.
        channels: Raw channels of a WESAD study, and the length of a chunk.
        hhar: Devices of an HHAR study.
        scored: Whose accuracy the table shows.
        train_scores: Whether the training clients are scored too.
        precision: Of states and products; sums and solutions are in float64.
        wire: Of values in messages.
        preset: As printed or as meant: `tff_esn.presets.CLOSED_FORMS`.
        presets: Those that a named run shows side by side.
    """

    title: str
    methods: tuple[MethodConfig, ...]
    kind: Literal["closed-form"] = "closed-form"
    printed: Optional[str] = None
    split: str = "wesad-9-3-3"
    percent: tuple[Literal[25, 50, 75, 100], ...] = (25, 50, 75, 100)
    repetitions: PositiveInt = 3
    channels: ChannelConfig = ChannelConfig()
    hhar: HharConfig = HharConfig()
    scored: Literal["validation", "test"] = "test"
    train_scores: bool = False
    precision: Literal["float32", "float64"] = "float32"
    wire: Literal["float32", "float64"] = "float64"
    preset: PresetName = "corrected"
    presets: tuple[PresetName, ...] = ("thesis", "corrected")
