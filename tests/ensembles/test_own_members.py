"""Members that an ensemble fits itself: honest on the rows they were fitted on, and scikit-learn's contract."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, TimeSeriesSplit, cross_val_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import optensemble as oe
from optensemble import feasible
from optensemble.evaluation.verdict import Grade
from optensemble.exceptions import InputError
from tests.members.estimators import PlainPolicy, Remembers

D = 3
OMEGA = feasible.Simplex(D)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 4))
Y = np.sin(X @ RNG.normal(size=(4, D))) + 0.3 * RNG.normal(size=(500, D))
FIT, NEW = slice(0, 250), slice(250, 500)
pytestmark = pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
KINDS = pytest.mark.parametrize("kind", ["decision", "white", "black"])


def models() -> list[tuple[str, Any]]:
    return [("plain", LinearRegression()), ("neighbours", KNeighborsRegressor(5))]


def decision(**parameters: Any) -> oe.DecisionEnsemble:
    return oe.DecisionEnsemble(**{"models": models(), "feasible": OMEGA, "context": None, **parameters})


def make(kind: str, **parameters: Any) -> Any:
    if kind == "decision":
        return decision(**parameters)
    if kind == "white":
        return oe.WhiteBoxEnsemble(models(), OMEGA, **parameters)
    return oe.BlackBoxEnsemble([("plain", PlainPolicy(OMEGA))], OMEGA, init=Ridge(), **{"cv": 5, **parameters})


def require_same_start(ensemble: oe.DecisionEnsemble, by_hand: oe.DecisionEnsemble) -> None:
    """Fail unless members, average, stack and mean earned the same; beside cross-fitted members that is where it ends.

    There is no refinement then, and no ridge to compare with: what members say goes against labels.
    """
    found, expected = (each.leaderboard_.set_index("candidate") for each in (ensemble, by_hand))
    same = [name for name in expected.index if name in (*dict(ensemble.members_), "average", "stack", "mean")]
    assert len(same) == len(ensemble.members_) + 3
    np.testing.assert_allclose(found.loc[same, "realised"], expected.loc[same, "realised"], rtol=1e-9)
    np.testing.assert_allclose(ensemble.decider_.forecaster.stack.weights, by_hand.decider_.forecaster.stack.weights)
    assert {"refined", "ridge"}.isdisjoint(found.index[found["realised"].notna()])
    assert "give away" in str(ensemble.notes_)


# What is learned from


def test_what_a_member_says_out_of_fold_is_what_is_learned_from() -> None:
    """The same as a member that came fitted, whose outputs were made out of fold by hand."""
    folds = [(np.arange(100, 250), np.arange(100)), (np.arange(100), np.arange(100, 250))]
    ensemble = decision(models=[("plain", LinearRegression())], cv=folds).fit(X[FIT], Y[FIT])
    said = np.empty((250, D))
    for train, test in folds:
        said[test] = LinearRegression().fit(X[train], Y[train]).predict(X[test])
    whole = LinearRegression().fit(X[FIT], Y[FIT])
    table = pd.DataFrame(np.concatenate([said, whole.predict(X[NEW])]), columns=["a", "b", "c"])
    by_hand = decision(models=[("plain", oe.Columns(["a", "b", "c"]))]).fit(table[FIT], Y[FIT])
    require_same_start(ensemble, by_hand)


def test_a_member_that_remembers_its_rows_is_worth_nothing() -> None:
    """It would look perfect on the rows it was fitted on; cross-fitted, it is seen to know nothing."""
    deep = DecisionTreeRegressor(random_state=0)
    noise = RNG.normal(size=(250, D))
    found = decision(models=[("deep", deep)]).fit(X[FIT], noise)
    line = found.leaderboard_.set_index("candidate").loc["deep"]
    assert line["low"] < 0.2  # three labels of no signal: the best of them pays 0.85 with foresight
    assert line["kind"] == "cross-fitted model"
    promise = found.promise(X[NEW])
    assert promise.low < found.score(X[NEW], RNG.normal(size=(250, D))) < promise.high


def test_fitted_members_and_functions_are_taken_as_they_are() -> None:
    fitted = LinearRegression().fit(X[NEW], Y[NEW])
    members = [("fitted", fitted), ("new", Ridge()), ("function", lambda X: X[:, :D])]
    ensemble = decision(models=members).fit(X[FIT], Y[FIT])
    assert ensemble.cross_fitted_ == ["new"]
    assert dict(ensemble.members_)["fitted"] is fitted
    assert decision(models=members[:1] + members[2:], cv="prefit").fit(X[FIT], Y[FIT]).cross_fitted_ == []


def test_the_warning_of_members_trained_on_these_rows_is_for_those_that_came_fitted() -> None:
    forest = RandomForestRegressor(30, oob_score=True, random_state=0)
    ensemble = decision(models=[("forest", forest)]).fit(X[FIT], Y[FIT])
    assert not ensemble.data_warnings_
    seen = clone(forest).fit(X[FIT], Y[FIT])
    with pytest.warns(UserWarning, match="look like the rows it was trained on"):
        decision(models=[("forest", seen), ("plain", LinearRegression())]).fit(X[FIT], Y[FIT])


@KINDS
def test_audits_recognise_the_rows_that_members_were_fitted_on(kind: str) -> None:
    ensemble = make(kind).fit(X[FIT], Y[FIT])
    with pytest.warns(UserWarning, match="was fitted on"):
        assert ensemble.audit(X[FIT], Y[FIT]).grade is Grade.SEEN
    assert ensemble.audit(X[NEW], Y[NEW]).grade is not Grade.SEEN


@KINDS
def test_all_kinds_fit_members_and_leave_the_users_alone(kind: str) -> None:
    ensemble = make(kind)
    before = ensemble.get_params()
    assert ensemble.fit(X[FIT], Y[FIT]).cross_fitted_
    assert ensemble.get_params() == before
    assert not any(hasattr(member, "coef_") for _, member in getattr(ensemble, ensemble.member_parameters[0]))
    assert ensemble.promise(X[NEW]).low < ensemble.score(X[NEW], Y[NEW]) < ensemble.promise(X[NEW]).high


def test_the_papers_algorithm_debiases_what_members_say_out_of_fold() -> None:
    ensemble = oe.WhiteBoxEnsemble(models(), OMEGA, validation=None, alpha=0.05, cv=KFold(5)).fit(X[FIT], Y[FIT])
    assert ensemble.converged_
    assert ensemble.cross_fit().has_record
    promise = ensemble.promise(X[NEW])
    assert promise.low < ensemble.score(X[NEW], Y[NEW]) < promise.high


@pytest.mark.parametrize("validation", ["cv", None])
def test_a_black_box_goes_on_with_policies_that_it_has_fitted(validation: str | None) -> None:
    ensemble = make("black", validation=validation, alpha=0.05).fit(X[FIT], Y[FIT])
    ensemble.extend(policies=[("second", PlainPolicy(OMEGA))], X=X[NEW], Y=Y[NEW])
    assert {"plain", "second"} < set(ensemble.cross_fitted_)
    assert ensemble.names_ == ["plain", "second", "own"]
    if validation:
        policies = [("plain", PlainPolicy(OMEGA)), ("second", PlainPolicy(OMEGA))]
        again = oe.BlackBoxEnsemble(policies, OMEGA, init=Ridge(), cv=5, alpha=0.05).fit(X, Y)
        assert np.array_equal(ensemble.decide(X), again.decide(X))


# What may be a member


def test_policies_are_fitted_too_our_own_ensembles_among_them() -> None:
    policies = [("inner", decision()), ("plain", PlainPolicy(OMEGA))]
    ensemble = decision(models=[("ridge", Ridge())], policies=policies, cv=4).fit(X[FIT], Y[FIT])
    assert ensemble.cross_fitted_ == ["ridge", "inner", "plain"]
    assert ensemble.decide(X[NEW]).shape == (250, D)


def test_an_object_of_unknown_kind_is_fitted_only_if_asked_for() -> None:
    ensemble = decision(models=None, policies=[("plain", PlainPolicy(OMEGA).fit(X[NEW], Y[NEW]))])
    assert ensemble.fit(X[FIT], Y[FIT]).cross_fitted_ == []
    with pytest.raises(AttributeError) as raised:
        decision(models=None, policies=[("plain", PlainPolicy(OMEGA))]).fit(X[FIT], Y[FIT])
    assert "give cv=5 to have it fitted here" in "".join(raised.value.__notes__)


def test_a_list_has_an_estimator_for_each_label() -> None:
    ensemble = decision(models=[("each", [Ridge(0.1), Ridge(1.0), Ridge(10.0)])]).fit(X[FIT], Y[FIT])
    alone = [Ridge(alpha).fit(X[FIT], Y[FIT, j]) for j, alpha in enumerate((0.1, 1.0, 10.0))]
    said = np.stack([model.predict(X[NEW]) for model in alone], axis=1)
    assert np.allclose(dict(ensemble.members_)["each"].predict(X[NEW]), said, rtol=1e-12)
    with pytest.raises(InputError, match="'each' is a list of 2 estimators; there must be one for each of the 3"):
        decision(models=[("each", [Ridge(), Ridge()])]).fit(X[FIT], Y[FIT])
    with pytest.raises(InputError, match="some of the estimators of 'each' are fitted and others are not"):
        decision(models=[("each", [alone[0], Ridge(), Ridge()])]).fit(X[FIT], Y[FIT])


@pytest.mark.slow
@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_gradient_boosting_of_other_libraries_as_it_is(library: str) -> None:
    if library == "lightgbm":
        from lightgbm import LGBMRegressor

        model: Any = LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1)
    else:
        from xgboost import XGBRegressor

        model = XGBRegressor(n_estimators=5, n_jobs=1)
    frame = pd.DataFrame(X, columns=list("abcd"))
    ensemble = decision(models=[("boost", model), ("plain", LinearRegression())]).fit(frame[FIT], Y[FIT])
    assert ensemble.cross_fitted_ == ["boost", "plain"]
    assert ensemble.decide(frame[NEW].assign(later=1.0)).shape == (250, D)  # a column that X did not have then


def test_columns_that_come_later_are_not_shown_to_members() -> None:
    frame = pd.DataFrame(X, columns=list("abcd"))
    ensemble = decision().fit(frame[FIT], Y[FIT])
    wider = frame[NEW].assign(label=Y[NEW, 0])[["label", "d", "c", "b", "a"]]
    assert np.array_equal(ensemble.decide(wider), ensemble.decide(frame[NEW]))
    assert ensemble.n_features_in_ == 4
    assert ensemble.feature_names_in_ == list("abcd")


# Parameters


def test_parameters_of_members_are_nested() -> None:
    ensemble = decision()
    assert ensemble.get_params()["models__neighbours__n_neighbors"] == 5
    ensemble.set_params(models__neighbours__n_neighbors=7, models__plain=Ridge(2.0), models__plain__alpha=3.0)
    assert ensemble.get_params()["models__neighbours__n_neighbors"] == 7
    assert ensemble.get_params()["models__plain__alpha"] == 3.0
    each = decision(models=[("each", [Ridge(), Ridge(), Ridge()])]).set_params(models__each__1__alpha=9.0)
    assert each.get_params()["models__each__1__alpha"] == 9.0


def test_parameters_that_would_change_nothing_are_refused() -> None:
    with pytest.raises(InputError, match=r"models has no member 'plane'. Did you mean 'plain'\?"):
        decision().set_params(models__plane__alpha=1.0)
    fitted = decision(models=[("ridge", Ridge().fit(X, Y))])
    with pytest.raises(InputError, match="alpha of 'ridge' would change nothing"):
        fitted.set_params(models__ridge__alpha=1.0)


def test_clones_share_what_is_fitted_and_copy_what_is_not() -> None:
    fitted = Ridge().fit(X, Y)
    ensemble = decision(models=[*models(), ("fitted", fitted)])
    copy = clone(ensemble)
    assert dict(copy.models)["fitted"] is fitted
    assert dict(copy.models)["neighbours"] is not dict(ensemble.models)["neighbours"]
    copy.set_params(models__neighbours__n_neighbors=1)
    assert ensemble.get_params()["models__neighbours__n_neighbors"] == 5


def test_a_grid_search_over_a_members_parameter() -> None:
    alone = decision(models=[("ridge", Ridge())])
    search = GridSearchCV(alone, {"models__ridge__alpha": [1e9, 1.0]}, cv=2).fit(X[FIT], Y[FIT])
    assert search.best_params_ == {"models__ridge__alpha": 1.0}
    assert search.best_estimator_.decide(X[NEW]).shape == (250, D)


def test_cross_val_score_fits_members_in_every_fold() -> None:
    scores = cross_val_score(decision(models=[("memory", Remembers(D)), ("plain", LinearRegression())]), X, Y, cv=3)
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()


def test_weights_and_groups_reach_members_by_routing() -> None:
    class Asks(Ridge):  # type: ignore[misc]
        def fit(self, X: Any, Y: Any, sample_weight: Any = None, groups: Any = None) -> Any:
            self.told_ = (sample_weight is not None, None if groups is None else len(groups) == len(X))
            return super().fit(X, Y, sample_weight)

    weights, groups = np.linspace(0.8, 1.8, 250), np.arange(250) // 5
    with config_context(enable_metadata_routing=True):
        asks = Asks().set_fit_request(sample_weight=False, groups=True)
        ensemble = decision(models=[("asks", asks)]).fit(X[FIT], Y[FIT], sample_weight=weights, groups=groups)
        assert dict(ensemble.members_)["asks"].told_ == (False, True)
        assert "asks was fitted without weights" in "".join(ensemble.notes_)
        ensemble.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        search = GridSearchCV(ensemble, {"sense": ["max"]}, cv=2)
        search.fit(X[FIT], Y[FIT], sample_weight=weights)
    plain = decision(models=[("asks", Asks())]).fit(X[FIT], Y[FIT], sample_weight=weights, groups=groups)
    assert dict(plain.members_)["asks"].told_ == (True, None)


def test_a_pipeline_that_ends_in_an_ensemble_decides() -> None:
    frame = pd.DataFrame(X * 100 + 7, columns=list("abcd"))
    whole = oe.make_pipeline(StandardScaler().set_output(transform="pandas"), decision()).fit(frame[FIT], Y[FIT])
    scaled = StandardScaler().fit(frame[FIT]).transform(frame)
    inner = decision().fit(scaled[FIT], Y[FIT])
    assert np.array_equal(whole.decide(frame[NEW]), inner.decide(scaled[NEW]))
    assert whole.promise(frame[NEW]).mean == pytest.approx(inner.promise(scaled[NEW]).mean)
    assert whole.audit(frame[NEW], Y[NEW]).grade is not Grade.SEEN
    with pytest.raises(InputError, match="the last step must be an ensemble"):
        oe.make_pipeline(StandardScaler(), Ridge()).fit(X, Y).decide(X)


# Going on, stopping, and what cannot be


def test_extending_fits_members_again_on_all_rows() -> None:
    ensemble = decision().fit(X[FIT], Y[FIT]).extend(X=X[NEW], Y=Y[NEW])
    assert np.array_equal(ensemble.decide(X), decision().fit(X, Y).decide(X))
    assert ensemble.cross_fitted_ == ["plain", "neighbours"]


def test_updates_recognise_rows_by_their_contents() -> None:
    ensemble = decision().fit(X[FIT], Y[FIT]).update(X[250:400], Y[250:400])
    assert ensemble.last_update_.taken_in == 150
    with pytest.raises(InputError, match="were fitted on or given before"):
        ensemble.update(X[200:300], Y[200:300])


def test_rows_without_an_answer_out_of_fold_are_only_learned_from() -> None:
    ensemble = decision(cv=TimeSeriesSplit(4)).fit(X[FIT], Y[FIT], time_ordered=True)
    assert ensemble.n_rows_ == 200
    assert "50 rows have no answer out of fold: only members learned from them" in ensemble.notes_
    with pytest.warns(UserWarning, match="was fitted on"):
        assert ensemble.audit(X[:50], Y[:50]).grade is Grade.SEEN
    ensemble.extend(X=X[NEW], Y=Y[NEW])
    again = decision(cv=TimeSeriesSplit(4)).fit(X, Y, time_ordered=True)
    assert np.array_equal(ensemble.decide(X), again.decide(X))


@KINDS
def test_an_interrupt_leaves_the_ensemble_as_it_was(kind: str) -> None:
    ensemble = make(kind).fit(X[FIT], Y[FIT])
    before, told = ensemble.decide(X[NEW]), list[str]()

    def interrupt(stage: str, share: float) -> None:
        told.append(stage)
        if len(told) == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensemble.fit(X, -Y, progress=interrupt)
    assert set(told) == {"fitting members"}
    assert np.array_equal(ensemble.decide(X[NEW]), before)


def test_members_are_not_fitted_on_rows_that_are_read_as_they_are_needed(tmp_path: Any) -> None:
    table = pd.DataFrame(np.column_stack([X, Y]), columns=[*"abcd", "y_0", "y_1", "y_2"])
    table.to_parquet(tmp_path / "rows.parquet")
    rows = oe.Rows(tmp_path / "rows.parquet", labels="y_*")
    with pytest.raises(InputError, match="'plain', 'neighbours' are not fitted yet, and members are fitted here only"):
        decision().fit(rows)
    with pytest.raises(InputError, match="'plain', 'neighbours' are not fitted yet"):
        oe.WhiteBoxEnsemble(models(), OMEGA, validation=None).fit(rows)


def test_the_number_of_jobs_does_not_matter() -> None:
    members = [("forest", RandomForestRegressor(5)), ("piped", make_pipeline(StandardScaler(), Ridge()))]
    one, two = (decision(models=members).fit(X[FIT], Y[FIT], n_jobs=jobs) for jobs in (None, 2))
    assert np.array_equal(one.predict(X), two.predict(X))
    assert np.array_equal(one.record_.assessed, two.record_.assessed)


def test_an_extension_with_another_seed_seeds_members_anew() -> None:
    def seeds(ensemble: oe.DecisionEnsemble) -> list[Any]:
        members = dict(ensemble.members_)
        return [members["forest"].random_state, members["own"].random_state]

    models = [("forest", RandomForestRegressor(2)), ("own", RandomForestRegressor(2, random_state=5))]
    even = [("even", lambda X: np.full((len(X), D), 1 / D))]
    ensemble = decision(models=models).fit(X[FIT], Y[FIT], random_state=1)
    before = seeds(ensemble)
    assert seeds(ensemble.extend(policies=even)) == before
    after = seeds(ensemble.extend(X=X[NEW], Y=Y[NEW], random_state=9))
    assert after == seeds(decision(models=models).fit(X, Y, random_state=9))
    assert after[0] != before[0]
    assert after[1] == 5


def test_fitted_estimators_for_each_label_answer_rows_of_files(tmp_path: Any) -> None:
    table = pd.DataFrame(np.column_stack([X, Y]), columns=[*"abcd", "y_0", "y_1", "y_2"])
    table[FIT].to_parquet(tmp_path / "rows.parquet")
    each = [LinearRegression().fit(table.loc[250:, [*"abcd"]], Y[NEW, j]) for j in range(D)]
    read = decision(models=[("each", each)]).fit(oe.Rows(tmp_path / "rows.parquet", labels="y_*"))
    in_memory = decision(models=[("each", each)]).fit(
        table.loc[:249, [*"abcd"]], table.loc[:249, ["y_0", "y_1", "y_2"]]
    )
    assert np.array_equal(read.record_.assessed, in_memory.record_.assessed)


class Duck:
    """Has parameters, but is no estimator of scikit-learn's."""

    def __init__(self, times: float = 1.0) -> None:
        self.times = times

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"times": self.times}

    def set_params(self, **given: Any) -> Duck:
        vars(self).update(given)
        return self

    def fit(self, X: Any, Y: Any) -> Duck:
        self.mean_ = self.times * Y.mean(axis=0)
        return self

    def predict(self, X: Any) -> Any:
        return np.tile(self.mean_, (len(X), 1))


