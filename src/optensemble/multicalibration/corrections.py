"""The one path of correction: patches made on cells as they are, for fitting and for any rows later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

import numpy as np

from optensemble._core.arrays import Rows
from optensemble.multicalibration.compiled_rounds import Runner, replay_rounds, shift
from optensemble.multicalibration.events import Layout
from optensemble.multicalibration.patches import Patch, PatchLog
from optensemble.multicalibration.state import Situation


def replay(situation: Situation, log: PatchLog, start: int = 0, stop: int | None = None) -> None:
    """Make the corrections of a log on the rows of a situation, in place: all of them, or those of some rounds."""
    patched = filter(None, log.rounds[start:stop])
    for alone, rounds in groupby(patched, key=lambda patches: len(patches) == 1):
        if alone:
            _replay_many(situation, log.layout, [patches[0] for patches in rounds])
        else:
            for patches in rounds:
                correct(situation, log.layout, patches)


def walk(situation: Situation, logs: Sequence[PatchLog], rounds: Sequence[int]) -> Iterator[Situation]:
    """Make the corrections of logs one after the other, and show the situation after each number of ``rounds``."""
    for done, after in pairwise([0, *rounds]):
        begun = 0
        for log in logs:
            replay(situation, log, max(done - begun, 0), max(after - begun, 0))
            begun += len(log.rounds)
        yield situation


def _replay_many(situation: Situation, layout: Layout, patches: list[Patch]) -> None:
    """Make rounds of one patch each, as many at once as can be."""
    run, moved = Runner(replay_rounds, situation.omega.bound_kernel), np.empty(len(situation.winner), dtype=np.int64)
    members = np.array([patch.member for patch in patches])
    log = (
        *(members, np.array([len(patch.cells) for patch in patches])),
        *(np.concatenate([patch.cells for patch in patches]), np.concatenate([patch.delta for patch in patches])),
    )
    done = 0
    while done < len(patches):
        done, situation.solves, _, left = run(situation.state, layout.plan, moved, *log, done, situation.solves)
        if left:
            situation.resolve(int(members[done - 1]), moved[:left])


def correct(situation: Situation, layout: Layout, patches: tuple[Patch, ...]) -> list[tuple[int, Rows]]:
    """Make the patches of one round, all on the cells as they are now, and solve again the rows that moved."""
    moved = [(patch.member, _shift(situation, layout, patch)) for patch in patches]
    for member, rows in moved:
        situation.resolve(member, rows)
    return moved


def _shift(situation: Situation, layout: Layout, patch: Patch) -> Rows:
    moved = np.empty(len(situation.winner), dtype=np.int64)
    count = shift(situation.state, layout.plan, patch.member, patch.cells, patch.delta, moved)
    return slice(None) if count == len(moved) else moved[:count].copy()
