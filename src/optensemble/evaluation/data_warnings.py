"""Warnings about suspicious data: labels among the inputs, other units, signs, rows or columns, copies, and the like.

Each rule is a guess at a mistake, from numbers alone; its threshold is where no honest data have been seen. Nothing is
changed by a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.threads import one_blas_thread
from optensemble.evaluation.data_rules import LEAKED, MODEL_RULES, OF_LABELS_UNSEEN, find_code
from optensemble.evaluation.data_sample import (
    FEWEST_ROWS,
    DataSample,
    Finding,
    Series,
    number,
    percent,
    rows_looked_at,
)
from optensemble.exceptions import DataWarning, FallbackWarning, SolverError

_FORESIGHT_ROWS = 256  # each is solved once more
_SAME = 1e-9  # relative
_FIRST_ROWS = 64
_TOGETHER = 16  # columns that are copied at once
_TRAINED = 0.5  # of the unexplained variance that an honest look left


def find_data_warnings(sample: DataSample, cross_fitted: Collection[str] = ()) -> list[Finding]:
    """Return what is suspicious in data: of each member, of the labels, and of the set.

    Members that were ``cross_fitted`` to these labels, by name, are not asked whether they mean others.
    """
    sample = sample.first()
    found = list(_about_set(sample))
    if len(sample.labels) >= FEWEST_ROWS:
        with one_blas_thread():  # products are too small to be shared
            found += [*_about_labels(sample), *_about_members(sample, cross_fitted)]
    return found


def find_trained_on(members: Iterable[tuple[str, Any]], scores: Iterable[float]) -> list[Finding]:
    """Return the models that explain far more of the rows' variance, their ``scores``, than other rows' told them.

    Those are rows out of bag, or of the cross-validation of a search.
    """
    doubted = {
        name: f"model {name!r} explains {score:.2f} of these labels' variance, but only {record:.2f} {where}: these "
        "look like the rows it was trained on. Fit the ensemble on other rows"
        for (name, model), score in zip(members, scores, strict=False)
        for record, where in _records(model)
        if 1 - score < _TRAINED * (1 - record)
    }
    return [Finding("trained", sentence, name) for name, sentence in doubted.items()]


def explained_by_context(context: Floats, labels: Floats) -> Floats:
    """Return the share of its best label's variance that each column explains; 0 of few rows."""
    n = rows_looked_at(*labels.shape)
    if min(n, len(labels)) < FEWEST_ROWS:
        return np.zeros(context.shape[1])
    with one_blas_thread():
        truth, starts = Series.of(labels[:n]).standard, range(0, context.shape[1], _TOGETHER)
        seen = (Series.of(context[:n, start : start + _TOGETHER]).standard for start in starts)
        return np.concatenate([np.square(some @ truth.T / truth.shape[1]).max(axis=1) for some in seen])


def find_context_leaks(columns: Sequence[Any], context: Floats | None, labels: Floats) -> list[Finding]:
    """Return the first column of the context that goes with a label as only the label itself does."""
    if context is None:
        return []
    shares = explained_by_context(context, labels)
    return [
        Finding(
            "context",
            f"column {columns[at]!r} of the context explains {percent(shares[at])} of a label's variance: it seems to "
            "be known only afterwards. Leave it out of the context",
        )
        for at in np.flatnonzero(shares > LEAKED)[:1]
    ]


def find_forgotten_time(where: str) -> list[Finding]:
    """Return that rows are in time order and were not said to be; ``where`` says by what, and is empty if they are not.

    Neighbours in time are alike: dealt out to folds at random, they would judge each other.
    """
    if not where:
        return []
    said = f"the rows are in time order by {where}, and are taken for independent"
    change = "folds are then contiguous, tests stricter and promises wider, as tomorrow may differ"
    return [Finding("time", f"{said}. Give time_ordered=True if time matters ({change}), or time_ordered=False if not")]


def _records(model: Any) -> Iterator[tuple[float, str]]:
    """Yield the shares of variance that a scikit-learn model remembers to have explained on rows it had not seen."""
    out_of_bag, searched = getattr(model, "oob_score_", None), getattr(model, "best_score_", None)
    if isinstance(out_of_bag, float):
        yield out_of_bag, "out of bag"
    # by default a search scores regressors by R²; a negative one says little of how wrong a model is
    if isinstance(searched, float) and getattr(model, "scoring", "other") in (None, "r2"):
        yield max(float(searched), 0.0), "in its own cross-validation"


def merge_findings(trained: list[Finding], others: list[Finding]) -> tuple[Finding, ...]:
    """Return all findings, without those that a model's own record explains: it was trained on these rows."""
    explained = {finding.member for finding in trained}
    rest = (each for each in others if each.member not in explained or each.kind not in ("leak", "trained"))
    return (*trained, *rest)


def tell(findings: Iterable[Finding], told: Iterable[Finding], stacklevel: int) -> None:
    """Warn of each finding, unless one about the same was told before; ``stacklevel`` is as of ``warnings.warn``."""
    before = {finding.about for finding in told}
    for finding in findings:
        if finding.about not in before:
            warnings.warn(finding.sentence, DataWarning, stacklevel=stacklevel)


# The set, the labels, and members beside each other


def _about_set(sample: DataSample) -> Iterator[Finding]:
    spec = sample.omega.spec() or {}
    if "A_ub" in spec and "covariance" not in spec and spec["A_ub"] is None and spec["A_eq"] is None:
        yield Finding(
            "unconstrained",
            "the feasible set has no constraint beside its bounds: every decision between them is feasible. Is that "
            "right?",
        )


