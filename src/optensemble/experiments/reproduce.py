"""A reproduction of the paper's experiments: runs those not on disk yet, draws figures and writes the page."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from optensemble._core.atomic_files import replace
from optensemble._core.validation import require_choice
from optensemble.exceptions import FileError, InputError
from optensemble.experiments import store
from optensemble.experiments.figures import draw_files
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
from optensemble.experiments.settings import DESIGNS, NAMES, Settings
from optensemble.experiments.setup import Predictor, make_experiment

COMPILING, TRAINING, DRAWING = "compiling kernels", "training members", "drawing figures"
DONE, ON_DISK = "done", "was on disk"
PAGE = "report.html"

TellProgress = Callable[[str | None, str, float], None]
"""Takes an experiment (or None), a phase of its work, and the share of it that is done."""


@dataclass(frozen=True)
class Reproduction:
    """A finished run: its outcomes, the content of ``results.json``, and the path of the page."""

    outcomes: list[Outcome]
    document: dict[str, Any]
    page: Path


def reproduce_paper(
    folder: Path,
    settings: Settings,
    names: Sequence[str] = NAMES,
    *,
    resume: bool = False,
    tell: TellProgress = lambda name, phase, share: None,
) -> Reproduction:
    """Run experiments and write their numbers, figures and page to a folder.

    Every experiment is saved as soon as it is finished: an interrupt loses only the current one.

    Parameters
    ----------
    folder
        Created if it does not exist.
    settings
        See :class:`Settings`.
    names
        The experiments to run.
    resume
        Load experiments that are finished in the folder; they must have been run with the same settings and versions.
        Without it, the files of an earlier run in the folder are replaced.
    tell
        Called as work progresses.
    """
    begun = time.perf_counter()
    settings.check()
    check_names(names)
    _prepare_folder(folder, anew=not resume)
    finished = {name: store.load_outcome(folder, name, settings) for name in names}
    for name in names:
        if finished[name] is not None:
            tell(name, ON_DISK, 1)
    seconds: dict[str, float] = {}
    if None in finished.values():
        tell(None, COMPILING, 0)
        seconds["compiling"] = compile_kernels(settings)
        tell(None, COMPILING, 1)
    trained: dict[str, list[tuple[str, Predictor]]] = {}
    outcomes = []
    for name in names:
        outcome = finished[name]
        if outcome is None:
            outcome = _run_one(name, settings, trained, tell)
            store.save_outcome(folder, outcome, settings)
            tell(name, DONE, 1)
        outcomes.append(outcome)
    for share, file, content in draw_files(outcomes):
        replace(folder / file, content)
        tell(None, DRAWING, 0.6 * share)  # the rest is for the page, which draws every panel again
    document = store.summary_document(outcomes, settings, seconds)
    replace(folder / PAGE, make_experiment_page(outcomes, settings, document).encode())
    document["seconds"]["everything"] = time.perf_counter() - begun
    store.save_summary(folder, document)
    tell(None, DRAWING, 1)
    return Reproduction(outcomes, document, folder / PAGE)


def find_finished(folder: Path, names: Sequence[str]) -> list[str]:
    """Return the experiments that are on disk."""
    return [name for name in names if store.path_of(folder, name).exists()]


def check_names(names: Sequence[str]) -> None:
    """Validate the names of experiments: known ones, each once."""
    for name in names:
        require_choice(name, "an experiment", list(NAMES))
    if not names or len(set(names)) < len(names):
        raise InputError(
            f"experiments must be some of {', '.join(NAMES)}, each once; got {', '.join(names) or 'none'}."
        )


def expected_seconds(settings: Settings, names: Sequence[str]) -> dict[tuple[str | None, str], float]:
    """Return about how long each phase takes, for a progress bar, where only the proportions matter."""
    size, more = settings.rows / 400, settings.fresh_rows / 20_000
    slow = 20.0 if settings.trees == "exact" else 1.0
    phases: dict[tuple[str | None, str], float] = {(None, COMPILING): 0.5}
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


def _run_one(
    name: str, settings: Settings, trained: dict[str, list[tuple[str, Predictor]]], tell: TellProgress
) -> Outcome:
    members = DESIGNS[name].members
    experiment = make_experiment(
        name,
        settings.seed,
        training_rows=settings.training_rows,
        noise=settings.noise,
        trees=settings.trees,
        models=trained.get(members),
        tell=lambda share: tell(name, TRAINING, share),
    )
    trained[members] = experiment.models
    return run_experiment(experiment, settings, lambda phase, share: tell(name, phase, share))


def _prepare_folder(folder: Path, *, anew: bool) -> None:
    """Create the folder, fail now rather than after the work if it is not writable, and remove files of other runs."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
        for name in (*(store.path_of(folder, name).name for name in NAMES), store.RESULTS, PAGE):
            if anew:
                (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise FileError(f"cannot write to {folder}: {error.strerror or error}. Choose another --out.") from error
