"""The parts of a saved ensemble: members, subgroups, feasible sets, logs, frames, and arrays that belong together."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, fields
from numbers import Integral
from typing import Any, TypeVar, cast

import numpy as np

from optensemble._core.columns import Columns
from optensemble._core.deferred import pd
from optensemble._core.suggestions import did_you_mean, listed
from optensemble.evaluation.possible_payoffs import NOTHING_KNOWN, LabelRange
from optensemble.exceptions import InputError, OptEnsembleError
from optensemble.feasible import FeasibleSet
from optensemble.feasible.registry import from_spec, has_inner, is_inner, to_spec
from optensemble.members.mending import Mending
from optensemble.members.validation import as_members
from optensemble.multicalibration.events import Event, Layout, Partitions
from optensemble.multicalibration.patches import PackedRounds, PatchLog, starts
from optensemble.persistence.archive import Arrays
from optensemble.persistence.stored_members import StoredMembers
from optensemble.stacking.filling import Filling
from optensemble.stacking.forecaster import Forecaster
from optensemble.stacking.forest import Forest
from optensemble.stacking.patterns import PatternForecast
from optensemble.stacking.ridge import Ridge
from optensemble.stacking.stack import Stack

T = TypeVar("T")

PATTERN_PARTS = ("stack", "ridge", "refinement")
"""The forecasts of rows in which some members are absent."""

INIT_MODEL = "init"
"""The name under which a black box's first model is given again."""

_SET = "feasible/"
"""The prefix of a feasible set's arrays."""

_COLUMNS = "columns"
"""The key of the names of columns that a parameter of a set comes from."""


@dataclass(frozen=True)
class GivenAgain:
    """What cannot be saved safely, and is given again by whoever loads a file.

    Attributes
    ----------
    members
        By ``"models"`` and ``"policies"``: the members of that kind by name.
    feasible
        The feasible set, if it was given.
    subgroups
        The subgroups, if they were given.
    stored
        The members that were in the file.
    """

    members: dict[str, dict[str, Any]]
    feasible: FeasibleSet | None
    subgroups: Any
    stored: StoredMembers = field(default_factory=StoredMembers)


class AnyMembers(dict[str, Any]):
    """Members given again by name, of which each kind takes its own: whoever gives them need not know the kinds."""

    def require_members(self, ensemble: Any) -> None:
        """Raise ``InputError`` on one that is no member of an ensemble."""
        names = [name for name, _ in ensemble.members_]
        for name in self:
            if name not in names and name != INIT_MODEL:
                hint = did_you_mean(name, names) or " Leave it out."
                raise InputError(f"there is no member {name!r}; there are {listed(names)}.{hint}")


def by_name(members: Any, what: str) -> dict[str, Any]:
    """Return members given again, by name."""
    if isinstance(members, AnyMembers):
        return members
    return {} if members is None or members == {} else dict(as_members(members, what))


def match(
    names: list[str],
    given: dict[str, Any],
    columns: dict[str, list[Any]],
    what: str,
    stored: dict[str, Any] | None = None,
    reasons: dict[str, str] | None = None,
) -> list[tuple[str, Any]]:
    """Match the members given again with the names in the file; those stored and those that are columns need not be."""
    if isinstance(given, AnyMembers):
        given = {name: given[name] for name in names if name in given}
    known = {name: Columns(each) for name, each in columns.items()} | (stored or {}) | given
    unknown = [name for name in given if name not in names]
    missing = [name for name in names if name not in known]
    if unknown:
        hint = did_you_mean(unknown[0], missing or names) or " Leave it out."
        listed = f"those saved are {', '.join(map(repr, names))}" if names else f"the file needs no {what}"
        raise InputError(f"{what} has {unknown[0]!r}, but {listed}.{hint}")
    if missing:
        again = ", ".join(f"{name!r}: …" for name in missing)
        why = "".join(f" {name!r}: {(reasons or {})[name]}." for name in missing if name in (reasons or {}))
        raise InputError(f"{what} cannot be saved safely and must be given again: load(path, {what}={{{again}}}).{why}")
    return [(name, known[name]) for name in names]


