"""The explanation of one decision: the candidate followed and why, the alternatives, the patches behind it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.deferred import pd
from optensemble.exceptions import InputError
from optensemble.explanation.patch_trace import Move
from optensemble.explanation.text import Comparison, explanation_text, reason
from optensemble.multicalibration.cell_names import named

__all__ = ["Explanation"]

CALIBRATED, CORRECTED = "calibrated", "corrected"
"""What values are: calibrated by rows held out, or corrected on the fitting rows."""


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Why one row was decided as it was.

    Payoffs are in the user's units and sense: a cost is a cost. But ``margin`` and ``behind`` are positive where they
    are in favour of the candidate followed, of costs too. Columns of coordinates end in their number, or in their
    name if they were named.

    Attributes
    ----------
    row
        Which row of the batch, from 0 on.
    followed, action, promised
        The candidate followed, its action, of shape (d,), and the promised payoff.
    margin
        Its value above the next best different action; nan if there is none. Negative only where one candidate is
        followed in every row, because that earns most, although another looks better in this one.
    reason
        One sentence.
    alternatives
        A row for each candidate, the one followed first and then the best: ``name``; ``value``, the
        payoff expected of its action here, by a white box as each model assesses itself; ``behind``, by how much that
        is worse than the promise; ``same``, whether its action is the one taken; ``action_0``, ``action_1``, … A value
        is nan where it was not weighed: a ridge and the mean label decide everywhere, if they win, or nowhere.
    steps
        How the coefficients behind the decision came about: ``stage``, and ``y_0``, ``y_1``, … The last stage is the
        one that assesses every action.
    patches
        The patches that moved the prediction from the last stage but one to the last, the largest first: ``round`` (the
        first, counted from 1, of several on the same cell), ``cell`` in words, ``rows`` (how many fitting rows stand
        behind it; of several the fewest; -1 if that is not known), ``times``, and ``y_0``, ``y_1``, …, what they add in
        all.
    assessed
        The payoff of the action under the last stage, net of its known cost, before it is calibrated.
    cost
        The known cost of the action; 0 unless the feasible set is a ``WithCost``.
    binding
        The constraints that bind at the action, in words, such as "capacity = 12.5 (column 'budget')"; empty if none
        does, or if the feasible set cannot tell.
    low, high
        95 % prediction interval for the row's payoff, as in :class:`Answer`; infinite without an out-of-fold record.
    calibrated
        Whether what is promised was calibrated by such a record.

    Examples
    --------
    >>> import optensemble as oe
    >>> from optensemble import feasible
    >>> X, noise = np.random.default_rng(0).normal(size=(2, 400, 2))
    >>> vendors = [("east", lambda X: X * [1, 0]), ("west", lambda X: X * [0, 1])]
    >>> ensemble = oe.WhiteBoxEnsemble(vendors, feasible.Simplex(2)).fit(X, X + 0.1 * noise)
    >>> print(ensemble.explain(X, 3, coordinates=["bread", "milk"]))
    row 3: east is followed: its calibrated value is 0... above west, the next
    promised ... (95 %: ... to ...) for bread = 1; self-assessed ..., before calibration out of fold
    <BLANKLINE>
    Candidates
    name  value  behind same  action_bread  action_milk
    east ... yes              1            0
    west ... no               0            1
    ...
    """

    row: int
    followed: str
    action: Floats
    promised: float
    margin: float
    reason: str
    alternatives: pd.DataFrame
    steps: pd.DataFrame
    patches: pd.DataFrame
    assessed: float
    cost: float = 0.0
    binding: tuple[str, ...] = ()
    low: float = -np.inf
    high: float = np.inf
    calibrated: bool = True

    def __str__(self) -> str:
        return explanation_text(self)

    def __repr__(self) -> str:
        return f"Explanation(row={self.row}, {self.reason!r})"

    def _repr_html_(self) -> str:
        from optensemble.report.notebook import explanation_html

        return explanation_html(self)


@dataclass(frozen=True, eq=False)
class Case:
    """The facts about a row, in the user's units.

    Attributes
    ----------
    row, coordinates
        Its number, and the names of the coordinates.
    names, actions, values
        Of the candidates the names, the actions (k, d), and the expected payoffs (k,); nan if they are unknown.
    followed, taken
        The candidate that is named, and the one whose action is taken: two may take the same action.
    alike
        The difference between coordinates up to which two actions count as the same, of shape (d,).
    sign
        1 to maximise, -1 to minimise.
    steps, moves
        The stages of the prediction and their names; the patches behind the last stage.
    basis
        What values are: "calibrated" by rows held out, or "corrected" on the fitting rows.
    cost, binding
        The known cost of the action taken, and the constraints that bind at it, in words.
    always
        Why one candidate is followed in every row, if so; otherwise empty.
    """

    row: int
    coordinates: list[str]
    names: list[str]
    actions: Floats
    values: Floats
    followed: int
    taken: int
    alike: Floats
    sign: float
    steps: list[tuple[str, Floats]]
    moves: list[Move]
    basis: str = CALIBRATED
    always: str = ""
    cost: float = 0.0
    binding: tuple[str, ...] = ()


