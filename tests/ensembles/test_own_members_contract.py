"""What members that are fitted here are given, what may be one, and the errors where something cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor, StackingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import Lasso, LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import InputError

N, D = 240, 3
OMEGA, LINE = feasible.Simplex(D), feasible.Box([-1.0], [1.0])
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2 * N, 4))
Y = X @ RNG.normal(size=(4, D)) + 0.3 * RNG.normal(size=(2 * N, D))
FIT, NEW = slice(0, N), slice(N, 2 * N)
WEIGHTS, GROUPS = np.linspace(0.8, 1.8, N), np.arange(N) // 4


def decision(models: Any = None, policies: Any = None, **parameters: Any) -> oe.DecisionEnsemble:
    return oe.DecisionEnsemble(models, policies, **{"feasible": OMEGA, "context": None, "cv": 2, **parameters})


def fitted(ensemble: Any, name: str = "m") -> Any:
    return dict(ensemble.members_)[name]


class Spy:
    """Keeps what it was given."""

    def fit(self, X: Any, Y: Any, sample_weight: Any = None) -> Spy:
        self.given_, self.weights_ = Y, sample_weight
        self.model_ = LinearRegression().fit(X, Y)
        return self

    def predict(self, X: Any) -> Any:
        return self.model_.predict(X)


class SlottedPolicy:
    """A policy without a dictionary of attributes."""

    __slots__ = ("mean_",)

    def fit(self, X: Any, Y: Any) -> SlottedPolicy:
        self.mean_ = np.mean(Y, axis=0)
        return self

    def decide(self, X: Any) -> Any:
        return OMEGA.argmax(np.tile(self.mean_, (len(X), 1)))


# Labels, as members are given them


@pytest.mark.parametrize("kind", ["alone", "pipeline"])
def test_an_ensemble_as_a_member_finds_columns_by_the_labels_names(kind: str) -> None:
    rng, two = np.random.default_rng(1), feasible.Simplex(2)
    signal = rng.normal(size=(2 * N, 2))
    labels = pd.DataFrame(signal + rng.normal(size=(2 * N, 2)), columns=["price_a", "price_b"])
    table = pd.DataFrame({"east_b": signal[:, 1], "east_a": signal[:, 0]})
    table = table.set_index(labels.index[::-1])  # Y is handed on with the index of X
    labels.index = table.index
    inner = oe.WhiteBoxEnsemble([("east", oe.Columns("east_*"))], two)
    whole = oe.make_pipeline("passthrough", inner) if kind == "pipeline" else inner
    outer = decision(None, [("m", whole)], feasible=two).fit(table[FIT], labels[FIT])
    alone = clone(inner).fit(table[FIT], labels[FIT], time_ordered=False)
    assert outer.decide(table[NEW]).equals(alone.decide(table[NEW]))


def test_labels_of_one_dimension_are_a_table_for_ensembles_only() -> None:
    inner = oe.DecisionEnsemble([("spy", Spy())], feasible=LINE, cv=2)
    line = {"feasible": LINE, "models": [("m", Spy())], "policies": [("inner", inner)]}
    named = decision(**line).fit(X[FIT], pd.DataFrame({"price": Y[FIT, 0]}))
    assert fitted(named).given_.shape == (N,)
    assert fitted(named, "inner").labels_ == ["price"]
    assert fitted(decision(**line).fit(X[FIT], Y[FIT, :1]), "inner").labels_ is None


def test_labels_are_an_array_for_members_that_are_no_ensembles() -> None:
    frame = pd.DataFrame(Y[FIT], columns=["a", "b", "c"])
    given = fitted(decision([("m", Spy())]).fit(X[FIT], frame)).given_
    assert type(given) is np.ndarray
    assert np.array_equal(given, Y[FIT])


# What is told to ensembles that are members


@pytest.mark.parametrize("routing", [False, True])
def test_ensembles_are_told_of_time_order(routing: bool) -> None:
    policies = [
        ("m", decision([("r", Ridge())])),
        ("box", oe.WhiteBoxEnsemble([("n", KNeighborsRegressor())], OMEGA, cv=2)),
    ]
    with config_context(enable_metadata_routing=routing):
        ensemble = decision(None, policies).fit(X[FIT], Y[FIT], time_ordered=True)
    assert fitted(ensemble).time_ordered_
    assert fitted(ensemble, "box").time_ordered_
    assert not fitted(decision(None, policies).fit(X[FIT], Y[FIT])).time_ordered_


@pytest.mark.parametrize("piped", [False, True])
def test_ensembles_are_told_of_groups(piped: bool) -> None:
    inner = decision([("r", Ridge())], cv=GroupKFold(3))  # which cannot do without
    whole = oe.make_pipeline(StandardScaler(), inner) if piped else inner
    ensemble = decision(None, [("m", whole)]).fit(X[FIT], Y[FIT], groups=GROUPS)
    found = fitted(ensemble)[-1] if piped else fitted(ensemble)
    assert found.record_.clusters is not None
    pairs = decision(None, [("m", inner)]).fit(X[FIT], Y[FIT], groups=lambda X: np.stack([GROUPS[: len(X)]] * 2).T)
    assert fitted(pairs).record_.clusters is not None


def test_a_box_among_members_is_fitted_without_weights_and_groups() -> None:
    boxes = [("m", oe.WhiteBoxEnsemble([("r", Ridge())], OMEGA, cv=2))]
    ensemble = decision(None, boxes).fit(X[FIT], Y[FIT], sample_weight=WEIGHTS, groups=GROUPS)
    assert any(note.startswith("m was fitted without weights:") for note in ensemble.notes_)


def test_clones_keep_what_was_asked_for_by_routing() -> None:
    with config_context(enable_metadata_routing=True):
        inner = decision([("r", Ridge().set_fit_request(sample_weight=True))]).set_fit_request(sample_weight=True)
        copy = clone(inner)
        assert copy.get_metadata_routing()._serialize() == inner.get_metadata_routing()._serialize()
        copy.set_fit_request(sample_weight=False)  # of its own
        decision(None, [("m", inner)]).fit(X[FIT], Y[FIT], sample_weight=WEIGHTS)


# What may be a member


def gaussian() -> Any:
    return GaussianProcessRegressor(alpha=0.3)


@pytest.mark.parametrize("piped", [False, True])
def test_a_gaussian_process_that_is_not_fitted_is_fitted(piped: bool) -> None:
    member = make_pipeline(StandardScaler(), gaussian()) if piped else gaussian()
    ensemble = decision([("m", member)]).fit(X[FIT], Y[FIT])
    assert ensemble.cross_fitted_ == ["m"]
    assert decision([("m", clone(member).fit(X[NEW], Y[NEW]))]).fit(X[FIT], Y[FIT]).cross_fitted_ == []


@pytest.mark.parametrize("kind", ["alone", "pipeline", "search", "list"])
def test_regressors_that_hide_predict_before_the_fit(kind: str) -> None:
    stack: Any = StackingRegressor([("r", Ridge()), ("l", Lasso(0.1))], cv=2)
    member = {
        "alone": stack,
        "pipeline": make_pipeline(StandardScaler(), stack),
        "search": GridSearchCV(stack, {"r__alpha": [1.0, 2.0]}, cv=2),
        "list": [clone(stack), clone(stack), Ridge()],
    }[kind]
    assert decision([("m", member)]).fit(X[FIT], Y[FIT]).cross_fitted_ == ["m"]


def test_a_policy_without_a_dictionary_of_attributes() -> None:
    policy = SlottedPolicy()
    ensemble = decision([("r", Ridge())], [("m", policy)]).fit(X[FIT], Y[FIT])
    assert ensemble.cross_fitted_ == ["r", "m"]
    assert not hasattr(policy, "mean_")
    assert decision([("r", Ridge())], [("m", policy.fit(X, Y))]).fit(X[FIT], Y[FIT]).cross_fitted_ == ["r"]


def test_weights_reach_a_class_that_is_no_estimator() -> None:
    ensemble = decision([("m", Spy())]).fit(X[FIT], Y[FIT], sample_weight=WEIGHTS)
    assert np.array_equal(fitted(ensemble).weights_, WEIGHTS)


# More rows


@pytest.mark.parametrize("kind", ["csr_matrix", "coo_matrix", "bsr_matrix", "dia_matrix", "csc_array", "csr_array"])
@pytest.mark.parametrize("box", [False, True])
@pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning")
def test_sparse_matrices_of_all_kinds(kind: str, box: bool) -> None:
    sparse = getattr(scipy.sparse, kind)
    new = oe.WhiteBoxEnsemble([("m", Ridge())], OMEGA, cv=2) if box else decision([("m", Ridge())])
    ensemble = new.fit(sparse(X[FIT]), Y[FIT])
    assert ensemble.decide(sparse(X[NEW])).shape == (N, D)
    assert f"{N} new rows" in ensemble.audit(sparse(X[NEW]), Y[NEW]).verdict
    assert ensemble.promise(sparse(X[NEW])).rows == N


def test_sparse_rows_and_lists_are_joined() -> None:
    sparse = decision([("m", Ridge())]).fit(scipy.sparse.csr_matrix(X[FIT]), Y[FIT])
    sparse.extend(X=scipy.sparse.coo_array(X[NEW]), Y=Y[NEW])
    assert np.array_equal(
        sparse.decide(scipy.sparse.csr_matrix(X)),
        decision([("m", Ridge())]).fit(scipy.sparse.csr_matrix(X), Y).decide(scipy.sparse.csr_matrix(X)),
    )
    lists = decision([("m", Ridge())]).fit(X[FIT].tolist(), Y[FIT]).extend(X=X[NEW].tolist(), Y=Y[NEW])
    assert lists.n_rows_ == 2 * N
    with pytest.raises(InputError, match="of several kinds, or with other columns"):
        sparse.extend(X=scipy.sparse.csr_matrix(X[:, :2]), Y=Y)


def test_categories_of_further_rows_are_added() -> None:
    def table(rows: slice, kinds: list[str], *, ordered: bool = False) -> pd.DataFrame:
        values = np.resize(kinds, 2 * N)[rows]
        return pd.DataFrame(X[rows], columns=list("abcd")).assign(kind=pd.Categorical(values, kinds, ordered=ordered))

    boosted = HistGradientBoostingRegressor(max_iter=2)
    ensemble = decision([("m", boosted)]).fit(table(FIT, ["u", "v"]), Y[FIT])
    ensemble.extend(X=table(NEW, ["v", "w"]), Y=Y[NEW])
    assert fitted(ensemble).models[0].is_categorical_.tolist() == [False, False, False, False, True]
    ordered = decision([("m", boosted)]).fit(table(FIT, ["u", "v"], ordered=True), Y[FIT])
    assert ordered.extend(X=table(NEW, ["v", "w"], ordered=True), Y=Y[NEW]).n_rows_ == 2 * N


# What is told


def test_members_fitted_to_these_labels_are_not_doubted_for_units_and_sign() -> None:
    small = [("m", Ridge(5000.0)), ("r", Ridge())]  # a penalty makes them small
    for new in (decision(small), oe.WhiteBoxEnsemble(small, OMEGA, cv=2)):
        assert not new.fit(X[FIT], Y[FIT]).data_warnings_
    with pytest.warns(UserWarning, match="as small as the labels. Check units"):
        decision([("m", Ridge(5000.0).fit(X[NEW], Y[NEW])), ("r", Ridge())]).fit(X[FIT], Y[FIT])
    noise = np.random.default_rng(1).normal(size=(N, D))
    against = [(np.delete(np.arange(N), row), [row]) for row in range(N)]
    assert not decision([("m", Lasso(10.0)), ("r", Ridge())], cv=against).fit(X[FIT], noise).data_warnings_


def bad(members: Any, cv: Any = 2) -> Any:
    return decision([("m", members)], cv=cv)


@pytest.mark.parametrize(
    ("ensemble", "message"),
    [
        (bad([]), "'m' is an empty list"),
        (bad([Ridge(), Ridge(), None]), "number 2 in it, counted from 0, is none; got NoneType"),
        (bad([Ridge(), lambda X: X, Ridge()]), "number 1 in it, counted from 0, is none; got function"),
        (bad([Ridge, Ridge(), Ridge()]), "number 0 in it, counted from 0, is none; got the class Ridge"),
        (bad((Ridge(), Ridge(), Ridge())), "'m' is a tuple. Make it a list"),
        (bad(Ridge(), GroupKFold(3)), r"goes by groups, and there are none. Give fit\(..., groups=...\)"),
        (oe.WhiteBoxEnsemble([("m", Ridge())], OMEGA, cv=GroupKFold(3)), "White and black boxes, whose fit takes none"),
        (bad(Ridge(), [*KFold(3).split(X[FIT]), (np.arange(9), [])]), "cv has a fold without rows to judge"),
        (bad(Ridge(), [(["a"], ["b"])]), "cv must name rows by their numbers from 0; got .*'a'"),
        (bad(Ridge(), [([0.5, 1.5], [2.5])]), r"cv must name rows by their numbers from 0; got .*0\.5"),
        (bad(Ridge(), KFold(5).split(X[FIT])), "cv is an iterator, which can be read but once. Make it a list"),
    ],
)
def test_errors_say_what_to_do(ensemble: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ensemble.fit(X[FIT], Y[FIT])


def test_other_errors_of_a_splitter_are_its_own() -> None:
    with pytest.raises(ValueError, match="number of splits"):
        bad(Ridge(), KFold(N + 1)).fit(X[FIT], Y[FIT])


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
def test_objects_with_predict_alone_may_be_parts_of_a_list() -> None:
    class Plain:
        def predict(self, X: Any) -> Any:
            return X[:, 0]

    assert bad([Plain(), Plain(), Plain()]).fit(X[FIT], Y[FIT]).cross_fitted_ == []


def test_neighbours_take_no_weights() -> None:
    ensemble = bad([Ridge(), KNeighborsRegressor(), KNeighborsRegressor()])
    notes = ensemble.fit(X[FIT], Y[FIT], sample_weight=WEIGHTS).notes_
    assert any(note.startswith("m was fitted without weights for some labels:") for note in notes)
