"""The facts behind one row of each kind of ensemble: from the parts that decide to a case that can be explained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.buckets import EDGE
from optensemble.explanation.explanation import CALIBRATED, CORRECTED, Case, Explanation, make_explanation
from optensemble.explanation.patch_trace import Move, trace
from optensemble.multicalibration.events import PartNames
from optensemble.multicalibration.patches import PatchLog
from optensemble.multicalibration.state import Situation
from optensemble.stacking.arms import ENSEMBLE, PLAYED, absent_arms, assess_arms
from optensemble.stacking.cells import part_names
from optensemble.stacking.final_policy import FinalPolicy, PolicyPass
from optensemble.stacking.forecaster import MEAN, PATCHED, RIDGE, Forecasts
from optensemble.stacking.leaderboard import winning_reason
from optensemble.stacking.patch import situate


@dataclass(frozen=True)
class Question:
    """The row to explain, the names of coordinates and candidates, and how self-assessments are calibrated.

    ``basis`` says what values are: "calibrated" by rows held out, or "corrected" on the fitting rows.
    """

    row: int
    coordinates: list[str]
    names: list[str]
    calibrate: Callable[[Floats], Floats]
    basis: str = CALIBRATED


# Algorithms 2 and 3


def explain_replay(
    question: Question, situation: Situation, logs: Sequence[PatchLog], parts: PartNames, start: str
) -> Explanation:
    """Explain a row of a white box or a black box; the ``situation`` is that of this row before any correction.

    ``start`` is the name of what a black box begins with.
    """
    names, before = question.names, situation.predictions[:, 0].copy()
    moves = trace(situation, logs, parts)
    taken = int(situation.winner[0])
    member, begun = (0, start) if situation.given else (taken, names[taken])
    return make_explanation(
        Case(
            row=question.row,
            coordinates=question.coordinates,
            names=names,
            actions=situation.actions[:, 0],
            values=question.calibrate(situation.assessed[:, 0]),
            followed=int(situation.choice[0]),
            taken=taken,
            alike=situation.state.alike,
            sign=situation.state.sign,
            steps=[(begun, before[member]), (CORRECTED, situation.predictions[member, 0])],
            moves=[move for move in moves if move.member == member],
            binding=tuple(situation.omega.explain_binding(0, situation.actions[taken, 0])),
            basis=question.basis,
            cost=situation.state.sign * float(situation.state.cost[taken, 0]) if situation.state.cost.size else 0.0,
        )
    )


# DecisionEnsemble, in the sense of maximising until the last moment


def explain_decision(question: Question, policy: FinalPolicy, done: PolicyPass) -> Explanation:
    """Explain a row of a :class:`~optensemble.DecisionEnsemble`; the pass has solved the policies of all forecasts."""
    outputs, decisions, row, names = done.outputs, done.decisions, question.row, question.names
    chooses, sign = policy.winner == ENSEMBLE, done.outputs.sign
    arms = [*outputs.actions, *(done.played[name] for name in policy.forecasts)]
    values = (_by_choice if chooses else _by_forecast)(question, policy, done, arms)
    stages = _stages(policy, done.forecasts)
    titles = dict(zip(policy.forecasts, names[policy.members :], strict=True))
    away = np.zeros(len(outputs.actions), dtype=np.bool_) if outputs.absent is None else outputs.absent[:, row]
    names = [f"{name} (absent)" if number < len(away) and away[number] else name for number, name in enumerate(names)]
    steps = [
        *(
            pair
            for pair, absent in zip(zip(names, outputs.predictions, strict=False), away, strict=False)
            if not absent
        ),
        *((titles[stage], done.forecasts[stage]) for stage in stages),
    ]
    moves = _moves(policy, done, done.forecasts[stages[-2]], question) if stages[-1] == PATCHED else []
    return make_explanation(
        Case(
            row=row,
            coordinates=question.coordinates,
            names=names,
            actions=np.stack([arm[row] for arm in arms]),
            values=values[:, row],
            followed=int(decisions.chosen[row]),
            taken=int(decisions.chosen[row]),
            alike=EDGE * (outputs.buckets.upper - outputs.buckets.lower),
            sign=sign,
            steps=[(name, sign * predictions[row]) for name, predictions in steps],
            moves=[move._replace(delta=sign * move.delta) for move in moves],
            binding=tuple(outputs.omega.explain_binding(row, decisions.actions[row])),
            cost=float(outputs.omega.take([row]).cost(decisions.actions[[row]])[0]),
            always="" if chooses else winning_reason(policy.winner, policy.margin(outputs.models)),
        )
    )


def _by_choice(question: Question, policy: FinalPolicy, done: PolicyPass, arms: list[Floats]) -> Floats:
    """Return what is promised, and for all other candidates that less their calibrated disadvantage."""
    names, outputs, sign = [*[""] * policy.members, *policy.forecasts], done.outputs, done.outputs.sign
    weighed = [number for number, name in enumerate(names) if not name or name in PLAYED]
    expected = np.full((len(arms), outputs.count), np.nan)
    assessed = assess_arms(outputs, done.forecasts, [arms[number] for number in weighed], policy.forecaster.scale)
    values = policy.choice.values(assessed, absent_arms(outputs, len(weighed)))
    expected[weighed] = np.where(np.isfinite(values), values, np.nan)  # who is absent is not weighed
    beyond = expected - expected[done.decisions.chosen, np.arange(outputs.count)]
    return np.asarray(question.calibrate(sign * done.decisions.assessed) + sign * beyond)


def _by_forecast(question: Question, policy: FinalPolicy, done: PolicyPass, arms: list[Floats]) -> Floats:
    """Return what would be promised of every candidate, if it were followed everywhere as the winner is."""
    forecast, omega, sign = done.decisions.forecast, done.outputs.omega, done.outputs.sign
    return np.stack([question.calibrate(sign * omega.value(arm, forecast)) for arm in arms])


def _stages(policy: FinalPolicy, forecasts: Forecasts) -> list[str]:
    """Return the forecasts on the way to the one that assesses."""
    followed = policy.forecasts[policy.winner - policy.members] if policy.winner >= policy.members else ""
    return [followed] if followed in (RIDGE, MEAN) else [name for name in PLAYED if name in forecasts]


def _moves(policy: FinalPolicy, done: PolicyPass, forecast: Floats, question: Question) -> list[Move]:
    """Return the patches that moved a forecast of the row."""
    log, here = policy.forecaster.patch, slice(question.row, question.row + 1)
    if log is None:
        return []
    one = done.outputs.take(here)
    return trace(situate(one, forecast[here]), [log], part_names(one, question.names[: policy.members]))