def _about_labels(sample: DataSample) -> Iterator[Finding]:
    labels, n = sample.labels, len(sample.labels)
    constant = sample.series.constant
    if constant.any():
        j, others = int(np.argmax(constant)), _others(int(constant.sum()))
        yield Finding(
            "constant label",
            f"{sample.title(j)}{others} is the same in all {n:,} rows, {number(labels[0, j])}. Look whether "
            "it is the right column",
        )
    twins = [pair for pair in _twins(labels) if not constant[pair[0]]]
    if twins:
        one, other = (sample.title(j) for j in twins[0])
        yield Finding(
            "same labels",
            f"{one} and {other} are equal in all {n:,} rows{_others(len(twins))}. Look whether a column is there twice",
        )
    if (found := find_code(sample.series, sample.title)) is not None:
        yield Finding("missing", found)


def _others(count: int) -> str:
    return f" (and {count - 1:,} more)" if count > 1 else ""


def _twins(labels: Floats) -> list[tuple[int, int]]:
    """Return the pairs of columns that are equal."""
    order = np.argsort(labels[0], kind="stable")  # equal columns are next to each other
    pairs = [(min(i, j), max(i, j)) for i, j in pairwise(order.tolist())]
    return sorted((i, j) for i, j in pairs if np.array_equal(labels[:, i], labels[:, j]))


def _about_members(sample: DataSample, cross_fitted: Collection[str]) -> Iterator[Finding]:
    copies = dict(_copies(sample))
    for name in dict.fromkeys([*sample.predictions, *sample.actions]):
        kind = "model" if name in sample.predictions else "policy"
        if name in copies:
            same = "predicts" if kind == "model" else "decides"
            yield Finding(
                "copy",
                f"{kind} {name!r} {same} the same as {copies[name]!r} in all rows. Look whether one of them was given "
                "twice",
                name,
            )
            continue
        own = name in cross_fitted
        found = _doubt_model(sample, name, own=own) if kind == "model" else _doubt_policy(sample, name)
        if found is not None:
            yield found
    if sample.actions and all(map(_same_in_all_rows, sample.actions.values())):
        yield Finding(
            "nothing to decide",
            "every member decides the same in all rows: there is nothing to decide. Check the feasible set, and the "
            "sense",
        )


def _same_in_all_rows(actions: Floats) -> bool:
    return all(bool((actions[rows] == actions[0]).all()) for rows in (slice(_FIRST_ROWS), slice(None)))


def _copies(sample: DataSample) -> Iterator[tuple[str, str]]:
    """Yield members that repeat another, and that other."""
    for group in (sample.predictions, {name: sample.actions[name] for name in sample.policies}):
        for first, second in combinations(group, 2):
            gaps = [sample.absent.get(name) for name in (first, second)]
            if all(gap is None for gap in gaps) and _alike(group[first], group[second]):
                yield second, first


def _alike(left: Floats, right: Floats) -> bool:
    size = max(float(np.abs(left[:_FIRST_ROWS]).max()), float(np.abs(right[:_FIRST_ROWS]).max()))
    return all(
        bool((np.abs(left[rows] - right[rows]) <= _SAME * (size + np.abs(right[rows]))).all())
        for rows in (slice(1), slice(_FIRST_ROWS), slice(None))
    )


def _doubt_model(sample: DataSample, name: str, *, own: bool) -> Finding | None:
    rows = sample.model(name)
    if rows.count < FEWEST_ROWS:
        return None
    for kind, rule in MODEL_RULES:
        if not (own and kind in OF_LABELS_UNSEEN) and (sentence := rule(rows)) is not None:
            return Finding(kind, f"model {name!r}: {sentence}", name)
    return None


def _doubt_policy(sample: DataSample, name: str) -> Finding | None:
    gap = sample.absent.get(name)
    rows = np.arange(len(sample.labels)) if gap is None else np.flatnonzero(~gap)
    if len(rows) < FEWEST_ROWS:
        return None
    if not sample.actions[name][rows].any() and (sample.omega.lower.any() or sample.omega.upper.any()):
        return Finding(
            "idle",
            f"policy {name!r}: it does nothing, its actions are 0 in all rows. Look whether its columns are right",
            name,
        )
    share = _share_of_foresight(sample, name, rows[:: -(-len(rows) // _FORESIGHT_ROWS)])
    if share <= LEAKED:
        return None
    return Finding(
        "leak",
        f"policy {name!r}: it earns {percent(share)} of what labels known beforehand would earn beyond their mean: it "
        "seems to know them. Look among its inputs for label columns, and for columns that are known only afterwards",
        name,
    )


def _share_of_foresight(sample: DataSample, name: str, rows: Any) -> float:
    """Return what a policy earns beyond the best action for the mean label, as a share of what foresight would."""
    omega, coefficients = sample.omega.take(rows), sample.sign * sample.labels[rows]
    earned = omega.value(sample.actions[name][rows], coefficients)
    for other, actions in sample.actions.items():  # a policy that another one beats does not know the labels
        if other not in sample.absent:
            lost = np.maximum(omega.value(actions[rows], coefficients) - earned, 0.0).sum()
            if lost > (1 - LEAKED) * np.abs(earned).sum():
                return 0.0
    mean = np.broadcast_to(sample.sign * sample.labels.mean(axis=0), coefficients.shape)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FallbackWarning)  # rows that members were told of
            best, plain = (omega.value(omega.argmax(each), coefficients) for each in (coefficients, mean))
    except SolverError:  # of rows that no member had to solve
        return 0.0
    gain = float(best.sum() - plain.sum())
    return float(earned.sum() - plain.sum()) / gain if gain > _SAME * np.abs(best).sum() else 0.0
