"""DecisionEnsemble.fit: scikit-learn's contract, the same bits on every run, progress."""

from __future__ import annotations

import copy
import inspect
import threading
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn.exceptions
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.utils.validation import check_is_fitted

import optensemble as oe
from optensemble import feasible
from optensemble.evaluation.payoff_summary import Assessments
from optensemble.exceptions import NotFittedError
from tests.ensembles.decision import (
    ACCESS,
    NEW,
    OLD,
    Ensemble,
    N,
    answers,
    fitted,
    half_updated,
    make,
    problem,
    same,
    state,
)
from tests.problems import random_problem

# scikit-learn's contract


def test_init_stores_and_fit_learns() -> None:
    models, omega = problem().models, problem().omega
    ensemble = Ensemble(models=models, feasible=omega)
    stored = {"models": models, "policies": None, "feasible": omega, "sense": "max", "subgroups": None}
    stored |= {"on_error": "raise", "on_infeasible": "project", "tolerance": None, "cv": None, "context": "auto"}
    assert ensemble.get_params() == stored
    before = set(vars(ensemble))
    assert ensemble.fit(problem().X, problem().Y) is ensemble
    assert ensemble.models is models
    learned = set(vars(ensemble)) - before
    assert all(name.endswith("_") or name.startswith("_") for name in learned)
    assert ensemble.set_params(sense="min") is ensemble
    assert ensemble.sense == "min"


def test_a_clone_shares_members_and_has_learned_nothing() -> None:
    ensemble = fitted()
    copied = clone(ensemble)
    assert copied.models is ensemble.models
    assert copied.feasible is ensemble.feasible
    assert not hasattr(copied, "decider_")
    check_is_fitted(ensemble)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(copied)


def test_parameters_that_are_set_later_wait_for_the_next_fit() -> None:
    ensemble, X = copy.copy(fitted()), problem().X[NEW]
    before = answers(ensemble, X)
    ensemble.set_params(sense="min", models=[], feasible=feasible.Simplex(9))
    assert same(answers(ensemble, X), before)


def test_every_public_method_asks_to_be_fitted_first() -> None:
    X, Y = problem().X, problem().Y
    arguments: dict[str, tuple[Any, ...]] = {
        **dict.fromkeys(("answer", "decide", "predict", "self_assess", "choose", "promise", "explain"), (X,)),
        **dict.fromkeys(("score", "audit", "audit_with_answer", "update"), (X, Y)),
        "promise_of": (Assessments.of(Y[:, 0]),),
        "finds_unlike": (Assessments.of(Y[:, 0]),),
        "earned": (X, Y, Y),
        "extend": (),
        "save": ("nowhere.oe",),
        "report": (X, Y, "nowhere.html"),
        "plot_leaderboard": (),
    }
    ours = {
        name
        for name, value in inspect.getmembers(Ensemble, inspect.isfunction)
        if not name.startswith("_") and value.__module__.startswith("optensemble")
    }
    assert ours == {*arguments, "fit", "set_output", "get_params", "set_params", "get_metadata_routing"}
    for method, given in arguments.items():
        with pytest.raises(NotFittedError, match=r"this DecisionEnsemble is not fitted yet. Call fit\(X, Y\) first"):
            getattr(make(), method)(*given)


def test_it_can_be_cross_validated() -> None:
    X, Y = problem().X, problem().Y
    scores = cross_val_score(make(), X, Y, cv=3)
    assert len(scores) == 3
    assert min(scores) > 0


# X of any kind


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
def test_arrays_and_frames_of_either_kind_give_the_same() -> None:
    X, Y = np.random.default_rng(0).normal(size=(2, 200, 3))
    Y = Y + X
    names = ["a", "b", "c"]
    by_number = [("all", oe.Columns([0, 1, 2])), ("turned", oe.Columns([2, 0, 1]))]
    by_name = [("all", oe.Columns(names)), ("turned", oe.Columns(["c", "a", "b"]))]
    expected = answers(Ensemble(by_number, feasible=feasible.Simplex(3)).fit(X, Y), X)
    for frame, labels in (
        (pd.DataFrame(X, columns=names, index=np.arange(200)[::-1]), pd.DataFrame(Y, index=np.arange(200)[::-1])),
        (pd.DataFrame(X, columns=names, index=np.arange(1, 201)), pd.DataFrame(Y)),
        (pl.DataFrame(X, schema=names), pl.DataFrame(Y)),
        (pl.DataFrame(X, schema=names), Y.tolist()),
    ):
        assert same(answers(Ensemble(by_name, feasible=feasible.Simplex(3)).fit(frame, labels), frame), expected)
    as_dict = Ensemble(dict(by_number), feasible=feasible.Simplex(3)).fit(X, Y)
    assert same(answers(as_dict, X), expected)


# Reproducibility


