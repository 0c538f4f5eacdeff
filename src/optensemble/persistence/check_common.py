"""Validation of the entries that all saved ensembles have: feasible set, members, tables, subgroups, records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from optensemble._core.arrays import Floats
from optensemble._core.columns import as_column_names
from optensemble._core.patterns import is_pattern
from optensemble.ensembles.base import OWN
from optensemble.exceptions import InputError
from optensemble.feasible.registry import has_inner, is_inner
from optensemble.members.mending import ON_INFEASIBLE
from optensemble.persistence.contents import ANY_NUMBER, BLACK
from optensemble.persistence.parts import Part, Shelf, Wrong

_COPIES_OF_COVARIANCE = 8
"""Copies of a risk budget's covariance in memory while the set is made; a few factors can describe a huge one."""

_COPIES_OF_BOUNDS = 16
"""Numbers for each coordinate that a set inside another one takes in memory, roughly: bounds, and a kernel's data."""

_SIZES = ("dimension", "rows", "columns", "k")
"""Arguments that are sizes: a small file could ask for a huge set by them."""

_BY_COORDINATE = {
    **dict.fromkeys(["A_ub", "A_eq", "weights", "array"], -1),
    **dict.fromkeys(["covariance", "factors", "specific", "lower", "upper", "fallback", "integer", "edges"], 0),
    **dict.fromkeys(["linear", "quadratic"], 0),
    **dict.fromkeys(["forbidden", "closed"], 0),
}
"""The axis of an argument that has an entry for each coordinate."""


@dataclass(frozen=True)
class SavedFile:
    """The document and the arrays of a file, and the bytes that may be made of them."""

    root: Part
    shelf: Shelf
    limit: int

    @cached_property
    def bounds(self) -> tuple[Floats, Floats]:
        """The bounds of the feasible set."""
        lower = self.shelf.floats("lower", None)
        upper = self.shelf.floats("upper", len(lower))
        if not len(lower) or not (lower <= upper).all():
            raise Wrong("lower", "be finite and at most upper, in each of at least one coordinate", lower)
        return lower, upper

    @property
    def d(self) -> int:
        """The number of coordinates."""
        return len(self.bounds[0])

    @cached_property
    def names(self) -> list[str]:
        """The names of the members."""
        names = self.root["names"].texts(distinct=True)
        taken = OWN if self.root["kind"].value == BLACK else ""
        self.root["names"].require(bool(names) and not {"", taken} & set(names), "hold the names of the members")
        return names


def check_feasible(file: SavedFile) -> None:
    """Check the sizes of the feasible set; its constructor checks the rest."""
    part = file.root["feasible"]
    _check_set(file, part, "arguments", "feasible/", file.d)
    part["saved"].flag()


class _Claim(NamedTuple):
    """The number of coordinates that a set claims, and the bytes that making it takes."""

    coordinates: int
    bytes: int


def _check_set(file: SavedFile, part: Part, arguments_name: str, prefix: str, most: int) -> _Claim:
    """Return what a set, or one inside another, claims: at most as many coordinates and bytes as allowed."""
    kind, arguments = part["kind"].text(), part[arguments_name]
    arguments.require(isinstance(arguments.value, dict), "be a table of arguments")
    sizes = {name: arguments.get(name) for name in _SIZES}
    found = {name: size.whole(1, most + 1) for name, size in sizes.items() if size is not None}
    rows = found.get("rows", 1)
    lengths = [found.get("dimension", 1), rows * found.get("columns", rows)]
    for name in _SIZES:
        if f"{prefix}{name}" in file.shelf:
            raise Wrong(f"{prefix}{name}", "be a number of the document", "an array")
    for name, axis in _BY_COORDINATE.items():
        if f"{prefix}{name}" in file.shelf and (shape := file.shelf.shape(f"{prefix}{name}")):
            lengths.append(shape[axis])
    inner = list(_inner_sets(file, arguments, prefix, most, side_by_side=kind == "Product"))
    sizes_inside = [claim.coordinates for claim in inner]
    lengths.append(sum(sizes_inside) if kind == "Product" else max(sizes_inside, default=0))
    arguments.require(max(lengths) <= most, f"make a set of at most {most} coordinates")
    own = max(lengths) * _COPIES_OF_COVARIANCE if kind == "RiskBudget" else _COPIES_OF_BOUNDS
    needed = 8 * max(lengths) * own + sum(claim.bytes for claim in inner)
    if inner or kind == "RiskBudget":
        arguments.require(needed <= file.limit, f"fit into {file.limit:,} bytes (give load a larger limit=)")
    if kind == "ByKey":
        _check_keys(arguments, len(inner))
    return _Claim(max(lengths), needed)


def _inner_sets(file: SavedFile, arguments: Part, prefix: str, most: int, *, side_by_side: bool) -> Iterator[_Claim]:
    """Check the sets inside another; of those side by side, all together may have as many coordinates as allowed."""
    for name, value in arguments.value.items():
        argument = arguments[name]
        if is_inner(value):
            yield _check_set(file, argument, "spec", f"{prefix}{name}/", most)
        elif has_inner(value):
            left = most
            for number, part in enumerate(argument):
                claim = _check_set(file, part, "spec", f"{prefix}{number}/", left)
                left -= claim.coordinates if side_by_side else 0
                yield claim


