"""A ``LiveEnsemble`` as the contents of a file, and back: it goes on to the bit as if it had not been saved.

The document has those of the fits, ``"fits"``, and all else under ``"live"``; arrays lie under ``fit0/``, ``fit1/``, …
and ``live/``. Members that fits share are in the first of them. Rows to fit again on are in the live part, once.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from optensemble._core.deferred import pd
from optensemble.ensembles._live_refits import Arrived, Outcome, Refit, RefitRows, RunningRefit
from optensemble.ensembles._live_rows import Batch, Ledger, OpenRows, ids_listed
from optensemble.ensembles._live_state import Knowledge, LiveState
from optensemble.ensembles._live_terms import unit_of
from optensemble.ensembles._watch import Scale, WatchedFit
from optensemble.ensembles.base import Policy
from optensemble.ensembles.live import LiveEnsemble
from optensemble.exceptions import InputError, RefitWarning
from optensemble.members.estimators import parts_of
from optensemble.members.fit_inputs import LabelledBatch
from optensemble.members.validation import join_rows
from optensemble.monitoring.tracking import Tracking
from optensemble.persistence.archive import Arrays, Contents
from optensemble.persistence.check_live import HEDGE, OPEN, STACK, check_fits, check_live
from optensemble.persistence.contents import LIVE
from optensemble.persistence.fit_file import Source, pack_fit, restore_fit
from optensemble.persistence.monitor_part import pack_monitor, pack_spans, unpack_monitor, unpack_spans
from optensemble.persistence.packing import INIT_MODEL, GivenAgain, as_plain, under
from optensemble.persistence.parts import MOST_COUNTED
from optensemble.persistence.row_file import (
    NotKeptError,
    is_kept,
    lies_by_columns,
    pack_batch,
    pack_column,
    pack_if_kept,
    pack_x,
    unpack_batch,
    unpack_column,
    unpack_x,
    why_not_kept,
)
from optensemble.persistence.stored_members import MISSING
from optensemble.stacking.hedge import Hedge
from optensemble.stacking.online_stack import OnlineStack

_ELSEWHERE = "the rows of the fit are those of the LiveEnsemble it was loaded with"


# Packing


def pack_live(live: LiveEnsemble, *, keep_rows: bool, keep_members: bool, stacklevel: int) -> Contents:
    """Return the contents of the file; a refit that runs beside is waited for."""
    if live._now.running is not None:
        live._now.running.wait()
    fits = fits_of(live)
    packed = [_pack_fit(fit, fits[0], keep_members=keep_members) for fit in fits]
    arrays: Arrays = {f"fit{i}/{name}": each for i, fit in enumerate(packed) for name, each in fit.arrays.items()}
    own = Arrays()
    document = {
        "kind": LIVE,
        "fits": [{"document": fit.document, "estimators": len(fit.blobs)} for fit in packed],
        "live": _pack_live(live, fits, own, keep_rows=keep_rows, stacklevel=stacklevel + 1),
    }
    arrays |= {f"live/{name}": each for name, each in own.items()}
    return Contents(document, arrays, [blob for fit in packed for blob in fit.blobs])


def fits_of(live: LiveEnsemble) -> list[Policy]:
    """Return the fits there are, each once: the first, the latest, and one that is yet to be taken up."""
    running = live._now.running
    pending = None if running is None else running.outcome.fit
    fits = [live.ensemble_]
    fits += [fit for fit in (live.refitted_, pending) if fit is not None and fit is not fits[-1]]
    return fits


def _pack_fit(fit: Any, first: Any, *, keep_members: bool) -> Contents:
    """Return the contents of a fit without its rows; members that were not fitted again are with the first one."""
    if fit is first:
        return _without_rows(pack_fit(fit, keep_rows=False, keep_members=keep_members, stacklevel=1))
    shared = {
        name for (name, ours), (_, theirs) in zip(fit.members_, first.members_, strict=True) if _same(ours, theirs)
    }
    if _same(getattr(fit, "init_", None), getattr(first, "init_", None)):
        shared.add(INIT_MODEL)
    packed = pack_fit(fit, keep_rows=False, keep_members=True, stacklevel=1, without=shared)
    stored = packed.document.get("stored", {}) | {INIT_MODEL: packed.document.get("init_stored")}
    own = [name for name, _ in fit.members_ if name not in shared]
    own += [INIT_MODEL] if packed.document.get("init") == "model" and INIT_MODEL not in shared else []
    for name in own:
        entry = stored.get(name) or {"kind": MISSING, "why": "it is no estimator with get_params"}
        if entry["kind"] == MISSING:
            raise InputError(
                f"{name!r} was fitted again while deciding, and cannot be stored: {entry['why']}. Install "
                "optensemble[skops], or give LiveEnsemble members that are fitted already."
            )
    packed.document["shared"] = sorted(shared)
    return _without_rows(packed)


def _same(ours: Any, theirs: Any) -> bool:
    """Return whether two members are the same object, or consist of the same estimators."""
    parts, others = parts_of(ours), parts_of(theirs)
    return len(parts) == len(others) and all(a is b for a, b in zip(parts, others, strict=True))


def _without_rows(packed: Contents) -> Contents:
    if "rows" in packed.document:
        packed.document["rows"] = {"why": _ELSEWHERE}
    return packed


def _pack_live(
    live: LiveEnsemble, fits: list[Policy], arrays: Arrays, *, keep_rows: bool, stacklevel: int
) -> dict[str, Any]:
    now, ledger = live._now, live._ledger
    state = now.state
    arrays["hedge"] = state.hedge.lost
    arrays |= {f"stack/{name}": getattr(state.stack, name) for name in STACK}
    arrays["closed/keys"] = np.array(list(ledger.closed), dtype=np.uint64)
    arrays["closed/prints"] = np.array(list(ledger.closed.values()), dtype=np.int64)
    rule = live._groups_rule
    opened, lacking = _pack_open(live, arrays, keep=keep_rows)
    return {
        "refit": None if callable(live.refit) else _as_term(live.refit),
        **{name: _as_term(getattr(live, name)) for name in ("play", "refit_in", "window", "expire_after")},
        "groups": None if callable(rule) else as_plain(rule),
        "latest": fits.index(live.refitted_),
        "counts": {name: getattr(now, name) for name in ("decided", "expired", "fits", "new", "counted")},
        "hedge": {name: getattr(state.hedge, name) for name in HEDGE},
        "tracking": asdict(state.tracking),
        "history": pack_spans(now.history, arrays, "history"),
        "monitor": None if live.monitor is None else pack_monitor(live.monitor, arrays, "monitor"),
        "watched": _pack_watched(now.watched),
        "refits": [asdict(refit) for refit in now.refits],
        "running": _pack_running(now.running),
        "rows": _pack_rows(live, arrays, lacking, keep=keep_rows, stacklevel=stacklevel + 1),
        "open": opened,
    }


def _as_term(value: Any) -> Any:
    """Return a term as JSON has it; a number of rows that are never reached becomes the largest that a file holds."""
    plain = as_plain(value)
    return min(plain, MOST_COUNTED - 1) if isinstance(plain, int) else plain


def _pack_watched(watched: WatchedFit) -> dict[str, Any]:
    later = [[number, *scale, weighing] for number, (scale, weighing) in watched.later.items()]
    return {"number": watched.number, "weighing": watched.weighing, "later": later}


def _pack_running(running: RunningRefit | None) -> dict[str, Any] | None:
    if running is None:
        return None
    return {"refit": asdict(running.refit), "due_at": running.due_at, "failed": running.outcome.failed}


def _pack_rows(live: LiveEnsemble, arrays: Arrays, lacking: str, *, keep: bool, stacklevel: int) -> dict[str, Any]:
    """Put the rows to fit again on among the arrays, and return the rest; ``lacking`` says why open rows are not."""
    rows = live._now.rows
    rule = live._groups_rule
    function, column = (rule, None) if callable(rule) else (None, rule)
    why = live._no_rows or ((why_not_kept(live.ensemble_, rows.first, keep=keep) or lacking) if live._learns else "")

    def pack(room: Arrays) -> dict[str, Any]:
        first = [pack_batch(live.ensemble_, batch, room, f"rows{i}") for i, batch in enumerate(rows.first)]
        pieces = list[dict[str, Any]]()
        for number, piece in enumerate(rows.pieces, start=len(first)):
            groups = function if piece.groups is None else piece.groups  # a function is not in the file
            batch = LabelledBatch(piece.X, piece.labels, groups, piece.weights)
            pieces.append(pack_batch(live.ensemble_, batch, room, f"rows{number}", column))
            room[f"rows{number}/numbers"] = piece.numbers
        return {"first": first, "pieces": pieces}

    found = {"why": why} if why else pack_if_kept(pack, arrays, stacklevel=stacklevel + 1)
    return {"window": _as_term(rows.window), "first": [], "pieces": [], **found}


def _pack_open(live: LiveEnsemble, arrays: Arrays, *, keep: bool) -> tuple[dict[str, Any], str]:
    """Put the open rows among the arrays, all batches end to end; return the rest, and why their X is not there."""
    batches = live._ledger.open_rows
    arrays["open/lengths"] = np.array([len(batch) for batch in batches], dtype=np.int64)
    if not batches:
        return {"ids": None, "tables": []}, ""
    for name, axis in OPEN.items():
        arrays[f"open/{name}"] = np.concatenate([getattr(batch, name) for batch in batches], axis=axis)
    if live.ensemble_.feasible_.varies:
        arrays["open/values"] = np.concatenate([batch.omega.values for batch in batches])
    ids = pack_ids([batch.ids for batch in batches], arrays)
    tables, lacking = _pack_tables(live, [batch.X for batch in batches], arrays, keep=keep)
    return {"ids": ids, "tables": tables}, lacking


def pack_ids(parts: list[npt.NDArray[Any]], arrays: Arrays) -> dict[str, Any]:
    """Put the ids of open rows among the arrays, end to end, and return the rest."""
    return pack_column(_joined_ids(parts), arrays, "open/ids", "the ids")


def _joined_ids(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return ids as a file has them; what is neither text, a number nor a tuple of these becomes text to be shown."""
    if len({part.dtype for part in parts}) == 1 and parts[0].dtype.kind in "iuM":
        return np.concatenate(parts)
    listed = [each for part in parts for each in ids_listed(part)]
    found = np.empty(len(listed), dtype=object)
    found[:] = [each if _is_plain(each) else str(each).encode(errors="replace").decode() for each in listed]
    return found


