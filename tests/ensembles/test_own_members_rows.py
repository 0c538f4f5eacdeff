"""Members that an ensemble fits itself, where rows are not alike: sets by row, missing labels, absent members."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeRegressor

import optensemble as oe
from optensemble import feasible
from optensemble.ensembles import _decision_fit
from optensemble.members import fingerprints as _fingerprints
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


# Rows by their numbers, and rows known again


class Asked(LinearRegression):  # type: ignore[misc]
    """Tells the numbers of the rows that it is fitted on, which are in their first column."""

    told: ClassVar[list[list[int]]] = []

    def fit(self, X: Any, Y: Any, sample_weight: Any = None) -> Any:
        Asked.told.append([int(number) for number in np.asarray(X)[:, 0]])
        return super().fit(X, Y)


@pytest.fixture
def told() -> list[list[int]]:
    Asked.told.clear()
    return Asked.told


NUMBERED = np.column_stack([np.arange(300), SIGNAL[FIT]])
LABELS = Y[FIT].to_numpy()
SIMPLEX = feasible.Simplex(D)


def asked(kind: str, cv: Any) -> Any:
    if kind == "decision":
        return make(SIMPLEX, models=[("m", Asked())], cv=cv)
    return oe.WhiteBoxEnsemble([("m", Asked())], SIMPLEX, cv=cv)


@pytest.mark.parametrize("kind", ["decision", "white"])
def test_pairs_of_rows_are_those_of_x_as_it_is_given(kind: str, told: list[list[int]]) -> None:
    """Where rows are left out for want of labels, and where they are sorted by time."""
    gaps, halves = LABELS.copy(), (np.arange(150), np.arange(150, 300))
    gaps[:40] = np.nan
    asked(kind, [halves, halves[::-1]]).fit(NUMBERED, gaps, missing_labels="drop")
    assert told[:2] == [list(range(40, 150)), list(range(150, 300))]
    told.clear()
    backwards = pd.DataFrame(NUMBERED, index=pd.date_range("2026", periods=300)[::-1]).add_prefix("x")
    asked(kind, [halves, halves[::-1]]).fit(backwards, LABELS, time_ordered=True)
    assert [sorted(each) for each in told[:2]] == [list(range(150)), list(range(150, 300))]


def test_an_extension_has_rows_in_their_order(told: list[list[int]]) -> None:
    """The last rows are only learned from: they do not come first then."""
    cv = [(np.arange(100, 300), np.arange(100)), (np.r_[0:100, 200:300], np.arange(100, 200))]
    ensemble = asked("decision", cv).fit(NUMBERED, LABELS, time_ordered=True)
    before = [*told]
    told.clear()
    ensemble.extend(policies=[("even", lambda X: np.full((len(X), D), 1 / D))])
    assert told == before
    assert told[-1] == list(range(300))
    NUMBERED[7, 1] += 1.0
    try:
        with pytest.raises(oe.exceptions.InputError, match="X was changed since the fit"):
            ensemble.extend(policies=[("odd", lambda X: np.full((len(X), D), 1 / D))])
    finally:
        NUMBERED[7, 1] -= 1.0


def test_rows_that_only_members_learned_from_are_known_by_their_ids() -> None:
    ids = np.arange(300)
    ensemble = make(SIMPLEX, cv=TimeSeriesSplit(4)).fit(SIGNAL[FIT], LABELS, time_ordered=True, ids=ids)
    for part in (slice(0, 40), slice(100, 140)):
        with pytest.raises(oe.exceptions.InputError, match=r"40 of these 40 rows were fitted on .* by their ids"):
            ensemble.update(SIGNAL[part], LABELS[part], ids=ids[part])
    for start in (300, 400):  # by ids alone: rows of the same numbers are new
        ensemble.update(SIGNAL[300:340], Y[300:340].to_numpy(), ids=np.arange(start, start + 40))
        assert ensemble.last_update_.taken_in == 40


def test_marks_that_are_a_sample_stay_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (_fingerprints, _decision_fit):
        monkeypatch.setattr(module, "EXACT_ROWS", 1 << 12)
    signal = np.random.default_rng(0).normal(size=(100_000, 2))
    ensemble = make(feasible.Simplex(2), models=[("m", LinearRegression())], cv=TimeSeriesSplit(2))
    ensemble.fit(signal, signal, time_ordered=True)
    assert _fingerprints.is_sample(ensemble.fingerprints_)
    assert abs(len(ensemble.fingerprints_) * 64 - 100_000) < 10_000


def test_a_column_of_flags_with_gaps_does_not_hide_rows() -> None:
    flags = X.assign(flag=pd.array(np.arange(400) % 2 == 0, dtype="boolean"))
    flags.loc[:9, "flag"] = pd.NA
    plain = make_pipeline(ColumnTransformer([("seen", "passthrough", [*X.columns])]), LinearRegression())
    ensemble = make(SIMPLEX, models=[("plain", plain)]).fit(flags[FIT], Y[FIT])
    with pytest.raises(oe.exceptions.InputError, match="190 of these 190 rows were fitted on"):
        ensemble.update(flags[10:200], Y[10:200])


@pytest.mark.parametrize("distinct", [40, 100])
def test_copies_of_rows_are_not_remembered_however_many_there_are(distinct: int) -> None:
    """Labels of pure noise: a tree that has seen a copy of each row would know them all."""
    rng = np.random.default_rng(0)
    x, noise = (np.repeat(rng.normal(size=(distinct, width)), 25, axis=0) for width in (4, D))
    ensemble = make(SIMPLEX, models=[("deep", DecisionTreeRegressor(random_state=0))]).fit(x, noise)
    promise = ensemble.promise(rng.normal(size=(1000, 4)))
    assert promise.low < 0.0 < promise.high < 0.6
    assert promise.high - promise.low > 0.2  # by so many rows, not by all of their copies
    assert ensemble.leaderboard_.set_index("candidate")["low"]["deep"] < 0.1


def test_rows_that_are_alike_by_chance_are_no_copies() -> None:
    """Hours of a week, and labels of two values: without the rows of one label a tree would learn the other."""
    rng = np.random.default_rng(0)
    hours, chances = rng.integers(168, size=4000), rng.random((168, D))
    won = (rng.random((4000, D)) < chances[hours]).astype(np.float64)
    tree = DecisionTreeRegressor(min_samples_leaf=5, random_state=0)
    ensemble = make(SIMPLEX, models=[("tree", tree)]).fit(hours[:2000, None], won[:2000])
    promise, earned = ensemble.promise(hours[2000:, None]), ensemble.score(hours[2000:, None], won[2000:])
    assert promise.low < earned < promise.high
    assert earned > won.mean(axis=0).max() + 0.1
