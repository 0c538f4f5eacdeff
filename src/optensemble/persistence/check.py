"""The door for saved ensembles: all that a file says is checked against what it will index, before anything is made.

A checksum shows accidents. Whoever alters a file on purpose makes it right again, and compiled code does not look
where it writes: so nothing of a file gets there unless it has passed :func:`check`. Feasible sets are made by their own
constructors, which check their arguments; of them only the sizes are checked here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from math import comb, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble._core.buckets import Buckets
from optensemble._core.validation import bucket_count
from optensemble.ensembles._decision_answers import BUCKETS
from optensemble.ensembles.black_box import OWN, BlackBoxEnsemble
from optensemble.ensembles.decision import DecisionEnsemble
from optensemble.ensembles.white_box import WhiteBoxEnsemble
from optensemble.exceptions import InputError
from optensemble.members.columns import as_column_names
from optensemble.multicalibration import events
from optensemble.multicalibration.events import Layout
from optensemble.multicalibration.schedules import SCHEDULES
from optensemble.persistence.parts import Part, Shelf, Wrong, require_plain
from optensemble.stacking.final_policy import EVALUATORS, PLAYED
from optensemble.stacking.forecaster import AVERAGE, FORECASTS, MEAN, PATCHED, REFINED, RIDGE, STACK

_WHITE, _BLACK, _DECISION = (kind.__name__ for kind in (WhiteBoxEnsemble, BlackBoxEnsemble, DecisionEnsemble))

_MOST_ROUNDS = 10_000_000
"""Rounds are listed, whether they have patches or not; a fit of days has fewer."""

_MOST_PARTS = 2**31
"""Of a partition; what is numbered by them fits into 64 bits."""

_BYTES_PER_CELL = 8
"""Replay numbers the cells of an event."""

_COPIES_OF_COVARIANCE = 8
"""How often the matrix of a risk budget, which a few factors can describe, is there while the set is made."""

_LEAST_SCALE = 1e-100
"""Features are divided by their scales, and must not overflow."""

_NUMBERS = "biuf"
_GUARANTEES = {"lemma": "U", "quantity": "U", "bound": "f", "observed": "f", "holds": "b", "guaranteed": "b"}
_OF_BOX = {
    "history_": {"promised": "f", "realised": "f", "worst_violation": "f", "solves": "i"},
    "guarantees_": _GUARANTEES,
    "conditional_": {
        "cell": "U",
        "rows": "i",
        "policy": "U",
        "bound": "f",
        "observed": "f",
        "holds": "b",
        "guaranteed": "b",
    },
    "validation_": {
        **dict.fromkeys(["shrinkage", "rounds", "realised", "promised", "gain", "standard_error"], _NUMBERS),
        "chosen": "b",
    },
}
_OF_DECISION = {
    "leaderboard_": {
        **dict.fromkeys(["candidate", "kind", "why"], "U"),
        **dict.fromkeys(["realised", "low", "high", "promised", "detectable", "followed"], "f"),
        **dict.fromkeys(["difference", "difference_low", "difference_high"], "f"),
        "chosen": "b",
    },
    "guarantees_": {**_GUARANTEES, "low": "f", "high": "f"},
}
"""The columns of each frame that are read later, and of what kind they are."""


def check(document: Any, arrays: dict[str, npt.NDArray[Any]], limit: int) -> None:
    """Raise :class:`Wrong`, naming the part, unless document and arrays are what ``save`` writes."""
    require_plain(document)
    file = _File(Part(document), Shelf(arrays), limit)
    kind = file.root["kind"].choice([_WHITE, _BLACK, _DECISION])
    _check_set(file, file.root["feasible"], "arguments", "feasible/", file.d)
    file.root["feasible"]["saved"].flag()
    _check_members(file)
    file.shelf.take("fingerprints_", "u", None)
    (_check_decision if kind == _DECISION else _check_box)(file)


@dataclass(frozen=True)
class _File:
    """What was read, and how many bytes may come of it."""

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
        taken = OWN if self.root["kind"].value == _BLACK else ""
        self.root["names"].require(bool(names) and not {"", taken} & set(names), "hold the names of the members")
        return names


# What all ensembles have


_SIZES = ("dimension", "rows", "columns", "k")
_BY_COORDINATE = {
    **dict.fromkeys(["A_ub", "A_eq", "weights", "array"], -1),
    **dict.fromkeys(["covariance", "factors", "specific", "lower", "upper", "fallback", "integer", "edges"], 0),
}
"""Which axis of an argument has an entry for each coordinate."""


def _check_set(file: _File, part: Part, arguments_name: str, prefix: str, most: int) -> int:
    """Return how many coordinates a set says it has; refuse it if these are more than there may be."""
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
    blocks = list(arguments["blocks"]) if arguments.get("blocks") else []
    lengths.append(0)
    for number, block in enumerate(blocks):
        lengths[-1] += _check_set(file, block, "spec", f"{prefix}{number}/", most - lengths[-1])
    arguments.require(max(lengths) <= most, f"make a set of at most {most} coordinates")
    if kind == "RiskBudget":
        fits = 8 * max(lengths) ** 2 * _COPIES_OF_COVARIANCE <= file.limit
        arguments.require(fits, f"fit into {file.limit:,} bytes (give load a larger limit=)")
    return max(lengths)


def _check_members(file: _File) -> None:
    """Check the members that are columns: one for each coordinate."""
    columns = file.root["columns"]
    columns.require(isinstance(columns.value, dict) and set(columns.value) <= set(file.names), "belong to members")
    for name in columns.value:
        _check_columns(file, columns[name])


def _check_columns(file: _File, part: Part) -> None:
    part.require(isinstance(part.value, list) and len(part.value) == file.d, f"name {file.d} columns")
    try:
        as_column_names(part.value)
    except InputError as error:
        raise Wrong(part.name, f"name columns ({error})", part.value) from error


def _check_frames(file: _File, frames: dict[str, dict[str, str]], *needed: str) -> None:
    """Check tables that were learned: columns as long as each other, and those that are read among them."""
    listed = file.root["frames"]
    listed.require(isinstance(listed.value, dict) and set(needed) <= set(listed.value) <= set(frames), "be all tables")
    for name in listed.value:
        columns, length = listed[name]["columns"].texts(distinct=True), None
        listed[name]["index"].require(isinstance(listed[name]["index"].value, str | None), "be text or null")
        listed[name]["columns"].require(set(frames[name]) <= set(columns), f"have {', '.join(frames[name])}")
        for number, column in enumerate(columns):
            key = f"{name}/{number}"
            length = len(array := file.shelf.take(key, frames[name].get(column, _NUMBERS), length))
            if array.dtype.kind == "f":
                file.shelf.figures(key, length)


def _check_table(file: _File, groups: int) -> None:
    """Check which columns play which part, where a job file said so."""
    table = file.root.get("table")
    if table is None:
        return
    known = {"labels", "coordinates", "id", "time", "clusters", "groups"}
    table.require(isinstance(table.value, dict) and set(table.value) <= known, f"be among {', '.join(sorted(known))}")
    table["coordinates"].texts(length=file.d)
    table["labels"].require(len(table["labels"].texts()) in (0, file.d), f"have {file.d} entries")
    table["groups"].texts(length=groups)
    for name in ("id", "time", "clusters"):
        if (part := table.get(name)) is not None:
            part.text()


def _check_groups(values: Part | None, rule: Part | None) -> tuple[int, ...]:
    """Return how many parts groups have, that of values not yet seen included; they are found by a rule."""
    sizes = tuple(len(column.labels()) + 1 for column in values or ())
    if values is not None:
        values.require(bool(sizes), "have at least one column")
    if rule is not None and not rule["callable"].flag():
        columns = rule["columns"]
        named = columns.value if isinstance(columns.value, list) else [] if columns.value is None else [columns.value]
        plain = all((name and isinstance(name, str)) or type(name) is int for name in named)
        columns.require(plain and len(named) == len(sizes), f"name {len(sizes)} columns")
    return sizes


def _check_record(file: _File, *others: str) -> int:
    """Return of how many rows there is an out-of-fold record."""
    n = len(file.shelf.floats("assessed", None))
    if not n:
        raise Wrong("assessed", "have rows", n)
    for name in ("realised", *others):
        file.shelf.floats(name, n)
    file.root["curse"].number()
    return n


# Corrections


def _check_layout(
    file: _File,
    part: Part,
    make: Callable[[int, tuple[int, ...]], Layout],
    most: int,
    groups: tuple[int, ...],
    *,
    policies: bool,
) -> Layout:
    """Return the layout if it is what its number of contenders, and of parts of groups, define.

    An ensemble that was extended has logs of fewer contenders, and of groups with fewer parts, than it has now. If the
    contenders are ``policies`` there are level sets of each.
    """
    sizes = [size.whole(1, _MOST_PARTS) for size in part["sizes"]]
    at = file.d
    part["sizes"].require(len(sizes) > at + len(groups), f"have more than {at + len(groups)} entries")
    contenders, known = sizes[at], tuple(sizes[at + 1 : at + 1 + len(groups)])
    part["sizes"].require(contenders <= most, f"have at most {most} as entry {at}")
    length = at * (contenders if policies else 1) + 1 + len(groups)  # looked at before as much is made
    part["sizes"].require(len(sizes) == length, f"have {length} entries")
    part["sizes"].require(all(a <= b for a, b in zip(known, groups, strict=True)), "fit the values of the groups")
    layout = make(contenders, known)
    plain = {
        "sizes": list(layout.sizes),
        "events": [[event.turn, list(event.partitions)] for event in layout.events],
        "groups": list(layout.partitions.subgroups),
    }
    for name, wanted in plain.items():
        part[name].require(part[name].value == wanted, "be that of the ensemble's cells")
    cells = sum(prod(sizes[partition] for partition in event.partitions) for event in layout.events)
    part["sizes"].require(cells * _BYTES_PER_CELL <= file.limit, f"make cells that fit into {file.limit:,} bytes")
    return layout


def _check_log(file: _File, log: Part, key: str, layout: Layout, models: int) -> None:
    """Check patches laid end to end: in which round they are, whom they correct, on which cells and by how much."""
    shelf = file.shelf
    number = shelf.wholes(f"{key}/round", None, high=log["rounds"].whole(0, _MOST_ROUNDS))
    _require_ascending(number, 0, f"{key}/round")
    shelf.wholes(f"{key}/member", len(number), high=models)
    cells = shelf.wholes(f"{key}/cells", None, high=layout.count)
    length = shelf.wholes(f"{key}/length", len(number), low=1, high=len(cells) + 1)
    if length.sum() != len(cells):
        raise Wrong(f"{key}/length", f"add up to the {len(cells)} cells", int(length.sum()))
    shelf.floats(f"{key}/delta", len(cells), file.d if len(number) else None)
    if f"{key}/rows" in shelf:
        shelf.wholes(f"{key}/rows", len(cells), low=-1)
    patch = np.repeat(np.arange(len(length)), length)
    _require_ascending(cells + layout.count * patch, 1, f"{key}/cells")  # within each patch


def _require_ascending(numbers: Indices, least: int, name: str) -> None:
    if (np.diff(numbers) < least).any():
        raise Wrong(f"{name}", "ascend", numbers)


def _black_layout(buckets: Buckets, most_pairs: int, contenders: int, groups: tuple[int, ...]) -> Layout:
    """Return the layout of all contenders, one of which is the model's own policy; with pairs only if not too many."""
    conditional = comb(len(buckets.sizes) * contenders, 2) <= most_pairs
    return events.black_box(buckets, contenders - 1, groups, conditional=conditional)


