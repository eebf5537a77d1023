"""Federated Echo State Networks for stress prediction from wearable sensors."""

import os

from tff_esn.processor import this_core_type

__version__ = "0.1.0"

# Read when NumPy is loaded: here, or in processes that this one starts.
if "OPENBLAS_CORETYPE" not in os.environ and (_core := this_core_type()):
    os.environ["OPENBLAS_CORETYPE"] = _core
