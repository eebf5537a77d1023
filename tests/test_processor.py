"""The kernels that NumPy's BLAS uses."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tff_esn.processor import core_type, this_core_type

AVX2 = "fma avx2"
AVX512 = f"{AVX2} avx512f avx512dq avx512bw avx512vl avx512cd"


@pytest.mark.parametrize(
    ("vendor", "flags", "expected"),
    [
        ("GenuineIntel", AVX512, "SkylakeX"),
        ("GenuineIntel", f"{AVX2} avx512f", "Haswell"),
        ("GenuineIntel", "sse2", None),
        ("AuthenticAMD", AVX512, None),
    ],
)
def test_core_type(vendor: str, flags: str, expected: str | None) -> None:
    assert core_type(f"vendor_id\t: {vendor}\nmodel\t\t: 207\nflags\t\t: {flags}\n\n") == expected


def test_of_something_else() -> None:
    assert core_type("") is None


@pytest.mark.skipif(this_core_type() is None, reason="OpenBLAS decides on this processor")
@pytest.mark.parametrize("chosen", [None, "Haswell"])
def test_numpy_uses_it(chosen: str | None) -> None:
    program = "import tff_esn, numpy, json, threadpoolctl; print(json.dumps(threadpoolctl.threadpool_info()))"
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}
    if chosen:
        environment["OPENBLAS_CORETYPE"] = chosen
    result = subprocess.run([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, check=True)
    libraries = json.loads(result.stdout)
    assert [library["architecture"] for library in libraries] == [chosen or this_core_type()]