# White box and black box


def _check_box(file: _File) -> None:
    root, shelf, k = file.root, file.shelf, len(file.names)
    black = root["kind"].value == _BLACK
    groups = _check_groups(root.get("grouping"), root["groups"])
    for name, rule in _LEARNED_BY_BOX.items():
        rule(root["learned"][name])
    conditional = black and root["conditional"].flag()
    rounds = [log["rounds"].whole(0, _MOST_ROUNDS) for log in root["logs"]]
    root["logs"].require(sum(rounds) < _MOST_ROUNDS, f"have fewer than {_MOST_ROUNDS:,} rounds")
    for number, log in enumerate(root["logs"]):
        pairs = len(list(log["layout"]["events"])) if conditional else -1
        make = partial(_black_layout, _buckets(file), pairs) if black else partial(events.white_box, _buckets(file))
        layout = _check_layout(file, log["layout"], make, k + black, groups, policies=black)
        _check_log(file, log, f"log{number}", layout, models=1 if black else k)
    shelf.wholes("n_patches_", 1 if black else k)
    if black and root["init"].choice(["mean", "model"]) == "mean":
        shelf.floats("init_", file.d)
    elif black and (columns := root.get("init_columns")) is not None:
        _check_columns(file, columns)
    _check_frames(file, _OF_BOX, "history_", "guarantees_", *(["conditional_"] if black else []))
    if "assessed" in shelf or root["parameters"]["validation"].value is not None:
        _check_record(file)
    if (simple := root.get("simple")) is not None:
        _check_forecaster(file, simple, None)
    _check_table(file, len(groups))


