"""Rows that an ensemble was fitted on, or updated with, or may be fitted again on, as the contents of a file, and back.

An X is an array of numbers, or a frame whose columns are numbers, text or dates; of a frame whose members are all
columns, only those that are needed are kept. Numbers are kept in 64 bits with the name of their type, dates as whole
numbers with their unit, and all else (text, and single values of several kinds) as JSON, each different value once.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from optensemble._core.deferred import pd
from optensemble.ensembles._decision_rows import is_streamed, needed_part
from optensemble.ensembles.decision import DecisionEnsemble
from optensemble.members.alignment import RowNames
from optensemble.members.fit_inputs import LabelledBatch, is_rule
from optensemble.members.known_rows import KnownRows
from optensemble.members.validation import row_labels
from optensemble.persistence.archive import Arrays
from optensemble.persistence.parts import MOST_COUNTED, is_unicode

MOST_BYTES = 256 << 20
"""Rows that take up more are not kept."""

NUMBER, DATE, PLAIN = "number", "date", "plain"
"""The kinds of columns."""

ARRAY, FRAME = "array", "frame"
"""The kinds of X."""

_WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = ("bool", *_WHOLE, "float16", "float32", "float64")
"""The types of numbers that are kept, without loss."""

UNITS = ("D", "h", "m", "s", "ms", "us", "ns")
"""The units of dates."""

TEXTS = ("object", "str")
"""The types of columns that are neither numbers nor dates."""

_WIDE = {"b": np.bool_, "i": np.int64, "u": np.uint64, "f": np.float64}
FORGOTTEN = "the rows of the fit were forgotten when the file was written"
_LEADING = "the rows of the fit are not in the file, for members alone learned from the first of them"
_STREAMED = "the rows of the fit were read from files, and stay there"


class NotKeptError(Exception):
    """Rows of a kind that a file cannot hold; the message says which."""


# Packing


def pack_rows(ensemble: DecisionEnsemble, arrays: Arrays, *, keep: bool, stacklevel: int) -> dict[str, Any]:
    """Put the rows among the arrays, and return the rest; where they are not kept, the reason in words."""
    known = ensemble._known_rows
    if len(known):
        arrays["known/keys"], arrays["known/prints"] = known.keys, known.prints
    why = ensemble._no_rows if not ensemble._rows else why_not_kept(ensemble, ensemble._kept_rows, keep=keep)
    if why:
        return {"why": why}

    def pack(room: Arrays) -> dict[str, Any]:
        packed = [pack_batch(ensemble, batch, room, f"rows{i}") for i, batch in enumerate(ensemble._kept_rows)]
        return {"fit": packed[: len(ensemble._rows)], "later": packed[len(ensemble._rows) :]}

    return pack_if_kept(pack, arrays, stacklevel=stacklevel + 1)


def why_not_kept(ensemble: Any, rows: list[LabelledBatch], *, keep: bool) -> str:
    """Return why the rows of an ensemble are not to be in its file; empty if nothing speaks against it."""
    if not keep:
        return FORGOTTEN
    if getattr(ensemble, "_leading", None):
        return _LEADING
    return _STREAMED if is_streamed(rows) else ""


def pack_if_kept(pack: Callable[[Arrays], dict[str, Any]], arrays: Arrays, *, stacklevel: int) -> dict[str, Any]:
    """Put rows among the arrays unless they are of a kind that is not kept, or too many; ``"why"`` says which."""
    room = Arrays()
    try:
        document = pack(room)
    except NotKeptError as error:
        return {"why": f"the rows of the fit are not in the file, for {error}"}
    if (size := sum(array.nbytes for array in room.values())) > MOST_BYTES:
        why = f"the rows of the fit, {size >> 20:,} MB, are not in the file, for they are more than {MOST_BYTES >> 20}"
        warnings.warn(f"{why}: fit again on all rows when that is due.", UserWarning, stacklevel=stacklevel)
        return {"why": why}
    arrays.update(room)
    return {"why": "", **document}


def pack_batch(
    ensemble: Any, batch: LabelledBatch, arrays: Arrays, key: str, grouped_by: str | int | None = None
) -> dict[str, Any]:
    """Put rows with their labels, weights, ids and groups among the arrays, and return the rest.

    A column that groups are yet to be found in, ``grouped_by``, is kept too.
    """
    arrays[f"{key}/labels"] = batch.labels
    for name in ("weights", "keys"):
        if getattr(batch, name) is not None:
            arrays[f"{key}/{name}"] = getattr(batch, name)
    groups, rule = batch.groups, grouped_by
    packed: Any = None
    if groups is not None:
        if is_rule(groups) and not callable(groups):
            rule = groups if isinstance(groups, str) else int(groups)
            packed = {"rule": rule}
        else:
            labels = np.empty(len(batch.labels), dtype=object)
            labels[:] = row_labels(groups, batch.X, len(batch.labels))
            packed = pack_column(labels, arrays, f"{key}/groups", "the groups")
    return {"x": pack_x(needed_part(ensemble, batch.X, rule), arrays, f"{key}/x"), "groups": packed}


def pack_x(X: Any, arrays: Arrays, key: str) -> dict[str, Any]:
    """Put the rows of an X among the arrays, and return the rest."""
    if isinstance(X, np.ndarray) and type(X) is np.ndarray:
        return {"kind": ARRAY, **_pack_numbers(X, arrays, key, "X")}
    if not isinstance(X, pd.DataFrame):
        raise NotKeptError(f"X is of type {type(X).__name__}, neither an array of numbers nor a pandas frame")
    names = [name.item() if isinstance(name, np.generic) else name for name in X.columns]
    if len(set(names)) < len(names) or not all(type(name) in (str, int) for name in names):
        raise NotKeptError("the columns of X have no distinct names of text or whole numbers")
    plain = isinstance(X.index, pd.RangeIndex) and X.index.start == 0 and X.index.step == 1
    index = None if plain and X.index.name is None else _pack_index(X.index, arrays, f"{key}/index")
    document: dict[str, Any] = {"kind": FRAME, "columns": names, "index": index}
    kinds = set(X.dtypes)
    if len(kinds) == 1 and _is_number(next(iter(kinds))):  # one block, in the order that arithmetic may depend on
        return document | {"block": _pack_numbers(X.to_numpy(), arrays, key, "X")}
    parts = [pack_column(X.iloc[:, i], arrays, f"{key}/{i}", f"column {name!r} of X") for i, name in enumerate(names)]
    return document | {"parts": parts}


def _pack_index(index: pd.Index, arrays: Arrays, key: str) -> dict[str, Any]:
    if isinstance(index, pd.MultiIndex) or not isinstance(index.name, str | None):
        raise NotKeptError("X has an index of several levels, or with a name that is no text")
    return {"name": index.name, **pack_column(index.to_series(), arrays, key, "the index of X")}


def _is_number(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.name in DTYPES


def _pack_numbers(values: npt.NDArray[Any], arrays: Arrays, key: str, what: str) -> dict[str, Any]:
    if not _is_number(values.dtype) or not values.ndim:
        raise NotKeptError(f"{what} holds {values.dtype}")
    arrays[key] = np.ascontiguousarray(values, dtype=_WIDE[values.dtype.kind])
    return {"dtype": values.dtype.name, "by_columns": lies_by_columns(values)}


def lies_by_columns(values: npt.NDArray[Any]) -> bool:
    """Return whether an array lies in memory column by column, be it whole or a part of another: sums go by that."""
    return values.ndim == 2 and abs(values.strides[0]) < abs(values.strides[1])


def pack_column(column: Any, arrays: Arrays, key: str, what: str) -> dict[str, Any]:
    """Put a column among the arrays: numbers, dates, or single values as JSON."""
    dtype = column.dtype
    if _is_number(dtype):
        return {"kind": NUMBER, **_pack_numbers(np.asarray(column), arrays, key, what)}
    zone = None
    if isinstance(dtype, pd.DatetimeTZDtype) and str(dtype.tz) == "UTC":
        zone, column = "UTC", column.dt.tz_localize(None)
    values = column.to_numpy() if isinstance(column, pd.Series) else column
    if values.dtype.kind == "M" and np.datetime_data(values.dtype)[0] in UNITS:
        arrays[key] = values.astype(np.int64)
        return {"kind": DATE, "unit": np.datetime_data(values.dtype)[0], "zone": zone}
    if str(dtype) not in TEXTS:
        raise NotKeptError(f"{what} holds {dtype}")
    texts: dict[str, int] = {}
    codes = [texts.setdefault(_as_json(value, what), len(texts)) for value in values.tolist()]
    arrays[key] = np.array(codes, dtype=np.int64)
    arrays[f"{key}/values"] = np.array(list(texts) or [""], dtype=np.str_)
    return {"kind": PLAIN, "dtype": str(dtype)}


def _as_json(value: Any, what: str) -> str:
    """Return a single value as JSON: text, a number, a truth value, nothing, or several of these."""
    if isinstance(value, np.generic):
        value = value.item()
    for entry in value if type(value) is tuple else (value,):
        if not (entry is None or type(entry) in (str, int, float, bool)):
            raise NotKeptError(f"{what} holds values of type {type(value).__name__}")
        if not is_kept(entry):
            raise NotKeptError(f"{what} holds {entry!r:.80}")
    return json.dumps(value)


def is_kept(entry: Any) -> bool:
    """Return whether a file can hold a single value: text that can be written, a number of at most 62 bits, …."""
    if type(entry) is int:
        return abs(entry) <= MOST_COUNTED
    return is_unicode(entry) if type(entry) is str else entry is None or type(entry) in (float, bool)


# Unpacking


def unpack_rows(saved: dict[str, Any] | None, ensemble: DecisionEnsemble, arrays: Arrays, names: RowNames) -> None:
    """Give an ensemble the rows that were packed; older files have none."""
    ensemble._rows, ensemble._later = [], []
    if "known/keys" in arrays:
        ensemble._known_rows = KnownRows(arrays["known/keys"], arrays["known/prints"])
    if saved is None:
        return
    if saved["why"]:
        ensemble._no_rows = saved["why"]
        return
    batches = [unpack_batch(each, arrays, f"rows{i}", names) for i, each in enumerate(saved["fit"] + saved["later"])]
    ensemble._rows, ensemble._later = batches[: len(saved["fit"])], batches[len(saved["fit"]) :]


def unpack_batch(saved: dict[str, Any], arrays: Arrays, key: str, names: RowNames) -> LabelledBatch:
    """Return the rows that were packed with their labels."""
    groups = saved["groups"]
    if groups is not None:
        groups = groups["rule"] if "rule" in groups else unpack_column(groups, arrays, f"{key}/groups")
    others = (arrays.get(f"{key}/{name}") for name in ("weights", "keys"))
    weights, keys = others
    return LabelledBatch(
        unpack_x(saved["x"], arrays, f"{key}/x"), arrays[f"{key}/labels"], groups, weights, names, None, keys
    )


def unpack_x(saved: dict[str, Any], arrays: Arrays, key: str) -> Any:
    """Return the X that was packed."""
    if saved["kind"] == ARRAY:
        return _unpack_numbers(saved, arrays, key)
    index = None
    if saved["index"] is not None:
        values = unpack_column(saved["index"], arrays, f"{key}/index")
        index = pd.Index(values, name=saved["index"]["name"])
    if "block" in saved:
        block = _unpack_numbers(saved["block"], arrays, key)
        return pd.DataFrame(block, columns=saved["columns"], index=index, copy=False)
    parts = [unpack_column(part, arrays, f"{key}/{i}") for i, part in enumerate(saved["parts"])]
    frame = pd.DataFrame(dict(enumerate(parts)))
    if index is not None:
        frame.index = index
    return frame.set_axis(saved["columns"], axis=1)


def _unpack_numbers(saved: dict[str, Any], arrays: Arrays, key: str) -> npt.NDArray[Any]:
    values = arrays[key].astype(saved["dtype"], copy=False)
    return np.asfortranarray(values) if saved["by_columns"] else values


def unpack_column(saved: dict[str, Any], arrays: Arrays, key: str) -> Any:
    """Return a column that was packed."""
    if saved["kind"] == NUMBER:
        return _unpack_numbers(saved, arrays, key)
    if saved["kind"] == DATE:
        dates = arrays[key].view(f"M8[{saved['unit']}]")
        return dates if saved["zone"] is None else pd.DatetimeIndex(dates, tz=saved["zone"])
    values = [json.loads(text) if text else None for text in arrays[f"{key}/values"].tolist()]
    found = np.empty(len(values), dtype=object)
    found[:] = [tuple(value) if isinstance(value, list) else value for value in values]
    column = found[arrays[key]]
    return column if saved["dtype"] == "object" else pd.array(column, dtype=saved["dtype"])
