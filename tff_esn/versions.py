"""The versions that a result depends on."""

from __future__ import annotations

import platform
from contextlib import suppress
from functools import cache
from importlib import metadata

_STACK = (
    "tff-esn",
    "tensorflow",
    "tensorflow-federated",
    "tensorflow-addons",
    "keras-tuner",
    "neurokit2",
    "scikit-learn",
    "scipy",
    "numpy",
    "pandas",
)


@cache
def version_of(package: str) -> str:
    """The version of an installed package; cached, because thousands of keys contain it."""
    return metadata.version(package)


def stack_versions() -> dict[str, str]:
    """Python, the platform, and every package of the stack that is installed; imports none of them."""
    versions = {}
    for package in _STACK:
        with suppress(metadata.PackageNotFoundError):
            versions[package] = version_of(package)
    return {**versions, "python": platform.python_version(), "platform": platform.platform()}
