from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, Optional, Union

import pytest
from pydantic.dataclasses import dataclass
from sklearn.base import clone

from tff_esn.algorithm import ALGORITHMS
from tff_esn.closed_form.fedip import FedIP
from tff_esn.closed_form.incfed import IncFed
from tff_esn.errors import ConfigError
from tff_esn.features.recipe import FEATURE_RECIPES
from tff_esn.features.study import DataSettings
from tff_esn.federated.attacks.attack import ATTACKS
from tff_esn.federated.defences.defence import DEFENCES
from tff_esn.parameters import STRICT, Parameters, from_mapping, help_of, merged, nested, read_toml
from tff_esn.reservoir.esn import ESN


@dataclass(frozen=True, repr=False, config=STRICT)
class Inner(Parameters):
    """Inside.

    Attributes:
        depth: How deep,
            in metres.
        colour: Any.
    """

    depth: float = 1.0
    colour: str = "red"


@dataclass(frozen=True, repr=False, config=STRICT)
class Outer(Inner):
    """Outside.

    Attributes:
        inner: What is inside: see `Inner`.
        colour: One of a few.

    Not part of the section:
        depth: Nothing.
    """

    inner: Inner = Inner()
    maybe: Optional[Inner] = None
    sizes: Union[int, tuple[int, ...]] = 3


def test_parameters_are_got_and_set_as_in_scikit_learn() -> None:
    model = IncFed(ESN(units=50), ridge=0.5)
    params = model.get_params()
    assert (params["ridge"], params["esn"], params["esn__units"]) == (0.5, ESN(units=50), 50)
    assert "esn__units" not in model.get_params(deep=False)
    before = model.esn
    assert model.set_params(ridge=2.0, esn__units=70, esn__seed=3) is model
    assert model == IncFed(ESN(units=70, seed=3), ridge=2.0)
    assert before == ESN(units=50)  # another's reservoir is not changed
    assert model.set_params(esn=ESN(units=9), esn__seed=4).esn == ESN(units=9, seed=4)
    assert IncFed(**IncFed(ridge=7.0).get_params(deep=False)) == IncFed(ridge=7.0)


def test_a_copy_may_differ_in_nested_parameters() -> None:
    model = FedIP(ESN(units=50))
    changed = model.replaced({"plasticity.sigma": 0.5, "ridge": 1.0})
    assert (changed.plasticity.sigma, changed.ridge, changed.esn) == (0.5, 1.0, model.esn)
    assert model == FedIP(ESN(units=50))
    assert model.with_seed(4) == FedIP(ESN(units=50, seed=4))


def test_scikit_learn_clones_them_and_processes_send_them() -> None:
    model = IncFed(ESN(units=50), ridge=0.5)
    copy = clone(model)
    assert copy == model and copy is not model
    copy.set_params(esn__units=3)
    assert model.esn.units == 50
    assert pickle.loads(pickle.dumps(model)) == model


def test_they_print_what_differs_from_the_default() -> None:
    assert repr(ESN()) == "ESN()"
    assert repr(IncFed(ESN(units=5, kind="tfa"), ridge=0.1)) == "IncFed(esn=ESN(units=5, kind='tfa'), ridge=0.1)"
    assert eval(repr(IncFed(ESN(units=5), bias=True))) == IncFed(ESN(units=5), bias=True)


def test_help_is_what_the_docstrings_say() -> None:
    assert help_of(Inner) == {"depth": "How deep, in metres.", "colour": "Any."}
    assert help_of(Outer) == {
        "depth": "How deep, in metres.",
        "colour": "One of a few.",
        "inner": "What is inside: see `Inner`.",
        "maybe": "",
        "sizes": "",
    }


