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
    """Marks a folder as generated, with its options; written last, so that it also marks it as complete."""
    with atomic_write(folder / _MARK) as file:
        file.write((json.dumps(description, indent=1) + "\n").encode())


def is_generated(folder: Path) -> bool:
    """Whether a folder's subjects are generated, so that their tables can be marked."""
    return (folder / _MARK).is_file()
