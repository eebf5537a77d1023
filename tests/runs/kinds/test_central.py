from __future__ import annotations

from pathlib import Path

from tff_esn.central.esn import CentralESN
from tff_esn.datasets.splits import ClientSplit
from tff_esn.evaluation.assessment import assess_baselines, assess_esn
from tff_esn.features.study import load_study
from tff_esn.reservoir.esn import ESN
from tff_esn.runs.kinds.central import assessment_table
from tff_esn.tables import PRINTED, Number


def test_the_table_stands_beside_table_6_3(generated: Path, tmp_path: Path) -> None:
    data = load_study(generated, cache=tmp_path).clients("corrected", split=ClientSplit(("S2",), ("S3",), ("S4",)))
    models = [CentralESN(ESN(units=30, seed=seed)) for seed in (0, 1)]
    outcomes = [outcome for model in models for outcome, _ in assess_esn(data, model, (1.0,))]
    table = assessment_table("T", {"corrected": [*assess_baselines(data), *outcomes]})
    assert [row.label for row in table.rows][-3:] == ["ESN, time order", "ESN, shuffled", "ESN, ridge"]
    assert table.cell("ESN, time order", PRINTED, "design.accuracy") == Number(0.8986, n=0)
    assert table.cell("ESN, time order", PRINTED, "test.auroc") == Number(0.9419, n=0)
    assert table.cell("ESN, shuffled", PRINTED, "design.accuracy") is None
    own = [outcome.parts["test"].auroc for outcome in outcomes if outcome.model == "ESN, ridge"]
    assert table.cell("ESN, ridge", "corrected", "test.auroc") == Number.of(own)
    # No seed changes a baseline.
    majority = table.cell("majority class", "corrected", "test.auroc")
    assert majority is not None and (majority.n, majority.single_class) == (0, 1)
    assert all(PRINTED not in row.lines for row in assessment_table("T", {"corrected": outcomes}, False).rows)
