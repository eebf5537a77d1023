"""The processor type that NumPy's BLAS is configured for."""

from __future__ import annotations

from pathlib import Path

_HASWELL = {"avx2", "fma"}
_SKYLAKE = _HASWELL | {"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd"}


def core_type(cpuinfo: str) -> str | None:
    """OpenBLAS's name for the kernels of an Intel processor (`OPENBLAS_CORETYPE`), by its instruction sets.

    The OpenBLAS of the pinned NumPy goes by models, and takes every Intel model that it does not know
    for a Prescott of 2004, whose products of matrices take several times as long.

    Args:
        cpuinfo: Linux's `/proc/cpuinfo`.

    Returns:
        None if OpenBLAS's own choice is right.
    """
    fields = dict(line.split(":", 1) for line in cpuinfo.splitlines() if ":" in line)
    facts = {name.strip(): value.strip() for name, value in fields.items()}
    flags = set(facts.get("flags", "").split())
    if facts.get("vendor_id") != "GenuineIntel" or not flags >= _HASWELL:
        return None
    return "SkylakeX" if flags >= _SKYLAKE else "Haswell"


def this_core_type() -> str | None:
    """`core_type` of this processor; None where there is no `/proc/cpuinfo`."""
    try:
        return core_type(Path("/proc/cpuinfo").read_text())
    except OSError:
        return None
