"""Presets: `thesis` is everything as published, `corrected` has errors fixed.

A preset gives values to parameters of algorithms, by family and by the parameters' names; an algorithm takes those that
it has. Values given by a run or a command take precedence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tff_esn.algorithm import ALGORITHMS, Algorithm
from tff_esn.errors import ConfigError
from tff_esn.federated.defences.defence import DEFENCES
from tff_esn.parameters import from_mapping, help_of, merged, nested
from tff_esn.registry import expected

PresetName = Literal["thesis", "corrected"]
#: Values of both presets from chapter 6: the model of Table 6.2 and its federation.
_MODEL = {"esn.kind": "tfa", "esn.recurrent_connectivity": 0.1, "batch_size": 20, "epochs": 1, "optimizer": "adam"}
_FEDERATION = {**_MODEL, "rounds": 78, "clients_per_round": 5}
#: Keras weights the classes of the centralised model, whatever the preset.
_CENTRAL = {**_MODEL, "learning_rate": 0.1, "class_weight": (12.0, 88.0), "order": "time"}

PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "thesis": {
        "central": _CENTRAL,
        "federated": {
            **_FEDERATION,
            # Nothing in TFF's loop applies Keras's class weights.
            "learning_rate": 0.1,
            "class_weight": None,
            "order": "time",
            # FedCurv by Listings 3.3 to 3.7.
            "fisher": "listing",
            "divisor": "tensors",
            "fisher_of": "last_batch",
            "anchor": "behind",
            "own_share": "batch",
            "penalty": "outside",
            "send": "diagonal",
            "weighting": "uniform",
            "factor": 1e-4,
            "defence.treatment": "replaced",
            "defence.trained_on": "steps",
        },
        "closed-form": {
            "averaging": "1/N_c",
            "regularization": "per_client",
            "last_unit": "dropped",
            "plasticity.rule": "printed",
        },
    },
    "corrected": {
        "central": _CENTRAL,
        "federated": {
            **_FEDERATION,
            "learning_rate": 0.001,
            "class_weight": (12.0, 88.0),
            "order": "shuffled",
            "fisher": "true",
            "divisor": "examples",
            "fisher_of": "all",
            "anchor": "same",
            "own_share": "previous",
            "penalty": "inside",
            "send": "diagonal",
            "weighting": "examples",
            # The best on the validation subjects: `tff-esn reproduce fedcurv-factor`.
            "factor": 0.1,
            "defence.treatment": "left_out",
            "defence.trained_on": "rounds",
        },
        "closed-form": {
            "averaging": "N_c/N",
            "regularization": "once",
            "last_unit": "kept",
            "plasticity.rule": "schrauwen",
        },
    },
}


def algorithm_of(name: str, preset: str, given: Mapping[str, Any], source: str) -> Algorithm:
    """An algorithm by name, with a preset's values where nothing else is given.

    Args:
        name: Of the algorithm.
        preset: Name of the preset.
        given: Parameters as nested tables.
        source: What they come from, for messages.
    """
    kind = ALGORITHMS[name]
    if isinstance(given.get("defence"), str):
        given = {**given, "defence": {"name": given["defence"]}}
    return from_mapping(kind, merged(preset_values(kind, preset, given), given), source)


def preset_values(kind: type[Algorithm], preset: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """A preset's values of an algorithm's parameters, as nested tables; of a defence those that the given one has."""
    if preset not in PRESETS:
        raise ConfigError(f"no preset {preset!r}; {expected(preset, PRESETS)}")
    known = help_of(kind)
    defence = (given.get("defence") or {}).get("name", "none")
    of_defence = () if defence == "none" else help_of(DEFENCES[defence])
    values = {}
    for name, value in PRESETS[preset][kind.family].items():
        head, _, rest = name.partition(".")
        if head in known and (head != "defence" or rest in of_defence):
            values[name] = value
    return nested(values)
