from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import pytest
from pydantic.dataclasses import dataclass

from tff_esn.algorithm import ALGORITHMS
from tff_esn.datasets.study import STUDIES
from tff_esn.errors import ConfigError
from tff_esn.parameters import STRICT, Parameters
from tff_esn.registry import Registry, expected


@dataclass(frozen=True, repr=False, config=STRICT)
class Circle(Parameters):
    radius: float = 1.0

    name = "circle"


class Square(Circle):
    name = "square"


@pytest.fixture
def shapes() -> Registry[type[Circle]]:
    registry: Registry[type[Circle]] = Registry("shapes", [])
    for kind in (Square, Circle):
        assert registry.register(kind) is kind
    return registry


def test_what_is_registered_is_found_by_its_name(shapes: Registry[type[Circle]]) -> None:
    assert shapes["circle"] is Circle
    assert shapes.names() == ("circle", "square")
    assert shapes.items() == {"circle": Circle, "square": Square}


def test_an_unknown_name_suggests_the_nearest(shapes: Registry[type[Circle]]) -> None:
    with pytest.raises(ConfigError, match=r"no shape 'cirle'; did you mean 'circle'\? Expected one of circle, square$"):
        shapes["cirle"]
    with pytest.raises(ConfigError, match=r"^no shape 'x'; expected one of circle, square$"):
        shapes["x"]
    with pytest.raises(ConfigError, match="no algorithm 'fedavgg'; did you mean 'fedavg'"):
        ALGORITHMS["fedavgg"]
    with pytest.raises(ConfigError, match="no study 'wesadd'; did you mean 'wesad'"):
        STUDIES["wesadd"]
    assert expected("b", ["c", "a"]) == "expected one of a, c"


def test_a_name_is_given_once(shapes: Registry[type[Circle]]) -> None:
    shapes.register(Circle)  # the same again, as when a module is loaded anew
    other = type("Other", (Circle,), {"name": "circle"})
    with pytest.raises(ConfigError, match=r"shapes: 'circle' of .*Other is taken by .*Circle"):
        shapes.register(other)


def test_an_object_comes_from_itself_its_name_or_a_table(shapes: Registry[type[Circle]]) -> None:
    own = Circle(radius=2.0)
    assert shapes.create(own, "test") is own
    assert shapes.create("circle", "test") == Circle()
    assert shapes.create({"name": "circle", "radius": 3}, "test") == Circle(3.0)
    with pytest.raises(ConfigError, match="test: no name among radius; expected one of circle, square"):
        shapes.create({"radius": 3}, "test")
    with pytest.raises(ConfigError, match="test: no setting 'raduis'; did you mean 'radius'"):
        shapes.create({"name": "circle", "raduis": 3}, "test")


def plugin(folder: Path, group: str, value: str, code: str) -> None:
    """An installed package with an entry point."""
    (folder / "shapes_of_others.py").write_text(dedent(code))
    information = folder / "shapes_of_others-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: shapes-of-others\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[{group}]\ntriangle = {value}\n")


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "shapes_of_others", raising=False)
    return tmp_path


def test_other_packages_register_theirs_through_an_entry_point(elsewhere: Path, shapes: Registry[type[Circle]]) -> None:
    plugin(
        elsewhere,
        "tff_esn.shapes",
        "shapes_of_others",
        """
        from tests import test_registry

        class Triangle(test_registry.Circle):
            name = "triangle"

        test_registry.REGISTRY.register(Triangle)
        """,
    )
    globals()["REGISTRY"] = shapes
    assert shapes["circle"] is Circle  # known without a look at other packages
    assert shapes["triangle"].name == "triangle"
    assert shapes.names() == ("circle", "square", "triangle")


@pytest.mark.parametrize("value", ["shapes_of_others:nothing", "nowhere"])
def test_a_broken_entry_point_is_named_at_every_look_up(
    elsewhere: Path, shapes: Registry[type[Circle]], value: str
) -> None:
    plugin(elsewhere, "tff_esn.shapes", value, "")
    for _ in range(2):
        with pytest.raises(ConfigError, match=f"entry point 'triangle' of tff_esn.shapes: .*; expected {value}"):
            shapes.names()


def test_a_package_that_cannot_be_imported_is_an_error_at_every_look_up() -> None:
    broken: Registry[object] = Registry("things", ["tff_esn.nowhere"])
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match=r"tff_esn\.nowhere"):
            broken.names()
