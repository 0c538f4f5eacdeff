"""No bit moved: what the ensembles answer on seeded data, hashed, to be compared from one version to another.

Every ensemble is fitted over kinds of set, schedules, senses, validations and seeds; then it is asked, audited,
explained, saved, loaded, extended and updated. Only the public interface is used, so that the same file runs on any
version of the package, whichever is first on ``PYTHONPATH``. Numbers are hashed and no text is: words may change. A
name counts by its place among the names.

    python benchmarks/bits.py --save before.npz
    python benchmarks/bits.py --against before.npz

Every line is ``case quantity hash numbers sum largest``. The last line has two hashes over all of them: one for
quantities that must be equal to the bit, and one for those in ``TOUCHED``, whose sums are taken in another order and
which may move by ``SLACK``. The exit code of a comparison is 1 if a quantity moved further than it may.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from threadpoolctl import threadpool_limits

import optensemble as oe
from optensemble import feasible, guarantees

Floats = npt.NDArray[np.float64]
Columns = dict[str, Floats]
Quantities = dict[str, Columns]
Found = dict[tuple[str, str], Columns]

TOUCHED: tuple[tuple[str, str], ...] = (("decision/*/subgroups/*", "*"),)
"""Patterns of (case, quantity) that may move by ``SLACK``: the patch's sums became order-independent."""

SLACK = 1e-9
ROWS, LATER, FURTHER = 240, 80, 60
SEEDS = (0, 1, 2)
SENSES = ("max", "min")
SCHEDULES = ("frozen", "round-robin", "joint")
VALIDATIONS = ("cv", None)
VARIANTS = ("plain", "subgroups", "time", "clusters")
WHO = ("candidate", "name", "chosen", "instead", "rival", "policy")
"""Columns that may name someone: these are numbered. Other text is left out."""

SETS: dict[str, feasible.FeasibleSet] = {
    "simplex": feasible.Simplex(3),
    "knapsack": feasible.Knapsack([1.0, 2.0, 1.5], 2.5),
    "polytope": feasible.Polytope(A_ub=[[1, 1, 0, 0], [0, 1, 1, 0]], b_ub=[0.5, 0.6]),
    "top_k": feasible.TopK(4, 2),
    "risk_budget": feasible.RiskBudget(np.array([[0.5, 0.1, 0.0], [0.1, 0.6, 0.1], [0.0, 0.1, 0.7]]), 0.3),
}


# The world


class Rows(NamedTuple):
    """Some rows: what members see, the labels, and which rows belong together."""

    X: Floats
    Y: Floats
    clusters: npt.NDArray[np.int64]


