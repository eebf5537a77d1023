from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tff_esn.lazy import LazyModule


def test_a_module_is_imported_when_something_of_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_to_import.py").write_text("answer = 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = LazyModule("slow_to_import")
    assert "slow_to_import" not in sys.modules
    assert module.answer == 42
    assert "slow_to_import" in sys.modules
    with pytest.raises(AttributeError, match="question"):
        _ = module.question
    monkeypatch.delitem(sys.modules, "slow_to_import")


def test_a_module_that_is_not_there_is_missed_only_when_needed() -> None:
    module = LazyModule("no_such_module")
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        _ = module.anything