def test_an_object_with_parameters_alone_is_an_estimator() -> None:
    fitted = Duck().fit(X[NEW], Y[NEW])
    ensemble = decision(models=[("new", Duck()), ("fitted", fitted)]).fit(X[FIT], Y[FIT])
    assert ensemble.cross_fitted_ == ["new"]
    assert np.allclose(dict(ensemble.members_)["new"].mean_, Y[FIT].mean(axis=0))
    assert not hasattr(clone(decision(models=[("new", Duck())])).models[0][1], "mean_")


def test_a_member_that_fails_out_of_fold_is_absent_there_if_it_may() -> None:
    class Picky(LinearRegression):  # type: ignore[misc]
        def predict(self, X: Any) -> Any:
            if (np.asarray(X)[:, 0] == X_PICKED).any():
                raise RuntimeError("no")
            return super().predict(X)

    X_PICKED = X[5, 0]
    models = [("picky", Picky()), ("plain", LinearRegression())]
    with pytest.warns(oe.exceptions.AbsentWarning, match="'picky' failed out of fold on 50 rows"):
        ensemble = decision(models=models, on_error="absent").fit(X[FIT], Y[FIT])
    assert "'picky' has no answer in 50 of 250 rows" in ensemble.notes_
    with pytest.raises(RuntimeError, match="no"):
        decision(models=models).fit(X[FIT], Y[FIT])