def pack_columns(members: list[tuple[str, Any]]) -> dict[str, list[Any]]:
    """Return the columns of the members that are columns of a table: they need not be given again."""
    return {name: list(member.names) for name, member in members if isinstance(member, Columns)}


def pack_rule(subgroups: Any) -> dict[str, Any]:
    """Return the rule of subgroups: the names of columns, or that it was a function, which cannot be saved."""
    return {"callable": callable(subgroups), "columns": _plain_columns(subgroups)}


def unpack_rule(saved: dict[str, Any], given: Any) -> Any:
    """Return the rule of subgroups that was packed, or the function that is given again."""
    if saved["callable"]:
        if not callable(given):
            raise InputError("the subgroups were a callable and must be given again: load(path, subgroups=…).")
        return given
    if given is not None and (callable(given) or _plain_columns(given) != saved["columns"]):
        raise InputError(f"the ensemble was fitted with subgroups={saved['columns']!r}; got {given!r}. Leave them out.")
    return saved["columns"]


def pack_own_members(ensemble: Any) -> dict[str, Any]:
    """Return which members were fitted with the ensemble, and on which folds; a splitter cannot be saved."""
    plain = ensemble.cv is None or isinstance(ensemble.cv, str | Integral)
    return {"cross_fitted": list(ensemble.cross_fitted_), "cv": as_plain(ensemble.cv) if plain else None}


def unpack_own_members(document: dict[str, Any], ensemble: Any) -> None:
    """Restore the same: a later fit fits these members again. Older files have none."""
    ensemble.cross_fitted_, ensemble.cv = list(document.get("cross_fitted", ())), document.get("cv")
    for what in ensemble.member_parameters if ensemble.cross_fitted_ else ():
        members = getattr(ensemble, what)
        setattr(ensemble, what, None if members is None else ensemble._as_given(members))


def pack_mending(mending: Mending) -> dict[str, Any]:
    """Return what is done with policies' actions that are off by rounding, as arguments of an ensemble."""
    tolerance = None if mending.tolerance is None else float(mending.tolerance)
    return {"on_infeasible": mending.on_infeasible, "tolerance": tolerance}


def unpack_mending(saved: dict[str, Any] | None) -> dict[str, Any]:
    """Return the same arguments; the defaults, if an older file does not say."""
    return pack_mending(Mending()) if saved is None else {name: saved[name] for name in pack_mending(Mending())}


def pack_range(labels: LabelRange) -> list[float] | None:
    """Return the least and the largest label seen; None if nothing is known of them."""
    return list(labels) if np.isfinite(labels).all() else None


def unpack_range(saved: list[float] | None) -> LabelRange:
    """Return the same; an older file does not know it."""
    return NOTHING_KNOWN if saved is None else LabelRange(*saved)


def _plain_columns(subgroups: Any) -> Any:
    return None if callable(subgroups) else as_plain(subgroups)


def pack_set(omega: FeasibleSet, arrays: Arrays) -> dict[str, Any]:
    """Put a feasible set among the arrays, and return the rest."""
    arrays["lower"], arrays["upper"] = omega.lower, omega.upper
    spec = to_spec(omega)
    plain = _pack_spec(spec or {}, arrays, _SET)
    return {"kind": type(omega).__name__, "saved": spec is not None, "arguments": plain}


def _pack_spec(spec: dict[str, Any], arrays: Arrays, prefix: str) -> dict[str, Any]:
    """Put a set's arrays, and those of sets inside it, among the others under their names, and return the rest.

    Sets of a list, of which there is at most one among the arguments, are known by number, a single one by name.
    """
    plain: dict[str, Any] = {}
    for name, value in spec.items():
        if isinstance(value, np.ndarray):
            arrays[prefix + name] = value
        elif is_inner(value):
            plain[name] = _pack_inner(value, arrays, f"{prefix}{name}/")
        elif has_inner(value):
            plain[name] = [_pack_inner(each, arrays, f"{prefix}{number}/") for number, each in enumerate(value)]
        else:
            plain[name] = as_plain(value)
    return plain


def _pack_inner(inner: dict[str, Any], arrays: Arrays, prefix: str) -> dict[str, Any]:
    return {"kind": inner["kind"], "spec": _pack_spec(inner["spec"], arrays, prefix)}


