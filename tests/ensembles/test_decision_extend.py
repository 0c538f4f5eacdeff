"""DecisionEnsemble.extend: further rows and members."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optensemble import feasible
from optensemble.exceptions import InfeasibleActionError, InputError
from tests.ensembles.decision import (
    NEW,
    OLD,
    SENSES,
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
from tests.problems import lookup


def test_extending_by_members_equals_fitting_with_them() -> None:
    given = problem()
    X, Y = given.X[OLD], given.Y[OLD]
    ensemble = Ensemble(given.models[:1], given.policies[1:2], given.omega).fit(X, Y)
    assert ensemble.extend(models=given.models[2:], policies=[("extra", given.policies[0][1])]) is ensemble
    whole = Ensemble(
        [given.models[0], given.models[2]], [given.policies[1], ("extra", given.policies[0][1])], given.omega
    ).fit(X, Y)
    assert same(state(ensemble), state(whole))
    assert ensemble.names_[:4] == ["m0", "m2", "m1", "extra"]
    assert [name for name, _ in ensemble.get_params()["models"]] == ["m0", "m2"]


def test_extending_by_rows_equals_fitting_on_all_rows() -> None:
    X, Y = problem().X, problem().Y
    ensemble = make("both").fit(X[:150], Y[:150]).extend(X=X[150:250], Y=Y[150:250]).extend(X=X[250:N], Y=Y[250:N])
    assert same(state(ensemble), state(fitted("both")))


def test_further_rows_and_members_at_once_keep_time_order() -> None:
    given = problem()
    ensemble = Ensemble(given.models[:2], feasible=given.omega).fit(given.X[:200], given.Y[:200], time_ordered=True)
    ensemble.extend(models=given.models[2:], X=given.X[200:N], Y=given.Y[200:N])
    assert same(state(ensemble), state(fitted(time_ordered=True)))


def test_further_rows_of_known_groups_join_them() -> None:
    X, Y = problem().X[OLD], problem().Y[OLD]
    groups = np.arange(N) % 50
    ensemble = make().fit(X[:200], Y[:200], groups=groups[:200]).extend(X=X[200:], Y=Y[200:], groups=groups[200:])
    assert same(state(ensemble), state(make().fit(X, Y, groups=groups)))


@SENSES
@pytest.mark.parametrize("time_ordered", [True, False])
@pytest.mark.filterwarnings("ignore::optensemble.exceptions.RefitWarning")
def test_extend_without_arguments_fits_on_the_rows_of_updates(sense: str, time_ordered: bool) -> None:
    X, Y = problem().X, problem().Y
    ensemble = make("both", sense=sense).fit(X[:200], Y[:200], time_ordered=time_ordered)
    ensemble.update(X[200:280], Y[200:280]).update(X[280:300], Y[280:300])
    assert ensemble.extend() is ensemble
    assert same(state(ensemble), state(make("both", sense=sense).fit(X[:300], Y[:300], time_ordered=time_ordered)))
    ensemble.update(X[300:350], Y[300:350]).extend(X=X[350:N], Y=Y[350:N])
    assert same(state(ensemble), state(fitted("both", sense=sense, time_ordered=time_ordered)))


def test_an_extension_goes_on_with_the_seed_of_the_fit() -> None:
    X, Y = problem().X, problem().Y
    ensemble = make().fit(X[:200], Y[:200], random_state=5).extend(X=X[200:N], Y=Y[200:N])
    assert same(state(ensemble), state(make().fit(X[OLD], Y[OLD], random_state=5)))
    other = make().fit(X[:200], Y[:200], random_state=5).extend(X=X[200:N], Y=Y[200:N], random_state=6)
    assert same(state(other), state(make().fit(X[OLD], Y[OLD], random_state=6)))


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
def test_rows_changed_since_the_fit_are_not_fitted_on_again() -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(2, 200, 3))
    ensemble = Ensemble([("all", lambda X: X)], feasible=feasible.Simplex(3)).fit(X, X + Y)
    before = answers(ensemble, X[:50].copy())
    kept, X[100, 1] = X.copy(), 7.0
    more = [("more", lambda X: X[:, ::-1])]
    with pytest.raises(
        InputError, match=r"X was changed since the fit, or a member answers otherwise. Fit again on all"
    ):
        ensemble.extend(models=more)
    assert same(answers(ensemble, kept[:50]), before)
    X[:] = kept
    assert ensemble.extend(models=more).names_[:2] == ["all", "more"]


def test_an_extension_that_fails_changes_nothing() -> None:
    ensemble, X, Y = half_updated(), problem().X[NEW], problem().Y[NEW]
    before, parameters, member = state(ensemble), ensemble.get_params(), problem().models[0][1]
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "extend got nothing to go on with. Give models=, policies=, or X= and Y="),
        ({"X": X}, "extend needs X and Y together; got only one of them"),
        ({"Y": Y}, "extend needs X and Y together; got only one of them"),
        ({"models": [("m0", member)]}, "must be distinct; 'm0' is there 2 times"),
        ({"policies": [("m0", member)]}, "must be distinct; 'm0' is there 2 times"),
        ({"policies": [("new", lookup(problem().P[0]))]}, "policy 'new' returned actions outside"),
        ({"X": X, "Y": Y[:-1]}, "labels Y must have shape"),
        ({"X": X, "Y": Y, "groups": np.arange(N)}, "the rows fitted on had no groups. Leave groups out"),
    ]
    for arguments, words in wrong:
        with pytest.raises((InputError, InfeasibleActionError), match=words):
            ensemble.extend(**arguments)
    assert same(state(ensemble), before)
    assert ensemble.get_params() == parameters
