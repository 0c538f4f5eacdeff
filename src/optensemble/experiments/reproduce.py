"""A reproduction of the paper's experiments: runs those not on disk yet, draws figures and writes the page."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from optensemble._core.atomic_files import replace
from optensemble._core.validation import require_choice
from optensemble.exceptions import FileError, InputError
from optensemble.experiments import store
from optensemble.experiments.figures import draw_files, figure_files
from optensemble.experiments.learning_curve.figure import curve_figure
from optensemble.experiments.learning_curve.points import JOINT, ROUND_ROBIN, STACKING, LearningCurve
from optensemble.experiments.learning_curve.store import TABLE as CURVE_TABLE
from optensemble.experiments.learning_curve.store import curve_records, save_table
from optensemble.experiments.learning_curve.store import path_of as curve_path
from optensemble.experiments.learning_curve.sweep import phase_of, trace_curves
from optensemble.experiments.outcome import Outcome
from optensemble.experiments.page import make_experiment_page
from optensemble.experiments.run import (
    AUDIT,
    DEBIASING,
    REPLAY_FRESH,
    REPLAY_IN_SAMPLE,
    compile_kernels,
    run_experiment,
)
from optensemble.experiments.settings import DESIGNS, NAMES, CurveSettings, Settings
from optensemble.experiments.setup import Experiment, Predictor, make_experiment

COMPILING, TRAINING, DRAWING = "compiling kernels", "training members", "drawing figures"
DONE, ON_DISK = "done", "was on disk"
PAGE = "report.html"

_SECONDS_PER_ROW = {STACKING: 3e-5, JOINT: 1e-4, ROUND_ROBIN: 2e-4}

TellProgress = Callable[[str | None, str, float], None]
"""Takes an experiment (or None), a phase of its work, and the share of it that is done."""

ExpectedSeconds = dict[tuple[str | None, str], float]
"""About how long each phase of an experiment's work takes."""


@dataclass(frozen=True)
class Reproduction:
    """A finished run: its outcomes, the content of ``results.json``, the path of the page, and learning curves."""

    outcomes: list[Outcome]
    document: dict[str, Any]
    page: Path
    curves: list[LearningCurve] = field(default_factory=list)


def reproduce_paper(
    folder: Path,
    settings: Settings,
    names: Sequence[str] = NAMES,
    *,
    learning_curve: CurveSettings | None = None,
    resume: bool = False,
    tell: TellProgress = lambda name, phase, share: None,
) -> Reproduction:
    """Run experiments and write their numbers, figures and page to a folder.

    Every experiment, and every point of a learning curve, is saved as soon as it is finished: an interrupt loses only
    the current one.

    Parameters
    ----------
    folder
        Created if it does not exist.
    settings
        See :class:`Settings`.
    names
        The experiments to run.
    learning_curve
        Also run the experiments with ever more rows; see :class:`CurveSettings`.
    resume
        Load what is finished in the folder; it must have been run with the same settings and versions.
        Without it, the files of an earlier run in the folder are replaced.
    tell
        Called as work progresses.
    """
    begun = time.perf_counter()
    check_settings(settings, learning_curve)
    check_names(names)
    _prepare_folder(folder, anew=not resume)
    make, seconds = _Experiments(settings, tell), dict[str, float]()
    outcomes = _run_all(folder, settings, names, make, seconds, tell)
    curves = list[LearningCurve]()
    if learning_curve is not None:
        deadline = begun + 60 * learning_curve.minutes
        curves = trace_curves(folder, names, settings, learning_curve, make, deadline=deadline, tell=tell)
        seconds["learning curve"] = time.perf_counter() - begun - sum(seconds.values())
    _draw_all(folder, outcomes, curves, tell)
    document = store.summary_document(outcomes, settings, seconds)
    if learning_curve is not None:
        document["learning_curve"] = {"settings": asdict(learning_curve), "points": curve_records(curves)}
    page = make_experiment_page(outcomes, settings, document, curves, learning_curve)
    replace(folder / PAGE, page.encode())
    document["seconds"]["everything"] = time.perf_counter() - begun
    store.save_summary(folder, document)
    tell(None, DRAWING, 1)
    return Reproduction(outcomes, document, folder / PAGE, curves)


def _run_all(
    folder: Path,
    settings: Settings,
    names: Sequence[str],
    make: _Experiments,
    seconds: dict[str, float],
    tell: TellProgress,
) -> list[Outcome]:
    """Return the outcomes of experiments, run now or finished before, and add to ``seconds`` how long it took."""
    finished = {name: store.load_outcome(folder, name, settings) for name in names}
    for name in names:
        if finished[name] is not None:
            tell(name, ON_DISK, 1)
    if None in finished.values():
        tell(None, COMPILING, 0)
        seconds["compiling"] = compile_kernels(settings)
        tell(None, COMPILING, 1)
    outcomes = []
    for name in names:
        outcome = finished[name]
        if outcome is None:
            outcome = run_experiment(make(name), settings, partial(tell, name))
            store.save_outcome(folder, outcome, settings)
            tell(name, DONE, 1)
        outcomes.append(outcome)
    return outcomes


