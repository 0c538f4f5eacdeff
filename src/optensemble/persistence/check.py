"""Validation of saved ensembles, before anything is made of them: every value against what it will index.

A checksum shows accidents. To alter a file on purpose is to renew its checksum too, and compiled code does not check
where it writes: nothing of a file gets there unless it has passed :func:`check_contents`. Feasible sets are made by
their own constructors, which check their arguments; only their sizes are checked here.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from optensemble._core.buckets import Buckets
from optensemble._core.validation import bucket_count
from optensemble.ensembles.base import INIT
from optensemble.evaluation.payoff_record import Calibration
from optensemble.exceptions import InputError
from optensemble.multicalibration import events
from optensemble.persistence.check_common import (
    SavedFile,
    check_columns,
    check_feasible,
    check_frames,
    check_members,
    check_mending,
    check_names,
    check_record,
    check_roles,
    check_subgroups,
)
from optensemble.persistence.check_corrections import (
    MOST_LISTED_ROUNDS,
    black_layout,
    check_context,
    check_forecaster,
    check_layout,
    check_log,
)
from optensemble.persistence.check_rows import check_rows
from optensemble.persistence.contents import (
    BLACK,
    DECISION,
    DECISION_FRAMES,
    DECISION_LEARNED,
    PAPER_FRAMES,
    PAPER_LEARNED,
    WHITE,
    Rule,
)
from optensemble.persistence.monitor_part import check_monitor
from optensemble.persistence.parts import Part, Shelf, Wrong, require_plain
from optensemble.persistence.stored_members import check_stored
from optensemble.stacking.arms import EVALUATORS, PLAYED
from optensemble.stacking.forecaster import AVERAGE, CONTEXT, FORECASTS, MEAN, PATCHED, REFINED, RIDGE, STACK


def check_contents(document: Any, arrays: dict[str, npt.NDArray[Any]], limit: int, blobs: int = 0) -> None:
    """Raise :class:`Wrong`, naming the part, unless document and arrays are what ``save`` writes.

    The estimators of stored members, of which there are ``blobs``, are checked when they are loaded.
    """
    require_plain(document)
    file = SavedFile(Part(document), Shelf(arrays), limit)
    kind = file.root["kind"].choice([WHITE, BLACK, DECISION])
    check_feasible(file)
    check_members(file)
    check_stored(file, blobs)
    check_mending(file)
    check_names(file)
    _check_own_members(file)
    file.shelf.take("fingerprints_", "u", None)
    (_check_decision if kind == DECISION else _check_paper)(file)


def _check_learned(file: SavedFile, rules: dict[str, Rule]) -> None:
    for name, rule in rules.items():
        rule(file.root["learned"][name])


def _check_paper(file: SavedFile) -> None:
    """Check a white box or a black box."""
    root, shelf, k = file.root, file.shelf, len(file.names)
    black = root["kind"].value == BLACK
    groups = check_subgroups(root.get("grouping"), root["groups"])
    _check_learned(file, PAPER_LEARNED)
    _check_logs(file, groups)
    shelf.wholes("n_patches_", 1 if black else k)
    if black and root["init"].choice(["mean", "model"]) == "mean":
        shelf.floats("init_", file.d)
    elif black and (columns := root.get("init_columns")) is not None:
        check_columns(file, columns)
    check_frames(file, PAPER_FRAMES, "history_", "guarantees_", *(["conditional_"] if black else []))
    if "assessed" in shelf or root["parameters"]["validation"].value is not None:
        check_record(file)
    if (simple := root.get("simple")) is not None:
        check_forecaster(file, simple, None)
    if (seed := root.get("seed")) is not None:
        seed.whole()
    check_roles(file, len(groups))


def _check_logs(file: SavedFile, groups: tuple[int, ...]) -> None:
    """Check the logs of a white box or a black box: one for the fit, and one for each extension of it."""
    root, k = file.root, len(file.names)
    black = root["kind"].value == BLACK
    conditional = black and root["conditional"].flag()
    rounds = [log["rounds"].whole(0, MOST_LISTED_ROUNDS) for log in root["logs"]]
    root["logs"].require(sum(rounds) < MOST_LISTED_ROUNDS, f"have fewer than {MOST_LISTED_ROUNDS:,} rounds")
    for number, log in enumerate(root["logs"]):
        pairs = len(list(log["layout"]["events"])) if conditional else -1
        buckets = _action_buckets(file)
        make = partial(black_layout, buckets, pairs) if black else partial(events.white_box, buckets)
        layout = check_layout(file, log["layout"], make, k + black, groups, policies=black)
        check_log(file, log, f"log{number}", layout, models=1 if black else k)


def _action_buckets(file: SavedFile) -> Buckets:
    """Return the buckets of the ensemble's actions."""
    width = file.root["parameters"]["bucket_width"]
    try:
        return Buckets(*file.bounds, bucket_count(width.number()))
    except InputError as error:
        raise Wrong(width.name, f"be that of an ensemble ({error})", width.value) from error