def _check_keys(arguments: Part, sets: int) -> None:
    """Check the keys that sets are chosen by: one for each, text or whole numbers."""
    keys = arguments["keys"]
    right = isinstance(keys.value, list) and all(type(key) in (str, int) for key in keys.value)
    keys.require(right, "be text or whole numbers")
    distinct = len({(type(key), key) for key in keys.value}) == len(keys.value)
    keys.require(distinct and len(keys.value) == sets > 0, "name each of the sets once")


def check_members(file: SavedFile) -> None:
    """Check the members that are columns of a table, one for each coordinate."""
    columns = file.root["columns"]
    columns.require(isinstance(columns.value, dict) and set(columns.value) <= set(file.names), "belong to members")
    for name in columns.value:
        check_columns(file, columns[name])


def check_mending(file: SavedFile) -> None:
    """Check what is done with policies' actions that are off by rounding; older files do not say."""
    mending = file.root.get("mending")
    if mending is not None:
        mending["on_infeasible"].choice(ON_INFEASIBLE)
        if (tolerance := mending.get("tolerance")) is not None:
            tolerance.number(0.0)


def check_columns(file: SavedFile, part: Part) -> None:
    """Check the columns of one member."""
    names = part.value if isinstance(part.value, list) else []
    whole = not any(isinstance(name, str) and is_pattern(name) for name in names)  # a pattern stands for several
    part.require(len(names) == file.d if whole else 0 < len(names) <= file.d, f"name {file.d} columns")
    try:
        as_column_names(part.value)
    except InputError as error:
        raise Wrong(part.name, f"name columns ({error})", part.value) from error


def check_frames(file: SavedFile, frames: dict[str, dict[str, str]], *needed: str) -> None:
    """Check learned tables: columns of equal length, and among them those that are read after loading."""
    listed = file.root["frames"]
    listed.require(isinstance(listed.value, dict) and set(needed) <= set(listed.value) <= set(frames), "be all tables")
    for name in listed.value:
        columns, length = listed[name]["columns"].texts(distinct=True), None
        listed[name]["index"].require(isinstance(listed[name]["index"].value, str | None), "be text or null")
        listed[name]["columns"].require(set(frames[name]) <= set(columns), f"have {', '.join(frames[name])}")
        for number, column in enumerate(columns):
            key = f"{name}/{number}"
            length = len(array := file.shelf.take(key, frames[name].get(column, ANY_NUMBER), length))
            if array.dtype.kind == "f":
                file.shelf.figures(key, length)


def check_roles(file: SavedFile, groups: int) -> None:
    """Check the roles of columns, where the ensemble was fitted by a job file."""
    table = file.root.get("table")
    if table is None:
        return
    table.require(isinstance(table.value, dict), "be a table of roles")
    older = "subgroups" not in table.value  # groups were called clusters, and subgroups groups
    one, several = ("clusters", "groups") if older else ("groups", "subgroups")
    since = () if older else ("weight", "missing_labels", "report")
    known = {"labels", "coordinates", "id", "time", one, several, *since}
    table.require(set(table.value) <= known, f"be among {', '.join(sorted(known))}")
    table["coordinates"].texts(length=file.d)
    table["labels"].require(len(table["labels"].texts()) in (0, file.d), f"have {file.d} entries")
    table[several].texts(length=groups)
    for name in ("id", "time", one, "weight"):
        if (part := table.get(name)) is not None:
            part.text()
    if (part := table.get("missing_labels")) is not None:
        part.choice(["drop", "raise"])
    if (part := table.get("report")) is not None:
        part.require(isinstance(part.value, dict) and set(part.value) <= {"title", "unit", "currency"}, "be its terms")
        for name in part.value:
            part[name].text()


def check_names(file: SavedFile) -> None:
    """Check the names of the labels, one for each coordinate, and of the columns of X; older files have none."""
    if (count := file.root.get("n_features")) is not None:
        count.whole()
    if (labels := file.root.get("labels")) is not None:
        labels.texts(distinct=True, length=file.d)
    if (features := file.root.get("features")) is not None:
        features.texts(distinct=True)


def check_subgroups(values: Part | None, rule: Part | None) -> tuple[int, ...]:
    """Return the number of subgroups in each column, with one for values not seen in the fit; check their rule."""
    sizes = tuple(len(column.labels()) + 1 for column in values or ())
    if values is not None:
        values.require(bool(sizes), "have at least one column")
    if rule is not None and not rule["callable"].flag():
        columns = rule["columns"]
        named = columns.value if isinstance(columns.value, list) else [] if columns.value is None else [columns.value]
        plain = all((name and isinstance(name, str)) or type(name) is int for name in named)
        columns.require(plain and len(named) == len(sizes), f"name {len(sizes)} columns")
    return sizes


def check_record(file: SavedFile, *others: str) -> int:
    """Check the out-of-fold record; return its number of rows."""
    n = len(file.shelf.floats("assessed", None))
    if not n:
        raise Wrong("assessed", "have rows", n)
    for name in ("realised", *others):
        file.shelf.floats(name, n)
    file.root["curse"].number()
    if (labels := file.root.get("label_range")) is not None:
        ends = [end.number() for end in labels]
        labels.require(len(ends) == 2 and ends[0] <= ends[1], "be the least and the largest label")
    return n
