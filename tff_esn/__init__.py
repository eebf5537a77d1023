"""Federated Echo State Networks for stress prediction from wearable sensors.

import tff_esn as te

study = te.load_study("path/to/WESAD")
train, test = study.clients(features="corrected", task="stress").split(test=["S15"])
model = te.IncFed(te.ESN(units=200, spectral_radius=0.9), ridge=0.1).fit(train)
model.score(test)
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tff_esn.processor import this_core_type

if TYPE_CHECKING:
    from tff_esn.central.esn import CentralESN
    from tff_esn.closed_form.averaging import AveragedRidge
    from tff_esn.closed_form.central_ridge import CentralRidge
    from tff_esn.closed_form.fedip import FedIP
    from tff_esn.closed_form.incfed import IncFed
    from tff_esn.closed_form.partial import PartialIncFed
    from tff_esn.closed_form.pfedrr import PFedRR
    from tff_esn.datasets.federated import FederatedDataset
    from tff_esn.deployment.export import load_model
    from tff_esn.features.generated import generate_study
    from tff_esn.features.study import Study, load_study
    from tff_esn.federated.fedavg import FedAvg
    from tff_esn.federated.fedcurv import FedCurv
    from tff_esn.federated.fedprox import FedProx
    from tff_esn.readout.model import TrainedESN
    from tff_esn.reservoir.esn import ESN

__version__ = "0.2.0"

#: Module of each public name; imported on first use.
_MODULES = {
    "AveragedRidge": "closed_form.averaging",
    "CentralESN": "central.esn",
    "CentralRidge": "closed_form.central_ridge",
    "ESN": "reservoir.esn",
    "FedAvg": "federated.fedavg",
    "FedCurv": "federated.fedcurv",
    "FedIP": "closed_form.fedip",
    "FedProx": "federated.fedprox",
    "FederatedDataset": "datasets.federated",
    "IncFed": "closed_form.incfed",
    "PFedRR": "closed_form.pfedrr",
    "PartialIncFed": "closed_form.partial",
    "Study": "features.study",
    "TrainedESN": "readout.model",
    "generate_study": "features.generated",
    "load_model": "deployment.export",
    "load_study": "features.study",
}
__all__ = [
    "ESN",
    "AveragedRidge",
    "CentralESN",
    "CentralRidge",
    "FedAvg",
    "FedCurv",
    "FedIP",
    "FedProx",
    "FederatedDataset",
    "IncFed",
    "PFedRR",
    "PartialIncFed",
    "Study",
    "TrainedESN",
    "generate_study",
    "load_model",
    "load_study",
]

# Read when NumPy is loaded: here, or in processes that this one starts.
if "OPENBLAS_CORETYPE" not in os.environ and (_core := this_core_type()):
    os.environ["OPENBLAS_CORETYPE"] = _core
# TensorFlow, here and in child processes, logs hundreds of lines that do not concern users.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
