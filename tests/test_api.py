"""The public names, used as the documentation shows them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import tff_esn as te

ROOT = str(Path(__file__).parent.parent)


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a program of its own, whose environment says nothing about TensorFlow's log."""
    kept = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(
        [sys.executable, "-c", dedent(code)],
        capture_output=True,
        text=True,
        env={**kept, "PYTHONPATH": ROOT, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def datasets(cache: Path) -> dict[str, te.FederatedDataset]:
    random = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        client: ([random.normal(size=(length, 3)) for length in (9, 12, 7, 9)], ["sit", "walk", "bike", "walk"])
        for client in ("ada", "bob", "eve")
    }
    study = te.load_study(te.generate_study(subjects=3, minutes=3.0, cache=cache).root, cache=cache)
    return {
        "wesad": study.clients(features="corrected", task="stress"),
        "hhar": te.generate_study("hhar", subjects=3, minutes=0.3, cache=cache).clients(steps=40),
        "arrays": te.FederatedDataset.from_arrays(arrays),
    }


ESN = te.ESN(units=20, spectral_radius=0.9, leaking_rate=0.1, seed=0)


@pytest.mark.parametrize("source", ["wesad", "hhar", "arrays"])
@pytest.mark.parametrize(
    "algorithm",
    [
        te.IncFed(ESN, ridge=0.1),
        te.FedAvg(ESN, rounds=2),
        te.FedCurv(ESN, rounds=2),
        te.PartialIncFed(ESN),
        te.PFedRR(ESN),
        te.FedIP(ESN),
        te.CentralESN(ESN),
    ],
    ids=lambda algorithm: algorithm.name,
)
def test_every_algorithm_on_every_kind_of_data(
    datasets: dict[str, te.FederatedDataset], source: str, algorithm: Any, tmp_path: Path
) -> None:
    data = datasets[source]
    train, test = data.split(test=[data.clients[-1]])
    model = algorithm.fit(train)
    assert isinstance(model, te.TrainedESN)
    assert model.card.trained_on == train.clients
    probabilities = model.predict_proba(test)
    assert probabilities.shape == (len(test.labels()), {"wesad": 2, "hhar": 6, "arrays": 3}[source])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
    assert model.score(test) == pytest.approx((model.predict(test) == test.labels()).mean())
    assert 0 <= model.score(train) <= 1
    model.save(tmp_path / "model.keras")
    again = te.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again.predict_proba(test), probabilities, atol=1e-5)


def test_public_names_are_there() -> None:
    assert set(te.__all__) <= set(dir(te))
    for name in te.__all__:
        assert getattr(te, name).__name__ == name
    with pytest.raises(AttributeError, match="module 'tff_esn' has no attribute 'FedAvgg'"):
        _ = te.FedAvgg


def seconds(code: str) -> float:
    """The processor's time, which others that use the machine do not lengthen."""
    return float(run(f"import time; start = time.process_time(); {code}; print(time.process_time() - start)").stdout)


def test_the_import_is_quick() -> None:
    assert seconds("import tff_esn") < 0.5
    assert seconds("import tff_esn as te; te.IncFed(te.ESN()); te.FedAvg()") < 1
    assert seconds("from tff_esn.algorithm import ALGORITHMS; ALGORITHMS.names()") < 1
    assert seconds("from tff_esn.features.recipe import FEATURE_RECIPES; FEATURE_RECIPES.names()") < 1


def test_tensorflow_is_imported_by_what_needs_it_only() -> None:
    run(
        """
        import sys
        import tff_esn as te
        from tff_esn.algorithm import ALGORITHMS
        from tff_esn.datasets.study import STUDIES
        from tff_esn.features.recipe import FEATURE_RECIPES

        names = [registry.names() for registry in (ALGORITHMS, STUDIES, FEATURE_RECIPES)]
        assert "fedavg" in names[0] and repr(te.FedAvg(rounds=3)) == "FedAvg(rounds=3)"
        slow = {"tensorflow", "tensorflow_federated", "pandas", "sklearn", "matplotlib", "neurokit2"}
        assert not slow & set(sys.modules), slow & set(sys.modules)
        """
    )


def test_reservoirs_closed_forms_metrics_and_data_sets_need_no_tensorflow(
    datasets: dict[str, te.FederatedDataset], cache: Path
) -> None:
    folders = sorted(path for path in cache.iterdir() if (path / "generated.json").is_file())
    assert len(folders) == 2
    run(
        f"""
        import sys
        sys.modules["tensorflow"] = sys.modules["tensorflow_federated"] = None
        import numpy as np
        import tff_esn as te
        from tff_esn.metrics import METRICS
        from tff_esn.reservoir import diagnostics

        esn = te.ESN(units=20)
        random = np.random.default_rng(0)
        arrays = {{client: (random.normal(size=(20, 5, 2)), random.integers(0, 3, 20)) for client in "abc"}}
        data = [te.FederatedDataset.from_arrays(arrays)]
        for folder in {[str(folder) for folder in folders]}:
            study = te.load_study(folder, cache={str(cache)!r})
            data.append(study.clients(steps=20))
        for own in data:
            train, test = own.split(test=[own.clients[-1]])
            for kind in (te.IncFed, te.PartialIncFed, te.PFedRR, te.FedIP, te.AveragedRidge, te.CentralRidge):
                model = kind(esn).fit(train)
                model.predict(test), model.predict_proba(test)
                assert 0 <= model.score(test, METRICS.names()[0]) <= 1
        """
    )