def make_explanation(case: Case) -> Explanation:
    """Return the facts about a row as tables and words."""
    action, promised = case.actions[case.taken], float(case.values[case.taken])
    behind = case.sign * (promised - case.values) + 0.0  # no -0
    if not case.always:  # the best was taken: what is left is a tie
        behind = np.maximum(behind, 0.0)
    same = (np.abs(case.actions - action) <= case.alike).all(axis=1)
    different = np.flatnonzero(~same & ~np.isnan(behind))
    best = int(different[behind[different].argmin()]) if len(different) else None
    comparison = Comparison(
        followed=case.names[case.followed],
        best=None if best is None else case.names[best],
        margin=np.nan if best is None else float(behind[best]),
        weighed=int((~np.isnan(behind)).sum()),
        cost=case.sign < 0,
        basis=case.basis,
        always=case.always,
    )
    table = pd.DataFrame({"name": case.names, "value": case.values, "behind": behind, "same": same})
    order = np.lexsort((behind, np.arange(len(same)) != case.followed))  # nan comes last
    actions = _coordinate_frame("action", case.coordinates, case.actions)
    return Explanation(
        row=case.row,
        followed=comparison.followed,
        action=action.copy(),
        promised=promised,
        margin=comparison.margin,
        reason=reason(comparison),
        alternatives=pd.concat([table, actions], axis=1).iloc[order].reset_index(drop=True),
        steps=_steps(case),
        patches=_patches(case),
        assessed=float(case.steps[-1][1] @ action) - case.sign * case.cost,
        cost=case.cost,
        binding=tuple(_with_name(each, case.coordinates) for each in case.binding),
        calibrated=case.basis == CALIBRATED,
    )


def with_promise(explanation: Explanation, promised: Floats, low: Floats, high: Floats) -> Explanation:
    """Return an explanation with the promise and the limits of its row, each of shape (1,).

    Values go with the promise where that was moved to what is possible, so that they differ by as much as before.
    """
    moved = float(promised[0]) - explanation.promised
    others = explanation.alternatives
    if moved:
        others = others.assign(value=others["value"] + moved)
    return replace(
        explanation, promised=float(promised[0]), low=float(low[0]), high=float(high[0]), alternatives=others
    )


def _coordinate_frame(what: str, coordinates: list[str], values: Floats) -> pd.DataFrame:
    return pd.DataFrame(values + 0.0, columns=[f"{what}_{name}" for name in coordinates])


def _with_name(constraint: str, coordinates: list[str]) -> str:
    """Return a bound with the name of its coordinate in place of the number."""
    return re.sub(r"^(lower|upper)\[(\d+)\]", lambda found: f"{found[1]}[{coordinates[int(found[2])]}]", constraint)


def _steps(case: Case) -> pd.DataFrame:
    stages = pd.DataFrame({"stage": [name for name, _ in case.steps]})
    values = np.stack([values for _, values in case.steps])
    return pd.concat([stages, _coordinate_frame("y", case.coordinates, values)], axis=1)


def _patches(case: Case) -> pd.DataFrame:
    """Add up the patches on the same cell, and put the largest first."""
    cells: dict[tuple[int, int], list[Move]] = {}
    for move in case.moves:
        if move.delta.any():
            cells.setdefault(move.cell, []).append(move)
    found, names = list(cells.values()), named(case.coordinates)
    table = pd.DataFrame(
        {
            "round": np.array([moves[0].round for moves in found], dtype=np.int64),
            "cell": [moves[0].name.text(names) for moves in found],
            "rows": np.array([min(move.rows for move in moves) for moves in found], dtype=np.int64),
            "times": np.array([len(moves) for moves in found], dtype=np.int64),
        }
    )
    sums = [np.sum([move.delta for move in moves], axis=0) for moves in found]
    added = np.array(sums).reshape(len(found), len(case.coordinates))
    order = np.argsort(-np.square(added).sum(axis=1), kind="stable")
    whole = pd.concat([table, _coordinate_frame("y", case.coordinates, added)], axis=1)
    return whole.iloc[order].reset_index(drop=True)


def as_row(row: Any, n: int) -> int:
    """Return the number of a row of a batch, or say what is wrong with it."""
    if n == 0:
        raise InputError("X has no rows, and so none to explain. Give at least one.")
    if isinstance(row, bool) or not isinstance(row, Integral) or not 0 <= int(row) < n:
        raise InputError(f"row must be a whole number from 0 to {n - 1}, as X has {n:,} rows; got {row!r}.")
    return int(row)


def as_coordinates(names: Any, d: int) -> list[str]:
    """Return distinct names of the coordinates; their numbers if none are given."""
    if names is None:
        return [str(j) for j in range(d)]
    found = [str(name) for name in names] if isinstance(names, Iterable) and not isinstance(names, str) else []
    if len(set(found)) != d or len(found) != d:
        raise InputError(
            f"coordinates must be {d} distinct names, one for each coordinate of an action; got {names!r}. "
            "Leave them out to have numbers."
        )
    return found
