"""An ensemble with validation="cv": saved, fitted again, extended, interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble._core.columns import Columns
from optensemble.exceptions import InputError
from tests.ensembles.cross_validated import BOTH, NOT_CONVERGED, PAPER, PROBLEM, QUICK, load, make
from tests.problems import Floats, random_problem

pytestmark = pytest.mark.slow


@pytest.mark.no_cover
@NOT_CONVERGED
@BOTH
@pytest.mark.parametrize("validation", ["cv", None])
@pytest.mark.parametrize("time_ordered", [False, True])
def test_a_saved_ensemble_promises_what_it_promised(
    kind: Any, validation: str | None, time_ordered: bool, tmp_path: Path
) -> None:
    ensemble = make(kind, validation=validation, sense="min").fit(PROBLEM.X, PROBLEM.Y, time_ordered=time_ordered)
    ensemble.cross_fit()
    promise = ensemble.promise(PROBLEM.X)
    ensemble.save(tmp_path / "ensemble.oe")
    loaded = load(tmp_path / "ensemble.oe", kind, PROBLEM)
    assert loaded.promise(PROBLEM.X) == promise
    np.testing.assert_array_equal(loaded.self_assess(PROBLEM.X), ensemble.self_assess(PROBLEM.X))
    np.testing.assert_array_equal(loaded.record_.assessed, ensemble.record_.assessed)
    np.testing.assert_array_equal(loaded.record_.realised, ensemble.record_.realised)
    np.testing.assert_array_equal(loaded.fingerprints_, ensemble.fingerprints_)
    assert hasattr(loaded, "validation_") is (validation == "cv")
    if validation == "cv":
        pd.testing.assert_frame_equal(loaded.validation_, ensemble.validation_)
    ours, theirs = loaded.get_params(), ensemble.get_params()
    for name in ("validation", "shrinkage", "min_cell", "schedule", "max_rounds"):
        assert ours[name] == theirs[name]
    for name in ("shrinkage_", "min_cell_", "schedule_", "n_thin_", "stopped_"):
        assert getattr(loaded, name) == getattr(ensemble, name)


@NOT_CONVERGED
def test_columns_are_saved_whole_and_others_are_asked_for(tmp_path: Path) -> None:
    rng, path, omega = np.random.default_rng(0), tmp_path / "ensemble.oe", feasible.Simplex(2)
    table = pd.DataFrame(rng.normal(size=(120, 4)), columns=["a", "b", "c", "d"])
    Y = table[["a", "b"]].to_numpy() + table[["c", "d"]].to_numpy() + rng.normal(size=(120, 2))
    columns, other = Columns(["a", "b"]), lambda X: X[["c", "d"]].to_numpy()
    oe.WhiteBoxEnsemble([("a", columns), ("b", Columns(["c", "d"]))], omega, **QUICK).fit(table, Y).save(path)
    loaded = oe.load(path)
    assert dict(loaded.members_) == {"a": columns, "b": Columns(["c", "d"])}
    mixed = oe.WhiteBoxEnsemble([("a", columns), ("b", other)], omega, **QUICK).fit(table, Y)
    np.testing.assert_array_equal(loaded.decide(table), mixed.decide(table))
    mixed.save(path)
    np.testing.assert_array_equal(oe.load(path, models={"b": other}).decide(table), mixed.decide(table))
    replaced = oe.load(path, models={"b": other, "a": lambda X: 0 * X[["a", "b"]].to_numpy()})
    assert not np.array_equal(replaced.predict_members(table)[0], mixed.predict_members(table)[0])
    with pytest.raises(InputError, match=r"models cannot be saved safely .* load\(path, models=\{'b': …\}\)"):
        oe.load(path)
    shares = pd.DataFrame(omega.argmax(table[["a", "b"]].to_numpy()), columns=["x", "y"]).join(table)
    black = oe.BlackBoxEnsemble([("p", Columns(["x", "y"]))], omega, init=columns, **QUICK).fit(shares, Y)
    black.save(path)
    again = oe.load(path)
    assert again.init_ == columns
    np.testing.assert_array_equal(again.predict(shares), black.predict(shares))
    numbered = oe.BlackBoxEnsemble([("p", Columns([0, 1]))], omega, **QUICK).fit(shares.to_numpy(), Y)
    numbered.save(path)
    np.testing.assert_array_equal(oe.load(path).predict(shares.to_numpy()), numbered.predict(shares.to_numpy()))


@NOT_CONVERGED
@BOTH
def test_a_new_fit_leaves_nothing_of_the_old(kind: Any) -> None:
    ensemble = make(kind).fit(PROBLEM.X, PROBLEM.Y)
    ensemble.set_params(validation=None).fit(PROBLEM.X, PROBLEM.Y)
    assert not hasattr(ensemble, "validation_")
    assert not hasattr(ensemble, "record_")
    raw = make(kind, **PAPER).fit(PROBLEM.X, PROBLEM.Y).self_assess(PROBLEM.X)
    np.testing.assert_array_equal(ensemble.self_assess(PROBLEM.X), raw)


def test_extending_means_fitting_again_on_all_rows_with_all_policies(tmp_path: Path) -> None:
    problem = random_problem(10, n=240, d=2, k=3)
    ensemble = oe.BlackBoxEnsemble(problem.policies[:2], problem.omega, **QUICK)
    ensemble.fit(problem.X[:120], problem.Y[:120], random_state=2)
    ensemble.save(tmp_path / "first.oe")
    ensemble.extend(policies=problem.policies[2:], X=problem.X[120:], Y=problem.Y[120:])
    whole = make(oe.BlackBoxEnsemble, problem).fit(problem.X, problem.Y, random_state=2)
    pd.testing.assert_frame_equal(ensemble.validation_, whole.validation_)
    np.testing.assert_array_equal(ensemble.init_, whole.init_)
    np.testing.assert_array_equal(ensemble.predict(problem.X), whole.predict(problem.X))
    assert ensemble.promise(problem.X) == whole.promise(problem.X)
    loaded = oe.load(tmp_path / "first.oe", policies=problem.policies[:2])
    before = loaded.predict(problem.X)
    with pytest.raises(InputError, match=r"not in its file, and with validation=.cv. extend fits again, on all rows"):
        loaded.extend(X=problem.X[120:], Y=problem.Y[120:])
    np.testing.assert_array_equal(loaded.predict(problem.X), before)


@NOT_CONVERGED
def test_a_loaded_ensemble_that_was_extended_knows_only_some_of_its_rows(tmp_path: Path) -> None:
    problem = random_problem(10, n=240, d=2, k=2)
    ensemble = make(oe.BlackBoxEnsemble, problem, **PAPER).fit(problem.X[:120], problem.Y[:120])
    ensemble.cross_fit().save(tmp_path / "first.oe")
    loaded = oe.load(tmp_path / "first.oe", policies=problem.policies)
    assert np.isfinite(loaded.promise(problem.X).high)
    with pytest.warns(UserWarning, match="it goes on with the new rows alone"):
        loaded.extend(X=problem.X[120:220], Y=problem.Y[120:220])
    assert loaded.promise(problem.X).note.startswith("the rows it was fitted on are not in its file")
    with pytest.warns(UserWarning, match="220 of these 240 rows are rows the ensemble was fitted on"):
        assert loaded.audit(problem.X, problem.Y).summary["seen"].item() == 220


def test_an_interrupt_leaves_the_ensemble_as_it_was() -> None:
    solved, allowed = 0, 10**9  # calls of the solver

    def solve(C: Floats) -> Floats:
        nonlocal solved
        solved += 1
        if solved > allowed:
            raise KeyboardInterrupt
        return feasible.Simplex(2).argmax(C)

    omega = feasible.Oracle(solve, 2, lower=0, upper=1)
    ensemble = oe.WhiteBoxEnsemble(PROBLEM.models, omega, **{**QUICK, "shrinkage": 10.0})
    ensemble.fit(PROBLEM.X, PROBLEM.Y)
    whole, before = solved, ensemble.predict(PROBLEM.X)
    for allowed in range(1, whole - 1, 5):
        solved = 0
        with pytest.raises(KeyboardInterrupt):
            ensemble.fit(PROBLEM.X, PROBLEM.Y + 1)
        allowed = 10**9
        np.testing.assert_array_equal(ensemble.predict(PROBLEM.X), before)


def test_the_callback_hears_of_the_last_debiasing_alone() -> None:
    heard: list[int] = []
    ensemble = make(oe.BlackBoxEnsemble).fit(PROBLEM.X, PROBLEM.Y, callback=lambda number, worst: heard.append(number))
    assert heard == list(range(1, ensemble.n_rounds_ + 1)) != []

    def stop(number: int, worst: float) -> None:
        raise KeyboardInterrupt

    before = ensemble.record_
    with pytest.raises(KeyboardInterrupt):
        ensemble.fit(PROBLEM.X, PROBLEM.Y, callback=stop)
    assert ensemble.record_ is before


@BOTH
def test_too_few_rows_to_judge_by_are_refused(kind: Any) -> None:
    small = random_problem(3, n=99, d=2, k=2)
    words = r"validation='cv' needs at least 100 rows; got 99: below that nothing can be judged out of fold\. Give more"
    with pytest.raises(InputError, match=words):
        make(kind, small).fit(small.X, small.Y)
    for wrong in (-1, 0.5, "seed"):
        with pytest.raises(InputError, match=f"random_state must be a whole number at least 0; got {wrong!r}"):
            make(kind).fit(PROBLEM.X, PROBLEM.Y, random_state=wrong)
