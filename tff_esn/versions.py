"""The versions that a result depends on."""

from __future__ import annotations

import platform
from contextlib import suppress
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


def stack_versions() -> dict[str, str]:
    """Python, the platform, and every package of the stack that is installed; imports none of them."""
    versions = {}
    for package in _STACK:
        with suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return {**versions, "python": platform.python_version(), "platform": platform.platform()}
