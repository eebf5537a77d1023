"""Generated subjects as a study."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from tff_esn.datasets.synthetic.hhar import ensure_hhar
from tff_esn.datasets.synthetic.wesad import ensure_wesad
from tff_esn.datasets.tables import ACTIVITY
from tff_esn.errors import ConfigError
from tff_esn.features.study import Study
from tff_esn.registry import expected
from tff_esn.store.cache import Cache


def generate_study(
    layout: str = "wesad",
    *,
    subjects: int | None = None,
    minutes: float | None = None,
    chest: bool = False,
    seed: int = 0,
    cache: str | PathLike[str] | None = None,
    jobs: int | None = 1,
) -> Study:
    """A study of generated subjects, to try everything without a download; written once, then reused.

    Args:
        layout: File layout: `wesad` or `hhar`.
        subjects: Number of subjects; None for as many as the release has, 15 or 9.
        minutes: Length of a subject's recording; None for WESAD's 45, or HHAR's 2.
        chest: Whether WESAD's subjects have chest signals.
        seed: Seed of all random choices.
        cache: Folder to write below; None for `$TFF_ESN_CACHE` or the user's cache folder.
        jobs: Processes that generate WESAD's subjects; None for one per processor.
    """
    folder = Cache(None if cache is None else Path(cache)).folder
    if layout == "wesad":
        count, length = 15 if subjects is None else subjects, 45.0 if minutes is None else minutes
        root = ensure_wesad(folder, subjects=count, minutes=length, chest=chest, seed=seed, jobs=jobs)
    elif layout == "hhar":
        count, length = 9 if subjects is None else subjects, 2.0 if minutes is None else minutes
        root = ensure_hhar(folder, users=count, seconds=60 * length / len(ACTIVITY.classes), seed=seed)
    else:
        raise ConfigError(f"no layout {layout!r}; {expected(layout, ['wesad', 'hhar'])}")
    return Study(root, folder)
