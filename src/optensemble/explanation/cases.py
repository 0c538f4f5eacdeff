"""What is known of a row, of each kind of ensemble: from the parts that decide to a case that can be explained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.buckets import EDGE, Buckets
from optensemble._core.exact_sums import row_dots
from optensemble.explanation.explanation import Case, Explanation, explain
from optensemble.explanation.patch_trace import Move, PartNames, level_names, trace
from optensemble.members.outputs import View
from optensemble.members.subgroups import Titles
from optensemble.multicalibration.loop import PatchLog
from optensemble.multicalibration.state import Situation, Solver
from optensemble.stacking.final_policy import PLAYED, Decided, Decider, assess, play
from optensemble.stacking.forecaster import MEAN, PATCHED, RIDGE, Forecasts
from optensemble.stacking.leaderboard import ENSEMBLE
from optensemble.stacking.patch import situate

Believe = Callable[[Floats], Floats]
"""Turns self-assessments into calibrated ones."""

CORRECTED = "corrected"
"""The last stage of Algorithms 2 and 3."""


# Algorithms 2 and 3


def explain_replay(
    situation: Situation,
    logs: Sequence[PatchLog],
    buckets: Buckets,
    names: list[str],
    groups: Titles,
    *,
    row: int,
    coordinates: list[str],
    start: str,
    believe: Believe,
    believed: str,
) -> Explanation:
    """Explain a row of a white box or a black box; the ``situation`` is that of this row before any correction.

    ``start`` is what a black box begins with, and ``believe`` turns self-assessments into what is promised.
    """
    name_parts = _black_box_parts if situation.given else _white_box_parts
    before = situation.predictions[:, 0].copy()
    moves = trace(situation, logs, name_parts(buckets, names, groups, coordinates))
    taken = int(situation.winner[0])
    member, begun = (0, start) if situation.given else (taken, names[taken])
    return explain(
        Case(
            row=row,
            coordinates=coordinates,
            names=names,
            actions=situation.actions[:, 0],
            values=believe(situation.assessed[:, 0]),
            followed=int(situation.choice[0]),
            taken=taken,
            alike=situation.state.alike,
            sign=situation.state.sign,
            steps=[(begun, before[member]), (CORRECTED, situation.predictions[member, 0])],
            moves=[move for move in moves if move.member == member],
            believed=believed,
        )
    )


def _white_box_parts(buckets: Buckets, names: list[str], groups: Titles, coordinates: list[str]) -> PartNames:
    own = level_names(buckets, [f"action[{j}]" for j in coordinates])
    return [*own, [f"{name} followed" for name in names], *groups]


def _black_box_parts(buckets: Buckets, names: list[str], groups: Titles, coordinates: list[str]) -> PartNames:
    parts: list[Sequence[str]] = [*level_names(buckets, [f"own action[{j}]" for j in coordinates]), [], *groups]
    for policy in names[:-1]:
        parts += level_names(buckets, [f"action[{j}] of {policy}" for j in coordinates])
    return parts


# DecisionEnsemble, in the sense of maximising until the last moment


def explain_decision(
    decider: Decider,
    view: View,
    omega: Solver,
    buckets: Buckets,
    names: list[str],
    believe: Believe,
    sign: float,
    *,
    row: int,
    coordinates: list[str],
    always: str,
) -> Explanation:
    """Explain a row of a :class:`~optensemble.DecisionEnsemble`; ``always`` is why the league's winner has won."""
    forecasts = decider.forecaster(view, omega, buckets)
    played = play(view, forecasts, omega)
    decided, chooses = decider.decide(view, forecasts, played), decider.winner == ENSEMBLE
    arms = [*view.actions, *(played[name] for name in decider.forecasts)]
    values = (_by_choice if chooses else _by_forecast)(decider, view, forecasts, arms, decided, believe, sign)
    stages = _stages(decider, forecasts)
    titles = dict(zip(decider.forecasts, names[decider.members :], strict=True))
    steps = [*zip(names, view.predictions, strict=False), *((titles[stage], forecasts[stage]) for stage in stages)]
    moves = []
    if stages[-1] == PATCHED:
        parts = _decision_parts(view, buckets, names, coordinates)
        moves = _moves(decider, view, omega, buckets, forecasts[stages[-2]], parts, row)
    return explain(
        Case(
            row=row,
            coordinates=coordinates,
            names=names,
            actions=np.stack([arm[row] for arm in arms]),
            values=values[:, row],
            followed=int(decided.chosen[row]),
            taken=int(decided.chosen[row]),
            alike=EDGE * (buckets.upper - buckets.lower),
            sign=sign,
            steps=[(name, sign * predictions[row]) for name, predictions in steps],
            moves=[move._replace(delta=sign * move.delta) for move in moves],
            always="" if chooses else always,
        )
    )


def _by_choice(
    decider: Decider,
    view: View,
    forecasts: Forecasts,
    arms: list[Floats],
    decided: Decided,
    believe: Believe,
    sign: float,
) -> Floats:
    """Return what is promised, and for all other arms as much less as the choice among them takes them for."""
    names = [*[""] * decider.members, *decider.forecasts]
    weighed = [number for number, name in enumerate(names) if not name or name in PLAYED]
    expected = np.full((len(arms), view.count), np.nan)
    expected[weighed] = decider.choice.values(assess(view, forecasts, [arms[number] for number in weighed]))
    beyond = expected - expected[decided.chosen, np.arange(view.count)]
    return np.asarray(believe(sign * decided.assessed) + sign * beyond)


def _by_forecast(
    decider: Decider,
    view: View,
    forecasts: Forecasts,
    arms: list[Floats],
    decided: Decided,
    believe: Believe,
    sign: float,
) -> Floats:
    """Return what would be promised of every arm, if it were followed everywhere as the league's winner is."""
    forecast = np.ascontiguousarray(decided.forecast)
    return np.stack([believe(sign * row_dots(np.ascontiguousarray(arm), forecast)) for arm in arms])


def _stages(decider: Decider, forecasts: Forecasts) -> list[str]:
    """Return the forecasts on the way to the one that assesses."""
    followed = decider.forecasts[decider.winner - decider.members] if decider.winner >= decider.members else ""
    return [followed] if followed in (RIDGE, MEAN) else [name for name in PLAYED if name in forecasts]


def _moves(
    decider: Decider, view: View, omega: Solver, buckets: Buckets, forecast: Floats, names: PartNames, row: int
) -> list[Move]:
    """Return the patches that moved a forecast of the row."""
    log, here = decider.forecaster.patch, slice(row, row + 1)
    one = replace(
        view,
        predictions=view.predictions[:, here],
        actions=view.actions[:, here],
        subgroups=None if view.subgroups is None else view.subgroups[:, here],
    )
    return [] if log is None else trace(situate(one, forecast[here], omega, buckets), [log], names)


def _decision_parts(view: View, buckets: Buckets, names: list[str], coordinates: list[str]) -> PartNames:
    parts: list[Sequence[str]] = [*level_names(buckets, [f"own action[{j}]" for j in coordinates]), []]
    if view.models > 1:
        parts.append([f"{name} promises most" for name in names[: view.models]])
    parts += view.titles
    for member in names[: len(view.actions)]:
        parts += level_names(buckets, [f"action[{j}] of {member}" for j in coordinates])
    return parts