def _is_plain(value: Any) -> bool:
    return all(map(is_kept, value if type(value) is tuple else (value,)))


# The rows of X that are open are kept in few tables: single rows would make a great many


def _pack_tables(
    live: LiveEnsemble, opened: list[Any], arrays: Arrays, *, keep: bool
) -> tuple[list[dict[str, Any]], str]:
    """Put the rows of X that are open among the arrays, those of like batches in one table.

    Return the rest, and in words why they are not there if they cannot be.
    """
    needed = live.ensemble_.feasible_.needs_table
    if not needed and not (keep and live._learns):
        return [], ""
    room, tables = Arrays(), list[dict[str, Any]]()
    try:
        for number, (kind, run) in enumerate(_runs(opened)):
            X = run[0] if len(run) == 1 else join_rows(run)
            packed = pack_x(X, room, f"open/x{number}")
            tables.append({"x": packed, "batches": len(run), "by_columns": kind.by_columns})
    except NotKeptError as error:
        if needed:
            raise InputError(
                f"{error}, and the costs of rows that are open come from X: a file cannot hold them. Observe their "
                "labels first, or give X as an array of numbers or a pandas frame."
            ) from error
        return [], f"open rows are not in the file, for {error}"
    arrays |= room
    return tables, ""


class _Kind(NamedTuple):
    """A kind of table: those of the same kind are joined, and cut again, without a trace."""

    type: Any
    columns: Any
    dtypes: Any
    by_columns: bool
    alone: int = 0


