"""Members, rows and labels as users give them: coerced once, or refused with a clear error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from numba import njit

from optensemble._core.arrays import Floats
from optensemble._core.deferred import is_plain_frame, nw, pd
from optensemble._core.suggestions import did_you_mean, listed
from optensemble._core.validation import as_floats, describe_rows, is_finite, require_finite
from optensemble.exceptions import InputError, OptEnsembleError
from optensemble.feasible import FeasibleSet
from optensemble.members.absence import missing_rows
from optensemble.members.from_files import is_stored, stored_error
from optensemble.members.mending import DEFAULT_MENDING, Mending, Moved
from optensemble.members.number_table import NumberTable

_LARGEST_VALUE = 1e100  # squares must not overflow
_LARGEST_WEIGHT = 1e9  # rows: sums of squares of weights must not lose those of single rows
_FEWEST_ROWS = 2


def as_labels(Y: Any, n: int, d: int, M: float | None, *, gaps: bool = False) -> Floats:
    """Return the labels as an (n, d) array whose entries are at most a declared ``M`` in size; with ``gaps`` or NaN."""
    labels = as_rows(Y, "the labels Y", n, d, gaps=True)
    missing = None if gaps else missing_rows(labels)
    if missing is not None:
        named = f"{describe_rows(np.flatnonzero(missing))} of {n}"
        error = InputError(
            f"the labels Y are missing in {named}. Fill them in, or leave these rows out by missing_labels='drop'."
        )
        error.rows = named, int(missing.argmax()), int(missing.sum())
        raise error
    if M is None:
        return labels
    beyond = np.flatnonzero(np.abs(labels).max(axis=1) > M)
    if beyond.size:
        raise InputError(
            f"the labels must be at most M={M:g} in absolute value; got {np.abs(labels).max():g} "
            f"({describe_rows(beyond)}). Declare a larger M, or leave it out to have it estimated."
        )
    return labels


def as_predictions(values: Any, name: str, n: int, d: int, *, gaps: bool = False) -> Floats:
    """Return what a model predicted as an (n, d) array; with ``gaps`` it may be NaN in some rows."""
    return as_rows(values, f"the predictions of model {name!r}", n, d, gaps=gaps)


def as_actions(
    values: Any,
    name: str,
    n: int,
    feasible: FeasibleSet,
    mending: Mending = DEFAULT_MENDING,
    *,
    gaps: bool = False,
) -> tuple[Floats, Moved]:
    """Return what a policy decided as an (n, d) array of feasible actions, and the rows in which it was mended.

    With ``gaps`` it may be NaN in some rows.
    """
    actions = as_rows(values, f"the actions of policy {name!r}", n, feasible.dimension, gaps=gaps)
    missing = missing_rows(actions) if gaps else None
    if missing is None:
        return mending.mend(actions, name, feasible)
    actions[missing] = feasible.take(missing).argmax(np.zeros((int(missing.sum()), feasible.dimension)))
    mended, moved = mending.mend(actions, name, feasible)
    mended[missing] = np.nan
    return mended, moved


def as_rows(values: Any, name: str, n: int, d: int, *, gaps: bool = False) -> Floats:
    """Return numbers that ``name`` stands for in errors as an (n, d) array; with ``gaps`` they may be NaN."""
    array = as_floats(values, name, finite=not gaps)
    known = array
    if gaps and not is_finite(array):
        array = array.copy()  # what is missing is filled in later
        known = np.where(np.isnan(array), 0.0, array)
        require_finite(known, name)  # infinity is no gap
    size = _size(known)
    if size > _LARGEST_VALUE:
        raise InputError(f"{name} must be at most {_LARGEST_VALUE:g} in size; got {size:g}. Rescale the data.")
    if array.ndim == 1 and d == 1:
        array = array.reshape(-1, 1)
    if array.shape != (n, d):
        raise InputError(
            f"{name} must have shape ({n}, {d}): one row for each row of X, one column for each coordinate of the "
            f"feasible set; got shape {array.shape}."
        )
    return array


def is_plain(numbers: Floats) -> bool:
    """Return whether there is nothing to be said of numbers: none is missing, infinite or too large."""
    if numbers.flags.c_contiguous:
        return bool(_all_within(numbers.reshape(-1), _LARGEST_VALUE))
    return _size(numbers) <= _LARGEST_VALUE  # NaN is not


@njit(cache=True, nogil=True)
def _all_within(numbers: Floats, most: float) -> bool:
    """Return whether no absolute value is larger, nor NaN; without a branch, several are compared at a time."""
    found = True
    for at in range(len(numbers)):
        found &= abs(numbers[at]) <= most
    return found


def _size(numbers: Floats) -> float:
    """Return the largest absolute value; NaN if there is one among them."""
    return max(float(numbers.max(initial=0.0)), -float(numbers.min(initial=0.0)))


def row_count(X: Any, what: str = "X") -> int:
    """Return how many rows X has, whatever it is; ``what`` it is, for errors."""
    try:
        if isinstance(X, (str, bytes, Mapping)):
            raise TypeError
        if isinstance(X, NumberTable) or (type(X) is np.ndarray and X.ndim > 0) or is_plain_frame(X):
            return len(X)  # without scikit-learn, which the command line does not load
        from sklearn.utils.validation import _num_samples

        return int(_num_samples(X))
    except TypeError as error:
        advice = " Call its collect() first, or write it to Parquet and fit on optensemble.Rows."
        got = f"{type(X).__name__}.{advice if hasattr(X, 'collect') else ''}"
        raise InputError(f"{what} must have rows: an array, a pandas or polars frame; got {got}") from error


def require_rows(n: int, at_least: int = _FEWEST_ROWS) -> None:
    """Refuse to learn from, or to judge by, next to nothing."""
    if n < at_least:
        raise InputError(
            f"at least {at_least} row{'s are' if at_least > 1 else ' is'} needed; got {n}. Give more rows."
        )


def as_members(members: Any, what: str) -> list[tuple[str, Any]]:
    """Return ``members`` as a list of (name, member) pairs with distinct names."""
    pairs = list(members.items()) if isinstance(members, Mapping) else members
    pair = f"(name, {'policy' if what == 'policies' else 'model'})"
    try:
        named = [(name, member) for name, member in pairs]
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must be a list of {pair} pairs; got {members!r}.") from error
    names = [name for name, _ in named]
    if not names:
        raise InputError(f"{what} is empty. Give at least one {pair} pair.")
    for name in names:
        if not isinstance(name, str) or not name:
            raise InputError(f"the names in {what} must be non-empty strings; got {name!r}.")
        if names.count(name) > 1:
            raise InputError(
                f"the names in {what} must be distinct; {name!r} is there {names.count(name)} times. "
                "Rename all but one."
            )
    return named


def ask_member(member: Any, name: str, method: str, X: Any) -> Any:
    """Have a member answer for the rows of X, by its ``method`` or as a function; its errors will name it."""
    function = _as_function(member, name, method)
    try:
        return function(X)
    except Exception as error:
        if is_stored(member) and not isinstance(error, OptEnsembleError):
            raise stored_error(name, error) from error
        error.add_note(f"This came from the member {name!r} of the ensemble.")
        if callable(getattr(member, "fit", None)) and not hasattr(member, "get_params"):
            error.add_note("It was taken as it is. If it is not fitted yet, give cv=5 to have it fitted here.")
        raise


def _as_function(member: Any, name: str, method: str) -> Callable[[Any], Any]:
    if isinstance(member, type):
        raise InputError(f"{name!r} is the class {member.__name__}. Give an object of it.")
    found = getattr(member, method, member)
    if not callable(found):
        raise InputError(f"{name!r} must have a {method}(X) method, or be callable; got {type(member).__name__}.")
    return cast("Callable[[Any], Any]", found)


def group_columns(X: Any, groups: Any, n: int) -> list[list[Any]]:
    """Return the columns of group labels that ``groups`` (a callable, a column, or a list of columns) names in X."""
    if callable(groups):
        given = np.asarray(groups(X))
        labels = given[:, None] if given.ndim == 1 else given
        if labels.ndim != 2 or len(labels) != n:
            raise InputError(
                f"groups(X) must return one label for each of the {n} rows; got an array of shape {given.shape}."
            )
        columns = list(labels.T)
    else:
        names = groups if isinstance(groups, (list, tuple)) else [groups]
        columns = [_group_column(X, name) for name in names]
    return [_group_values(column) for column in columns]


def _group_values(column: npt.NDArray[Any]) -> list[Any]:
    """Return group labels as text or numbers, which can be saved and compared."""
    missing = np.flatnonzero(pd.isna(column))
    if missing.size:
        named = f"{describe_rows(missing)} of {len(column)}"
        error = InputError(
            f"group labels must not be missing; they are in {named}. Give these rows a label of their own, or remove "
            "them."
        )
        error.rows = named, int(missing[0]), len(missing)
        raise error
    dates = column.dtype.kind == "M"  # whose text must not depend on the unit they are stored in
    values = (column.astype("datetime64[us]") if dates else column).tolist()
    return [value if isinstance(value, (str, int, float)) else str(value) for value in values]


def _group_column(X: Any, name: Any, what: str = "groups") -> npt.NDArray[Any]:
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        if name not in frame.columns:
            hint = did_you_mean(str(name), frame.columns) or f" Its columns are {listed(frame.columns)}."
            raise InputError(f"X has no column {name!r} to take {what} from.{hint}")
        return np.asarray(frame[name].to_numpy())
    array = np.asarray(X)
    if not isinstance(name, Integral) or array.ndim != 2 or not -array.shape[1] <= int(name) < array.shape[1]:
        raise InputError(
            f"{what} must name a column of X, be the number of one, or be callable; got {name!r} for an X of shape "
            f"{array.shape}."
        )
    return array[:, int(name)]


def explained_variance(predictions: Floats, labels: Floats) -> float:
    """Return the share of the labels' variance that predictions explain, as a mean over coordinates."""
    spread = np.square(labels - labels.mean(axis=0)).sum(axis=0)
    missed = np.square(labels - predictions).sum(axis=0)
    return mean_explained(missed, spread)


