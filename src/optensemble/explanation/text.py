"""An explanation in words: its sentences, its tables, and both as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.deferred import pd
from optensemble.multicalibration.cell_names import named

if TYPE_CHECKING:
    from optensemble.explanation.explanation import Explanation

_ROWS_SHOWN = 10  # rows of a table
_WIDE = 6  # coordinates beside each other
_MOST_BINDING = 8  # constraints


@dataclass(frozen=True)
class Comparison:
    """The candidate followed, the ``best`` of those with a different action, and its disadvantage ``margin``.

    ``weighed`` counts the candidates with a known value; ``basis`` is what values are; ``always`` is why one candidate
    is followed in every row, if so.
    """

    followed: str
    best: str | None
    margin: float
    weighed: int
    cost: bool
    basis: str
    always: str


def reason(comparison: Comparison) -> str:
    """Return in one sentence why a candidate is followed.

    >>> reason(Comparison("ours", "theirs", 0.3123, weighed=2, cost=False, basis="calibrated", always=""))
    'ours is followed: its calibrated value is 0.3123 above theirs, the next'
    """
    if comparison.always:
        return f"{comparison.followed} is followed in every row: it {comparison.always}"
    said = f"{comparison.followed} is followed: "
    if comparison.best is None:
        return said + (
            "there is no other candidate" if comparison.weighed == 1 else "all other candidates would do the same"
        )
    value = f"its {comparison.basis} {'cost' if comparison.cost else 'value'} is"
    if comparison.margin == 0:
        return f"{said}{value} no {'higher' if comparison.cost else 'lower'} than that of {comparison.best}, the next"
    apart = f"{_number(comparison.margin)} {'below' if comparison.cost else 'above'}"
    return f"{said}{value} {apart} {comparison.best}, the next"


def explanation_text(explanation: Explanation) -> str:
    """Return the sentence, the action and the tables, for a terminal."""
    lines = explanation_lines(explanation)
    for title, table in explanation_tables(explanation).items():
        lines += ["", title, *([_table_text(table)] if len(table) else [])]
    return "\n".join(lines)


def explanation_lines(explanation: Explanation) -> list[str]:
    """Return the row and the reason, the action, and what binds, a line each."""
    return [f"row {explanation.row}: {explanation.reason}", _done(explanation), *_binds(explanation)]


def _done(explanation: Explanation) -> str:
    """Return the promise with its limits, the action, and the raw self-assessment."""
    net = f", a known cost of {_number(explanation.cost)} included" if explanation.cost else ""
    basis = "before calibration out of fold" if explanation.calibrated else "not calibrated out of fold"
    raw = f"self-assessed {_number(explanation.assessed)}{net}, {basis}"
    names = _coordinates(explanation)
    does = _does(explanation.action, names, "{}" if named(names) else "action[{}]")
    return f"promised {_number(explanation.promised)}{_limits(explanation)} for {does}; {raw}"


def _limits(explanation: Explanation) -> str:
    low, high = explanation.low, explanation.high
    return f" (95 %: {_number(low)} to {_number(high)})" if np.isfinite([low, high]).all() else ""


def _binds(explanation: Explanation) -> list[str]:
    """Return the constraints that bind, the first few of them, in a line if there are any."""
    more = len(explanation.binding) - _MOST_BINDING
    others = f" and {more} more" if more > 0 else ""
    return [f"what binds: {'; '.join(explanation.binding[:_MOST_BINDING])}{others}"] if explanation.binding else []


def _coordinates(explanation: Explanation) -> list[str]:
    return [name.removeprefix("y_") for name in explanation.steps.columns[1:]]


def _does(action: Floats, coordinates: list[str], title: str = "{}") -> str:
    """Say what an action does: the largest coordinates first."""
    order = np.argsort(-np.abs(action), kind="stable")
    done = [f"{title.format(coordinates[j])} = {_number(action[j])}" for j in order if action[j] != 0]
    more = f" and {len(done) - _ROWS_SHOWN} more" if len(done) > _ROWS_SHOWN else ""
    return ", ".join(done[:_ROWS_SHOWN]) + more if done else "doing nothing"


def _number(value: float) -> str:
    return f"{value:.4g}".replace("-", "−")


def explanation_tables(explanation: Explanation) -> dict[str, pd.DataFrame]:
    """Return the head of every table under its title; of many coordinates those of the largest actions."""
    count = len(explanation.action)
    shown = np.sort(np.argsort(-np.abs(explanation.action), kind="stable")[:_WIDE])
    some = f" (of {count} coordinates the {_WIDE} largest of the action)" if count > _WIDE else ""
    same = explanation.alternatives["same"].map({True: "yes", False: "no"})
    others = explanation.alternatives.assign(same=same)
    if count > _WIDE:  # what others do instead may be anywhere
        does = [
            _does(action, _coordinates(explanation)) for action in others.iloc[:, -count:].to_numpy(dtype=np.float64)
        ]
        others = others.iloc[:, :-count].assign(does=does)
    patches = explanation.patches
    left = f", the {_ROWS_SHOWN} largest of {len(patches)}" if len(patches) > _ROWS_SHOWN else ""
    moved = f"Patches that moved the prediction{left}" if len(patches) else "No patch moved the prediction"
    return {
        "Candidates": others,
        f"How the prediction came about{some}": _narrow(explanation.steps, count, shown),
        moved: _narrow(patches.head(_ROWS_SHOWN), count, shown),
    }


def _narrow(table: pd.DataFrame, count: int, shown: Indices) -> pd.DataFrame:
    """Return a table with some of its coordinates, which are its last ``count`` columns."""
    first = table.shape[1] - count
    return table.iloc[:, [*range(first), *(first + shown)]]


def _table_text(table: pd.DataFrame) -> str:
    """Return a table with its words on the left, and its numbers on the right."""
    text = table.copy()
    for name in text.columns:
        if not pd.api.types.is_numeric_dtype(text[name]):
            width = max(len(name), *text[name].str.len())
            text[name] = text[name].str.ljust(width)
            text = text.rename(columns={name: name.ljust(width)})
    return str(text.to_string(index=False, na_rep="", float_format=_number))