def _runs(tables: list[Any]) -> Iterator[tuple[_Kind, list[Any]]]:
    """Go through tables of the same kind that follow each other."""
    kinds = [_kind_of(X, number) for number, X in enumerate(tables)]
    edges = [0, *(i for i in range(1, len(kinds)) if kinds[i] != kinds[i - 1]), len(kinds)]
    for start, stop in pairwise(edges):
        yield kinds[start], tables[start:stop]


def _kind_of(X: Any, number: int) -> _Kind:
    if type(X) is np.ndarray:
        return _Kind(np.ndarray, X.shape[1:], str(X.dtype), lies_by_columns(X))
    if isinstance(X, pd.DataFrame) and isinstance(X.index, pd.RangeIndex):
        by_columns = _is_block(X) and lies_by_columns(X.to_numpy())
        return _Kind(pd.DataFrame, tuple(X.columns), tuple(map(str, X.dtypes)), by_columns)
    return _Kind(type(X), None, None, False, number + 1)


def _is_block(X: pd.DataFrame) -> bool:
    """Return whether a frame holds numbers of one type, which lie in memory in an order of their own."""
    return len(set(X.dtypes)) == 1 and isinstance(X.dtypes.iloc[0], np.dtype)


def _cut(X: Any, start: int, stop: int, *, by_columns: bool) -> Any:
    """Return some rows of a table that was joined, lying in memory as they did before."""
    order: Any = "F" if by_columns else "C"
    if isinstance(X, np.ndarray):
        return np.array(X[start:stop], order=order)
    part = X.iloc[start:stop].reset_index(drop=True)
    if _is_block(X):
        return pd.DataFrame(np.array(part.to_numpy(), order=order), columns=X.columns, copy=False)
    return part


