"""Validation of a saved ``LiveEnsemble``: what it has learned goes through compiled code, which checks nothing."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from optensemble._core.arrays import Floats
from optensemble.ensembles._live_refits import Refit
from optensemble.ensembles._live_rows import CERTAIN, EXPIRED, REMEMBERED, OpenRows
from optensemble.ensembles._live_state import history_columns
from optensemble.ensembles._live_terms import PLAYS, REFIT_IN, fewest_kept, names_of_policies
from optensemble.ensembles._watch import Scale
from optensemble.monitoring.tracking import WIDTHS, Tracking
from optensemble.persistence.archive import Arrays
from optensemble.persistence.check_common import SavedFile
from optensemble.persistence.check_rows import check_batch, check_column, check_memory, check_x
from optensemble.persistence.monitor_part import check_monitor, check_scale, check_spans
from optensemble.persistence.parts import LARGEST, MOST_COUNTED, Part, Shelf, Wrong, require_plain
from optensemble.stacking.hedge import Hedge
from optensemble.stacking.online_stack import OnlineStack

HEDGE = tuple(each.name for each in fields(Hedge) if each.name != "lost")
"""The single numbers that hedging has learned."""

STACK = tuple(each.name for each in fields(OnlineStack) if each.name != "models")
"""The arrays that the online stack has learned."""

OPEN = {each.name: int(each.name == "proposed") for each in fields(OpenRows) if each.name not in ("ids", "X", "omega")}
"""The arrays of open rows, and the axis of each along which the rows lie."""

_MOST_FITS = 3
_REFIT = ("decided", "labels", "watched", "rows")


def check_fits(document: Any, blobs: int) -> list[dict[str, Any]]:
    """Return the fits of a file, each with its document and its number of stored estimators."""
    require_plain(document)
    fits = list(Part(document)["fits"])
    Part(document)["fits"].require(1 <= len(fits) <= _MOST_FITS, f"be 1 to {_MOST_FITS} fits")
    counts = [each["estimators"].whole(0, blobs + 1) for each in fits]
    Part(document)["fits"].require(sum(counts) == blobs, f"have {blobs} estimators")
    first = fits[0]["document"]
    for each in fits[1:]:
        own = each["document"]
        own["names"].require(own["names"].value == first["names"].value, "be the members of the first fit")
        own["kind"].require(own["kind"].value == first["kind"].value, "be the kind of the first fit")
        own["shared"].texts(distinct=True)
    found: list[dict[str, Any]] = document["fits"]
    return found


def check_live(document: Any, arrays: Arrays, fits: list[Any], limit: int) -> None:
    """Raise :class:`Wrong`, naming the part, unless a ``LiveEnsemble`` of these fits could have learned this."""
    omega = fits[0].feasible_
    for fit in fits:
        if fit.n_policies != fits[0].n_policies or fit.feasible_.dimension != omega.dimension:
            raise Wrong("fits", "have the same members and the same set", fit.names_)
    shelf = Shelf(arrays | {"lower": omega.lower, "upper": omega.upper})
    file = SavedFile(Part(document, "live"), shelf, limit)
    policies = _check_terms(file, fits)
    _check_learned(file, fits[0], policies)
    decided = file.root["counts"]["decided"].whole()
    file.root["counts"]["expired"].whole(0, decided + 1)
    file.root["counts"]["new"].whole(0, decided + 1)
    file.root["counts"]["counted"].number(0.0)
    _check_refits(file, len(fits))
    check_memory(file)
    _check_rows(file, decided)
    _check_open(file, fits[0], len(policies), decided)


def _check_terms(file: SavedFile, fits: list[Any]) -> tuple[str, ...]:
    """Check what the ensemble was made with; return the names of its policies."""
    root = file.root
    if (refit := root.get("refit")) is not None and refit.value not in ("auto", "never"):
        refit.whole(1)
    play = root["play"].choice(PLAYS)
    root["play"].require(play != "mixture" or fits[0].feasible_.convex, "be another, for the set is not convex")
    root["refit_in"].choice(REFIT_IN)
    for name, least in (("window", fewest_kept(fits[0])), ("expire_after", 1)):
        if (part := root.get(name)) is not None:
            part.whole(least)
    if (groups := root.get("groups")) is not None:
        groups.require(type(groups.value) in (str, int), "name a column")
    root["latest"].whole(0, len(fits))
    return names_of_policies(None if refit is None else refit.value)


def _check_learned(file: SavedFile, fit: Any, policies: tuple[str, ...]) -> None:
    """Check weights, the tracked correction, the online stack, the history and the monitor."""
    root, shelf, d = file.root, file.shelf, file.d
    shelf.floats("hedge", len(policies))
    least = {"start": 0.0, "gap": root["hedge"]["start"].number(0.0)}
    for name in HEDGE:
        root["hedge"][name].number(least.get(name, -LARGEST))
    for each in fields(Tracking):
        part = root["tracking"][each.name]
        part.number(0.0 if each.name == "counted" else -LARGEST)
        if each.name in ("below", "above"):
            part.require(WIDTHS[0] <= part.value <= WIDTHS[1], f"be from {WIDTHS[0]} to {WIDTHS[1]:g}")
    count = feature_count(fit)
    shapes = {"weights": (count,), "products": (count, count), "targets": (count,), "level": (d,), "centre": (count, d)}
    shapes |= {"deviation": (d,), "seen": (count + 1,), "size": (1,)}
    for name in STACK:
        array = shelf.floats(f"stack/{name}", *shapes[name])
        if name in ("deviation", "seen", "size") and array.min() < 0:
            raise Wrong(f"stack/{name}", "be at least 0", float(array.min()))
    columns = [list(each) for each in history_columns(policies).items()]
    root["history"]["columns"].require(root["history"]["columns"].value == columns, f"be {columns}")
    rows = check_spans(shelf, root["history"], "history")
    root["counts"]["decided"].require(rows <= root["counts"]["decided"].whole(), f"be at least {rows}")
    if (monitor := root.get("monitor")) is not None:
        monitor.require(fit.has_record, "be null, for the fit has no record")
        check_monitor(shelf, monitor, "monitor")
    else:
        root["monitor"].require(not fit.has_record, "be a monitor")


def feature_count(fit: Any) -> int:
    """Return how many features the online stack has."""
    return int(len(fit.members_) + (len(fit.members_) > fit.n_policies))


def _check_refits(file: SavedFile, fits: int) -> None:
    """Check the refits so far, and the one that is yet to be taken up."""
    root = file.root
    for each in root["refits"]:
        _check_refit(each)
        each["taken_up"].whole()
    latest = root["latest"].value
    _check_watched(root["watched"], root["counts"]["fits"].whole(latest))
    if (running := root.get("running")) is None:
        root["latest"].require(latest == fits - 1, f"be {fits - 1}, for no other fit is to be taken up")
        return
    _check_refit(running["refit"])
    running["refit"]["taken_up"].choice([None])
    running["due_at"].whole()
    pending = not running["failed"].text()
    root["latest"].require(latest == fits - 1 - pending, f"be {fits - 1 - pending}")


def _check_refit(refit: Part) -> None:
    for name in _REFIT:
        refit[name].whole()
    for name in ("why", "failed"):
        refit[name].text()
    names = [each.name for each in fields(Refit)]
    refit.require(sorted(refit.value) == sorted(names), f"have {', '.join(names)}")


def _check_watched(watched: Part, fits: int) -> None:
    """Check which fit is watched, and the scales of those that are yet to be."""
    number = watched["number"].whole(0, fits + 1)
    watched["weighing"].number(0.0)
    names = ("number", *Scale._fields, "weighing")
    for each in watched["later"]:
        parts = list(each)
        each.require(len(parts) == len(names), f"be {', '.join(names)}")
        number = parts[0].whole(number + 1, fits + 1)
        check_scale(dict(zip(Scale._fields, parts[1:-1], strict=True)))
        parts[-1].number(0.0)


def _check_rows(file: SavedFile, decided: int) -> None:
    """Check the rows to fit again on."""
    rows = file.root["rows"]
    rows["why"].text()
    rows["window"].whole(1)
    first = len(list(rows["first"]))
    for number, batch in enumerate([*rows["first"], *rows["pieces"]]):
        n = check_batch(file, batch, f"rows{number}")
        if number >= first:
            numbers = file.shelf.wholes(f"rows{number}/numbers", n, high=decided)
            if len(np.unique(numbers)) < n:
                raise Wrong(f"rows{number}/numbers", "be distinct", numbers)


def _check_open(file: SavedFile, fit: Any, policies: int, decided: int) -> None:
    """Check the open rows, and those that are remembered."""
    shelf, part = file.shelf, file.root["open"]
    keys = shelf.take("closed/keys", "u", None)
    shelf.wholes("closed/prints", len(keys), low=EXPIRED, high=1 << 63)
    if len(keys) > REMEMBERED:
        raise Wrong("closed/keys", f"be at most {REMEMBERED:,}", len(keys))
    lengths = shelf.wholes("open/lengths", None, low=1, high=decided + 1)
    if not len(lengths):
        _require_distinct(keys)
        return
    n = int(lengths.sum())
    check_open_rows(file, part["ids"], fit, policies, n, decided=decided, fits=file.root["counts"]["fits"].whole())
    _require_distinct(np.concatenate([keys, shelf.take("open/keys", "u", n)]))
    _check_tables(file, fit, lengths)


def check_open_rows(
    file: SavedFile, ids: Part | None, fit: Any, policies: int, n: int, *, decided: int, fits: int
) -> None:
    """Check what is known of open rows, but for their X; ``fits`` is the number of refits.

    Ids that were packed just now are None: it takes long to look at each.
    """
    shelf, d = file.shelf, file.d
    numbers = shelf.wholes("open/numbers", n, high=decided)
    if (np.diff(numbers) <= 0).any():
        raise Wrong("open/numbers", "ascend", numbers)
    _require_distinct(shelf.take("open/keys", "u", n))
    shelf.floats("open/proposed", policies, n, d)
    shelf.floats("open/played", n, d)
    _require_numbers_or_nan(shelf, "open/features", n, feature_count(fit), d)
    weights = shelf.floats("open/weights", n, policies)
    if weights.min() < 0 or weights.max() > 1:
        raise Wrong("open/weights", "be from 0 to 1", weights)
    promises = shelf.figures("open/promises", n, 5)
    if not np.isfinite(promises[:, CERTAIN]).all():
        raise Wrong("open/promises", "be finite", promises)
    shelf.wholes("open/fit", n, high=min(fits + 1, MOST_COUNTED))
    if fit.feasible_.varies:
        shelf.figures("open/values", n, fit.feasible_.width)  # of rows that make no set, anything
    if ids is not None:
        check_column(file, ids, "open/ids", n)


def _require_distinct(keys: Any) -> None:
    if len(np.unique(keys)) < len(keys):
        raise Wrong("closed/keys", "be distinct", len(keys))


def _require_numbers_or_nan(shelf: Shelf, name: str, *shape: int) -> None:
    array: Floats = shelf.take(name, "f", *shape)
    if np.abs(np.nan_to_num(array, nan=0.0)).max() > LARGEST:
        raise Wrong(name, f"hold numbers of at most {LARGEST:g} in size, or NaN", array)


def _check_tables(file: SavedFile, fit: Any, lengths: Any) -> None:
    """Check the rows of X that are open: tables of one or several batches each."""
    tables, done = list(file.root["open"]["tables"]), 0
    for number, table in enumerate(tables):
        stop = done + table["batches"].whole(1, len(lengths) - done + 1)
        table["by_columns"].flag()
        check_x(file, table["x"], f"open/x{number}", int(lengths[done:stop].sum()))
        done = stop
    learns = file.root["refit"].value != "never" and not file.root["rows"]["why"].value
    none_needed = not tables and not fit.feasible_.needs_table and not learns
    file.root["open"]["tables"].require(done == len(lengths) or none_needed, f"be those of {len(lengths)} batches")