def _buckets(file: _File) -> Buckets:
    """Return the buckets of the ensemble's actions."""
    width = file.root["parameters"]["bucket_width"]
    try:
        return Buckets(*file.bounds, bucket_count(width.number()))
    except InputError as error:
        raise Wrong(width.name, f"be that of an ensemble ({error})", width.value) from error


_LEARNED_BY_BOX: dict[str, Callable[[Part], Any]] = {
    "time_ordered_": Part.flag,
    "schedule_": lambda part: part.choice(list(SCHEDULES)),
    "shrinkage_": lambda part: part.number(0.0),
    "min_cell_": lambda part: part.whole(1),
    "M_": lambda part: part.number(0.0),
    **dict.fromkeys(["n_rows_", "n_rounds_", "n_solves_", "n_thin_"], Part.whole),
    "converged_": Part.flag,
    "stopped_": Part.text,
    "worst_violation_": lambda part: part.number(0.0),
}


# The decision ensemble


def _check_decision(file: _File) -> None:
    root, shelf, k = file.root, file.shelf, len(file.names)
    root["sense"].choice(["max", "min"])
    for name, rule in _LEARNED_BY_DECISION.items():
        rule(root["learned"][name])
    models = root["learned"]["n_models_"].whole(0, k + 1)
    subgroups = root.get("subgroups")
    groups = _check_groups(subgroups["values"] if subgroups else None, subgroups)
    winners = (models + 1,) if models > 1 else ()
    _check_forecaster(file, root["forecaster"], (*winners, *groups))
    _check_decider(file, models)
    n = _check_record(file, "advantage_assessed", "advantage_realised")
    for name in ("clusters", "folds"):
        if name in shelf:
            shelf.wholes(name, n, high=n)
    if (labels := root.get("groups")) is not None:
        labels.require(len(labels.labels(of_several=True)) == n, f"have a label for each of {n} rows")
        shelf.wholes("clusters", n, high=n)
    if (seed := root.get("seed")) is not None:
        seed.whole()
    _check_frames(file, _OF_DECISION, *_OF_DECISION)
    chosen = root["frames"]["leaderboard_"]["columns"].value.index("chosen")
    if shelf.take(f"leaderboard_/{chosen}", "b", None).sum() != 1:
        raise Wrong(f"leaderboard_/{chosen}", "choose one candidate", chosen)
    _check_table(file, len(groups))