def _check_decision(file: SavedFile) -> None:
    """Check a decision ensemble."""
    root, shelf, k = file.root, file.shelf, len(file.names)
    root["sense"].choice(["max", "min"])
    _check_learned(file, DECISION_LEARNED)
    models = root["learned"]["n_models_"].whole(0, k + 1)
    subgroups = root.get("subgroups")
    groups = check_subgroups(subgroups["values"] if subgroups else None, subgroups)
    winners = (models + 1,) if models > 1 else ()
    check_forecaster(file, root["forecaster"], (*winners, *[2] * len(_check_absences(file)), *groups))
    _check_final_policy(file, models)
    n = check_record(file, "advantage_assessed", "advantage_realised")
    for name in ("clusters", "folds"):
        if name in shelf:
            shelf.wholes(name, n, high=n)
    _check_weights(file, n)
    _check_groups(file, n)
    _check_totals(file)
    if (seed := root.get("seed")) is not None:
        seed.whole()
    _check_context(file)
    _check_monitor(file)
    check_frames(file, DECISION_FRAMES, *DECISION_FRAMES)
    chosen = root["frames"]["leaderboard_"]["columns"].value.index("chosen")
    if shelf.take(f"leaderboard_/{chosen}", "b", None).sum() != 1:
        raise Wrong(f"leaderboard_/{chosen}", "choose one candidate", chosen)
    check_roles(file, len(groups))
    check_rows(file)


def _check_own_members(file: SavedFile) -> None:
    """Check which members were fitted with the ensemble, and on which folds; older files do not know it."""
    if (own := file.root.get("cross_fitted")) is not None:
        own.require(set(own.texts(distinct=True)) <= {*file.names, INIT}, "be members")
    if (cv := file.root.get("cv")) is not None and not isinstance(cv.value, str):
        cv.whole(2)


def _check_context(file: SavedFile) -> None:
    """Check the columns that a forecast may look at; older files have none."""
    if (context := file.root.get("context")) is not None:
        check_context(context["columns"])
        given = context.get("given")
        if given is not None and not isinstance(given.value, str):
            given.require(isinstance(given.value, int) or len(check_context(given)) > 0, "be columns")


def _check_monitor(file: SavedFile) -> None:
    """Check the monitor, and the calibration that it watches; older files have none."""
    if (monitor := file.root.get("monitor")) is not None:
        check_monitor(file.shelf, monitor, "monitor")
        watched = [each.number() for each in file.root["watched"]]
        file.root["watched"].require(len(watched) == len(Calibration._fields), f"be {', '.join(Calibration._fields)}")


def _check_absences(file: SavedFile) -> list[int]:
    """Return the members whose absence is an event; older files know of none."""
    part = file.root.get("absences")
    if (on_error := file.root.get("on_error")) is not None:
        on_error.choice(["raise", "absent"])
    if part is None:
        return []
    members = [each.whole(0, len(file.names)) for each in part]
    part.require(sorted(set(members)) == members, "ascend")
    return members


