"""Generated subjects as a study."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, Literal

from tff_esn.features.study import Study
from tff_esn.store.cache import Cache


def generate_study(
    layout: Literal["wesad", "hhar"] = "wesad",
    *,
    cache: str | PathLike[str] | None = None,
    jobs: int | None = 1,
    **options: Any,
) -> Study:
    """A study of generated subjects, so that everything runs with no download; written once, then found again.

    Args:
        layout: Whose on-disk layout.
        cache: Folder to write below; None for `$TFF_ESN_CACHE` or the user's cache folder.
        jobs: Processes that generate WESAD's subjects; None for one per processor.
        **options: Of WESAD's layout: `subjects`, `minutes`, `chest`, `seed`; of HHAR's: `seed`.
    """
    from tff_esn.datasets.synthetic.hhar import ensure_hhar
    from tff_esn.datasets.synthetic.wesad import ensure_wesad

    folder = Cache(None if cache is None else Path(cache)).folder
    root = ensure_wesad(folder, jobs=jobs, **options) if layout == "wesad" else ensure_hhar(folder, **options)
    return Study(root, folder)
