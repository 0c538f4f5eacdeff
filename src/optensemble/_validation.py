"""The only place where user arrays are coerced, or refused with a clear error."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, cast

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.utils.validation import _num_samples

from optensemble._types import Floats
from optensemble.exceptions import InfeasibleActionError, InputError

if TYPE_CHECKING:
    from optensemble.feasible import FeasibleSet


_POLICY_SLACK = 1e-6  # a planner's log may be rounded
_LARGEST = 1e100  # squares must not overflow
_FEWEST_ROWS = 2
_MOST_BUCKETS = 10_000
_RESOLUTION = 1024 * np.finfo(np.float64).eps


def as_floats(value: Any, name: str, *, ndim: int | None = None, finite: bool = True) -> Floats:
    """Return ``value`` as a finite C-contiguous float64 array, or say what is wrong with it.

    Whoever says ``finite=False`` looks for NaN and infinity later.
    """
    try:
        given = np.asarray(np.ma.filled(value.astype(np.float64), np.nan) if np.ma.isMaskedArray(value) else value)
        if given.dtype.kind not in "biufO" or value is None:
            raise TypeError("not numbers")
        array = np.ascontiguousarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} must be numeric; got {type(value).__name__} ({error}). Give an array of numbers."
        ) from error
    array = array.reshape(given.shape)  # a single number stays one
    if ndim is not None and array.ndim != ndim:
        raise InputError(f"{name} must have {ndim} dimension(s); got an array of shape {array.shape}.")
    if finite:
        require_finite(array, name)
    return array


def is_finite(array: Floats) -> bool:
    """Say whether all numbers are finite. NaN and infinity show in the sum, at a fraction of the time."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(array.sum()) or np.isfinite(array).all())


def require_finite(array: Floats, name: str) -> None:
    """Refuse NaN and infinity, naming the rows that hold them."""
    if is_finite(array):
        return
    finite = np.isfinite(array)
    if array.ndim == 0:
        raise InputError(f"{name} must be finite; got {array}.")
    rows = np.unique(np.nonzero(~finite)[0])
    if array.ndim == 1:
        raise InputError(
            f"{name} must be finite; got {array[rows[0]]} as entry {rows[0]} of {len(array)}. Give a number there."
        )
    raise InputError(
        f"{name} must be finite; got NaN or infinity in {describe_rows(rows)} of {len(array)}. "
        "Remove these rows or fill in the missing values."
    )


def describe_rows(rows: npt.NDArray[np.intp], most: int = 5) -> str:
    """Name the first few rows, and count the rest.

    >>> describe_rows(np.array([3]))
    'row 3'
    >>> describe_rows(np.arange(8))
    'rows 0, 1, 2, 3, 4 and 3 more'
    """
    named = ", ".join(str(row) for row in rows[:most])
    more = f" and {len(rows) - most} more" if len(rows) > most else ""
    return f"row{'s' if len(rows) > 1 else ''} {named}{more}"


def as_labels(Y: Any, n: int, d: int, M: float | None) -> Floats:
    """Return the labels as an (n, d) array whose entries are at most a declared ``M`` in size."""
    labels = _as_rows(Y, "the labels Y", n, d)
    if M is None:
        return labels
    beyond = np.flatnonzero(np.abs(labels).max(axis=1) > M)
    if beyond.size:
        raise InputError(
            f"the labels must be at most M={M:g} in absolute value; got {np.abs(labels).max():g} "
            f"({describe_rows(beyond)}). Declare a larger M, or leave it out to have it estimated."
        )
    return labels


def as_predictions(values: Any, name: str, n: int, d: int) -> Floats:
    """Return what a model predicted as an (n, d) array."""
    return _as_rows(values, f"the predictions of model {name!r}", n, d)


def as_actions(values: Any, name: str, n: int, feasible: FeasibleSet) -> Floats:
    """Return what a policy decided as an (n, d) array of feasible actions."""
    actions = _as_rows(values, f"the actions of policy {name!r}", n, feasible.dimension)
    outside = feasible.violation(actions)
    rows = np.flatnonzero(~(outside <= _POLICY_SLACK * feasible.extent))
    if rows.size:
        raise InfeasibleActionError(
            f"policy {name!r} returned actions outside the feasible set in {describe_rows(rows)} of {n}, by up to "
            f"{outside.max():.3g}. Check that it decides for the set {feasible!r}, or project its actions onto it; if "
            "it is a model, give its policy: lambda X: omega.argmax(model.predict(X)), with a minus for costs."
        )
    return actions


def _as_rows(values: Any, name: str, n: int, d: int) -> Floats:
    array = as_floats(values, name)
    if array.size and np.abs(array).max() > _LARGEST:
        raise InputError(f"{name} must be at most {_LARGEST:g} in size; got {np.abs(array).max():g}. Rescale the data.")
    if array.ndim == 1 and d == 1:
        array = array.reshape(-1, 1)
    if array.shape != (n, d):
        raise InputError(
            f"{name} must have shape ({n}, {d}): one row for each row of X, one column for each coordinate of the "
            f"feasible set; got shape {array.shape}."
        )
    return array


