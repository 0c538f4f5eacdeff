"""Members that an ensemble fits itself, where rows are not alike: sets by row, missing labels, absent members."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeRegressor

import optensemble as oe
from optensemble import feasible
from tests.ensembles.test_own_members import require_same_start

D = 3
NAMES = ["red", "green", "blue"]
RNG = np.random.default_rng(5)
SIGNAL = RNG.normal(size=(400, 4))
X = pd.DataFrame(SIGNAL, columns=[f"x_{j}" for j in range(4)]).assign(budget=RNG.uniform(0.5, 3, size=400))
Y = pd.DataFrame(np.sin(SIGNAL @ RNG.normal(size=(4, D))) + 0.3 * RNG.normal(size=(400, D)), columns=NAMES)
FIT, NEW = slice(0, 300), slice(300, 400)
FOLDS = [(np.arange(150, 300), np.arange(150)), (np.arange(150), np.arange(150, 300))]
COST = np.array([1.0, 2.0, 1.5])
pytestmark = pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")


def by_row() -> feasible.FeasibleSet:
    return feasible.Knapsack(COST, capacity=oe.Columns("budget"))


def make(omega: feasible.FeasibleSet, **parameters: Any) -> oe.DecisionEnsemble:
    models = [("plain", LinearRegression()), ("tree", DecisionTreeRegressor(max_depth=3, random_state=0))]
    return oe.DecisionEnsemble(**{"models": models, "feasible": omega, "context": None, **parameters})


def test_with_a_set_by_row_it_is_what_cross_fitting_by_hand_gives() -> None:
    ensemble = make(by_row(), models=[("plain", LinearRegression())], cv=FOLDS).fit(X[FIT], Y[FIT])
    whole = LinearRegression().fit(X[FIT], Y[FIT])
    said = pd.DataFrame(whole.predict(X), columns=["a", "b", "c"])
    for train, test in FOLDS:
        said.iloc[test] = LinearRegression().fit(X.iloc[train], Y.iloc[train]).predict(X.iloc[test])
    table = said.assign(budget=X["budget"])
    by_hand = make(by_row(), models=[("plain", oe.Columns(["a", "b", "c"]))]).fit(table[FIT], Y[FIT])
    require_same_start(ensemble, by_hand)


def test_actions_lie_in_the_set_of_their_row_and_a_file_needs_nothing_more(tmp_path: Path) -> None:
    ensemble = make(by_row()).fit(X[FIT], Y[FIT])
    actions = ensemble.decide(X[NEW])
    assert (actions @ COST <= X[NEW]["budget"] + 1e-9).all()
    assert (actions @ COST > X[NEW]["budget"] - 0.5).any()
    ensemble.save(tmp_path / "own.oe")
    assert (oe.load(tmp_path / "own.oe").decide(X[NEW]) == actions).to_numpy().all()


def test_an_ensemble_with_a_set_by_row_is_a_policy_to_be_fitted() -> None:
    inner = make(by_row(), models=[("ridge", Ridge())])
    ensemble = make(by_row(), policies=[("inner", inner)], cv=2).fit(X[FIT], Y[FIT])
    assert not hasattr(inner, "record_")
    assert ensemble.leaderboard_.set_index("candidate").loc["inner", "kind"] == "cross-fitted policy"
    assert (ensemble.decide(X[NEW]) @ COST <= X[NEW]["budget"] + 1e-9).all()


def test_members_are_not_fitted_on_rows_that_lack_labels() -> None:
    """As if those rows were not there, in whatever order the folds come."""
    gaps = Y[FIT].copy()
    gaps.iloc[::7, 1] = np.nan
    there = gaps.notna().all(axis=1).to_numpy()
    found = make(by_row()).fit(X[FIT], gaps, missing_labels="drop")
    without = make(by_row()).fit(X[FIT][there], gaps[there])
    assert np.array_equal(found.record_.assessed, without.record_.assessed)
    assert np.array_equal(found.decide(X[NEW]), without.decide(X[NEW]))


def test_a_member_that_is_absent_beside_those_fitted_here() -> None:
    """The vendor's gaps concern the vendor; members fitted here answer every row."""
    vendor = pd.DataFrame(Y.to_numpy() + RNG.normal(size=Y.shape), columns=["v_0", "v_1", "v_2"])
    vendor[RNG.random(len(vendor)) < 0.3] = np.nan
    table = pd.concat([X, vendor], axis=1)
    plain = make_pipeline(ColumnTransformer([("seen", "passthrough", [*X.columns])]), LinearRegression())
    ensemble = make(by_row(), models=[("plain", plain), ("vendor", oe.Columns("v_*"))], cv=3)
    ensemble.fit(table[FIT], Y[FIT])
    board = ensemble.leaderboard_.set_index("candidate")["kind"]
    assert board["plain"] == "cross-fitted model"
    assert board["vendor"] == "model"
    gone = table[NEW].assign(v_0=np.nan, v_1=np.nan, v_2=np.nan)
    assert np.isfinite(ensemble.decide(gone)).all().all()
    assert ensemble.score(table[NEW], Y[NEW]) > ensemble.score(gone, Y[NEW])
