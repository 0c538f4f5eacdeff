"""A saved ensemble comes back as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import InputError
from tests.persistence.archives import MEMBERS, PROBLEM, QUICK, assert_same, round_trip
from tests.problems import random_problem

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")]
POLICIES: dict[str, Any] = {"policies": dict(PROBLEM.policies)}


# Round trips


@pytest.mark.no_cover
@pytest.mark.parametrize("sense", ["max", "min"])
@pytest.mark.parametrize(
    "options",
    [
        {"schedule": "frozen"},
        {"schedule": "round-robin"},
        {"schedule": "joint"},
        {"schedule": "joint", "shrinkage": 2.0},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_every_schedule_and_sense(options: dict[str, Any], sense: str, tmp_path: Path) -> None:
    white = PROBLEM.white_box(sense=sense, **options, **QUICK)
    black = PROBLEM.black_box(sense=sense, **options, **QUICK)
    assert white.n_rounds_ > 0
    assert black.n_rounds_ > 0
    round_trip(white, PROBLEM.X, tmp_path, **MEMBERS)
    round_trip(black, PROBLEM.X, tmp_path, **POLICIES)


@pytest.mark.no_cover
@pytest.mark.parametrize("omega", ["polytope", "simplex", "vertices", "box", "risk"])
def test_every_built_in_set(omega: str, tmp_path: Path) -> None:
    problem = random_problem(2, n=40, omega=omega)
    white, black = problem.white_box(**QUICK), problem.black_box(**QUICK)
    ours = round_trip(white, problem.X, tmp_path, models=dict(problem.models)).feasible
    round_trip(black, problem.X, tmp_path, policies=dict(problem.policies))
    assert type(ours) is type(problem.omega)
    C = np.random.default_rng(0).normal(size=(200, 3))
    np.testing.assert_array_equal(ours.argmax(C), problem.omega.argmax(C))


@pytest.mark.no_cover
@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
@pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")
def test_sets_with_arguments_of_their_own(tmp_path: Path) -> None:
    sets = [
        feasible.Polytope(
            A_ub=[[1, 1, 0]], b_ub=[2], A_eq=[[1, 0, -1]], b_eq=[0.25], lower=[-1, 0, -1], upper=[1, 2.5, 1]
        ),
        feasible.Polytope(dimension=3, upper=1 / 3),
        feasible.Vertices([[0.0, 1.0, 5.0], [2.0, 0.1, -3.0]], lower=[-1, 0, -4], upper=[2, 1, 5]),
        feasible.Box([0.0, 0.5, 0.1 + 0.2], [1.0, 0.5, 7.0]),
        feasible.RiskBudget(limit=0.7, factors=[[1.0], [0.5], [0.1]], specific=0.3, upper=0.9),
        feasible.RiskBudget(np.eye(3), 0.6, A_ub=[[1, 1, 0]], b_ub=[0.8]),
        feasible.Knapsack([1.0, 2.0, 3.0], 3.5, integer=True, on_failure="fallback", fallback=[0, 0, 0]),
        feasible.TopK(3, 2, at_most=True),
        feasible.TopK(3, 1, available=[True, False, True]),
        feasible.Simplex(3, available=[1, 0, 1], total=2.5, on_failure="fallback", fallback=[2.5, 0, 0]),
        feasible.Vertices(np.eye(3), available=[0, 1, 1]),
        feasible.Assignment(1, 3),
        feasible.ShortestPath([("a", "b"), ("b", "c"), ("a", "c")], "a", "c"),
        feasible.Product([feasible.Simplex(2), feasible.Product([feasible.Box(upper=[0.5])])]),
        feasible.Product([feasible.Box(upper=[0.5]), feasible.RiskBudget(np.eye(2), 0.6)]),
        feasible.Product([feasible.Simplex(1), feasible.Box(dimension=2)], on_failure="fallback", fallback=[1, 0, 0]),
        feasible.WithCost(feasible.TopK(3, 2), [0.1, 0.2, -0.3]),
        feasible.WithCost(feasible.Simplex(3), 0.5, (0.1 + 0.2, np.eye(3)), ([0.1, 0.2, 0.7], 1 / 3)),
        feasible.WithCost(feasible.Box(dimension=3), quadratic=np.eye(3), on_failure="fallback", fallback=[0, 0, 0]),
        feasible.Product([feasible.WithCost(feasible.Simplex(2), turnover=(0.5, [0.1, 0.2])), feasible.Simplex(1)]),
    ]
    for omega in sets:
        ensemble = oe.WhiteBoxEnsemble(PROBLEM.models, omega, **{**QUICK, "max_rounds": 5}).fit(PROBLEM.X, PROBLEM.Y)
        round_trip(ensemble, PROBLEM.X, tmp_path, **MEMBERS)


def sets_by_key() -> list[feasible.FeasibleSet]:
    """Sets inside others, of which some have parameters from the row."""
    bag = feasible.Knapsack([1.0, 2.0, 3.0], capacity=oe.Columns(1))
    box = feasible.Box(upper=oe.Columns(1), dimension=2)
    sides = feasible.Product([feasible.Vertices([[0.0], [0.25]]), box])
    texts = feasible.ByKey(oe.Columns(3), {3: feasible.RiskBudget(np.eye(3), 0.6), -7: bag})
    return [
        texts,
        feasible.ByKey(3, {3: sides, -7: texts}, on_failure="fallback", fallback=[0, 0, 0]),
        feasible.Product([feasible.Simplex(1), box]),
        feasible.WithCost(bag, oe.Columns(0), (oe.Columns(1), np.eye(3)), ([0.1, oe.Columns(1), 0.3], oe.Columns(1))),
        feasible.ByKey(3, {3: feasible.WithCost(bag, turnover=(0.5, oe.Columns(1))), -7: feasible.Simplex(3)}),
    ]


@pytest.mark.no_cover
@pytest.mark.parametrize("number", range(5))
def test_sets_inside_others_with_parameters_from_the_row(number: int, tmp_path: Path) -> None:
    omega = sets_by_key()[number]
    rng = np.random.default_rng(0)
    n = 120  # a DecisionEnsemble needs some
    X = np.column_stack([rng.normal(size=n), rng.uniform(0.5, 3, n), rng.normal(size=n), rng.choice([3, -7], n)])
    Y = X[:, :3] + rng.normal(size=(n, 3))
    models = {"a": oe.Columns([0, 1, 2]), "b": oe.Columns([2, 1, 0])}
    for kind in (oe.WhiteBoxEnsemble, oe.DecisionEnsemble):
        ensemble = kind(models, feasible=omega, **(QUICK if kind is oe.WhiteBoxEnsemble else {})).fit(X, Y)
        ensemble.save(tmp_path / "keyed.oe")
        loaded = oe.load(tmp_path / "keyed.oe")
        np.testing.assert_array_equal(loaded.decide(X), ensemble.decide(X))
        assert repr(loaded.feasible_) == repr(omega)
        loaded.save(tmp_path / "again.oe")
        np.testing.assert_array_equal(oe.load(tmp_path / "again.oe").decide(X), ensemble.decide(X))


def test_whole_numbers(tmp_path: Path) -> None:
    omega = feasible.MixedInteger(A_ub=[[1.0, 2.0, 3.0]], b_ub=[3.5], integer=[0, 1])
    X = PROBLEM.X[:10]
    ensemble = oe.WhiteBoxEnsemble(PROBLEM.models[:1], omega, max_rounds=1, validation=None).fit(X, PROBLEM.Y[:10])
    ensemble.save(tmp_path / "whole.oe")
    loaded = oe.load(tmp_path / "whole.oe", models=dict(PROBLEM.models[:1]))
    np.testing.assert_array_equal(loaded.feasible.integer, [True, True, False])
    np.testing.assert_array_equal(loaded.decide(X), ensemble.decide(X))


def test_a_product_with_an_oracle_is_given_again(tmp_path: Path) -> None:
    product = feasible.Product([feasible.Simplex(2), feasible.Oracle(lambda C: C > 0, 1)])
    ensemble = oe.WhiteBoxEnsemble(PROBLEM.models, product, **QUICK).fit(PROBLEM.X, PROBLEM.Y)
    round_trip(ensemble, PROBLEM.X, tmp_path, feasible=product, **MEMBERS)
    with pytest.raises(InputError, match=r"feasible set \(Product\) cannot be saved"):
        oe.load(tmp_path / "first.oe", **MEMBERS)


def test_an_oracle_is_given_again(tmp_path: Path) -> None:
    oracle = feasible.Oracle(PROBLEM.omega.argmax, 3)
    ensemble = oe.WhiteBoxEnsemble(PROBLEM.models, oracle, **QUICK).fit(PROBLEM.X, PROBLEM.Y)
    round_trip(ensemble, PROBLEM.X, tmp_path, feasible=oracle, **MEMBERS)
    with pytest.raises(
        InputError, match=r"feasible set \(Oracle\) cannot be saved.*given again: load\(path, feasible="
    ):
        oe.load(tmp_path / "first.oe", **MEMBERS)
    for other in (feasible.Oracle(PROBLEM.omega.argmax, 3, upper=2.0), feasible.Simplex(2)):
        with pytest.raises(InputError, match=r"feasible set given has bounds .* but .* Give the same set again"):
            oe.load(tmp_path / "first.oe", feasible=other, **MEMBERS)


def test_a_set_may_be_given_though_it_was_saved(white: tuple[oe.WhiteBoxEnsemble, Path]) -> None:
    ensemble, path = white
    loaded = oe.load(path, feasible=PROBLEM.omega, **MEMBERS)
    assert loaded.feasible is PROBLEM.omega
    assert_same(loaded, ensemble, PROBLEM.X)


@pytest.mark.no_cover
@pytest.mark.parametrize("kind", [oe.WhiteBoxEnsemble, oe.BlackBoxEnsemble])
@pytest.mark.parametrize("groups", ["region", ["region", "number"], ["number", "share", "flag"]])
def test_groups_by_column(kind: Any, groups: Any, tmp_path: Path) -> None:
    row = PROBLEM.X
    frame = pd.DataFrame(
        {"row": row, "region": np.array(["nörd", "süd"])[row % 2], "number": row % 3, "share": row % 4 / 3}
    ).assign(flag=row < 9)
    given = MEMBERS["models"] if kind is oe.WhiteBoxEnsemble else POLICIES["policies"]
    of_frame = {name: lambda X, member=member: member(X["row"].to_numpy()) for name, member in given.items()}
    ensemble = kind(of_frame, PROBLEM.omega, subgroups=groups, **QUICK).fit(frame, PROBLEM.Y)
    again: dict[str, Any] = {"models" if kind is oe.WhiteBoxEnsemble else "policies": of_frame}
    loaded = round_trip(ensemble, frame, tmp_path, **again)
    np.testing.assert_array_equal(
        loaded.decide(frame.assign(region="elsewhere")), ensemble.decide(frame.assign(region="elsewhere"))
    )
    round_trip(ensemble, frame, tmp_path, subgroups=groups, **again)
    with pytest.raises(InputError, match=r"fitted with subgroups=.*got 'other'. Leave them out"):
        oe.load(tmp_path / "first.oe", subgroups="other", **again)


@pytest.mark.parametrize("black", [False, True])
def test_callable_groups_are_given_again(black: bool, tmp_path: Path) -> None:
    def groups(X: Any) -> Any:
        return X % 3

    fit, again = (PROBLEM.black_box, POLICIES) if black else (PROBLEM.white_box, MEMBERS)
    round_trip(fit(subgroups=groups, **QUICK), PROBLEM.X, tmp_path, subgroups=groups, **again)
    for wrong in (None, "region"):
        with pytest.raises(
            InputError, match=r"subgroups were a callable and must be given again: load\(path, subgroups="
        ):
            oe.load(tmp_path / "first.oe", subgroups=wrong, **again)


def test_groups_that_were_not_there_are_refused(white: tuple[oe.WhiteBoxEnsemble, Path]) -> None:
    with pytest.raises(InputError, match="groups"):
        oe.load(white[1], subgroups="region", **MEMBERS)
    with pytest.raises(InputError, match="groups"):
        oe.load(white[1], subgroups=lambda X: X % 3, **MEMBERS)


def test_conditional_and_extended(tmp_path: Path) -> None:
    problem = random_problem(3, n=80, k=2)
    first, second = slice(0, 50), slice(50, 80)
    (name, policy), new = problem.policies
    ensemble = oe.BlackBoxEnsemble(
        [(name, policy)], problem.omega, conditional=True, subgroups=lambda X: X // 30, **{**QUICK, "bucket_width": 0.5}
    ).fit(problem.X[first], problem.Y[first], time_ordered=True)
    ensemble.extend(policies=[new])
    ensemble.extend(X=problem.X[second], Y=problem.Y[second])
    assert len(ensemble.log_) == 3
    loaded = ensemble_without_rows(ensemble, tmp_path, policies=dict(problem.policies), subgroups=ensemble.subgroups)
    for method in ("decide", "predict", "self_assess", "choose"):
        np.testing.assert_array_equal(getattr(loaded, method)(problem.X), getattr(ensemble, method)(problem.X))
    assert loaded.time_ordered_ is True
    assert loaded.conditional is True
    assert len(loaded.log_) == 3


def ensemble_without_rows(ensemble: Any, folder: Path, **given: Any) -> Any:
    X = np.concatenate([X for X, _ in ensemble._rows])
    return round_trip(ensemble, X, folder, **given)


def test_a_black_box_that_began_with_a_model(tmp_path: Path) -> None:
    begin = PROBLEM.models[0][1]
    ensemble = PROBLEM.black_box(init=begin, **QUICK)
    round_trip(ensemble, PROBLEM.X, tmp_path, models={"init": begin}, **POLICIES)
    with pytest.raises(InputError, match=r"must be given again: load\(path, models=\{'init'"):
        oe.load(tmp_path / "first.oe", **POLICIES)


def test_no_rounds_at_all(tmp_path: Path) -> None:
    still = {**QUICK, "alpha": 4.0}
    assert PROBLEM.white_box(**still).n_rounds_ == 0
    round_trip(PROBLEM.white_box(**still), PROBLEM.X, tmp_path, **MEMBERS)
    round_trip(PROBLEM.black_box(**still), PROBLEM.X, tmp_path, **POLICIES)


def test_numpy_parameters_and_odd_names(tmp_path: Path) -> None:
    odd = {"Zürich ✓": PROBLEM.models[0][1], 'quote" \\ \n': PROBLEM.models[1][1], "a/b": PROBLEM.models[2][1]}
    parameters: dict[str, Any] = {
        "alpha": np.float32(0.25),
        "bucket_width": np.float64(0.25),
        "max_rounds": np.int64(9),
        "min_cell": np.int16(2),
        "M": np.int8(9),
        "validation": None,
    }
    ensemble = oe.WhiteBoxEnsemble(odd, PROBLEM.omega, **parameters).fit(PROBLEM.X, PROBLEM.Y)
    round_trip(ensemble, PROBLEM.X, tmp_path, models=odd)


def test_one_coordinate(tmp_path: Path) -> None:
    problem = random_problem(4, d=1, omega="box")
    round_trip(problem.white_box(**QUICK), problem.X, tmp_path, models=dict(problem.models))


def test_an_ensemble_as_a_member_of_another(tmp_path: Path) -> None:
    inner = PROBLEM.white_box(**QUICK)
    outer = oe.BlackBoxEnsemble([("inner", inner)], PROBLEM.omega, **QUICK).fit(PROBLEM.X, PROBLEM.Y)
    round_trip(outer, PROBLEM.X, tmp_path, policies={"inner": inner})


# Members given on load


def test_members_that_do_not_match(white: tuple[oe.WhiteBoxEnsemble, Path], tmp_path: Path) -> None:
    _, path = white
    models = MEMBERS["models"]
    member = models["m0"]
    wrong: list[tuple[dict[str, Any], str]] = [
        (
            {},
            r"models cannot be saved safely and must be given again: load\(path, models=\{'m0': ., 'm1': ., 'm2': .\}",
        ),
        ({"models": {"m0": member, "m2": member}}, r"must be given again: load\(path, models=\{'m1': .\}\)"),
        (
            {"models": {"m0": member, "m2": member, "mm1": member}},
            "models has 'mm1', but those saved are 'm0'.*mean 'm1'?",
        ),
        ({"models": {**models, "spare": member}}, "models has 'spare', but those saved are 'm0', 'm1', 'm2'. Leave it"),
        (
            {"models": models, "policies": {"p": member}},
            "policies has 'p', but the file needs no policies. Leave it out",
        ),
        ({"policies": models}, "must be given again|needs no policies"),
    ]
    for given, words in wrong:
        with pytest.raises(InputError, match=words):
            oe.load(path, **given)
    PROBLEM.black_box(**QUICK).save(tmp_path / "black.oe")
    with pytest.raises(InputError, match=r"policies cannot be saved safely and must be given again"):
        oe.load(tmp_path / "black.oe")
    with pytest.raises(InputError, match=r"models has 'init', but the file needs no models. Leave it out"):
        oe.load(tmp_path / "black.oe", models={"init": member}, **POLICIES)


def test_members_are_taken_by_name_not_by_order(white: tuple[oe.WhiteBoxEnsemble, Path]) -> None:
    ensemble, path = white
    assert_same(oe.load(path, models=dict(reversed(PROBLEM.models))), ensemble, PROBLEM.X)


@pytest.mark.parametrize("wrong", [{"models": 5}, {"feasible": 5, **MEMBERS}, {"feasible": "simplex", **MEMBERS}])
def test_wrong_arguments_are_not_the_files_fault(wrong: Any, white: tuple[oe.WhiteBoxEnsemble, Path]) -> None:
    with pytest.raises(InputError):
        oe.load(white[1], **wrong)