def row_count(X: Any) -> int:
    """Return how many rows X has, whatever it is."""
    try:
        if isinstance(X, (str, bytes, Mapping)):
            raise TypeError
        return int(_num_samples(X))
    except TypeError as error:
        raise InputError(f"X must have rows: an array, a pandas or polars frame; got {type(X).__name__}.") from error


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


def ask(member: Any, name: str, method: str, X: Any) -> Any:
    """Have a member answer for the rows of X, by its ``method`` or as a function; its errors will name it."""
    function = _as_function(member, name, method)
    try:
        return function(X)
    except Exception as error:
        error.add_note(f"This came from the member {name!r} of the ensemble.")
        raise


def _as_function(member: Any, name: str, method: str) -> Callable[[Any], Any]:
    if isinstance(member, type):
        raise InputError(f"{name!r} is the class {member.__name__}. Give an object of it, fitted.")
    found = getattr(member, method, member)
    if not callable(found):
        raise InputError(f"{name!r} must have a {method}(X) method, or be callable; got {type(member).__name__}.")
    return cast("Callable[[Any], Any]", found)


def require_resolution(alpha: float, labels: Floats, predictions: Floats) -> None:
    """Refuse an alpha that rounding would hide."""
    largest = max(float(np.abs(labels).max()), float(np.abs(predictions).max()))
    least = _RESOLUTION * largest
    if alpha < least:
        raise InputError(
            f"alpha={alpha:g} is below what float64 can tell apart in labels and predictions of size {largest:g}. "
            f"Take alpha of at least {least:.1g}, or rescale the data."
        )


def bucket_count(width: float) -> int:
    """Return how many buckets of this width make up [0, 1].

    >>> bucket_count(0.1)
    10
    """
    if not (isinstance(width, Real) and not isinstance(width, bool) and 0 < width <= 1):
        raise InputError(
            f"bucket_width must lie in (0, 1]; got {width!r}. It is a share of each coordinate's range: "
            "0.1 makes 10 buckets."
        )
    count = max(1, round(1 / width))
    if abs(count * width - 1) > 1e-9 or count > _MOST_BUCKETS:
        near = min(count, _MOST_BUCKETS)
        raise InputError(
            f"bucket_width must divide 1 into at most {_MOST_BUCKETS} buckets; got {width!r}. "
            f"Take 1/{near} for {near} bucket{'s' if near > 1 else ''}."
        )
    return count


