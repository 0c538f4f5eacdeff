"""The only place where user arrays are coerced, or refused with a clear error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble._core.suggestions import did_you_mean
from optensemble.exceptions import InputError

if TYPE_CHECKING:
    pass


_MOST_BUCKETS = 10_000


def as_floats(value: Any, name: str, *, ndim: int | None = None, finite: bool = True) -> Floats:
    """Return ``value`` as a finite C-contiguous float64 array, or say what is wrong with it.

    With ``finite=False`` the caller deals with NaN and infinity.
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
    """Return whether all numbers are finite. NaN and infinity show in the sum, at a fraction of the time."""
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
    named = f"{describe_rows(rows)} of {len(array)}"
    error = InputError(
        f"{name} must be finite; got NaN or infinity in {named}. Remove these rows or fill in the missing values."
    )
    error.rows = named, int(rows[0]), len(rows)
    raise error


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
    hint = f" Did you mean {begun[0]!r}?" if begun else did_you_mean(str(value), map(str, choices))
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


def as_flag(value: Any) -> Any:
    """Return numpy's truth values as Python's, and all else as it is."""
    return bool(value) if isinstance(value, np.bool_) else value


def require_options(given: Mapping[str, Any], known: type, where: str, others: Sequence[str] = ()) -> None:
    """Raise ``TypeError`` for a keyword that ``known``, a typed dictionary, does not have.

    ``others`` may have been meant too.
    """
    for name in given:
        if name not in known.__annotations__:
            hint = did_you_mean(name, [*known.__annotations__, *others])
            raise TypeError(f"{where}() got an unexpected keyword argument {name!r}.{hint}")