# Unpacking


def restore_live(contents: Contents, given: GivenAgain, source: Source, refit: Any) -> LiveEnsemble:
    """Return the ensemble, after checks of everything."""
    document, arrays, blobs = contents
    fits = _restore_fits(document, arrays, blobs, given, source)
    own = under(arrays, "live")
    check_live(document["live"], own, fits, source.limit)
    return _restore(document["live"], own, fits, refit)


def _restore_fits(
    document: dict[str, Any], arrays: Arrays, blobs: list[bytes], given: GivenAgain, source: Source
) -> list[Any]:
    """Return the fits; those that came later share members and the set with the first."""
    saved = check_fits(document, len(blobs))
    fits, start = list[Any](), 0
    for number, each in enumerate(saved):
        stop = start + each["estimators"]
        contents = Contents(each["document"], under(arrays, f"fit{number}"), blobs[start:stop])
        fits.append(restore_fit(contents, _shared(fits[0], contents.document, given) if fits else given, source))
        start = stop
    return fits


def _shared(first: Any, document: dict[str, Any], given: GivenAgain) -> GivenAgain:
    """Return what is given to a later fit: the members that it shares with the first."""
    shared, members = set(document["shared"]), dict(first.members_)
    policies = {name for name, _ in first.policy_members}
    models = {name: each for name, each in members.items() if name in shared and name not in policies}
    if INIT_MODEL in shared and document.get("init") == "model":
        models[INIT_MODEL] = first.init_
    found = {"models": models, "policies": {name: members[name] for name in shared & policies}}
    return replace(given, members=found)


def _restore(saved: dict[str, Any], arrays: Arrays, fits: list[Any], refit: Any) -> LiveEnsemble:
    first, counts = fits[0], saved["counts"]
    terms = {name: saved[name] for name in ("play", "refit_in", "window", "expire_after")}
    live = LiveEnsemble._of_terms(first, refit=_as_refit(saved["refit"], refit), **terms)
    live._groups_rule, live._no_rows = saved["groups"], saved["rows"]["why"]
    stack = OnlineStack(**{name: arrays[f"stack/{name}"] for name in STACK}, models=live._models)
    hedge = Hedge(lost=arrays["hedge"], **saved["hedge"])
    state = LiveState(hedge, Tracking(**saved["tracking"]), stack, unit_of(first))
    live.monitor = None if saved["monitor"] is None else unpack_monitor(saved["monitor"], arrays, "monitor")
    live._ledger = _restore_ledger(saved, arrays, first)
    live._now = Knowledge(
        state=state,
        history=unpack_spans(saved["history"], arrays, "history"),
        rows=_restore_rows(saved["rows"], arrays, first),
        fit=fits[saved["latest"]],
        fits=counts["fits"],
        new=counts["new"],
        counted=counts["counted"],
        watched=_restore_watched(saved["watched"]),
        refits=tuple(Refit(**each) for each in saved["refits"]),
        running=_restore_running(saved["running"], fits),
        decided=counts["decided"],
        open=live._ledger.open,
        expired=counts["expired"],
    )
    if live._no_rows and live.refit != "never":
        warnings.warn(f"{live._no_rows}: this LiveEnsemble will not be refitted.", RefitWarning, stacklevel=7)
    return live


