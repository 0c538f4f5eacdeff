"""The paper's experiments, end to end: run what is not yet on disk, then draw and write the page."""

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
from optensemble.experiments.page import make_page
from optensemble.experiments.run import (
    DEBIASING,
    JUDGING,
    LOOKING_AHEAD,
    LOOKING_BACK,
    compile_kernels,
    run_experiment,
)
from optensemble.experiments.settings import DESIGNS, NAMES, Settings
from optensemble.experiments.setup import Model, make_experiment

COMPILING, TRAINING, DRAWING = "compiling kernels", "training members", "drawing figures"
DONE, ON_DISK = "done", "was on disk"
PAGE = "report.html"

Tell = Callable[[str | None, str, float], None]
"""Takes an experiment (or None), a phase of its work, and what share of that is done."""


@dataclass(frozen=True)
class Reproduction:
    """A finished run: its outcomes, what ``results.json`` holds, and where the page is."""

    outcomes: list[Outcome]
    document: dict[str, Any]
    page: Path


def reproduce(
    folder: Path,
    settings: Settings,
    names: Sequence[str] = NAMES,
    *,
    resume: bool = False,
    tell: Tell = lambda name, phase, share: None,
) -> Reproduction:
    """Run experiments and leave their numbers, figures and page in a folder.

    Every experiment is on disk as soon as it is finished: an interrupt loses only the one in hand.

    Parameters
    ----------
    folder
        Made if it is not there.
    settings
        See :class:`Settings`.
    names
        Which experiments.
    resume
        Take experiments that are finished in the folder from there; they must have been run with the same settings
        and versions. Otherwise what an earlier run left in the folder is replaced.
    tell
        Called as the work goes on.
    """
    begun = time.perf_counter()
    settings.check()
    check_names(names)
    _prepare(folder, anew=not resume)
    finished = {name: store.load(folder, name, settings) for name in names}
    for name in names:
        if finished[name] is not None:
            tell(name, ON_DISK, 1)
    seconds: dict[str, float] = {}
    if None in finished.values():
        tell(None, COMPILING, 0)
        seconds["compiling"] = compile_kernels(settings)
        tell(None, COMPILING, 1)
    trained: dict[str, list[tuple[str, Model]]] = {}
    outcomes = []
    for name in names:
        outcome = finished[name]
        if outcome is None:
            outcome = _run(name, settings, trained, tell)
            store.save(folder, outcome, settings)
            tell(name, DONE, 1)
        outcomes.append(outcome)
    for share, file, content in draw_files(outcomes):
        replace(folder / file, content)
        tell(None, DRAWING, 0.6 * share)  # the page draws every panel again
    document = store.summary(outcomes, settings, seconds)
    replace(folder / PAGE, make_page(outcomes, settings, document).encode())
    document["seconds"]["everything"] = time.perf_counter() - begun
    store.save_summary(folder, document)
    tell(None, DRAWING, 1)
    return Reproduction(outcomes, document, folder / PAGE)


def find_finished(folder: Path, names: Sequence[str]) -> list[str]:
    """Return which experiments are on disk."""
    return [name for name in names if store.path_of(folder, name).exists()]


def check_names(names: Sequence[str]) -> None:
    """Refuse experiments that there are not, or that are asked for twice."""
    for name in names:
        require_choice(name, "an experiment", list(NAMES))
    if not names or len(set(names)) < len(names):
        raise InputError(
            f"experiments must be some of {', '.join(NAMES)}, each once; got {', '.join(names) or 'none'}."
        )


def expected_seconds(settings: Settings, names: Sequence[str]) -> dict[tuple[str | None, str], float]:
    """Return roughly how long each phase takes, for a progress bar: what counts are the proportions."""
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
        phases[name, LOOKING_BACK] = 0.4 * max(size / 10, 1)
        phases[name, LOOKING_AHEAD] = 4.5 * rounds * max(more, 0.1)
        phases[name, JUDGING] = 0.6 * max(more, 0.1)
    phases[None, DRAWING] = 7.0
    return phases


def _run(name: str, settings: Settings, trained: dict[str, list[tuple[str, Model]]], tell: Tell) -> Outcome:
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


def _prepare(folder: Path, *, anew: bool) -> None:
    """Make the folder, see now rather than later whether it can be written to, and take away what is not this run's."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
        for name in (*(store.path_of(folder, name).name for name in NAMES), store.RESULTS, PAGE):
            if anew:
                (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise FileError(f"cannot write to {folder}: {error.strerror or error}. Choose another --out.") from error
