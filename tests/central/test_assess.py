from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tff_esn.central.assess import assess_baselines, assess_esn
from tff_esn.config import CentralConfig, InputConfig, ReadoutConfig, ReservoirConfig
from tff_esn.datasets.splits import ClientSplit
from tff_esn.datasets.study import open_study
from tff_esn.deployment.keras_model import keras_model
from tff_esn.errors import ConfigError
from tff_esn.features.inputs import ModelInputs, model_inputs, prepared_features
from tff_esn.reservoir.weights import draw_weights
from tff_esn.runs.kinds.central import assessment_table
from tff_esn.store.cache import Cache
from tff_esn.tables import PRINTED, Number

SPLIT = ClientSplit(("S2",), ("S3",), ("S4",))


def config(reading: str) -> CentralConfig:
    inputs = InputConfig(preset="corrected", features=("tEDA", "HR"), reading=reading, split=SPLIT)  # type: ignore[arg-type]
    return CentralConfig(inputs=inputs, reservoir=ReservoirConfig(units=30, leaking_rate=0.5))


@pytest.fixture(scope="module")
def inputs(generated: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModelInputs]:
    cache = Cache(tmp_path_factory.mktemp("cache"))
    return {
        reading: model_inputs(
            prepared_features(open_study(generated), config(reading).inputs, cache), config(reading).inputs
        )
        for reading in ("window", "carried")
    }


@pytest.mark.parametrize("reading", ["window", "carried"])
def test_both_readings_are_a_plain_loop_over_the_recording(inputs: dict[str, ModelInputs], reading: str) -> None:
    own = inputs[reading]
    weights = draw_weights(config(reading).reservoir, 2, seed=0)
    states = own.states(weights)["S3"].values
    windows = own.windows["S3"].values

    def advance(state: np.ndarray, step: np.ndarray) -> np.ndarray:
        new = np.tanh(step @ weights.input_kernel + state @ weights.recurrent_kernel)
        return 0.5 * state + 0.5 * new

    state = np.zeros(30)
    if reading == "window":
        for step in windows[100]:
            state = advance(state, step)
    else:
        for window in windows[:101]:
            state = advance(state, window[-1])
    np.testing.assert_allclose(states[100], state, atol=1e-5)


@pytest.mark.parametrize("reading", ["window", "carried"])
def test_every_model_is_assessed_and_the_keras_model_is_the_same_one(
    inputs: dict[str, ModelInputs], reading: str
) -> None:
    own = inputs[reading]
    outcomes = list(assess_esn(own, config(reading), seed=0))
    assert [outcome.model for outcome, _ in outcomes] == [
        "ESN, time order",
        "ESN, shuffled",
        "ESN, ridge",
    ]
    for outcome, trained in outcomes:
        assert set(outcome.parts) == {"design", "test"}
        assert set(outcome.subjects) == {"S2", "S3", "S4", "all"}
        assert outcome.parts["test"] == outcome.subjects["S4"]
        windows = own.windows["S4"].values[:50]
        series = windows if reading == "window" else windows[None, :, -1]
        answers = keras_model(trained, None).predict(series, verbose=0)[:, 0]
        states = own.states(trained.weights)["S4"].values[:50]
        expected = trained.readout.outputs(states)
        # The Keras model answers at a sequence's end.
        np.testing.assert_allclose(answers, expected if reading == "window" else expected[-1:], atol=1e-4)


def test_the_same_seed_gives_the_same_scores(inputs: dict[str, ModelInputs]) -> None:
    first, again, other = (
        [outcome.parts for outcome, _ in assess_esn(inputs["carried"], config("carried"), seed)] for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_baselines_have_no_reservoir(inputs: dict[str, ModelInputs]) -> None:
    outcomes = {outcome.model: outcome for outcome in assess_baselines(inputs["window"])}
    assert list(outcomes) == ["majority class", "threshold on tEDA", "threshold on HR", "logistic"]
    majority = outcomes["majority class"].parts["test"]
    assert majority.single_class == 0
    assert majority.balanced_accuracy == 0.5
    assert outcomes["threshold on tEDA"].parts["design"].auroc > 0.6


def test_the_table_stands_beside_table_6_3(inputs: dict[str, ModelInputs]) -> None:
    outcomes = [outcome for seed in (0, 1) for outcome, _ in assess_esn(inputs["window"], config("window"), seed)]
    table = assessment_table("T", {"corrected": [*assess_baselines(inputs["window"]), *outcomes]})
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


def test_a_threshold_can_be_chosen_on_validation(inputs: dict[str, ModelInputs]) -> None:
    outcomes = [outcome for outcome, _ in assess_esn(inputs["window"], config("window"), 0, choose_threshold=True)]
    assert any(outcome.threshold != 0.5 for outcome in outcomes)


def test_unknown_subjects_and_features_are_refused(generated: Path, tmp_path: Path) -> None:
    prepared = prepared_features(open_study(generated), config("window").inputs, Cache(tmp_path))
    with pytest.raises(ConfigError, match="the split needs S9; the study has S2, S3, S4"):
        model_inputs(prepared, InputConfig(preset="corrected", split=ClientSplit(("S9",))))
    with pytest.raises(ValueError, match="Input should be 'pEDA', 'tEDA', 'HR' or 'HRV'"):
        InputConfig(features=("GSR",))  # type: ignore[arg-type]


def test_four_classes_have_a_softmax(generated: Path, tmp_path: Path) -> None:
    own = InputConfig(preset="corrected", features=("tEDA", "HR"), reading="carried", task="affect", split=SPLIT)
    four = CentralConfig(
        inputs=own, reservoir=ReservoirConfig(units=20), readout=ReadoutConfig(class_weight=None, learning_rate=0.01)
    )
    data = model_inputs(prepared_features(open_study(generated), own, Cache(tmp_path)), own)
    outcomes = {outcome.model: (outcome, trained) for outcome, trained in assess_esn(data, four, seed=0)}
    outcome, trained = outcomes["ESN, time order"]
    assert trained.readout.kernel.shape == (20, 4)
    assert np.array(outcome.parts["test"].confusion).shape == (4, 4)
    codes = data.windows["S4"].codes
    assert outcome.parts["test"].examples == ((codes >= 1) & (codes <= 4)).sum()
    assert list(outcome.model for outcome in assess_baselines(data)) == ["majority class", "logistic"]
    with pytest.raises(ConfigError, match="a threshold for 4 classes; expected two"):
        list(assess_esn(data, four, seed=0, choose_threshold=True))