def _as_refit(saved: Any, given: Any) -> Any:
    """Return when to refit; a callable is given again."""
    if saved is None and not callable(given):
        raise InputError("the refit rule is a callable, which no file holds. Pass it again: load(path, refit=…).")
    if saved is not None and given is not None:
        raise InputError(f"the refit rule is in the file, refit={saved!r}; got {given!r}. Leave refit out.")
    return given if saved is None else saved


def _restore_watched(saved: dict[str, Any]) -> WatchedFit:
    later = {number: (Scale(*scale), weighing) for number, *scale, weighing in saved["later"]}
    return WatchedFit(saved["number"], saved["weighing"], later)


def _restore_running(saved: dict[str, Any] | None, fits: list[Any]) -> RunningRefit | None:
    if saved is None:
        return None
    outcome = Outcome(failed=saved["failed"]) if saved["failed"] else Outcome(fits[-1])
    return RunningRefit(Refit(**saved["refit"]), saved["due_at"], lambda: fits[-1], outcome)


def _restore_rows(saved: dict[str, Any], arrays: Arrays, fit: Any) -> RefitRows:
    names, start = fit._known, len(saved["first"])
    first = [unpack_batch(each, arrays, f"rows{i}", names) for i, each in enumerate(saved["first"])]
    pieces = list[Arrived]()
    for number, each in enumerate(saved["pieces"], start=start):
        batch = unpack_batch(each, arrays, f"rows{number}", names)
        pieces.append(Arrived(arrays[f"rows{number}/numbers"], batch.X, batch.labels, batch.weights, batch.groups))
    return RefitRows.of(first, pieces, saved["window"])


def _restore_ledger(saved: dict[str, Any], arrays: Arrays, fit: Any) -> Ledger:
    counts, closed = saved["counts"], (arrays["closed/keys"].tolist(), arrays["closed/prints"].tolist())
    rows = list(_open_batches(saved["open"], arrays, fit))
    places = {key: at for batch in rows for key, at in zip(batch.keys.tolist(), batch.numbers.tolist(), strict=True)}
    return Ledger(
        list(map(Batch.of, rows)), places, OrderedDict(zip(*closed, strict=True)), counts["decided"], counts["expired"]
    )


def _open_batches(saved: dict[str, Any], arrays: Arrays, fit: Any) -> Iterator[OpenRows]:
    """Go through the batches of open rows, with Ω bound to them."""
    edges = np.r_[0, np.cumsum(arrays["open/lengths"])].tolist()
    if len(edges) == 1:
        return
    tables = _cut_tables(saved["tables"], arrays, edges)
    for number, (start, stop) in enumerate(pairwise(edges)):
        yield unpack_open_rows(saved["ids"], arrays, slice(start, stop), tables[number] if tables else None, fit)


def unpack_open_rows(ids: dict[str, Any], arrays: Arrays, rows: slice, X: Any, fit: Any) -> OpenRows:
    """Return some of the open rows among the arrays, with their X, and Ω bound to them."""
    omega = fit.feasible_
    part: dict[str, Any] = {
        name: np.ascontiguousarray(arrays[f"open/{name}"][(slice(None),) * axis + (rows,)])
        for name, axis in OPEN.items()
    }
    bound = omega.bind_again(arrays["open/values"][rows], X) if omega.varies else omega
    if bound.faulty.any() and omega.on_failure == "raise":
        raise LookupError("parameters of open rows make no set")
    return OpenRows(**part, ids=np.asarray(unpack_column(ids, arrays, "open/ids"))[rows], X=X, omega=bound)


def _cut_tables(saved: list[dict[str, Any]], arrays: Arrays, edges: list[int]) -> list[Any]:
    """Return the rows of X of every batch."""
    found = list[Any]()
    for number, table in enumerate(saved):
        X, first = unpack_x(table["x"], arrays, f"open/x{number}"), len(found)
        if table["batches"] == 1:
            found.append(X)
            continue
        for at in range(first, first + table["batches"]):
            start, stop = edges[at] - edges[first], edges[at + 1] - edges[first]
            found.append(_cut(X, start, stop, by_columns=table["by_columns"]))
    return found
