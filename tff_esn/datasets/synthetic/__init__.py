"""Generated subjects in the on-disk layouts of the public releases."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tff_esn.store.files import atomic_write

GENERATED = "Generated subjects: these are not the study's numbers."
_MARK = "generated.json"


def mark_generated(folder: Path, description: Mapping[str, Any]) -> None:
    """Says in the folder that its subjects are generated, and how; written last, it also says that all are there."""
    with atomic_write(folder / _MARK) as file:
        file.write((json.dumps(description, indent=1) + "\n").encode())


def is_generated(folder: Path) -> bool:
    """Whether a folder's subjects are generated ones, so that no table of them passes for the study's."""
    return (folder / _MARK).is_file()
