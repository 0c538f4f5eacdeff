"""All points of the learning curves: stage by stage, from few rows to many, as far as time allows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from optensemble.experiments.learning_curve.measure import Labelled, TellShare, Trial
from optensemble.experiments.learning_curve.points import JOINT, STACKING, STAGES, CurvePoint, LearningCurve
from optensemble.experiments.learning_curve.store import load_curve, save_curve
from optensemble.experiments.settings import DESIGNS, CurveSettings, Settings
from optensemble.experiments.setup import Experiment

TellCurve = Callable[[str, str, float], None]
"""Takes an experiment, a phase of its work, and the share of it that is done."""


def phase_of(stage: str, size: int) -> str:
    """Return the name of a piece of work, for a progress bar.

    >>> phase_of("joint", 2000)
    'joint 2,000'
    """
    return f"{stage} {size:,}"


def trace_curves(
    folder: Path,
    names: Sequence[str],
    settings: Settings,
    how: CurveSettings,
    make: Callable[[str], Experiment],
    *,
    deadline: float,
    tell: TellCurve,
) -> list[LearningCurve]:
    """Fit and evaluate all policies with ever more rows, and return the curves of all experiments.

    What is on disk is not run again, and what is finished is saved at once. A stage goes on to more rows only if it
    can be expected to be done with all experiments before the ``deadline``, a reading of ``time.perf_counter``; with
    the fewest rows it is always run.
    """
    curves = {name: load_curve(folder, name, settings, how) or LearningCurve(name) for name in names}
    sweep = _Sweep(settings, how, make)
    for stage in STAGES:
        in_time = True
        for size in how.sizes:
            missing = [name for name in names if not curves[name].at(stage, size)]
            expected = sum(expected_seconds(curves[name], stage, size) for name in missing)
            in_time = in_time and (not expected or time.perf_counter() + expected < deadline)
            for name in missing if in_time else ():
                points = sweep.points(name, stage, size, partial(tell, name, phase_of(stage, size)))
                curves[name] = curves[name].plus(points)
                save_curve(folder, curves[name], settings, how)
            for name in names:
                tell(name, phase_of(stage, size), 1.0)  # done now, done before, or left out
    return [curve.only(how.sizes) for curve in curves.values()]


def expected_seconds(curve: LearningCurve, stage: str, size: int) -> float:
    """Return about how long a stage takes with so many rows, given fewer: fits grow with the rows; 0 if unknown."""
    fewer = [rows for rows in curve.sizes if rows < size and curve.at(stage, rows)]
    if not fewer:
        return 0.0
    points = curve.at(stage, fewer[-1])
    return sum(point.fit_seconds * size / fewer[-1] + point.evaluation_seconds for point in points)


def left_out(curves: Sequence[LearningCurve], sizes: Sequence[int]) -> dict[str, list[int]]:
    """Return by stage the numbers of rows for which some experiment was not run."""
    missing = {
        stage: [size for size in sizes if not all(curve.at(stage, size) for curve in curves)] for stage in STAGES
    }
    return {stage: found for stage, found in missing.items() if found}


class _Sweep:
    """The points of any experiment; experiments that share their members share what these say of the rows."""

    def __init__(self, settings: Settings, how: CurveSettings, make: Callable[[str], Experiment]) -> None:
        self._settings, self._how, self._make = settings, how, make
        self._asked: dict[tuple[str, int, int], Labelled] = {}

    def points(self, name: str, stage: str, size: int, tell: TellShare) -> list[CurvePoint]:
        """Fit and evaluate the policies of one stage."""
        settings, experiment = self._settings, self._make(name)
        rows = self._rows(experiment, size, settings.seed + 1)
        trial = Trial(experiment, rows, self._rows(experiment, settings.fresh_rows, settings.seed + 2))
        if stage == STACKING:
            return trial.stacking(tell)
        rounds = self._how.joint_rounds if stage == JOINT else settings.rounds_of(name)
        return trial.debiased(stage, rounds, settings, tell)

    def _rows(self, experiment: Experiment, size: int, seed: int) -> Labelled:
        key = DESIGNS[experiment.name].members, size, seed
        if key not in self._asked:
            self._asked[key] = Labelled.draw(experiment, size, seed)
        return self._asked[key]
