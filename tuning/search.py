"""The search over any space with any tuner; if interrupted, the same call resumes it."""

from __future__ import annotations

import gc
import io
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Literal

import keras_tuner

from tff_esn.console import Bar, progress
from tff_esn.errors import ConfigError, TffEsnError
from tff_esn.interrupts import deferred_interrupts
from tff_esn.registry import expected
from tff_esn.tables import Table, text_table
from tff_esn.tuning.hypermodels import HyperModel
from tff_esn.tuning.space import Value, as_text, setting_label

TunerName = Literal["random", "bayesian", "hyperband"]
_TUNERS = {
    "random": keras_tuner.RandomSearch,
    "bayesian": keras_tuner.BayesianOptimization,
    "hyperband": keras_tuner.Hyperband,
}
#: Epochs of Hyperband's longest trials.
HYPERBAND_EPOCHS = 9


@dataclass(frozen=True)
class TrialResult:
    """A finished trial: its number, its settings and its validation scores."""

    trial: str
    settings: dict[str, Value]
    scores: dict[str, float]
    seconds: float | None = None


@dataclass(frozen=True)
class SearchResult:
    """All finished trials, best first, and how many of them this call ran."""

    objective: str
    trials: tuple[TrialResult, ...]
    new: int
    seconds: float

    @property
    def best(self) -> TrialResult:
        """The best trial."""
        return self.trials[0]


def search_table(found: SearchResult, document: str, top: int = 10) -> Table:
    """The best trials: their settings and validation scores."""
    shown = found.trials[:top]
    settings = list(shown[0].settings)
    scores = [name for name in dict.fromkeys((found.objective, "auroc")) if name in shown[0].scores]
    names = [setting_label(name) for name in settings]
    headings = [name.replace("_", " ") for name in scores]
    rows = [
        [
            trial.trial,
            *(as_text(trial.settings[name]) for name in settings),
            *(f"{trial.scores[name]:.4f}" for name in scores),
        ]
        for trial in shown
    ]
    timed = [trial.seconds for trial in found.trials if trial.seconds is not None]
    note = "nothing left to run"
    if timed:
        note = f"{found.new} trials in {found.seconds:.0f} s now, {sum(timed) / len(timed):.2f} s each"
    title = f"{document}: best {len(shown)} of {len(found.trials)} trials"
    return text_table(title, ["trial", *names, *headings], rows, [note], headings)


def search(
    hypermodel: HyperModel,
    folder: Path,
    *,
    tuner: TunerName = "random",
    objective: str | None = None,
    trials: int | None = 60,
    seed: int = 0,
) -> SearchResult:
    """Searches a hypermodel's space for the highest validation score.

    Args:
        hypermodel: Trains and scores the trials.
        folder: KerasTuner's project directory. If it holds an unfinished search, that is resumed.
        tuner: KerasTuner's search strategy.
        objective: Name of the validation score; None for the hypermodel's usual one.
        trials: Total number of trials, earlier calls included; None for the whole of a finite space.
        seed: Seed of the search.
    """
    objective = hypermodel.objective if objective is None else objective
    if objective not in hypermodel.metrics:
        raise ConfigError(
            f"no score {objective!r} of {hypermodel.space.algorithm}; {expected(objective, hypermodel.metrics)}"
        )
    size = hypermodel.space.size
    limit = trials if trials is not None else size
    if limit is None:
        raise ConfigError("the space is infinite; expected a number of trials")
    if size is not None:
        limit = min(limit, size)
    with progress("Searching", limit) as bar, _plain_errors(), deferred_interrupts() as check:
        searcher = _make(tuner, hypermodel, folder, objective, limit, seed, bar, check)
        bar.advance(len(_finished(searcher)))
        start = time.monotonic()
        with cheap_collections():
            searcher.search(verbose=0)
        seconds = time.monotonic() - start
    results = tuple(
        TrialResult(trial.trial_id, _settings(trial), _scores(trial), searcher.seconds.get(trial.trial_id))
        for trial in sorted(_finished(searcher), key=_rank)
    )
    if not results:
        raise ConfigError(f"{folder}: no trial was finished; expected at least one")
    return SearchResult(objective, results, len(searcher.seconds), seconds)