def test_tensorflow_is_quiet_unless_the_user_says_otherwise() -> None:
    quiet = run(
        """
        import numpy as np
        import tff_esn as te

        random = np.random.default_rng(0)
        arrays = {client: (random.normal(size=(20, 5, 2)), random.integers(0, 3, 20)) for client in "ab"}
        te.FedAvg(te.ESN(units=10), rounds=1).fit(te.FederatedDataset.from_arrays(arrays))
        """
    )
    assert (quiet.stdout, quiet.stderr) == ("", "")
    level = 'import os, tff_esn; print(os.environ["TF_CPP_MIN_LOG_LEVEL"])'
    assert [run(level).stdout, run(level, TF_CPP_MIN_LOG_LEVEL="1").stdout] == ["3\n", "1\n"]


PLUGIN = '''
from pathlib import Path

import numpy as np
from pydantic.dataclasses import dataclass

from tff_esn.algorithm import ALGORITHMS
from tff_esn.closed_form.incfed import IncFed
from tff_esn.closed_form.server import FederatedReadout
from tff_esn.datasets.recording import Recording, Signal
from tff_esn.datasets.study import STUDIES, StudyFolder
from tff_esn.parameters import STRICT


@ALGORITHMS.register
@dataclass(frozen=True, repr=False, config=STRICT)
class Scaled(IncFed):
    """IncFed whose readout is scaled.

    Attributes:
        factor: By which it is multiplied.
    """

    factor: float = 2.0

    name = "scaled-incfed"
    label = "scaled IncFed"

    def solve(self, statistics):
        found = super().solve(statistics)
        readout = found.readout
        scaled = type(readout)(readout.kernel * self.factor, readout.bias, readout.activation)
        return FederatedReadout(scaled, found.bytes_up, found.bytes_down)


@STUDIES.register
class NpzStudy(StudyFolder):
    """Subjects in files of NumPy."""

    name = "npz"
    holds = "subjects as arrays (p1.npz, ...)"
    features = ("channels",)

    @classmethod
    def recognize(cls, root, labels):
        study = cls(root)
        return study if study.subjects else None

    @property
    def subjects(self):
        return tuple(sorted(path.stem for path in self.root.glob("*.npz")))

    def files(self, subject):
        return (self.root / f"{subject}.npz",)

    def read(self, subject):
        arrays = np.load(self.root / f"{subject}.npz")
        signals = {f"wrist/{name}": Signal(arrays[name], 4.0) for name in ("ACC", "BVP", "EDA", "TEMP")}
        return Recording(subject, signals, Signal(arrays["codes"], 4.0), self.root)
'''


def test_an_algorithm_and_a_study_of_another_package_are_found_by_name(tmp_path: Path) -> None:
    information = tmp_path / "site" / "somebodys_esn-1.0.dist-info"
    information.mkdir(parents=True)
    (tmp_path / "site" / "somebodys_esn.py").write_text(PLUGIN)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: somebodys-esn\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(
        "[tff_esn.algorithms]\nscaled-incfed = somebodys_esn\n\n[tff_esn.studies]\nnpz = somebodys_esn\n"
    )
    random, study = np.random.default_rng(0), tmp_path / "study"
    study.mkdir()
    for subject in ("p1", "p2", "p3"):
        signals = {name: random.normal(size=480) for name in ("BVP", "EDA", "TEMP")}
        codes = np.repeat([1, 2, 3, 4], 120)
        np.savez(study / f"{subject}.npz", ACC=random.normal(size=(480, 3)), codes=codes, **signals)
    run(
        f"""
        import numpy as np
        import tff_esn as te
        from tff_esn.algorithm import ALGORITHMS

        study = te.load_study({str(study)!r}, cache={str(tmp_path / "cache")!r})
        assert study.folder.name == "npz"
        data = study.clients(rate=4.0, steps=8, task="affect")
        assert data.clients == ("p1", "p2", "p3") and data.inputs == 6
        kind = ALGORITHMS["scaled-incfed"]
        scaled, plain = kind(te.ESN(units=10), factor=3.0).fit(data), te.IncFed(te.ESN(units=10)).fit(data)
        np.testing.assert_allclose(scaled.readout.kernel, 3 * plain.readout.kernel)
        assert scaled.card.algorithm == "scaled-incfed"
        """,
        PYTHONPATH=f"{ROOT}{os.pathsep}{tmp_path / 'site'}",
    )