def test_every_parameter_has_help() -> None:
    registered = [ALGORITHMS, FEATURE_RECIPES, ATTACKS, DEFENCES]
    kinds: list[Any] = [kind for registry in registered for kind in registry.items().values()]  # type: ignore[attr-defined]
    for kind in (ESN, DataSettings, *kinds):
        assert not [name for name, text in help_of(kind).items() if not text], kind
        assert kind.__doc__, kind


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: ESN(unitz=3), "ESN: no setting 'unitz'; did you mean 'units'? Expected one of bias_scaling, "),  # type: ignore[call-arg]
        (lambda: ESN(units=0), "ESN: units = 0: Input should be greater than 0"),
        (lambda: ESN(10, 0.9, 2.0), "ESN: leaking_rate = 2.0: Input should be less than or equal to 1"),
        (lambda: ESN(kind="tfaa"), "ESN: kind = 'tfaa': Input should be 'esn' or 'tfa' (did you mean 'tfa'?)"),  # type: ignore[arg-type]
        (lambda: ESN(kind="xyz"), "ESN: kind = 'xyz': Input should be 'esn' or 'tfa'"),  # type: ignore[arg-type]
        (lambda: ESN(input_connectivity=2.5), "ESN: input_connectivity = 2.5: Input should be"),
        (lambda: Outer(sizes=(1, "x")), "Outer: sizes.1 = 'x': Input should be a valid integer"),  # type: ignore[arg-type]
        (lambda: IncFed("esn"), "IncFed: esn = 'esn': Input should be a dictionary or an instance of ESN"),  # type: ignore[arg-type]
        (lambda: IncFed(ridge=-1.0), "IncFed: ridge = -1.0: Input should be greater than or equal to 0"),
        (lambda: IncFed().set_params(rigde=1.0), "IncFed has no parameter 'rigde'; did you mean 'ridge'?"),
        (lambda: IncFed().set_params(esn__unit=1), "ESN has no parameter 'unit'; did you mean 'units'?"),
        (lambda: IncFed().set_params(ridge=-1.0), "IncFed: ridge = -1.0: Input should be greater than or equal to 0"),
        (lambda: IncFed().set_params(esn__seed=-1), "ESN: seed = -1: Input should be greater than or equal to 0"),
        (
            lambda: Outer().set_params(maybe__depth=2.0),
            "Outer has maybe = None, without parameters; expected maybe itself, not maybe.depth",
        ),
    ],
)
def test_a_wrong_parameter_is_one_line(make: Any, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert str(caught.value).startswith(complaint)
    assert "\n" not in str(caught.value)


def test_a_wrong_parameter_is_a_value_error_too() -> None:
    with pytest.raises(ValueError, match="units = 0"):
        ESN(units=0)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"depth": "x"}, "run.toml: depth = 'x': Input should be a valid number"),
        ({"dept": 1}, "run.toml: no setting 'dept'; did you mean 'depth'? Expected one of colour, depth, inner, maybe"),
        (
            {"inner": {"dept": 1}},
            "run.toml: no setting 'inner.dept'; did you mean 'depth'? Expected one of colour, depth",
        ),
        ({"maybe": {"x": 1}}, "run.toml: no setting 'maybe.x'; expected one of colour, depth"),
        ({"inner": {"depth": []}}, "run.toml: inner.depth = []: Input should be a valid number"),
        ({"maybe": {"depth": []}}, "run.toml: maybe.depth = []: Input should be a valid number"),
    ],
)
def test_a_wrong_setting_is_one_line(values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_mapping(Outer, values, "run.toml")
    assert str(caught.value).startswith(complaint)


def test_settings_are_nested_and_later_ones_count() -> None:
    assert nested({"esn.units": 50, "ridge": 1.0}) == {"esn": {"units": 50}, "ridge": 1.0}
    with pytest.raises(ConfigError, match=r"esn.units: esn = 3 already; expected one of the two"):
        nested({"esn": 3, "esn.units": 50})
    first, second = {"esn": {"units": 50, "seed": 1}, "ridge": 1.0}, {"esn": {"units": 7}, "bias": True}
    assert merged(first, second) == {"esn": {"units": 7, "seed": 1}, "ridge": 1.0, "bias": True}
    assert merged({"esn": {"units": 50}}, {"esn": None}) == {"esn": None}
    assert first == {"esn": {"units": 50, "seed": 1}, "ridge": 1.0}
    assert from_mapping(IncFed, merged(first, second), "test") == IncFed(ESN(units=7, seed=1), ridge=1.0, bias=True)


@pytest.mark.parametrize("content", [b"a = ", b"\xff\xfe", None])
def test_a_bad_toml_file_is_one_line(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "run.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match="expected a TOML file") as caught:
        read_toml(path)
    assert str(path) in str(caught.value)


def test_a_toml_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("ridge = 2.0\n[esn]\nunits = 7\n")
    assert read_toml(tmp_path / "run.toml") == {"ridge": 2.0, "esn": {"units": 7}}