def draw(rng: np.random.Generator, n: int, d: int) -> Rows:
    """Draw rows: d columns that tell something of the labels, one of two subgroups, and d of a forecast."""
    signal = rng.normal(size=(n, d))
    subgroup = rng.integers(0, 2, size=(n, 1)).astype(np.float64)
    labels = signal + 0.3 * subgroup + rng.normal(scale=0.4, size=(n, d))
    forecast = 0.7 * signal + rng.normal(scale=0.5, size=(n, d))
    return Rows(np.hstack([signal, subgroup, forecast]), labels, rng.integers(0, n // 3, size=n))


class World(NamedTuple):
    """A set, a sense, a seed, and the rows to fit on, to judge by and to go on with."""

    kind: str
    sense: str
    seed: int
    fitted: Rows
    later: Rows
    further: Rows

    @property
    def omega(self) -> feasible.FeasibleSet:
        """The feasible set."""
        return SETS[self.kind]

    @property
    def subgroup(self) -> int:
        """The column of subgroups."""
        return self.omega.dimension


def make_world(kind: str, sense: str, seed: int) -> World:
    """Draw all rows of a world."""
    rng, d = np.random.default_rng([seed, list(SETS).index(kind)]), SETS[kind].dimension
    return World(kind, sense, seed, *(draw(rng, n, d) for n in (ROWS, LATER, FURTHER)))


def all_worlds() -> Iterator[World]:
    """Go through sets, senses and seeds."""
    for kind, sense, seed in itertools.product(SETS, SENSES, SEEDS):
        yield make_world(kind, sense, seed)


def make_models(d: int) -> list[tuple[str, Any]]:
    """Return a model that knows the first coordinates, one that knows the last, and one in the table."""
    first = np.linspace(1.0, 0.0, d)
    return [
        ("first", lambda X: X[:, :d] * first),
        ("last", lambda X: X[:, :d] * first[::-1] + 0.1),
        ("table", oe.Columns(range(d + 1, 2 * d + 1))),
    ]


def make_policies(world: World) -> list[tuple[str, Any]]:
    """Return the policies of the models."""
    omega, sign = world.omega, 1.0 if world.sense == "max" else -1.0

    def policy_of(model: Callable[[Any], Floats]) -> Callable[[Any], Floats]:
        return lambda X: omega.argmax(sign * model(X))

    return [(f"{name} policy", policy_of(model)) for name, model in make_models(omega.dimension)]


def in_subgroups(ensemble: Any, column: int) -> Any:
    """Have an ensemble be unbiased on subgroups, by whichever name it knows them."""
    name = "subgroups" if "subgroups" in ensemble.get_params(deep=False) else "groups"
    return ensemble.set_params(**{name: column})


# Numbers out of answers


def number(values: Any) -> Floats:
    """Return numbers, truth values or None as floats; there is only one NaN."""
    known = [np.nan if value is None else value for value in values] if isinstance(values, list) else values
    floats = np.atleast_1d(np.array(known, dtype=np.float64))
    floats[np.isnan(floats)] = np.nan
    return floats


def number_column(column: pd.Series[Any], names: list[str]) -> Floats | None:
    """Return a column as numbers, a name as its place among the names (-1 if it is none); None for other text."""
    values = column.tolist()
    if not any(isinstance(value, str) for value in values):
        return number(values)
    places = {name: place for place, name in enumerate(names)}
    return number([places.get(value, -1) for value in values]) if column.name in WHO else None


def number_frame(frame: pd.DataFrame, names: list[str], prefix: str = "") -> Columns:
    """Return the numbers of a frame, column by column."""
    found = {f"{prefix}{name}": number_column(frame[name], names) for name in frame.columns}
    return {name: values for name, values in found.items() if values is not None}


def number_attributes(thing: Any, names: Iterable[str], prefix: str = "") -> Columns:
    """Return attributes that are numbers."""
    return {f"{prefix}{name}": number(getattr(thing, name)) for name in names}


def number_promise(promise: oe.Promise, prefix: str) -> Columns:
    """Return the numbers of a promise, and of the promised advantage."""
    found = number_attributes(promise, ("mean", "low", "high", "rely_on", "rows", "unlike"), prefix)
    if promise.advantage is not None:
        found |= number_promise(promise.advantage, f"{prefix}advantage.")
    return found


def number_answer(ensemble: Any, X: Floats) -> Quantities:
    """Return what an ensemble says of rows: actions, predictions, choices and promises."""
    if hasattr(ensemble, "cross_fit"):  # versions that lack it make the record when a promise is first asked for
        ensemble.cross_fit()
    promise = number_promise(ensemble.promise(X), "promise.")
    answer = ensemble.answer(X)
    return {
        "actions": number_attributes(answer, ["actions"]) | {"decide": number(np.asarray(ensemble.decide(X)))},
        "predictions": number_attributes(answer, ["predictions"]),
        "choices": number_attributes(answer, ["chosen"]),
        "promises": number_attributes(answer, ("promised", "low", "high", "assessed")) | promise,
        "record": number_attributes(ensemble.record_, ("assessed", "realised", "curse")),
    }


def number_audit(audit: oe.Audit, names: list[str]) -> Columns:
    """Return all numbers of an audit."""
    found = number_attributes(audit, ("thin", "tested", "biased", "gap", "swap_regret"))
    found |= {"kept": number([audit.kept]), "block_length": number([audit.block_length])}
    for name in ("summary", "by_choice", "cells", "lift", "swap", "conditional"):
        # rows without labels were not counted before
        found |= number_frame(getattr(audit, name).drop(columns="unlabelled", errors="ignore"), names, f"{name}.")
    return found | {"swap_matrix": number(audit.swap_matrix.to_numpy())}


def number_explanation(ensemble: Any, X: Floats, row: int) -> Columns:
    """Return all numbers of why a row is decided as it is."""
    explanation = ensemble.explain(X, row)
    found = number_attributes(explanation, ("action", "promised", "margin"))
    found["followed"] = number(ensemble.names_.index(explanation.followed))
    for name in ("alternatives", "steps", "patches"):
        found |= number_frame(getattr(explanation, name), ensemble.names_, f"{name}.")
    return found


def number_loaded(ensemble: Any, X: Floats, **given: Any) -> Columns:
    """Return what the ensemble says once it was saved and loaded."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ensemble.oe"
        ensemble.save(path)
        answers = number_answer(oe.load(path, **given), X)
    return {f"{part}.{name}": values for part, columns in answers.items() for name, values in columns.items()}


def number_fit(ensemble: Any) -> Quantities:
    """Return the tables that a fit leaves, of whichever kind of ensemble."""
    tables = {"leaderboard": "leaderboard_", "guarantees": "guarantees_", "history": "history_"}
    tables |= {"validation": "validation_", "conditional": "conditional_"}
    there = {part: getattr(ensemble, name) for part, name in tables.items() if hasattr(ensemble, name)}
    found = {part: number_frame(frame, ensemble.names_) for part, frame in there.items()}
    counts = ["n_rounds_", "n_patches_", "n_solves_", "n_thin_", "n_rows_", "worst_violation_", "converged_"]
    counts += ["shrinkage_", "min_cell_", "M_"]
    found["fit"] = number_attributes(ensemble, [name for name in counts if hasattr(ensemble, name)])
    return found


def merge(*parts: Quantities) -> Quantities:
    """Put columns of the same quantity together."""
    merged: Quantities = {}
    for part in parts:
        for quantity, columns in part.items():
            merged[quantity] = merged.get(quantity, {}) | columns
    return merged


def number_all(ensemble: Any, later: Rows, given: dict[str, Any], **judged: Any) -> Quantities:
    """Return everything there is to say of a fitted ensemble."""
    found = merge(number_answer(ensemble, later.X), number_fit(ensemble))
    found["promises"]["score"] = number(ensemble.score(later.X, later.Y))
    found["audit"] = number_audit(ensemble.audit(later.X, later.Y, **judged), ensemble.names_)
    found["explanation"] = number_explanation(ensemble, later.X, row=7)
    found["loaded"] = number_loaded(ensemble, later.X, **given)
    return found


# Cases


Cases = Iterator[tuple[str, Quantities]]


def box_parameters(world: World, schedule: str, validation: str | None) -> dict[str, Any]:
    """Return the parameters that the white and the black box share.

    The round-robin leaves no cell out: with ``min_cell`` above 1 earlier versions took up rows they had not written.
    """
    return {
        "feasible": world.omega,
        "sense": world.sense,
        "alpha": 0.03,
        "schedule": schedule,
        "validation": validation,
        "max_rounds": 30,
        "min_cell": 1 if schedule == "round-robin" else None,
    }


def fit_box(ensemble: Any, world: World) -> Any:
    """Fit: the second seed in subgroups, the third in time order."""
    if world.seed == 1:
        in_subgroups(ensemble, world.subgroup)
    return ensemble.fit(world.fitted.X, world.fitted.Y, time_ordered=world.seed == 2, random_state=world.seed)


def box_cases(kind: str, make: Callable[[World, dict[str, Any]], tuple[Any, dict[str, Any]]]) -> Cases:
    """Fit one of the two boxes in every world, by every schedule, with and without cross-validation."""
    for world, schedule, validation in itertools.product(all_worlds(), SCHEDULES, VALIDATIONS):
        case = f"{kind}/{world.kind}/{schedule}/{world.sense}/{validation or 'none'}/{world.seed}"
        ensemble, given = make(world, box_parameters(world, schedule, validation))
        yield case, number_box(fit_box(ensemble, world), world, given)
        if kind == "black" and world.seed != 1:
            yield f"{case}/extended", extend_black(ensemble, world)


def number_box(ensemble: Any, world: World, given: dict[str, Any]) -> Quantities:
    """Return everything there is to say of a box, audited in clusters too."""
    found = number_all(ensemble, world.later, given)
    if hasattr(ensemble, "predict_members"):
        found["predictions"]["members"] = number(ensemble.predict_members(world.later.X))
    if world.seed == 0:
        audit = ensemble.audit(world.later.X, world.later.Y, groups=world.later.clusters)
        found["audit in clusters"] = number_audit(audit, ensemble.names_)
    return found


def make_white(world: World, parameters: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return a white box, and what must be given again when it is loaded."""
    models = make_models(world.omega.dimension)
    return oe.WhiteBoxEnsemble(models, **parameters), {"models": models[:2]}


def make_black(world: World, parameters: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return a black box; the second seed is conditional, the third begins with a model."""
    policies, given = make_policies(world)[:2], dict[str, Any]()
    if world.seed == 1:
        parameters["conditional"] = True
    if world.seed == 2:
        parameters["init"] = make_models(world.omega.dimension)[0][1]
        given["models"] = {"init": parameters["init"]}
    return oe.BlackBoxEnsemble(policies, **parameters), given | {"policies": policies}


def extend_black(ensemble: Any, world: World) -> Quantities:
    """Go on with a further policy and further rows."""
    ensemble.extend(policies=make_policies(world)[2:], X=world.further.X, Y=world.further.Y)
    return merge(number_answer(ensemble, world.later.X), number_fit(ensemble))


def decision_cases() -> Cases:
    """Fit models and policies together in every world: plainly, with subgroups, in time order and in clusters."""
    for world, variant in itertools.product(all_worlds(), VARIANTS):
        case = f"decision/{world.kind}/{variant}/{world.sense}/{world.seed}"
        models, policies = make_models(world.omega.dimension), make_policies(world)
        ensemble = oe.DecisionEnsemble(models[:2], policies[2:], world.omega, world.sense)
        if variant == "subgroups":
            ensemble.set_params(subgroups=world.subgroup)
        yield case, fit_decision(ensemble, world, variant)
        yield f"{case}/updated", update_decision(ensemble, world, variant)
        yield f"{case}/extended", extend_decision(ensemble, world)


def fit_decision(ensemble: oe.DecisionEnsemble, world: World, variant: str) -> Quantities:
    """Fit, and return everything there is to say of it."""
    fitted, later, clustered = world.fitted, world.later, variant == "clusters"
    groups = fitted.clusters if clustered else None
    ensemble.fit(fitted.X, fitted.Y, time_ordered=variant == "time", groups=groups, random_state=world.seed)
    given = {"models": ensemble.models, "policies": ensemble.policies}
    return number_all(ensemble, later, given, groups=later.clusters if clustered else None)


def update_decision(ensemble: oe.DecisionEnsemble, world: World, variant: str) -> Quantities:
    """Take in the labels of further rows."""
    further = world.further
    ensemble.update(further.X, further.Y, groups=further.clusters if variant == "clusters" else None)
    return number_answer(ensemble, world.later.X)


def extend_decision(ensemble: oe.DecisionEnsemble, world: World) -> Quantities:
    """Fit again with a further model and all rows."""
    ensemble.extend(models=make_models(world.omega.dimension)[2:])
    return merge(number_answer(ensemble, world.later.X), number_fit(ensemble))


def plain_cases() -> Cases:
    """Numbers in, numbers out: sets, plans and lemmas."""
    for kind, omega in SETS.items():
        C = np.random.default_rng(9).normal(size=(500, omega.dimension))
        yield f"argmax/{kind}", {"actions": {"actions": number(omega.argmax(C))}}
    for access in ("white", "black", "mixed"):
        plans = {rows: oe.plan(k=3, d=4, noise=2.0, rows=rows, access=access, accuracy=0.25) for rows in (None, 600)}
        columns = [number_frame(plan.parts, [], f"{rows}.") for rows, plan in plans.items()]
        yield f"plan/{access}", {"plan": columns[0] | columns[1]}
    yield "lemmas", {"guarantees": number_lemmas()}


def number_lemmas() -> Columns:
    """Return the lemmas about one model, and about white box and black box, at some numbers."""
    terms = {"alpha": 0.013, "width": 0.1, "span": 3.7, "M": 1.9, "M_h": 2.3, "reach": 4.1}
    found = {name: getattr(guarantees, name)(**terms) for name in ("lemma_3", "lemma_4", "corollary_1")}
    found |= {name: getattr(guarantees, name)(**terms, k=3) for name in ("lemma_7", "lemma_8", "lemma_9")}
    found |= {"lemma_10": guarantees.lemma_10(**terms, probability=0.07)}
    found |= {"lemma_2": guarantees.lemma_2(0.013, 0.77), "lemma_6": guarantees.lemma_6(0.013, [0.77, 1.3])}
    return {name: number(value) for name, value in found.items()}


def run_cases(pattern: str) -> Found:
    """Run all cases that a pattern matches the beginning of; tell how far it came."""
    kinds: dict[str, Callable[[], Cases]] = {
        "plain": plain_cases,
        "white": lambda: box_cases("white", make_white),
        "black": lambda: box_cases("black", make_black),
        "decision": decision_cases,
    }
    found: Found = {}
    for kind, cases in kinds.items():
        if not fnmatchcase(kind, pattern):
            continue
        start, count = time.perf_counter(), 0
        for case, quantities in cases():
            count += 1
            found |= {(case, quantity): columns for quantity, columns in quantities.items()}
            if count % 20 == 0:
                print(f"{case}: {count} cases in {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
        print(f"{kind}: {count} cases in {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    return found


# Hashes, files and differences


def hash_columns(columns: Columns) -> str:
    """Return the hash of names, shapes and bits, column by column."""
    digest = hashlib.sha256()
    for name, values in columns.items():
        digest.update(f"{name} {values.shape} ".encode())
        digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def is_touched(case: str, quantity: str) -> bool:
    """Say whether a quantity may move by a little."""
    return any(fnmatchcase(case, cases) and fnmatchcase(quantity, quantities) for cases, quantities in TOUCHED)


def describe(columns: Columns) -> str:
    """Return how many numbers there are, their sum and the largest: a digest to look at."""
    values = np.concatenate([values.ravel() for values in columns.values()])
    finite = values[np.isfinite(values)]
    return f"{values.size} {finite.sum():.12g} {np.abs(finite).max(initial=0.0):.12g}"


def print_hashes(found: Found, totals_only: bool) -> None:
    """Print a line for every quantity, and the two hashes of all of them."""
    totals = {False: hashlib.sha256(), True: hashlib.sha256()}
    for (case, quantity), columns in found.items():
        hashed = hash_columns(columns)
        totals[is_touched(case, quantity)].update(f"{case} {quantity} {hashed}\n".encode())
        if not totals_only:
            print(case, quantity.replace(" ", "-"), hashed[:16], describe(columns))
    touched = sum(is_touched(*key) for key in found)
    print(f"{len(found) - touched} exact: {totals[False].hexdigest()}; {touched} touched: {totals[True].hexdigest()}")


def save(found: Found, path: Path) -> None:
    """Write all numbers to one file: one array, and a table of contents."""
    contents = [
        [case, quantity, name, list(values.shape)]
        for (case, quantity), columns in found.items()
        for name, values in columns.items()
    ]
    flat = [values.ravel() for columns in found.values() for values in columns.values()]
    np.savez_compressed(path, contents=np.array(json.dumps(contents)), numbers=np.concatenate(flat))


def read(path: Path) -> Found:
    """Read what :func:`save` wrote."""
    found: Found = {}
    with np.load(path) as file:
        contents, numbers = json.loads(file["contents"].item()), file["numbers"]
    start = 0
    for case, quantity, name, shape in contents:
        stop = start + int(np.prod(shape))
        found.setdefault((case, quantity), {})[name] = numbers[start:stop].reshape(shape)
        start = stop
    return found


def difference(now: Floats | None, before: Floats | None) -> float:
    """Return how far numbers moved, relative to the largest of them; infinity where they cannot be compared."""
    if now is None or before is None or now.shape != before.shape:
        return np.inf
    finite = np.isfinite(before)
    if not np.array_equal(now[~finite], before[~finite], equal_nan=True) or not np.isfinite(now[finite]).all():
        return np.inf
    moved = float(np.abs(now[finite] - before[finite]).max(initial=0.0))
    size = float(np.abs(before[finite]).max(initial=0.0))
    return moved / size if size else (0.0 if moved == 0.0 else np.inf)


def compare(now: Found, before: Found) -> bool:
    """Print which quantities moved and how far; return whether each moved no further than it may."""
    fine, equal = True, 0
    for key in {**before, **now}:
        mine, theirs = now.get(key, {}), before.get(key, {})
        if mine and theirs and hash_columns(mine) == hash_columns(theirs):
            equal += 1
            continue
        moved = {name: difference(mine.get(name), theirs.get(name)) for name in {**theirs, **mine}}
        worst = max(moved, key=lambda name: moved[name])
        allowed = is_touched(*key) and moved[worst] <= SLACK
        fine &= allowed
        print(f"{'moved' if allowed else 'BROKEN'} {key[0]} {key[1]}: {moved[worst]:.3g} of its size, in {worst}")
    print(f"{equal:,} of {len({**before, **now}):,} quantities are equal to the bit")
    return fine


def main() -> None:
    """Run the cases, print hashes, and compare with an earlier run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--save", type=Path, metavar="FILE.npz", help="keep all numbers")
    parser.add_argument("--against", type=Path, metavar="FILE.npz", help="compare with numbers that were kept")
    parser.add_argument(
        "--only", default="*", metavar="KIND", help="plain, white, black, decision, or a pattern of them"
    )
    parser.add_argument("--totals", action="store_true", help="print the last lines only")
    options = parser.parse_args()
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        found = run_cases(options.only)
    if options.save:
        save(found, options.save)
    fine = True
    if options.against:
        before = read(options.against)
        kinds = {case.split("/")[0] for case, _ in found}
        fine = compare(found, {key: columns for key, columns in before.items() if key[0].split("/")[0] in kinds})
    print_hashes(found, options.totals)
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
