"""Answers as tables: of the kind that X is, with its index and the names of the labels; and in a few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.deferred import is_pandas_frame, pd
from optensemble._core.number_format import format_significant
from optensemble._core.suggestions import did_you_mean
from optensemble.exceptions import InputError
from optensemble.members.frames import index_of

if TYPE_CHECKING:
    from optensemble.ensembles.base import Answer

NUMPY, PANDAS, POLARS, PYARROW = "numpy", "pandas", "polars", "pyarrow"
DEFAULT = "default"

OUTPUTS = (DEFAULT, NUMPY, PANDAS, POLARS)
"""What :meth:`Policy.set_output` takes."""

_MOST_NAMED = 4  # in a short text


def kind_of(X: Any) -> str:
    """Return which kind of table X is; "numpy" for everything that is no frame."""
    if is_pandas_frame(X):
        return PANDAS
    for kind, name in ((POLARS, "DataFrame"), (PYARROW, "Table")):
        if any(each.__name__ == name and each.__module__.partition(".")[0] == kind for each in type(X).__mro__):
            return kind
    return NUMPY


def require_output(transform: Any) -> None:
    """Raise ``InputError`` unless ``set_output`` can be told this."""
    if transform not in OUTPUTS:
        hint = did_you_mean(str(transform), OUTPUTS)
        known = ", ".join(repr(each) for each in OUTPUTS)
        raise InputError(f"transform must be None or one of {known}; got {transform!r}.{hint}")


def action_names(labels: Sequence[str] | None, d: int) -> list[str]:
    """Return the names of actions' columns: those of the labels, or numbers."""
    return [f"action_{j}" for j in range(d)] if labels is None else list(labels)


def as_table(columns: Mapping[str, Any], kind: str, index: pd.Index | None) -> Any:
    """Return columns as a frame of some kind; pandas has an index."""
    if kind == POLARS:
        import polars

        return polars.DataFrame({name: _plain(values) for name, values in columns.items()})
    if kind == PYARROW:
        import pyarrow

        return pyarrow.table({name: _plain(values) for name, values in columns.items()})
    return pd.DataFrame(dict(columns), index=index, copy=True)


def _plain(values: Any) -> Any:
    return values.tolist() if values.dtype == object else np.ascontiguousarray(values)


def output_of(actions: Floats, X: Any, labels: Sequence[str] | None, wanted: str) -> Any:
    """Return actions as an array, or as a frame: of the kind that is wanted, or else that X is."""
    kind = kind_of(X) if wanted == DEFAULT else wanted
    if kind == NUMPY:
        return actions
    names = action_names(labels, actions.shape[1])
    if kind == PANDAS:
        return pd.DataFrame(actions, index=index_of(X), columns=names, copy=True)
    return as_table({name: actions[:, j] for j, name in enumerate(names)}, kind, None)


def answer_frame(answer: Answer) -> Any:
    """Return an answer as a table, with a row for each row of X."""
    names = answer.labels or [str(j) for j in range(answer.actions.shape[1])]
    columns: dict[str, Any] = {f"action_{name}": answer.actions[:, j] for j, name in enumerate(names)}
    columns |= {"followed": answer.followed, "promised": answer.promised, "low": answer.low, "high": answer.high}
    return as_table(columns, answer.frame, answer.index)


def answer_text(answer: Answer) -> list[str]:
    """Return an answer in a few words: rows, mean promise, and which candidates are followed how often."""
    rows, d = answer.actions.shape
    size = f"{rows:,} row{'' if rows == 1 else 's'}, {d} coordinate{'' if d == 1 else 's'}"
    if not rows:
        return [size]
    mean = format_significant(float(answer.promised.mean()))
    counts = np.bincount(answer.chosen)
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    who = [f"{_candidate(answer, each)} in {counts[each]:,}" for each in order[:_MOST_NAMED].tolist()]
    more = f" and {len(order) - _MOST_NAMED} more" if len(order) > _MOST_NAMED else ""
    return [size, f"promised {mean} on average", f"follows {', '.join(who)}{more}"]


def _candidate(answer: Answer, number: int) -> str:
    return answer.candidates[number] if answer.candidates else f"candidate {number}"
