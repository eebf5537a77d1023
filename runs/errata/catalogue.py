"""What an erratum is, and where all of them are found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path

import numpy as np

from tff_esn.closed_form.statistics import RidgeStatistics, dataset_statistics
from tff_esn.datasets.federated import FederatedDataset
from tff_esn.datasets.recording import Recording
from tff_esn.datasets.splits import SPLITS, ClientSplit
from tff_esn.datasets.synthetic import is_generated
from tff_esn.datasets.synthetic.wesad import ensure_wesad
from tff_esn.errors import ConfigError
from tff_esn.features.corrected import CorrectedFeatures
from tff_esn.features.extraction import FEATURES, SubjectFeatures
from tff_esn.features.physiology import PhysiologicalFeatures
from tff_esn.features.preparation import prepare
from tff_esn.features.study import Study
from tff_esn.features.thesis import ThesisFeatures
from tff_esn.reservoir.esn import ESN
from tff_esn.reservoir.weights import ReservoirWeights, draw_weights
from tff_esn.store.cache import Cache

#: The documents in the order of the page.
DOCUMENTS = {
    "thesis": "A. Di Mauro, *Federated Echo State Networks for Stress Prediction in the Automotive Use Case*, "
    "University of Pisa, 2021/2022",
    "slides": "The slides of the thesis's defence",
    "IncFed paper": "Bacciu et al., *Federated Reservoir Computing Neural Networks*, IJCNN 2021",
    "FedIP paper": "De Caro, Gallicchio, Bacciu, *Federated Adaptation of Reservoirs via Intrinsic Plasticity*, "
    "ESANN 2022",
    "pFedRR paper": "De Caro, Di Mauro, Bacciu, Gallicchio, *Communication-Efficient Ridge Regression in Federated "
    "Echo State Networks*, ESANN 2023",
}
_MODULES = ("features", "scores", "gradients", "closed_forms")
_GENERATED_SUBJECTS = 4
#: The features of chapter 5 as published, and with errors fixed.
AS_PUBLISHED, CORRECTED = ThesisFeatures(), CorrectedFeatures()
#: The reservoir that errata are shown on.
SMALL_ESN = ESN(units=20, spectral_radius=0.9)


class Source:
    """Recordings that errata are shown on: a study's, or generated ones.

    Args:
        folder: A study of WESAD's or E4's layout; None for four generated subjects.
        cache: Where prepared features, and generated subjects, are kept.
    """

    def __init__(self, folder: Path | None, cache: Cache) -> None:
        self.cache = cache
        root = folder or ensure_wesad(cache.folder, subjects=_GENERATED_SUBJECTS, minutes=45.0)
        self.generated = is_generated(root)
        self.study = Study(root, cache.folder)

    @cached_property
    def split(self) -> ClientSplit:
        """The thesis's if its subjects are there; else the last subject tests and the others train."""
        subjects, thesis = self.study.subjects, SPLITS["thesis"]
        return thesis if set(thesis.subjects) == set(subjects) else ClientSplit(subjects[:-1], (), subjects[-1:])

    def recording(self) -> Recording:
        """The first subject's."""
        return self.study.folder.read(self.study.subjects[0])

    def features(self, recipe: PhysiologicalFeatures = AS_PUBLISHED) -> dict[str, SubjectFeatures]:
        """Every subject's features of chapter 5, in the study's order."""
        return prepare(self.study.folder, recipe, cache=self.cache, jobs=None).load_all()

    @cached_property
    def data(self) -> FederatedDataset:
        """The subjects as clients, with corrected features."""
        return self.study.clients(CORRECTED, "stress", self.split, jobs=None, columns=FEATURES)

    @cached_property
    def reservoir(self) -> ReservoirWeights:
        """A small one, of the same weights for everybody."""
        return draw_weights(SMALL_ESN, len(FEATURES), SMALL_ESN.seed)

    @cached_property
    def statistics(self) -> dict[str, RidgeStatistics]:
        """A = Y S^T and B = S S^T of the training subjects."""
        return dataset_statistics(self.data.part("train"), self.reservoir)


@dataclass(frozen=True)
class Evidence:
    """What a computation shows.

    Attributes:
        lines: Its numbers, as text.
        holds: Whether they show the erratum's point.
    """

    lines: tuple[str, ...]
    holds: bool


def evidence(holds: bool | np.bool_, *lines: str) -> Evidence:
    """Evidence of a condition that was computed, with its numbers."""
    return Evidence(lines, bool(holds))


@dataclass(frozen=True)
class Erratum:
    """A misprint or flaw.

    Attributes:
        name: For the command line.
        document: One of `DOCUMENTS`.
        where: Equation, table, listing and line.
        says: What is printed there.
        finding: What is wrong with it, in a line.
        correction: What is meant, and the switch that has it.
        changes: What the correction changes in the results.
        show: Computes the evidence.
        recordings: Whether it is about the study's own recordings; others are shown on generated ones alone.
    """

    name: str
    document: str
    where: str
    says: str
    finding: str
    correction: str
    changes: str
    show: Callable[[Source], Evidence]
    recordings: bool = False


_found: dict[str, Erratum] = {}


def erratum(
    name: str, where: str, *, says: str, correction: str, changes: str, recordings: bool = False
) -> Callable[[Callable[[Source], Evidence]], Callable[[Source], Evidence]]:
    """Enters a function into the catalogue: its docstring is the finding, what it returns the evidence.

    Args:
        name: Of the erratum.
        where: The document, a comma, the place in it.
        says: As in `Erratum`, like the others.
        correction: What is meant.
        changes: In the results.
        recordings: Whether the study's own recordings matter.
    """
    document, _, place = where.partition(", ")

    def enter(show: Callable[[Source], Evidence]) -> Callable[[Source], Evidence]:
        finding = " ".join((show.__doc__ or "").split())
        _found[name] = Erratum(name, document, place, says, finding, correction, changes, show, recordings)
        return show

    return enter


def errata(names: Iterable[str] = ()) -> list[Erratum]:
    """All errata in the order of the documents, or those asked for."""
    for module in _MODULES:
        import_module(f"tff_esn.runs.errata.{module}")
    order = list(DOCUMENTS)
    known = {one.name: one for one in sorted(_found.values(), key=lambda one: order.index(one.document))}
    chosen = list(names) or list(known)
    unknown = [name for name in chosen if name not in known]
    if unknown:
        raise ConfigError(f"no erratum {', '.join(unknown)}; expected some of {', '.join(known)}")
    return [known[name] for name in chosen]
