"""Bad input of a DecisionEnsemble: a clear error, and nothing lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from optensemble import feasible
from optensemble.exceptions import InfeasibleActionError, InputError
from tests.ensembles.decision import NEW, OLD, D, Ensemble, half_updated, make, problem, refused, same, state
from tests.problems import Floats, lookup
from tests.sample_sets import top_one


@pytest.mark.parametrize("n", [0, 1, 99])
def test_fewer_than_a_hundred_rows(n: int) -> None:
    words = rf"needs at least 100 rows to fit on; got {n}. Below that nothing can be judged out of fold.*plan\(k, d\)"
    refused(make(), problem().X[:n], problem().Y[:n], words)


def test_a_hundred_rows_are_enough() -> None:
    assert make().fit(problem().X[:100], problem().Y[:100]).n_rows_ == 100


def test_labels_and_predictions_must_not_be_infinite() -> None:
    X, Y, P = problem().X, problem().Y.copy(), problem().P[0].copy()
    Y[7, 1] = P[9, 2] = np.inf
    refused(make(), X, Y, "labels Y must be finite; got NaN or infinity in row 7 of 800. Remove")
    broken = Ensemble([("vendor", lookup(P))], feasible=problem().omega)
    refused(broken, X, problem().Y, "predictions of model 'vendor' must be finite; got NaN or infinity in row 9 of 800")
    policy = Ensemble(policies=[("vendor", lookup(P))], feasible=problem().omega)
    refused(policy, X, problem().Y, "actions of policy 'vendor' must be finite")


def test_missing_labels_are_refused_with_advice() -> None:
    Y = problem().Y.copy()
    Y[7, 1] = np.nan
    refused(make(), problem().X, Y, "labels Y are missing in row 7 of 800. Fill them in, or .* missing_labels='drop'")


def test_arrays_of_mismatching_shapes_are_refused() -> None:
    X, Y = problem().X, problem().Y
    refused(make(), X, Y[:, :2], r"labels Y must have shape \(800, 3\).*got shape \(800, 2\)")
    refused(make(), X, Y[:-1], r"labels Y must have shape \(800, 3\).*got shape \(799, 3\)")
    narrow = Ensemble([("vendor", lambda X: np.zeros((len(X), 2)))], feasible=problem().omega)
    refused(narrow, X, Y, r"predictions of model 'vendor' must have shape \(800, 3\).*got shape \(800, 2\)")
    refused(make(), 5, Y, "X must have rows: an array, a pandas or polars frame; got int")


def test_members_must_be_named_and_there_must_be_some() -> None:
    X, Y, omega, (_, model) = problem().X, problem().Y, problem().omega, problem().models[0]
    refused(Ensemble(feasible=omega), X, Y, "no models or policies were given. Give pairs of a name and a member")
    refused(Ensemble([], [], omega), X, Y, "no models or policies were given")
    refused(Ensemble([("a", model), ("a", model)], feasible=omega), X, Y, "models must be distinct; 'a' is there 2")
    both = Ensemble([("a", model)], [("a", problem().policies[0][1])], omega)
    refused(both, X, Y, "models and policies must be distinct; 'a' is there 2 times. Rename all but one")
    refused(Ensemble([model], feasible=omega), X, Y, "models must be a list of .name, model. pairs")
    refused(Ensemble([("", model)], feasible=omega), X, Y, "must be non-empty strings; got ''")
    refused(Ensemble([("a", 5)], feasible=omega), X, Y, r"'a' must have a predict\(X\) method, or be callable; got int")
    refused(Ensemble([("a", LinearRegression)], feasible=omega), X, Y, "'a' is the class LinearRegression. Give an obj")


@pytest.mark.parametrize("models", [5, lambda X: X], ids=["a number", "a function"])
def test_members_that_are_no_list(models: Any) -> None:
    refused(Ensemble(models, feasible=problem().omega), problem().X, problem().Y, "models must be a list")


@pytest.mark.parametrize("what", ["models", "policies"])
def test_members_that_can_be_read_but_once_are_refused(what: str) -> None:
    ensemble = Ensemble(feasible=problem().omega).set_params(**{what: iter(problem().models)})
    words = f"{what} must be a list of pairs; got an iterator, which can be read but once. Make it a list"
    refused(ensemble, problem().X, problem().Y, words)
    further: dict[str, Any] = {what: iter([("more", problem().models[0][1])])}
    with pytest.raises(InputError, match=words):
        half_updated().extend(**further)


def test_a_set_in_the_place_of_policies_is_told_where_to_go() -> None:
    X, Y = problem().X, problem().Y
    words = r"policies got the feasible set Simplex\(dimension=3\). Give it as feasible="
    refused(Ensemble(problem().models, problem().omega), X, Y, words)
    refused(Ensemble(problem().omega), X, Y, "models got the feasible set")


@pytest.mark.parametrize("omega", [None, "simplex", np.eye(3)])
def test_the_feasible_set_must_be_one(omega: Any) -> None:
    refused(Ensemble(problem().models, feasible=omega), problem().X, problem().Y, "feasible must be a set from optens")


def test_a_class_is_no_set() -> None:
    words = "feasible is the class Simplex. Give an object of it, with its arguments"
    refused(Ensemble(problem().models, feasible=feasible.Simplex), problem().X, problem().Y, words)  # type: ignore[arg-type]


def test_a_policy_must_stay_in_the_set() -> None:
    wild = Ensemble(policies=[("wild", lookup(problem().P[0]))], feasible=problem().omega)
    words = "policy 'wild' returned actions outside the feasible set.*if it is a model, give its policy"
    refused(wild, problem().X, problem().Y, words, InfeasibleActionError)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"time_ordered": "yes"}, "time_ordered must be one of True, False; got 'yes'"),
        ({"random_state": -1}, "random_state must be a whole number at least 0; got -1"),
        ({"random_state": 0.5}, "random_state must be a whole number at least 0; got 0.5"),
        ({"n_jobs": "two"}, "n_jobs must be a positive whole number, -1 for all cores, or None; got 'two'"),
        ({"n_jobs": 1.5}, "n_jobs must be a positive whole number, -1 for all cores, or None; got 1.5"),
        ({"n_jobs": 0}, "n_jobs must be a positive whole number, -1 for all cores, or None; got 0"),
        (
            {"progress": True},
            r"progress must be a callable progress\(stage, share\), or None; got bool. Give a function",
        ),
    ],
)
def test_invalid_options_of_fit_are_refused(options: dict[str, Any], words: str) -> None:
    refused(make(), problem().X, problem().Y, words, **options)


def test_the_sense_must_be_one_of_two() -> None:
    refused(make(sense="maximize"), problem().X, problem().Y, "sense must be one of 'max', 'min'.*Did you mean 'max'")


def test_an_error_of_a_member_names_it() -> None:
    def broken(X: Any) -> Floats:
        raise RuntimeError("no licence")

    with pytest.raises(RuntimeError, match="no licence") as caught:
        Ensemble([("vendor", broken)], feasible=problem().omega).fit(problem().X, problem().Y)
    assert caught.value.__notes__ == ["This came from the member 'vendor' of the ensemble."]


def test_an_interrupt_loses_nothing() -> None:
    interrupting = [False]

    def oracle(C: Floats) -> Floats:
        if interrupting[0] and len(C) > 1:
            raise KeyboardInterrupt
        return top_one(C)

    ensemble = make().set_params(feasible=feasible.Oracle(oracle, D)).fit(problem().X[OLD], problem().Y[OLD])
    before = state(ensemble)
    interrupting[0] = True
    with pytest.raises(KeyboardInterrupt):
        ensemble.fit(problem().X[NEW], problem().Y[NEW])
    interrupting[0] = False
    assert same(state(ensemble), before)