def _unpack_spec(plain: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
    inside = defaultdict[str, Arrays](dict)
    for name, array in arrays.items():
        block, slash, within = name.partition("/")
        inside[block if slash else ""][within or name] = array
    spec = {**{name: _from_plain(value) for name, value in plain.items()}, **inside[""]}
    for name, value in spec.items():
        if is_inner(value):
            spec[name] = _unpack_inner(value, inside[name])
        elif has_inner(value):
            spec[name] = [_unpack_inner(each, inside[str(number)]) for number, each in enumerate(value)]
    return spec


def _unpack_inner(inner: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
    return {"kind": inner["kind"], "spec": _unpack_spec(inner["spec"], arrays)}


def _from_plain(value: Any) -> Any:
    """Return an argument of a set as it was: columns that parameters come from are ``Columns`` again."""
    if isinstance(value, dict) and value.keys() == {_COLUMNS}:
        return Columns(value[_COLUMNS])
    return [_from_plain(item) for item in value] if isinstance(value, list) else value


def unpack_set(saved: dict[str, Any], arrays: Arrays, given: FeasibleSet | None) -> FeasibleSet:
    """Make the set again, or take the one given if it fits."""
    if given is None and not saved["saved"]:
        raise InputError(
            f"the feasible set ({saved['kind']}) cannot be saved and must be given again: load(path, feasible=…)."
        )
    omega = _saved_set(saved, arrays) if given is None else given
    lower, upper = arrays["lower"], arrays["upper"]
    if omega.open_bounds and len(lower) == omega.dimension:
        return omega.enveloped(lower, upper)
    if not (np.array_equal(omega.lower, lower) and np.array_equal(omega.upper, upper)):
        if given is None:
            raise LookupError(f"its feasible set has other bounds than {lower.tolist()} to {upper.tolist()}")
        raise InputError(
            f"the feasible set given has bounds {omega.lower.tolist()} to {omega.upper.tolist()}, but the ensemble was "
            f"fitted with {lower.tolist()} to {upper.tolist()}. Give the same set again."
        )
    return omega


def _saved_set(saved: dict[str, Any], arrays: Arrays) -> FeasibleSet:
    try:
        of_set = {name.removeprefix(_SET): array for name, array in arrays.items() if name.startswith(_SET)}
        return from_spec(saved["kind"], _unpack_spec(saved["arguments"], of_set))
    except OptEnsembleError as error:
        raise LookupError(f"its feasible set cannot be made: {error}") from error


def pack_log(log: PatchLog, arrays: Arrays, key: str) -> dict[str, Any]:
    """Lay all patches end to end."""
    rounds = log.packed
    arrays[f"{key}/round"] = np.repeat(np.arange(len(rounds)), np.diff(rounds.first_patch))
    arrays[f"{key}/member"] = rounds.members
    arrays[f"{key}/length"] = np.diff(rounds.first_cell)
    arrays[f"{key}/cells"], arrays[f"{key}/delta"], arrays[f"{key}/rows"] = rounds.cells, rounds.delta, rounds.rows
    events = [[event.turn, list(event.partitions)] for event in log.layout.events]
    layout = {"sizes": list(log.layout.sizes), "events": events, "groups": list(log.layout.partitions.subgroups)}
    return {"rounds": len(log.rounds), "layout": layout}


def unpack_log(saved: dict[str, Any], arrays: Arrays, key: str, dimension: int) -> PatchLog:
    """Return the log that was packed; the cells' numbers of rows are -1 where an older file lacks them."""
    sizes, events, groups = (saved["layout"][name] for name in ("sizes", "events", "groups"))
    partitions = Partitions.of_sizes(sizes, len(groups), dimension)
    layout = Layout(partitions, tuple(Event(turn, tuple(parts)) for turn, parts in events))
    cells = arrays[f"{key}/cells"]
    rounds = PackedRounds(
        first_patch=starts(np.bincount(arrays[f"{key}/round"], minlength=saved["rounds"])),
        members=arrays[f"{key}/member"],
        first_cell=starts(arrays[f"{key}/length"]),
        cells=cells,
        delta=arrays[f"{key}/delta"],
        rows=arrays.get(f"{key}/rows", np.full_like(cells, -1)),
    )
    return PatchLog(layout, rounds)


def pack_frame(frame: pd.DataFrame, arrays: Arrays, key: str) -> dict[str, Any]:
    """Put the columns of a frame among the arrays."""
    for number, name in enumerate(frame.columns):
        column = frame[name]
        numeric = pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column)
        arrays[f"{key}/{number}"] = column.to_numpy() if numeric else column.to_numpy(dtype=np.str_)
    return {"columns": list(frame.columns), "index": frame.index.name}


def unpack_frame(saved: dict[str, Any], arrays: Arrays, key: str) -> pd.DataFrame:
    """Return the frame that was packed."""
    columns = {name: arrays[f"{key}/{number}"] for number, name in enumerate(saved["columns"])}
    plain = {name: column.tolist() if column.dtype.kind == "U" else column for name, column in columns.items()}
    return pd.DataFrame(plain).rename_axis(saved["index"])


def under(arrays: Arrays, key: str) -> Arrays:
    """Return the arrays that lie under a key, by the rest of their names."""
    return {name.removeprefix(f"{key}/"): array for name, array in arrays.items() if name.startswith(f"{key}/")}


def pack_fields(found: Any, arrays: Arrays, key: str) -> None:
    """Put a dataclass of arrays among the others."""
    for each in fields(found):
        arrays[f"{key}/{each.name}"] = getattr(found, each.name)


def unpack_fields(kind: type[T], arrays: Arrays, key: str) -> T:
    """Return the dataclass of arrays that was packed."""
    return kind(**{field.name: arrays[f"{key}/{field.name}"] for field in fields(cast("Any", kind))})


def pack_forecaster(forecaster: Forecaster, arrays: Arrays) -> dict[str, Any]:
    """Put a forecaster's arrays among the others, and return the rest."""
    arrays["mean"], arrays["scale"] = forecaster.mean, forecaster.scale
    pack_fields(forecaster.stack, arrays, "stack")
    pack_fields(forecaster.ridge, arrays, "ridge")
    if forecaster.refinement is not None:
        pack_fields(forecaster.refinement, arrays, "refinement")
    if forecaster.filling is not None:
        pack_fields(forecaster.filling, arrays, "filling")
    for number, known in enumerate(forecaster.patterns):
        for name in PATTERN_PARTS:
            pack_fields(getattr(known, name), arrays, f"pattern{number}/{name}")
    if forecaster.context is not None:
        pack_fields(forecaster.context, arrays, "forest")
    patch = None if forecaster.patch is None else pack_log(forecaster.patch, arrays, "patch")
    patterns = [list(known.absent) for known in forecaster.patterns]
    made = {"refined": forecaster.refinement is not None, "context": forecaster.context is not None}
    return {**made, "patch": patch, "patterns": patterns}


def unpack_forecaster(saved: dict[str, Any], arrays: Arrays) -> Forecaster:
    """Return the forecaster that was packed."""
    return Forecaster(
        mean=arrays["mean"],
        scale=arrays["scale"],
        stack=unpack_fields(Stack, arrays, "stack"),
        ridge=unpack_fields(Ridge, arrays, "ridge"),
        refinement=unpack_fields(Ridge, arrays, "refinement") if saved["refined"] else None,
        patch=None if saved["patch"] is None else unpack_log(saved["patch"], arrays, "patch", len(arrays["mean"])),
        filling=unpack_fields(Filling, arrays, "filling") if "filling/centre" in arrays else None,
        patterns=tuple(
            PatternForecast(
                tuple(absent),
                unpack_fields(Stack, arrays, f"pattern{number}/stack"),
                *(unpack_fields(Ridge, arrays, f"pattern{number}/{name}") for name in PATTERN_PARTS[1:]),
            )
            for number, absent in enumerate(saved.get("patterns", []))  # older files have none
        ),
        context=unpack_fields(Forest, arrays, "forest") if saved.get("context") else None,
    )


def as_plain(value: Any) -> Any:
    """Return a value as JSON has it: numpy scalars become Python's, ``Columns`` say which; a list stays one."""
    if isinstance(value, Columns):
        return {_COLUMNS: list(value.names)}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [as_plain(item) for item in value]
    return value
