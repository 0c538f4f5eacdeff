"""Bad parameters of the paper's two ensembles, and calls out of order."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.exceptions

import optensemble as oe
from optensemble import feasible
from optensemble.evaluation.payoff_summary import Assessments
from optensemble.exceptions import InputError, NotFittedError, OptEnsembleError
from tests.ensembles.paper_inputs import BOTH, PROBLEM, D, N, answers, make, refused, same, with_value
from tests.problems import Problem

pytestmark = pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")


# Alpha, init, and the terms of an extension


@pytest.mark.parametrize("schedule", ["frozen", "joint", "round-robin"])
@pytest.mark.parametrize(("scale", "offset", "alpha"), [(1e16, 0.0, 0.01), (1.0, 0.0, 1e-17), (1.0, 1e8, 1e-9)])
def test_alpha_must_be_resolvable(schedule: str, scale: float, offset: float, alpha: float) -> None:
    problem = Problem(PROBLEM.X, scale * PROBLEM.Y + offset, scale * PROBLEM.P + offset, PROBLEM.omega)
    with pytest.raises(InputError, match=r"below what float64 can tell apart.*Take alpha of at least"):
        problem.white_box(alpha=alpha, schedule=schedule)


@pytest.mark.parametrize("schedule", ["frozen", "joint"])
def test_the_smallest_alpha_allowed_can_be_reached(schedule: str) -> None:
    largest = max(np.abs(PROBLEM.Y).max(), np.abs(PROBLEM.P).max())
    ensemble = PROBLEM.white_box(alpha=1024.01 * np.finfo(float).eps * largest, schedule=schedule)
    assert ensemble.converged_


def test_an_alpha_that_nothing_can_exceed_is_noticed() -> None:
    small = Problem(PROBLEM.X, 1e-8 * PROBLEM.Y, 1e-8 * PROBLEM.P, PROBLEM.omega)
    for fit in (small.white_box, small.black_box):
        with pytest.warns(UserWarning, match="nothing was corrected. Alpha is in the units of the labels"):
            fit()


@BOTH
@pytest.mark.parametrize("alpha", [1e300, 1e-160])
def test_extreme_alphas_do_not_overflow(kind: Any, alpha: float) -> None:
    with pytest.raises((InputError, UserWarning), match="alpha"):
        make(kind, alpha=alpha).fit(PROBLEM.X, PROBLEM.Y)


def test_init_may_not_be_an_array() -> None:
    with pytest.raises(InputError, match="init must be 'mean' or a model of the labels"):
        make(oe.BlackBoxEnsemble, init=PROBLEM.Y).fit(PROBLEM.X, PROBLEM.Y)


@pytest.mark.parametrize(
    ("name", "value"), [("sense", "min"), ("bucket_width", 0.5), ("feasible", feasible.Simplex(3))]
)
def test_extend_keeps_to_the_terms_of_the_fit(name: str, value: Any) -> None:
    ensemble = make(oe.BlackBoxEnsemble).fit(PROBLEM.X, PROBLEM.Y)
    ensemble.set_params(**{name: value})
    with pytest.raises(InputError, match=f"{name} was .* at the fit and is .* now. Set it back, or fit again"):
        ensemble.extend(X=PROBLEM.X, Y=PROBLEM.Y)


# Parameters


@BOTH
@pytest.mark.parametrize("alpha", [0, -0.1, np.nan, np.inf, "0.1", None, True, [0.1]])
def test_alpha_must_be_a_positive_finite_number(kind: Any, alpha: Any) -> None:
    words = "alpha must be a finite number greater than 0; got " + repr(alpha).replace("[", r"\[")
    refused(make(kind, alpha=alpha), PROBLEM.X, PROBLEM.Y, words)


@pytest.mark.no_cover
@BOTH
@pytest.mark.parametrize("width", [0, -0.1, 1.5, np.nan, "wide", None])
def test_bucket_width_is_a_share(kind: Any, width: Any) -> None:
    words = rf"bucket_width must lie in \(0, 1\]; got {width!r}. It is a share.*0.1 makes 10 buckets"
    refused(make(kind, bucket_width=width), PROBLEM.X, PROBLEM.Y, words)


@pytest.mark.parametrize(
    ("width", "count", "plural"),
    [(0.3, 3, "s"), (0.333333, 3, "s"), (0.45, 2, "s"), (0.7, 1, ""), (0.15, 7, "s"), (1e-6, 10_000, "s")],
)
def test_bucket_width_must_divide_one_and_the_hint_does(width: float, count: int, plural: str) -> None:
    words = f"bucket_width must divide 1.*got {width!r}. Take 1/{count} for {count} bucket{plural}\\."
    refused(make(oe.WhiteBoxEnsemble, bucket_width=width), PROBLEM.X, PROBLEM.Y, words)
    assert make(oe.WhiteBoxEnsemble, bucket_width=1 / count, max_rounds=1).fit(PROBLEM.X, PROBLEM.Y).n_rounds_ == 1


@BOTH
@pytest.mark.parametrize(
    ("parameter", "value", "words"),
    [
        ("schedule", "frozzen", "schedule must be one of 'frozen'.*got 'frozzen'. Did you mean 'frozen'?"),
        ("schedule", "round_robin", "got 'round_robin'. Did you mean 'round-robin'?"),
        ("schedule", 3, "schedule must be one of 'frozen', 'joint', 'round-robin', None; got 3"),
        ("sense", "maximum", "sense must be one of 'max', 'min'; got 'maximum'. Did you mean 'max'?"),
        ("sense", "minimize", "sense must be one of 'max', 'min'; got 'minimize'. Did you mean 'min'?"),
        ("sense", 1, "sense must be one of 'max', 'min'; got 1"),
        ("validation", "auto", "validation must be one of 'cv', None; got 'auto'"),
        ("validation", 0.2, "validation must be one of 'cv', None; got 0.2"),
        ("shrinkage", 1.0, r"shrinkage is for schedule='joint'; got schedule='frozen'\. Leave it at 0"),
        ("shrinkage", -1.0, "shrinkage must be a finite number at least 0; got -1"),
        ("shrinkage", np.nan, "shrinkage must be a finite number at least 0; got nan"),
        ("shrinkage", "much", "shrinkage must be a finite number at least 0; got 'much'"),
        ("max_rounds", -1, "max_rounds must be a whole number at least 0; got -1"),
        ("max_rounds", 2.5, "max_rounds must be a whole number at least 0; got 2.5"),
        ("schedule", np.array(["frozen"]), "schedule must be one of 'frozen', 'joint', 'round-robin', None; got"),
        ("min_cell", 0, "min_cell must be a whole number at least 1; got 0"),
        ("min_cell", 7.5, "min_cell must be a whole number at least 1; got 7.5"),
        ("min_cell", "fifty", "min_cell must be a whole number at least 1; got 'fifty'"),
        ("bucket_width", True, "bucket_width must lie in"),
        ("max_rounds", "many", "max_rounds must be a whole number at least 0; got 'many'"),
    ],
)
def test_an_invalid_parameter_is_refused(kind: Any, parameter: str, value: Any, words: str) -> None:
    refused(make(kind, **{parameter: value}), PROBLEM.X, PROBLEM.Y, words)


@pytest.mark.parametrize("schedule", ["frozen", "round-robin"])
def test_shrinkage_belongs_to_joint(schedule: str) -> None:
    wrong = make(oe.WhiteBoxEnsemble, schedule=schedule, shrinkage=2.0)
    refused(wrong, PROBLEM.X, PROBLEM.Y, f"shrinkage is for schedule='joint'; got schedule='{schedule}'")


@pytest.mark.parametrize(
    ("init", "words"),
    [
        ("maen", "init must be 'mean' or a model of the labels, with predict.X. or callable; got 'maen'"),
        (None, r"'init' must have a predict\(X\) method, or be callable; got NoneType"),
        (
            lambda X: np.zeros((len(X), D + 1)),
            rf"model 'init' must have shape \({N}, {D}\).*got shape \({N}, {D + 1}\)",
        ),
        (lambda X: with_value(np.zeros((len(X), D)), [6], np.nan), "model 'init' must be finite.*row 6 of"),
    ],
)
def test_an_invalid_init_is_refused(init: Any, words: str) -> None:
    refused(make(oe.BlackBoxEnsemble, init=init), PROBLEM.X, PROBLEM.Y, words)


# Use before fit


PUBLIC: dict[str, tuple[Any, ...]] = {
    "answer": (PROBLEM.X,),
    "decide": (PROBLEM.X,),
    "predict": (PROBLEM.X,),
    "self_assess": (PROBLEM.X,),
    "choose": (PROBLEM.X,),
    "explain": (PROBLEM.X,),
    "promise": (PROBLEM.X,),
    "promise_of": (Assessments.of(PROBLEM.Y[:, 0]),),
    "finds_unlike": (Assessments.of(PROBLEM.Y[:, 0]),),
    "score": (PROBLEM.X, PROBLEM.Y),
    "audit": (PROBLEM.X, PROBLEM.Y),
    "audit_with_answer": (PROBLEM.X, PROBLEM.Y),
    "earned": (PROBLEM.X, PROBLEM.Y, PROBLEM.Y),
    "cross_fit": (),
    "save": ("nowhere.oe",),
    "report": (PROBLEM.X, PROBLEM.Y, "nowhere.html"),
    "plot_leaderboard": (),
    "retrace": (PROBLEM.X, [0]),
}


@BOTH
def test_a_method_called_before_fit_raises_not_fitted(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    more: dict[str, tuple[Any, ...]] = (
        {"predict_members": (PROBLEM.X,)} if kind is oe.WhiteBoxEnsemble else {"extend": ()}
    )
    for method, arguments in {**PUBLIC, **more}.items():
        words = rf"this {kind.__name__} is not fitted yet. Call fit\(X, Y\) first"
        with pytest.raises(NotFittedError, match=words) as caught:
            getattr(make(kind), method)(*arguments)
        assert isinstance(caught.value, sklearn.exceptions.NotFittedError)
    assert not list(tmp_path.iterdir())


@BOTH
def test_every_public_method_of_ours_is_checked_before_fit(kind: Any) -> None:
    ours = {
        name
        for base in kind.__mro__
        if base.__module__.startswith("optensemble")
        for name, value in vars(base).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }
    known = {*PUBLIC, "fit", "set_output", "predict_members" if kind is oe.WhiteBoxEnsemble else "extend"}
    known |= {"get_params", "set_params", "get_metadata_routing"}  # which need no fit
    assert ours == known, "add the new methods to PUBLIC"


# Extending


def test_a_failed_extension_loses_nothing() -> None:
    ensemble = make(oe.BlackBoxEnsemble, M=10.0).fit(PROBLEM.X, PROBLEM.Y)
    before, names, parameters = answers(ensemble, PROBLEM.X), ensemble.names_, ensemble.get_params()
    member, X, Y = PROBLEM.policies[0][1], PROBLEM.X, PROBLEM.Y
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "extend got nothing to go on with. Give policies=, or X= and Y=, or all three"),
        ({"X": X}, "extend needs X and Y together; got only one"),
        ({"Y": Y}, "extend needs X and Y together; got only one"),
        ({"policies": [("new", member)], "X": X}, "extend needs X and Y together"),
        ({"policies": [("m0", member)]}, "must be distinct; 'm0' is there 2 times"),
        ({"policies": [("new", member), ("new", member)]}, "must be distinct; 'new' is there 2 times"),
        ({"policies": [("own", member)]}, "a policy cannot be named 'own'.*Give it another name"),
        ({"policies": []}, "policies is empty"),
        ({"policies": [("new", 5)]}, "'new' must have a decide"),
        ({"policies": [("new", lambda X: np.full((len(X), D), 5.0))]}, "policy 'new' returned actions outside"),
        ({"X": X, "Y": Y[:-1]}, "labels Y must have shape"),
        ({"X": X, "Y": Y * np.nan}, "labels Y are missing"),
        ({"X": X, "Y": Y + 20}, "labels must be at most M=10"),
        ({"X": 5, "Y": Y}, "X must have rows"),
    ]
    for arguments, words in wrong:
        with pytest.raises(OptEnsembleError, match=words):
            ensemble.extend(**arguments)
        assert same(answers(ensemble, PROBLEM.X), before)
        assert ensemble.names_ == names
        assert ensemble.get_params() == parameters
        assert len(ensemble.log_) == 1
    assert ensemble.extend(policies=[("new", member)]).names_ == ["m0", "m1", "m2", "new", "own"]


def test_no_policy_may_be_named_own() -> None:
    wrong = make(oe.BlackBoxEnsemble, members=[("own", PROBLEM.policies[0][1])])
    refused(wrong, PROBLEM.X, PROBLEM.Y, "a policy cannot be named 'own': that is the ensemble's own. Give it another")


def test_extending_a_loaded_ensemble_needs_rows(tmp_path: Path) -> None:
    make(oe.BlackBoxEnsemble).fit(PROBLEM.X, PROBLEM.Y).save(tmp_path / "black.oe")
    loaded = oe.load(tmp_path / "black.oe", policies=dict(PROBLEM.policies))
    before = answers(loaded, PROBLEM.X)
    new = [("new", PROBLEM.policies[0][1])]
    with pytest.raises(InputError, match=r"rows this ensemble was fitted on are not in its file. Give X= and Y= too"):
        loaded.extend(policies=new)
    with pytest.warns(UserWarning, match="goes on with the new rows alone"), pytest.raises(OptEnsembleError):
        loaded.extend(policies=[("new", 5)], X=PROBLEM.X, Y=PROBLEM.Y)
    assert same(answers(loaded, PROBLEM.X), before)
    with pytest.warns(UserWarning, match="goes on with the new rows alone"):
        loaded.extend(policies=new, X=PROBLEM.X[:20], Y=PROBLEM.Y[:20])
    assert loaded.n_rows_ == 20
    assert loaded.converged_
