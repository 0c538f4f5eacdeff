"""Rows of X in an entry: floats of a frame of several types lie in one block, for single columns take long."""

from __future__ import annotations

from typing import Any

import numpy as np

from optensemble._core.deferred import pd
from optensemble.persistence.archive import Arrays
from optensemble.persistence.check_common import SavedFile
from optensemble.persistence.check_rows import check_x
from optensemble.persistence.parts import Part
from optensemble.persistence.row_file import pack_x, unpack_x

_FLOAT = np.dtype(np.float64)


def pack_rows(X: Any, arrays: Arrays, key: str) -> dict[str, Any]:
    """Put the rows of an X among the arrays, and return the rest."""
    if not isinstance(X, pd.DataFrame):
        return {"x": pack_x(X, arrays, key)}
    floats = (X.dtypes == _FLOAT).to_numpy()
    names = X.columns[floats].tolist()
    if floats.all() or len(names) < 2 or not X.columns.is_unique or not all(type(name) is str for name in names):
        return {"x": pack_x(X, arrays, key)}
    arrays[f"{key}/floats"] = X.iloc[:, np.flatnonzero(floats)].to_numpy()
    others = pack_x(X.iloc[:, np.flatnonzero(~floats)], arrays, key)
    return {"x": others, "floats": names, "places": np.flatnonzero(floats).tolist()}


def check_rows(file: SavedFile, part: Part, key: str, n: int) -> None:
    """Check the rows of an X that were packed."""
    check_x(file, part["x"], key, n)
    if part.get("floats") is None:
        return
    names, others = part["floats"].texts(distinct=True), part["x"].value.get("columns") or []
    part["x"].require(bool(others) and not set(names) & set(others), "be a frame of other columns")
    places = [place.whole(0, len(names) + len(others)) for place in part["places"]]
    part["places"].require(len(places) == len(names) and sorted(set(places)) == places, "ascend, one for each name")
    file.shelf.take(f"{key}/floats", "f", n, len(names))


def unpack_rows(packed: dict[str, Any], arrays: Arrays, key: str) -> Any:
    """Return the rows of an X that were packed, and checked."""
    X = unpack_x(packed["x"], arrays, key)
    if packed.get("floats") is None:
        return X
    names, places, block = packed["floats"], packed["places"], arrays[f"{key}/floats"]
    left = [place for place in range(len(names) + X.shape[1]) if place not in set(places)]
    columns: dict[int, Any] = {place: np.ascontiguousarray(block[:, i]) for i, place in enumerate(places)}
    columns |= {place: X.iloc[:, i].array for i, place in enumerate(left)}
    called = dict(zip([*places, *left], [*names, *X.columns], strict=True))
    order = sorted(columns)
    frame = pd.DataFrame({place: columns[place] for place in order}, index=X.index)
    return frame.set_axis([called[place] for place in order], axis=1)