@ACCESS
def test_the_same_rows_and_seed_give_the_same_bits_on_any_number_of_threads(access: str) -> None:
    X, Y = problem().X[OLD], problem().Y[OLD]
    first = state(make(access).fit(X, Y, random_state=3))
    for n_jobs in (None, 1, 2, -1):
        assert same(state(make(access).fit(X, Y, random_state=3, n_jobs=n_jobs)), first)
    other = make(access).fit(X, Y, random_state=4)
    assert not np.array_equal(other.record_.assessed, first[4])
    assert same(state(make(access).fit(X, Y)), state(make(access).fit(X, Y, random_state=0)))


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
def test_fitting_again_forgets_the_first_fit() -> None:
    X, Y = problem().X, problem().Y
    ensemble = make().fit(X[NEW], -Y[NEW], time_ordered=True)
    ensemble.fit(X[OLD], Y[OLD])
    assert same(state(ensemble), state(fitted()))
    assert ensemble.n_updated_ == 0


def test_fitting_leaves_labels_and_members_as_they_were() -> None:
    given = random_problem(5, n=200)
    Y, P = given.Y.copy(), given.P.copy()
    ensemble = make("both", given).fit(given.X, given.Y)
    ensemble.audit(given.X[:100], given.Y[:100] + 1)
    np.testing.assert_array_equal(given.Y, Y)
    np.testing.assert_array_equal(given.P, P)


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
def test_labels_may_be_changed_after_fitting() -> None:
    given = random_problem(5, n=200)
    ensemble, X, Y = make("models", given).fit(given.X, given.Y), given.X, given.Y.copy()
    before = answers(ensemble, X)
    given.Y[:] = 0
    assert same(answers(ensemble, X), before)
    ensemble.extend(models=[("more", given.models[0][1])])
    again = Ensemble([*given.models, ("more", given.models[0][1])], feasible=given.omega).fit(X, Y)
    assert same(answers(ensemble, X), answers(again, X))


# Progress


STAGES = ["asking members", "cross-fitting", "patching", "choosing", "verifying"]


def require_progress(told: list[tuple[str, float]]) -> None:
    """Stages in order, each from above 0 to 1 in shares that rise."""
    assert list(dict.fromkeys(stage for stage, _ in told)) == STAGES
    assert [stage for stage, _ in told] == sorted((stage for stage, _ in told), key=STAGES.index)
    for stage in STAGES:
        shares = [share for each, share in told if each == stage]
        assert min(shares) > 0
        assert shares[-1] == 1.0
        assert all(before < after for before, after in pairwise(shares))


@ACCESS
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_progress_is_told_stage_by_stage_and_changes_nothing(access: str, n_jobs: int) -> None:
    told: list[tuple[str, float]] = []
    threads = set()

    def progress(stage: str, share: float) -> None:
        told.append((stage, share))
        threads.add(threading.get_ident())

    ensemble = make(access).fit(problem().X[OLD], problem().Y[OLD], n_jobs=n_jobs, progress=progress)
    assert same(state(ensemble), state(fitted(access)))
    assert threads == {threading.get_ident()}
    require_progress(told)
    shares = {stage: [share for each, share in told if each == stage] for stage in STAGES}
    assert shares["asking members"] == [1 / 3, 2 / 3, 1.0]
    assert shares["cross-fitting"] == [0.5, 1.0]  # a single block, looked at once or twice


def test_progress_of_an_extension_is_over_all_rows() -> None:
    told: list[tuple[str, float]] = []
    ensemble = half_updated().update(problem().X[N : N + 100], problem().Y[N : N + 100])
    ensemble.extend(
        X=problem().X[N + 100 :], Y=problem().Y[N + 100 :], progress=lambda stage, share: told.append((stage, share))
    )
    require_progress(told)
    assert len([stage for stage, _ in told if stage == "asking members"]) == 9  # three members of three batches


class Enough(BaseException):
    """Not even an Exception, as an interrupt is not."""


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("last", STAGES)
@pytest.mark.parametrize("extending", [False, True])
def test_what_progress_raises_ends_the_fit_and_loses_nothing(last: str, n_jobs: int, extending: bool) -> None:
    def progress(stage: str, share: float) -> None:
        told.append(stage)
        if stage == last:
            raise Enough

    told: list[str] = []
    ensemble, X, Y = half_updated(), problem().X[NEW], problem().Y[NEW]
    before = state(ensemble)
    further = partial(ensemble.extend, X=X, Y=Y) if extending else partial(ensemble.fit, X, Y)
    with pytest.raises(Enough):
        further(n_jobs=n_jobs, progress=progress)
    assert told.count(last) == 1
    assert told[-1] == last
    assert same(state(ensemble), before)
    assert ensemble.n_rows_ == N
    if not extending:
        assert same(state(ensemble.fit(X, Y)), state(make().fit(X, Y)))