def _check_weights(file: SavedFile, n: int) -> None:
    """Check the weights of a record's rows; those of all rows are summed up in its totals."""
    if (unit := file.root.get("unit")) is not None:
        unit.require(unit.number(0.0) > 0, "be positive")
    if "incomplete" in file.shelf:
        file.shelf.take("incomplete", "b", n)
    if "weights" in file.shelf:
        weights = file.shelf.floats("weights", n)
        if weights.min() < 0 or not weights.any():
            raise Wrong("weights", "be at least 0, and not all 0", float(weights.min()))


def _check_groups(file: SavedFile, n: int) -> None:
    """Check the groups of rows that belong together; older files list the label of every row."""
    groups = file.root.get("groups")
    if groups is None:
        return
    if isinstance(groups.value, dict):
        pooled = groups["pooled"].flag()
        ids = file.shelf.take("group_ids", "u", None)
        groups.require(len(np.unique(ids)) == len(ids) and (len(ids) == 0) == pooled, "be different groups, or pooled")
        return
    groups.require(len(groups.labels(of_several=True)) == n, f"have a label for each of {n} rows")
    file.shelf.wholes("clusters", n, high=n)


def _check_totals(file: SavedFile) -> None:
    """Check the totals of a record of very many rows, of which only a sample is in the file."""
    shelf = file.shelf
    if "record_rows" not in shelf:
        return
    n = len(shelf.floats("assessed", None))
    rows = shelf.wholes("record_rows", n)
    if (np.diff(rows) <= 0).any():
        raise Wrong("record_rows", "ascend", "other rows")
    for name in ("record", "advantage"):
        weighted = len(shelf.floats(f"{name}/limits", None)) == 4
        limits = shelf.floats(f"{name}/limits", 4 if weighted else 3)
        if weighted and not limits[3] > 0:
            raise Wrong(f"{name}/limits", "have squares of weights", float(limits[3]))
        folds = shelf.floats(f"{name}/folds", None, 6)
        if not len(folds) or (folds[:, 0] < 0).any() or round(folds[:, 0].sum()) <= rows[-1]:
            raise Wrong(f"{name}/folds", "count all rows", float(folds[:, 0].sum()) if len(folds) else 0)
        for part, needed in (("bins", file.root["learned"]["time_ordered_"].value), ("clusters", False)):
            if needed or f"{name}/{part}" in shelf:
                sums = shelf.floats(f"{name}/{part}", None, 3)
                counted = np.isclose(sums[:, 2].sum(), folds[:, 0].sum(), rtol=1e-9, atol=0.0)  # rounded, of weights
                if not len(sums) or (sums[:, 2] < 0).any() or not counted:
                    raise Wrong(f"{name}/{part}", "count all rows", len(sums))


def _check_final_policy(file: SavedFile, models: int) -> None:
    """Check the candidates of the final policy: members, and the forecasts made of them."""
    decider, forecaster, k = file.root["decider"], file.root["forecaster"], len(file.names)
    made = {STACK, MEAN} | ({AVERAGE} if models else set())
    kept = {REFINED: forecaster["refined"], CONTEXT: forecaster.get("context"), PATCHED: forecaster["patch"]}
    made |= {name for name, there in kept.items() if there is not None and there.value}
    if RIDGE in decider["forecasts"].texts():  # there is none beside cross-fitted members
        made.add(RIDGE)
    known = [name for name in FORECASTS if name in made]
    decider["forecasts"].require(decider["forecasts"].value == known, f"be {known}")
    decider["winner"].whole(-1, k + len(known))
    file.root["learned"]["names_"].texts(length=k + len(known))
    file.shelf.floats("choice/constants", k + len(made.intersection(PLAYED)))
    # without models, the mean action of the policies and the mean label assess too
    file.shelf.floats("choice/slopes", len(made.intersection(EVALUATORS)) + (0 if models else 2))