def _make(
    tuner: TunerName,
    hypermodel: HyperModel,
    folder: Path,
    objective: str,
    limit: int,
    seed: int,
    bar: Bar,
    check: Callable[[], None],
) -> Any:
    kind: Any = _TUNERS[tuner]

    class Search(kind):
        """KerasTuner's own search, which also moves the bar and writes TensorBoard's HParams."""

        seconds: dict[str, float]

        def run_trial(self, trial: Any, *args: Any, **options: Any) -> Any:
            check()
            start = time.monotonic()
            try:
                self.hypermodel.configuration(trial.hyperparameters)
                results = super().run_trial(trial, *args, **options)
            except Exception as error:
                # KerasTuner would record any other exception and continue with the next trial.
                raise keras_tuner.errors.FatalError(f"trial {trial.trial_id}: {error}") from error
            self.seconds[trial.trial_id] = time.monotonic() - start
            return results

        def on_trial_end(self, trial: Any) -> None:
            super().on_trial_end(trial)
            best = self.oracle.get_best_trials(1)[0]
            settings = ", ".join(as_text(value) for value in _settings(best).values())
            bar.advance(note=f"best {objective} {best.score:.4f}: {settings}")
            _write_hparams(folder / "tensorboard" / trial.trial_id, trial)

    size = {"max_epochs": HYPERBAND_EPOCHS} if tuner == "hyperband" else {"max_trials": limit}
    try:
        # KerasTuner prints on standard output that it resumes; only results belong there.
        with redirect_stdout(io.StringIO()):
            made = Search(
                hypermodel,
                objective=keras_tuner.Objective(objective, "max"),
                directory=str(folder.parent),
                project_name=folder.name,
                seed=tuner_seed(seed),
                **size,
            )
    except (ValueError, KeyError) as error:
        raise ConfigError(f"{folder}: not a search that can be resumed ({error}); expected an empty folder") from None
    made.seconds = {}
    # A random search takes a space for exhausted after 20 draws it has seen before. The last of many
    # configurations take more; KerasTuner's grid search, which needs none, cannot be resumed.
    made.oracle._max_collisions = 100 * limit
    return made


def _finished(searcher: Any) -> list[Any]:
    return [trial for trial in searcher.oracle.trials.values() if trial.status == "COMPLETED"]


def _settings(trial: Any) -> dict[str, Value]:
    """The settings drawn from the space, without the values that Hyperband adds."""
    return {name: value for name, value in trial.hyperparameters.values.items() if not name.startswith("tuner/")}


def _rank(trial: Any) -> tuple[float, str]:
    """The best first; of equally good ones the same, in whatever order they were tried."""
    return -trial.score, repr(sorted(_settings(trial).items()))


def _scores(trial: Any) -> dict[str, float]:
    return {name: trial.metrics.get_best_value(name) for name in trial.metrics.metrics}


def _write_hparams(folder: Path, trial: Any) -> None:
    import tensorflow as tf
    from tensorboard.plugins.hparams import api

    with tf.summary.create_file_writer(str(folder)).as_default():
        api.hparams(_settings(trial), trial_id=trial.trial_id)
        for name, value in _scores(trial).items():
            tf.summary.scalar(name, value, step=0)


def tuner_seed(seed: int) -> int:
    """The seed for KerasTuner: never 0, which it treats as no seed."""
    return 1 + seed


@contextmanager
def cheap_collections() -> Iterator[None]:
    """Hides all objects that are there from the garbage collector, which KerasTuner calls before each trial."""
    gc.collect()  # What an earlier search has left is not hidden.
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Unwraps an error that the user can act on from KerasTuner's exception."""
    try:
        yield
    except keras_tuner.errors.FatalError as error:
        if isinstance(error.__cause__, TffEsnError):
            raise error.__cause__ from None
        raise
