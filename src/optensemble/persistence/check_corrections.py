"""Validation of saved corrections: the layout of cells, logs of patches, and forecasters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import comb, prod
from typing import Any

import numpy as np

from optensemble._core.arrays import Indices
from optensemble._core.buckets import Buckets
from optensemble.ensembles._decision_answers import BUCKETS
from optensemble.multicalibration import events
from optensemble.multicalibration.events import Layout
from optensemble.persistence.check_common import SavedFile
from optensemble.persistence.parts import Part, Wrong

MOST_LISTED_ROUNDS = 10_000_000
"""Rounds are listed, whether they have patches or not; a fit of days has fewer."""

_MOST_IN_PARTITION = 2**31
"""Parts of a partition: cells, numbered by two of them, still fit into 64 bits."""

_BYTES_PER_CELL = 8
"""Replay numbers the cells of an event."""

_LEAST_SCALE = 1e-100
"""Features are divided by their scales, and must not overflow."""


def check_layout(
    file: SavedFile,
    part: Part,
    make: Callable[[int, tuple[int, ...]], Layout],
    most: int,
    groups: tuple[int, ...],
    *,
    policies: bool,
) -> Layout:
    """Return the layout of cells, if it is the one that its numbers of policies and of subgroups define.

    An ensemble that was extended has logs of fewer competing policies, and of columns with fewer subgroups, than it
    has now: ``most`` and ``groups`` are upper limits. With ``policies`` there are level sets of each of them.
    """
    sizes = [size.whole(1, _MOST_IN_PARTITION) for size in part["sizes"]]
    at = file.d
    part["sizes"].require(len(sizes) > at + len(groups), f"have more than {at + len(groups)} entries")
    competing, known = sizes[at], tuple(sizes[at + 1 : at + 1 + len(groups)])
    part["sizes"].require(competing <= most, f"have at most {most} as entry {at}")
    length = at * (competing if policies else 1) + 1 + len(groups)  # checked before a layout of that size is made
    part["sizes"].require(len(sizes) == length, f"have {length} entries")
    part["sizes"].require(all(a <= b for a, b in zip(known, groups, strict=True)), "fit the values of the groups")
    layout = make(competing, known)
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


def black_layout(buckets: Buckets, most_pairs: int, competing: int, groups: tuple[int, ...]) -> Layout:
    """Return the layout of all competing policies, the model's own among them; with pairs unless there are too many."""
    conditional = comb(len(buckets.sizes) * competing, 2) <= most_pairs
    return events.black_box(buckets, competing - 1, groups, conditional=conditional)


def check_log(file: SavedFile, log: Part, key: str, layout: Layout, models: int) -> None:
    """Check patches laid end to end: their rounds, the members they correct, their cells and corrections."""
    shelf = file.shelf
    number = shelf.wholes(f"{key}/round", None, high=log["rounds"].whole(0, MOST_LISTED_ROUNDS))
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
        raise Wrong(name, "ascend", numbers)


def _check_linear(file: SavedFile, key: str, *, refined: bool) -> None:
    """Check the stack, the ridge and the refinement of a forecaster."""
    shelf, k, d = file.shelf, len(file.names), file.d
    shelf.floats(f"{key}stack/level", d)
    shelf.floats(f"{key}stack/weights", k)
    shelf.floats(f"{key}stack/centre", k, d)
    for name in ("ridge", *(["refinement"] if refined else [])):
        shelf.floats(f"{key}{name}/mean", k * d)
        least = float(np.abs(shelf.floats(f"{key}{name}/scale", k * d)).min())
        if least < _LEAST_SCALE:
            raise Wrong(f"{key}{name}/scale", f"be at least {_LEAST_SCALE:g} in size", least)
        shelf.floats(f"{key}{name}/coefficients", k * d, d)
        shelf.floats(f"{key}{name}/level", d)


def _check_patterns(file: SavedFile, part: Part | None) -> None:
    """Check the forecasts of rows in which some members are absent; older files have none."""
    k = len(file.names)
    known = [tuple(member.whole(0, k) for member in absent) for absent in part or ()]
    if part is not None:
        right = all(sorted(set(absent)) == list(absent) and len(absent) < k for absent in known)
        part.require(right and len(set(known)) == len(known), "be different members, some of all")
    for number in range(len(known)):
        _check_linear(file, f"pattern{number}/", refined=True)


def _check_forest(file: SavedFile, part: Part | None) -> None:
    """Check the trees of the context correction, which compiled code walks through; older files have none."""
    if part is None or not part.flag():
        return
    shelf = file.shelf
    context = file.root["context"]
    columns = len(check_context(context["decides"]))
    shelf.floats("context/fill", columns)
    leaves = len(shelf.floats("forest/values", None, file.d))
    feature = shelf.wholes("forest/feature", None, low=-1, high=columns + file.d)
    nodes = len(feature)
    shelf.floats("forest/threshold", nodes)
    left, right = (shelf.wholes(f"forest/{side}", nodes, high=max(nodes, leaves)) for side in ("left", "right"))
    roots, leaf = shelf.wholes("forest/roots", None, high=nodes), feature < 0
    below = np.minimum(left, right)[~leaf] > np.flatnonzero(~leaf)  # so that every walk comes to an end
    inside = np.maximum(left, right)[~leaf] < nodes
    if not (len(roots) and below.all() and inside.all() and (left[leaf] < leaves).all()):
        raise Wrong("forest/left", "lead from every root to a leaf", "other nodes")


def check_context(columns: Part) -> list[Any]:
    """Return the columns of a context: distinct names, or distinct numbers."""
    names = [each.value for each in columns]
    kinds = {type(name) for name in names}
    right = kinds <= {str} or (kinds <= {int} and min(names) >= 0)
    columns.require(right and len(set(names)) == len(names), "be distinct names, or distinct numbers of columns")
    return names


def check_forecaster(file: SavedFile, part: Part, groups: tuple[int, ...] | None) -> None:
    """Check a forecaster of labels from the members' outputs, and its patch on cells of groups (None: no patch)."""
    shelf, k, d = file.shelf, len(file.names), file.d
    for name in ("mean", "scale"):
        shelf.floats(name, d)
    _check_linear(file, "", refined=part["refined"].flag())
    _check_patterns(file, part.get("patterns"))
    _check_forest(file, part.get("context"))
    if "filling/centre" in shelf or "filling/covariance" in shelf:
        shelf.floats("filling/centre", k, d)
        shelf.floats("filling/covariance", d, k, k)
    patch = part["patch"]
    if groups is None:
        patch.require(patch.value is None, "be null")
    elif patch.value is not None:
        make = partial(black_layout, Buckets(*file.bounds, BUCKETS), -1)
        layout = check_layout(file, patch["layout"], make, k + 1, groups, policies=True)
        check_log(file, patch, "patch", layout, models=1)