def mean_explained(missed: Floats, spread: Floats) -> float:
    """Return the same from the sums of squares by coordinate; 1 if no label varies."""
    varied = spread > 0
    return float(np.mean(1 - missed[varied] / spread[varied])) if varied.any() else 1.0


def take_rows(X: Any, start: int, stop: int) -> Any:
    """Return the rows of X from ``start`` to before ``stop``, as the same kind of thing."""
    if hasattr(X, "iloc"):
        return X.iloc[start:stop]
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return frame[start:stop].to_native()
    return (X if hasattr(X, "__getitem__") else np.asarray(X))[start:stop]  # an array may be one only by __array__


def pick_rows(X: Any, rows: npt.NDArray[np.intp]) -> Any:
    """Return some rows of X by number, as the same kind of thing."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return frame[rows].to_native()
    if not hasattr(X, "__getitem__"):  # an array only by __array__
        X = np.asarray(X)
    return X[rows] if hasattr(X, "shape") else [X[row] for row in rows]


def as_weights(weights: Any, X: Any, n: int) -> Floats:
    """Return the weight of every row: given one by one, as a column of X, or by a callable of X."""
    if isinstance(weights, (str, Integral)) and not isinstance(weights, bool):
        weights = _group_column(X, weights, "weights")
    elif callable(weights):
        weights = weights(X)
    found = as_floats(weights, "sample_weight", finite=False)
    if found.shape != (n,):
        raise InputError(
            f"sample_weight must hold one weight for each of the {n} rows, or name a column of X; got an array of "
            f"shape {found.shape}."
        )
    wrong = np.flatnonzero(~((found >= 0) & (found <= _LARGEST_WEIGHT)))
    if wrong.size:
        named = f"{describe_rows(wrong)} of {n}"
        error = InputError(
            f"sample_weight must be between 0 and {_LARGEST_WEIGHT:g}; got {found[wrong[0]]:g} in {named}. A weight is "
            "the number of rows that a row counts for."
        )
        error.rows = named, int(wrong[0]), len(wrong)
        raise error
    return found.copy()


def join_rows(pieces: list[Any]) -> Any:
    """Return the rows of several pieces of one kind as one; None if they are of different kinds."""
    if all(hasattr(X, "tocsr") for X in pieces):
        from scipy.sparse import vstack

        return vstack(pieces).tocsr() if len({X.shape[1] for X in pieces}) == 1 else None
    kinds = {type(X) for X in pieces}
    if len(kinds) != 1:
        return None
    if kinds == {list}:
        return [row for X in pieces for row in X]
    if kinds == {np.ndarray}:
        return np.concatenate(pieces) if len({(X.shape[1:], X.dtype) for X in pieces}) == 1 else None
    frames = [nw.from_native(X, eager_only=True, pass_through=True) for X in pieces]
    if not isinstance(frames[0], nw.DataFrame) or len({tuple(frame.columns) for frame in frames}) != 1:
        return None
    if kinds == {pd.DataFrame}:
        return _join_frames(pieces)
    return nw.concat(frames).to_native()


def _join_frames(pieces: list[pd.DataFrame]) -> pd.DataFrame:
    """Return frames of the same columns as one; categories are those of all, where pandas would make text of them."""
    joined = pd.concat(pieces, ignore_index=True)
    if not any(isinstance(kind, pd.CategoricalDtype) for kind in pieces[0].dtypes):
        return joined
    for number, kind in enumerate(joined.dtypes):
        columns = [X.iloc[:, number] for X in pieces]
        given = {getattr(each.dtype, "categories", joined.columns[:0]).dtype for each in columns}
        alike = all(isinstance(each.dtype, pd.CategoricalDtype) for each in columns) and len(given) == 1
        if alike and not isinstance(kind, pd.CategoricalDtype):
            joined.isetitem(number, pd.api.types.union_categoricals(columns, ignore_order=True))
    return joined


def row_labels(groups: Any, X: Any, n: int) -> list[Any]:
    """Return the label of every row: given one by one, as a column of X, or by a callable of X."""
    if callable(groups) or isinstance(groups, (str, Integral)):
        columns = group_columns(X, groups, n)
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    labels = np.asarray(groups)
    if labels.shape != (n,):
        raise InputError(
            f"groups must hold one label for each of the {n} rows, or name a column of X; got an array of shape "
            f"{labels.shape}."
        )
    return _group_values(labels)


def number_labels(labels: Sequence[Any]) -> npt.NDArray[np.int64]:
    """Return a number for every label, in the order in which they first appear."""
    number = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    return np.array([number[label] for label in labels], dtype=np.int64)
