"""The loop of Algorithms 2 and 3: correct the predictions until they are unbiased on every cell.

The loop sees cells and labels, and never Ω: a ``Situation`` answers with new actions and cells when predictions have
changed. A *round* is a set of patches made on the same cells; the log of all rounds, replayed on any rows, is the
fitted model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.progress import Step, silent
from optensemble.guarantees import lemma_6
from optensemble.multicalibration.cell_tables import tabulate
from optensemble.multicalibration.corrections import correct
from optensemble.multicalibration.events import Layout
from optensemble.multicalibration.history import VIOLATION, Recorder
from optensemble.multicalibration.patches import PackedRounds, Patch, PatchLog
from optensemble.multicalibration.schedules import SCHEDULES, SOLVES, Debiasing, Rounds, find_rounds
from optensemble.multicalibration.state import Situation

Callback = Callable[[int, float], None]
"""Called with the number of a round and the violation it saw."""


@dataclass(frozen=True)
class Run:
    """The outcome of the loop: log, history, patches per member, and the drop of squared error by Lemma 1.

    ``finished`` if the schedule had no more to do; ``exact`` if its patches were not shrunk.
    """

    log: PatchLog
    history: Floats
    patches: Indices
    drop: float
    finished: bool
    interrupted: bool
    exact: bool


def debias(situation: Situation, labels: Floats, how: Debiasing, callback: Callback | None = None) -> Run:
    """Patch the situation's predictions, in place, until no cell violates α-consistency.

    Parameters
    ----------
    situation
        Predictions and what they induce on the fitting rows.
    labels
        Of shape (n, d).
    how
        The cells, the schedule and its parameters.
    callback
        Called as ``callback(round, violation)`` after every round.

    Returns
    -------
    The outcome. An interrupt (Ctrl-C) ends the loop and keeps all whole rounds; the situation itself may then hold
    half of the last one, so replay the log to go on.
    """
    recorder = Recorder(situation, labels)
    go_on = SCHEDULES[how.schedule](situation, labels, how, recorder)
    most = lemma_6(how.alpha, recorder.squared_error.tolist()) if how.max_rounds is None else how.max_rounds
    all_rounds, count = list[Rounds](), 0
    finished = interrupted = False
    try:
        while not finished and count < most:
            rounds = go_on(1 if callback is not None else most - count)
            if rounds is None:
                finished = True
                break
            all_rounds.append(rounds)
            count, finished = count + len(rounds.patches), rounds.last
            if callback is not None:
                callback(count, float(rounds.entries[-1, VIOLATION]))
    except KeyboardInterrupt:
        interrupted = True
    return Run(
        log=PatchLog(how.layout, PackedRounds.joined([rounds.patches for rounds in all_rounds])),
        history=np.concatenate([np.empty((0, recorder.columns)), *(rounds.entries for rounds in all_rounds)]),
        patches=sum((rounds.made for rounds in all_rounds), np.zeros(len(situation.predictions), dtype=np.int64)),
        drop=_total([rounds.drops for rounds in all_rounds], one_by_one=how.schedule in SOLVES),
        finished=finished,
        interrupted=interrupted,
        exact=how.shrinkage == 0,
    )


def _total(drops: Sequence[Floats], *, one_by_one: bool) -> float:
    """Add up the drops of all rounds; of a great many in pairs, which loses fewer digits."""
    whole = np.concatenate([np.zeros(1), *drops])
    return float(whole.cumsum()[-1] if one_by_one else whole[1:].sum())


def learn_logs(situation: Situation, labels: Floats, hows: Sequence[Debiasing], step: Step = silent) -> list[PatchLog]:
    """Return the logs of debiasings from the same start, which differ in shrinkage alone; the situation is used up.

    For those who want nothing but logs: there is no history, the last round is not made on these rows, tables of the
    first round are shared, and an interrupt is passed on. Every round is reported as a ``step``.
    """
    if hows[0].schedule not in SOLVES:
        return [_log_alone(debias(situation.copy(), labels, how)) for how in hows]
    most = hows[0].max_rounds
    if most is None:
        most = lemma_6(hows[0].alpha, Recorder(situation, labels).squared_error.tolist())
    logs = list[PatchLog]()
    for how, found in zip(hows, find_rounds(situation, labels, hows), strict=True):
        now, rounds = situation if how is hows[-1] else situation.copy(), list[tuple[Patch, ...]]()
        while found.patches and len(rounds) < most:
            rounds.append(tuple(found.patches))
            step()
            if len(rounds) < most:
                correct(now, how.layout, rounds[-1])
                (found,) = find_rounds(now, labels, [how])
        logs.append(PatchLog(how.layout, rounds))
    return logs


def _log_alone(run: Run) -> PatchLog:
    if run.interrupted:
        raise KeyboardInterrupt
    return run.log


class Consistency(NamedTuple):
    """The violations left: the worst among cells that count, the worst of all, and the numbers of cells.

    ``below`` cells have rows, but fewer than ``min_cell``; ``occupied`` have any.
    """

    worst: float
    worst_of_all: float
    below: int
    occupied: int


def measure_consistency(situation: Situation, labels: Floats, layout: Layout, min_cell: int = 1) -> Consistency:
    """Measure ``Pr[C]·‖E[y − h | C]‖_∞`` over all members and cells (Definition 1) afresh."""
    worst = worst_of_all = 0.0
    below = occupied = 0
    for member, predictions in enumerate(situation.predictions):
        table = tabulate(situation.cells(member, layout), labels - predictions)
        worst = max(worst, table.thick(min_cell).largest / len(labels))
        worst_of_all = max(worst_of_all, table.largest / len(labels))
        below, occupied = below + int((table.counts < min_cell).sum()), occupied + len(table.counts)
    return Consistency(worst, worst_of_all, below, occupied)
