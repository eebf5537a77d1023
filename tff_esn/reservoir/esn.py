"""The parameters of an Echo State Network's reservoir."""

from __future__ import annotations

from typing import Annotated, Literal, Union

from pydantic import Field
from pydantic.dataclasses import dataclass

from tff_esn.parameters import STRICT, NonNegativeFloat, Parameters, PositiveFloat, PositiveInt

#: A probability in (0, 1], or a number of connections per unit.
Connectivity = Union[Annotated[int, Field(ge=1, strict=True)], Annotated[float, Field(gt=0, le=1, strict=True)]]


@dataclass(frozen=True, repr=False, config=STRICT)
class ESN(Parameters):
    """A reservoir: x(t) = (1 - a) x(t-1) + a tanh(g * (W_in u(t) + W x(t-1)) + b).

    >>> ESN(units=100, spectral_radius=0.9)
    ESN(units=100, spectral_radius=0.9)

    Attributes:
        units: Number of reservoir units (N_x).
        spectral_radius: Largest absolute eigenvalue (rho) of the matrix that `radius_of` names.
        leaking_rate: Leaking rate a (the thesis's alpha), in (0, 1].
        input_scaling: Largest absolute weight of W_in.
        input_connectivity: Inputs connected to a unit: a probability (0.1) or their number (10).
        recurrent_connectivity: Units connected to a unit: a probability (0.1) or their number (10).
        bias_scaling: Largest absolute value of the bias b.
        radius_of: Matrix with that spectral radius: `recurrent` for W, `leaky` for (1 - a) I + a W.
        kind: How weights are drawn: `esn` uniform; `tfa` as `tfa.layers.ESN` does (glorot-uniform, recurrent ones
            masked, no input scaling, no bias).
        seed: Seed of every random choice, of the reservoir and of the algorithm.
    """

    units: PositiveInt = 200
    spectral_radius: PositiveFloat = 0.99
    leaking_rate: Annotated[float, Field(gt=0, le=1)] = 1.0
    input_scaling: PositiveFloat = 1.0
    input_connectivity: Connectivity = 1.0
    recurrent_connectivity: Connectivity = 1.0
    bias_scaling: NonNegativeFloat = 0.0
    radius_of: Literal["recurrent", "leaky"] = "recurrent"
    kind: Literal["esn", "tfa"] = "esn"
    seed: Annotated[int, Field(ge=0)] = 0