def _draw_all(folder: Path, outcomes: Sequence[Outcome], curves: Sequence[LearningCurve], tell: TellProgress) -> None:
    """Write all figures, and the table of learning curves."""
    for share, file, content in draw_files(outcomes):
        replace(folder / file, content)
        tell(None, DRAWING, 0.6 * share)  # the rest is for the page, which draws every panel again
    if curves:
        for file, content in figure_files(curve_figure(curves), curves).items():
            replace(folder / file, content)
        save_table(folder, curves)


class _Experiments:
    """The experiments of a run, made when they are needed; those with the same members share them."""

    def __init__(self, settings: Settings, tell: TellProgress) -> None:
        self._settings, self._tell = settings, tell
        self._made: dict[str, Experiment] = {}
        self._trained: dict[str, list[tuple[str, Predictor]]] = {}

    def __call__(self, name: str) -> Experiment:
        if name not in self._made:
            settings, members = self._settings, DESIGNS[name].members
            self._made[name] = make_experiment(
                name,
                settings.seed,
                training_rows=settings.training_rows,
                noise=settings.noise,
                trees=settings.trees,
                models=self._trained.get(members),
                tell=partial(self._tell, name, TRAINING),
            )
            self._trained[members] = self._made[name].models
        return self._made[name]


def find_finished(folder: Path, names: Sequence[str]) -> list[str]:
    """Return the experiments and learning curves, finished or begun, that are on disk."""
    begun = [name for name in names if curve_path(folder, name).exists()]
    return [
        *(name for name in names if store.path_of(folder, name).exists()),
        *(f"points of {name}'s learning curve" for name in begun),
    ]


def check_settings(settings: Settings, learning_curve: CurveSettings | None = None) -> None:
    """Validate the settings of a run, and that they go together."""
    settings.check()
    if learning_curve is None:
        return
    learning_curve.check()
    if settings.debias_on == "train":
        raise InputError("a learning curve takes rows held out from training; leave out --debias-on train.")


def check_names(names: Sequence[str]) -> None:
    """Validate the names of experiments: known ones, each once."""
    for name in names:
        require_choice(name, "an experiment", list(NAMES))
    if not names or len(set(names)) < len(names):
        raise InputError(
            f"experiments must be some of {', '.join(NAMES)}, each once; got {', '.join(names) or 'none'}."
        )


def expected_seconds(settings: Settings, names: Sequence[str]) -> ExpectedSeconds:
    """Return about how long each phase takes, for a progress bar, where only the proportions matter."""
    size, more = settings.rows / 400, settings.fresh_rows / 20_000
    slow = 20.0 if settings.trees == "exact" else 1.0
    phases: ExpectedSeconds = {(None, COMPILING): 0.5}
    trained = set[str]()
    for name in names:
        members, rounds = DESIGNS[name].members, settings.rounds_of(name) / 5000
        if members not in trained:
            phases[name, TRAINING] = slow * (1.3 if members == "label" else 3.4) * settings.training_rows / 10_000
        trained.add(members)
        phases[name, DEBIASING] = 0.6 * rounds * max(size, 0.3)
        phases[name, REPLAY_IN_SAMPLE] = 0.4 * max(size / 10, 1)
        phases[name, REPLAY_FRESH] = 4.5 * rounds * max(more, 0.1)
        phases[name, AUDIT] = 0.6 * max(more, 0.1)
    phases[None, DRAWING] = 7.0
    return phases


def expected_curve_seconds(names: Sequence[str], how: CurveSettings) -> ExpectedSeconds:
    """Return about how long each phase of learning curves takes."""
    return {
        (name, phase_of(stage, size)): 2 + size * rate
        for stage, rate in _SECONDS_PER_ROW.items()
        for size in how.sizes
        for name in names
    }


def _prepare_folder(folder: Path, *, anew: bool) -> None:
    """Create the folder, fail now rather than after the work if it is not writable, and remove files of other runs."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
        own = [path(folder, name) for name in NAMES for path in (store.path_of, curve_path)]
        for path in (*own, folder / store.RESULTS, folder / CURVE_TABLE, folder / PAGE):
            if anew:
                path.unlink(missing_ok=True)
    except OSError as error:
        raise FileError(f"cannot write to {folder}: {error.strerror or error}. Choose another --out.") from error
