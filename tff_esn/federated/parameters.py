"""Parameters of noise, attacks and defences in a federation."""

from __future__ import annotations

from typing import Annotated, Literal, Optional

from pydantic import Field
from pydantic.dataclasses import dataclass

from tff_esn.parameters import STRICT, NonNegativeFloat, Parameters, PositiveFloat, PositiveInt, Share
from tff_esn.readout.parameters import GradientTraining


@dataclass(frozen=True, repr=False, config=STRICT)
class NoiseConfig(Parameters):
    """Gaussian noise on the inputs of chosen clients, while they train.

    Attributes:
        standard_deviation: In units of the normalised input; 0 for none.
        clients: Who gets it; None for every training client.
    """

    standard_deviation: NonNegativeFloat = 0.0
    clients: Optional[tuple[str, ...]] = None


@dataclass(frozen=True, repr=False, config=STRICT)
class AttackConfig(Parameters):
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
    share: Share = 0.5
    clients: Optional[tuple[str, ...]] = None


@dataclass(frozen=True, repr=False, config=STRICT)
class DefenceConfig(Parameters):
    """How the server defends itself.

    Attributes:
        kind: `none`; `discriminator`: a network judges each update; `tff-robust`: TFF's zeroing and clipping; or a rule
            over a round's updates.
        treatment: Of a client the discriminator rejects: its update is `replaced` by none and still counts in the
            mean (thesis Algorithms 3 and 4), or it is `left_out`.
        trained_on: What the discriminator learns from: the `steps` of a training (the thesis), or the updates of whole
            `rounds`, which are what it judges.
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
    ] = "none"
    treatment: Literal["replaced", "left_out"] = "left_out"
    trained_on: Literal["steps", "rounds"] = "rounds"
    file: Optional[str] = None


@dataclass(frozen=True, repr=False, config=STRICT)
class DiscriminatorConfig(Parameters):
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
    readout: GradientTraining = GradientTraining(learning_rate=0.1, class_weight=(12.0, 88.0), order="time")