def require_choice(value: Any, name: str, choices: Sequence[Any]) -> None:
    """Refuse a value that is not one of the choices, and name the closest."""
    if any(value is choice or (isinstance(value, str) and value == choice) for choice in choices):
        return
    begun = [choice for choice in choices if isinstance(choice, str) and str(value).startswith(choice)]
    close = begun or get_close_matches(str(value), [str(choice) for choice in choices], n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    listed = ", ".join(repr(choice) for choice in choices)
    raise InputError(f"{name} must be {'one of ' if len(choices) > 1 else ''}{listed}; got {value!r}.{hint}")


def require_number(
    value: Any, name: str, *, above: float | None = None, at_least: float | None = None, whole: bool = False
) -> None:
    """Refuse what is not a finite number, or a whole one, in the range."""
    right = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
    number = float(value) if right else np.nan
    inside = (above is None or number > above) and (at_least is None or number >= at_least)
    if not (np.isfinite(number) and inside):
        limit = f"greater than {above:g}" if above is not None else f"at least {at_least:g}"
        raise InputError(f"{name} must be a {'whole' if whole else 'finite'} number {limit}; got {value!r}.")


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
        columns = [_column(X, name) for name in names]
    return [_group_values(column) for column in columns]


def _group_values(column: npt.NDArray[Any]) -> list[Any]:
    """Return group labels as text or numbers, which can be saved and compared."""
    missing = np.flatnonzero(pd.isna(column))
    if missing.size:
        raise InputError(
            f"group labels must not be missing; they are in {describe_rows(missing)} of {len(column)}. "
            "Give these rows a label of their own, or remove them."
        )
    dates = column.dtype.kind == "M"  # whose text must not depend on the unit they are stored in
    values = (column.astype("datetime64[us]") if dates else column).tolist()
    return [value if isinstance(value, (str, int, float)) else str(value) for value in values]


def _column(X: Any, name: Any) -> npt.NDArray[Any]:
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        if name not in frame.columns:
            close = get_close_matches(str(name), [str(column) for column in frame.columns], n=1)
            known = ", ".join(repr(column) for column in frame.columns)
            hint = f"Did you mean {close[0]!r}?" if close else f"Its columns are {known}."
            raise InputError(f"X has no column {name!r} to take groups from. {hint}")
        return np.asarray(frame[name].to_numpy())
    array = np.asarray(X)
    if not isinstance(name, Integral) or array.ndim != 2 or not -array.shape[1] <= int(name) < array.shape[1]:
        raise InputError(
            f"groups must name a column of X, be the number of one, or be callable; got {name!r} for an X of shape "
            f"{array.shape}."
        )
    return array[:, int(name)]


def warn_if_trained_on(member: Any, name: str, predictions: Floats, labels: Floats, stacklevel: int = 3) -> None:
    """Warn when a member fits these rows much better than its out-of-bag record says it can."""
    record = getattr(member, "oob_score_", None)
    if not isinstance(record, float):
        return
    spread = np.square(labels - labels.mean(axis=0)).sum(axis=0)
    missed = np.square(labels - predictions).sum(axis=0)
    score = float(np.mean(1 - missed[spread > 0] / spread[spread > 0])) if (spread > 0).any() else 1.0
    if 1 - score < 0.5 * (1 - record):
        warnings.warn(
            f"model {name!r} explains {score:.2f} of these labels' variance, but only {record:.2f} "
            "out of bag: these look like the rows it was trained on. Fit the ensemble on other rows.",
            UserWarning,
            stacklevel=stacklevel,
        )


def as_column_names(names: Any) -> tuple[str, ...] | tuple[int, ...]:
    """Return distinct names of columns, or distinct whole numbers of columns, as a tuple."""
    advice = "Give a list of names of a frame's columns, or of whole numbers of an array's."
    if isinstance(names, (str, bytes)):
        raise InputError(f"names must be a list of columns; got {names!r}. Give [{names!r}] for a single one.")
    try:
        given = list(names)
    except TypeError as error:
        raise InputError(f"names must be a list of columns; got {names!r}. {advice}") from error
    numbers = [isinstance(name, Integral) and not isinstance(name, bool) and int(name) >= 0 for name in given]
    if not given or not (all(numbers) or all(isinstance(name, str) for name in given)):
        raise InputError(f"names must be all text, or all whole numbers from 0; got {given!r}. {advice}")
    columns = [int(name) if number else str(name) for name, number in zip(given, numbers, strict=True)]
    twice = [(name, count) for name, count in Counter(columns).items() if count > 1]
    if twice:
        raise InputError(f"names must be distinct; got {twice[0][0]!r} {twice[0][1]} times. Name it once.")
    return cast("tuple[str, ...] | tuple[int, ...]", tuple(columns))


def read_columns(X: Any, names: tuple[str, ...] | tuple[int, ...]) -> Floats:
    """Return the named columns of a frame, or the numbered ones of an array, of shape (n, d); NaN where missing."""
    try:
        frame = nw.from_native(X, eager_only=True, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise InputError(f"the columns of X must have distinct names; {error}. Rename or drop some.") from error
    columns = _named if isinstance(frame, nw.DataFrame) else _numbered
    return np.stack(columns(frame, names), axis=1)


def _named(frame: Any, names: tuple[Any, ...]) -> list[Floats]:
    if isinstance(names[0], int):
        raise InputError(
            f"the columns {list(names)} are numbers, but X is a frame with the columns {_listed(frame.columns)}. "
            "Name its columns, or give X as an array."
        )
    missing = [name for name in names if name not in frame.columns]
    if missing:
        close = get_close_matches(missing[0], [str(column) for column in frame.columns], n=1)
        more = f" (nor {_listed(missing[1:])})" if missing[1:] else ""
        hint = f"Did you mean {close[0]!r}?" if close else f"Its columns are {_listed(frame.columns)}."
        raise InputError(f"X has no column {missing[0]!r}{more}. {hint}")
    return [_numeric(frame[name].to_numpy(), f"column {name!r} of X", str(frame[name].dtype)) for name in names]


def _numbered(X: Any, names: tuple[Any, ...]) -> list[Floats]:
    array = np.asarray(X)
    if array.ndim != 2:
        raise InputError(f"X must be a frame or an array of two dimensions; got {type(X).__name__} {array.shape}.")
    if isinstance(names[0], str):
        raise InputError(
            f"the columns {_listed(names)} are names, but X is an array of shape {array.shape}, which has none. "
            "Give a pandas or polars frame, or number the columns."
        )
    if max(names) >= array.shape[1]:
        raise InputError(f"X has no column {max(names)}: it has {array.shape[1]}, numbered from 0. Check the numbers.")
    return [_numeric(array[:, name], f"column {name} of X", str(array.dtype)) for name in names]


def _numeric(values: npt.NDArray[Any], name: str, kind: str) -> Floats:
    """Return numbers as float64, with NaN for what is missing. Text is no number, even where it looks like one."""
    if values.dtype.kind == "O":
        given = [np.nan if pd.isna(value) is True else value for value in values]
        if all(isinstance(value, (Real, Decimal)) for value in given):
            return np.array(given, dtype=np.float64)
    if values.dtype.kind not in "biuf" or kind in ("Categorical", "Enum"):
        raise InputError(f"{name} must be numeric; got {kind}. Convert it to numbers, or leave it out of the names.")
    return values.astype(np.float64)


def _listed(names: Sequence[Any], most: int = 10) -> str:
    """Name the first few, and count the rest."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(repr(name) for name in names[:most]) + more


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


def as_flag(value: Any) -> Any:
    """Return numpy's truth values as Python's, and all else as it is."""
    return bool(value) if isinstance(value, np.bool_) else value