def _check_decider(file: _File, models: int) -> None:
    """Check who decides: members, and the forecasts made of them."""
    decider, forecaster, k = file.root["decider"], file.root["forecaster"], len(file.names)
    made = {STACK, RIDGE, MEAN} | ({AVERAGE} if models else set())
    made |= {name for name, there in ((REFINED, "refined"), (PATCHED, "patch")) if forecaster[there].value}
    known = [name for name in FORECASTS if name in made]
    decider["forecasts"].require(decider["forecasts"].value == known, f"be {known}")
    decider["winner"].whole(-1, k + len(known))
    file.root["learned"]["names_"].texts(length=k + len(known))
    file.shelf.floats("choice/constants", k + len(made.intersection(PLAYED)))
    # without models, the mean action of the policies and the mean label assess too
    file.shelf.floats("choice/slopes", len(made.intersection(EVALUATORS)) + (0 if models else 2))


def _check_forecaster(file: _File, part: Part, groups: tuple[int, ...] | None) -> None:
    """Check what forecasts labels from what members say, and its patch on cells with groups; None: it has no patch."""
    shelf, k, d = file.shelf, len(file.names), file.d
    for name in ("mean", "scale", "stack/level"):
        shelf.floats(name, d)
    shelf.floats("stack/weights", k)
    shelf.floats("stack/centre", k, d)
    for name in ("ridge", *(["refinement"] if part["refined"].flag() else [])):
        shelf.floats(f"{name}/mean", k * d)
        least = float(np.abs(shelf.floats(f"{name}/scale", k * d)).min())
        if least < _LEAST_SCALE:
            raise Wrong(f"{name}/scale", f"be at least {_LEAST_SCALE:g} in size", least)
        shelf.floats(f"{name}/coefficients", k * d, d)
        shelf.floats(f"{name}/level", d)
    patch = part["patch"]
    if groups is None:
        patch.require(patch.value is None, "be null")
    elif patch.value is not None:
        make = partial(_black_layout, Buckets(*file.bounds, BUCKETS), -1)
        layout = _check_layout(file, patch["layout"], make, k + 1, groups, policies=True)
        _check_log(file, patch, "patch", layout, models=1)


_LEARNED_BY_DECISION: dict[str, Callable[[Part], Any]] = {
    "names_": Part.texts,
    "winner_": Part.text,
    "finding_": Part.text,
    "notes_": Part.texts,
    "time_ordered_": Part.flag,
    "n_rows_": Part.whole,
    "n_updated_": Part.whole,
    "refit_due_": Part.text,
}
