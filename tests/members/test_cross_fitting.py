"""Members that are fitted here: nothing that is learned from them comes from rows they were fitted on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optensemble._core.progress import silent
from optensemble.exceptions import AbsentWarning, InputError
from optensemble.members.alignment import OutputNames
from optensemble.members.cross_fitting import (
    DECIDE,
    PREDICT,
    CrossFitted,
    Trainee,
    TrainingRows,
    cross_fit,
    member_folds,
    require_cv,
)
from optensemble.members.estimators import with_seeds, without_seeds
from optensemble.members.fit_inputs import LabelledBatch, Origin
from optensemble.members.per_label import PerLabel
from tests.members.estimators import Before, Nearest, Remembers

N, D = 120, 2


class NoFolds:
    """A splitter of none."""

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Any:
        return iter(())


def rows(seed: int = 0, **given: Any) -> TrainingRows:
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.arange(N, dtype=float), rng.normal(size=(N, 3))])
    return TrainingRows(X, X[:, 1 : 1 + D] + rng.normal(size=(N, D)), **given)


def fit(member: Any, given: TrainingRows, cv: Any = None, *, time_ordered: bool = False, **options: Any) -> CrossFitted:
    splits = member_folds(cv, given, time_ordered=time_ordered, seed=options.get("seed", 0))
    options = {"names": OutputNames(), "seed": 0, "n_jobs": None, "progress": silent, **options}
    return cross_fit([Trainee("m", member, PREDICT)], given, splits, **options)


@pytest.mark.parametrize("cv", [None, 2, 7, KFold(3), KFold(4, shuffle=True, random_state=0)])
@pytest.mark.parametrize("time_ordered", [False, True])
def test_no_row_is_seen_before_it_is_judged(cv: Any, time_ordered: bool) -> None:
    found = fit(Remembers(), rows(), cv, time_ordered=time_ordered)
    assert found.kept is None
    assert not found.said["m"].any()
    assert found.members["m"].predict(rows().X).all()  # and each is fitted on all rows in the end


def test_groups_and_copies_of_a_row_stay_together() -> None:
    given, groups = rows(), [f"g{i % 17}" for i in range(N)]
    by_group = TrainingRows(np.column_stack([np.arange(N) % 17, given.X[:, 1:]]), given.labels, groups=groups)
    for cv in (None, 3, GroupKFold(4)):
        assert not fit(Remembers(), by_group, cv).said["m"].any()
    twice = TrainingRows(np.concatenate([given.X, given.X]), np.concatenate([given.labels, given.labels]))
    assert not fit(Remembers(), twice).said["m"].any()
    often = TrainingRows(np.repeat(given.X, 25, axis=0), np.repeat(given.labels, 25, axis=0))
    assert not fit(Remembers(), often).said["m"].any()


def test_folds_in_time_order_are_contiguous_with_a_gap() -> None:
    found = fit(Nearest(), rows(), 4, time_ordered=True)
    assert found.said["m"].min() == 2.0  # one row, a hundredth of them, lies between
    folds = member_folds(4, rows(), time_ordered=True, seed=0)
    assert all(np.array_equal(fold.test, np.arange(fold.test[0], fold.test[-1] + 1)) for fold in folds)


def test_forward_chaining_learns_from_the_past_alone() -> None:
    found = fit(Before(), rows(), TimeSeriesSplit(5), time_ordered=True)
    assert found.kept is not None
    assert found.kept.tolist() == list(range(20, N))
    assert found.said["m"].shape == (100, D)
    assert found.said["m"].all()


def test_estimators_of_one_label_are_fitted_once_for_each() -> None:
    given, model = rows(), GradientBoostingRegressor(n_estimators=5, random_state=0)
    found = fit(model, given, [(np.arange(60, N), np.arange(60)), (np.arange(60), np.arange(60, N))])
    for j in range(D):
        alone = GradientBoostingRegressor(n_estimators=5, random_state=0).fit(given.X[60:], given.labels[60:, j])
        assert np.array_equal(found.said["m"][:60, j], alone.predict(given.X[:60]))
        whole = GradientBoostingRegressor(n_estimators=5, random_state=0).fit(given.X, given.labels[:, j])
        assert np.array_equal(found.members["m"].predict(given.X)[:, j], whole.predict(given.X))
    assert isinstance(found.members["m"], PerLabel)


def test_estimators_of_all_labels_are_fitted_once() -> None:
    for model in (LinearRegression(), make_pipeline(StandardScaler(), Ridge()), RandomForestRegressor(2)):
        assert type(fit(model, rows()).members["m"]) is type(model)


def test_the_result_depends_on_the_seed_but_not_on_the_number_of_jobs() -> None:
    forest = RandomForestRegressor(3)
    one, two, other = (fit(forest, rows(), n_jobs=jobs, seed=seed) for jobs, seed in ((None, 0), (2, 0), (None, 1)))
    assert np.array_equal(one.said["m"], two.said["m"])
    assert np.array_equal(one.members["m"].predict(rows().X), two.members["m"].predict(rows().X))
    assert not np.array_equal(one.said["m"], other.said["m"])
    assert forest.random_state is None  # the user's own is left alone
    assert not hasattr(forest, "estimators_")


def test_weights_reach_those_who_take_them() -> None:
    weights = np.random.default_rng(1).uniform(0.5, 2.0, N)
    given = rows(weights=weights)
    found = fit(Ridge(), given, [(np.arange(60, N), np.arange(60))])
    alone = Ridge().fit(given.X[60:], given.labels[60:], weights[60:])
    assert np.allclose(found.said["m"], alone.predict(given.X[:60]), rtol=1e-12)
    piped = fit(make_pipeline(StandardScaler(), Ridge()), given)
    again = make_pipeline(StandardScaler(), Ridge()).fit(given.X, given.labels, ridge__sample_weight=weights)
    assert np.allclose(piped.members["m"].predict(given.X), again.predict(given.X), rtol=1e-12)
    assert found.notes == piped.notes == ()
    assert fit(Remembers(), given).notes == (
        "m was fitted without weights: its fit takes none, or does not ask for them",
    )


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        (ShuffleSplit(3, random_state=0), "more than once"),
        ([(np.arange(N), np.arange(5))], "both fitted and judged"),
        ([(np.arange(5), np.arange(N, N + 5))], "names row 124 of 120"),
        (N + 1, "more folds than there are rows"),
        (NoFolds(), "no fold with rows to judge on"),
    ],
)
def test_folds_that_cannot_be_are_refused(cv: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        member_folds(cv, rows(), time_ordered=False, seed=0)


@pytest.mark.parametrize("cv", ["5", "five", 1, True, 2.5, [], object()])
def test_values_of_cv_that_mean_nothing_are_refused(cv: Any) -> None:
    with pytest.raises(InputError, match="cv must be a number of folds from 2"):
        require_cv(cv)


def test_a_member_that_cannot_be_fitted_is_named() -> None:
    given = rows()
    with pytest.raises(ValueError, match="NaN") as raised:
        fit(LinearRegression(), TrainingRows(given.X * np.nan, given.labels))
    assert "member 'm' of the ensemble, as it was fitted" in "".join(raised.value.__notes__)


def test_frames_keep_their_kind_and_their_categories() -> None:
    class Kinds(Remembers):
        def fit(self, X: Any, Y: Any) -> Kinds:
            assert isinstance(X, pd.DataFrame)
            assert isinstance(X["kind"].dtype, pd.CategoricalDtype)
            super().fit(X, Y)
            return self

    given = rows()
    frame = pd.DataFrame(given.X).assign(kind=pd.Categorical(np.where(given.X[:, 1] > 0, "a", "b")))
    assert not fit(Kinds(), TrainingRows(frame, given.labels)).said["m"].any()


def test_what_copies_of_a_penalised_model_say_has_the_spread_of_the_model_itself() -> None:
    """Its slopes are about n/(n + penalty): smaller without a fold, and too much would be promised of the others."""
    given, penalty = rows(), 60.0
    splits = [(np.setdiff1d(np.arange(N), fold), fold) for fold in np.split(np.arange(N), 3)]
    found = fit(Ridge(penalty), given, splits)
    whole = Ridge(penalty).fit(given.X, given.labels)
    ratios = []
    for train, _ in splits:
        copy = Ridge(penalty).fit(given.X[train], given.labels[train])
        ratios.append(whole.predict(given.X[train]).var(axis=0) / copy.predict(given.X[train]).var(axis=0))
    wider = np.sqrt(np.mean(ratios))
    assert wider > 1.1
    for train, test in splits:
        level = given.labels[train].mean(axis=0)
        alone = Ridge(penalty).fit(given.X[train], given.labels[train]).predict(given.X[test])
        expected = (alone - level) * wider + level
        assert np.allclose(found.said["m"][test], expected, atol=0.1 * expected.std())
    plain = fit(Ridge(1e-3), given, splits).said["m"]
    first, second = splits[0]
    assert np.allclose(plain[second], Ridge(1e-3).fit(given.X[first], given.labels[first]).predict(given.X[second]))


def test_pairs_name_rows_as_they_were_given() -> None:
    """Of 130 rows, ten were left out and the others sorted backwards since."""
    kept = np.arange(129, 9, -1)
    given = rows(origin=Origin(kept, 130))
    first, second = np.arange(60), np.arange(60, 130)
    for pairs in ([(first, second), (second, first)], [(np.arange(130) < 60, second), (second, first)]):
        folds = member_folds(pairs, given, time_ordered=False, seed=0)
        assert [np.sort(kept[fold.train]).tolist() for fold in folds] == [list(range(10, 60)), second.tolist()]
        assert [np.sort(kept[fold.test]).tolist() for fold in folds] == [second.tolist(), list(range(10, 60))]
    assert len(member_folds([(second, first), (first, np.arange(10))], given, time_ordered=False, seed=0)) == 1
    with pytest.raises(InputError, match="names row 130 of 130"):
        member_folds([(first, np.arange(60, 131))], given, time_ordered=False, seed=0)
    joined = TrainingRows.of([LabelledBatch(given.X, given.labels, origin=each) for each in (given.origin, None)])
    assert joined.origin is not None
    assert joined.origin.rows.tolist() == [*kept, *range(130, 250)]


class Fails(LinearRegression):  # type: ignore[misc]
    """Does not answer where one of the first numbers of rows is 7; ``at`` may be the fit instead."""

    def __init__(self, at: str = "predict") -> None:
        super().__init__()
        self.at = at

    def fit(self, X: Any, Y: Any, sample_weight: Any = None) -> Any:
        self._look(X, "fit")
        return super().fit(X, Y)

    def predict(self, X: Any) -> Any:
        self._look(X, "predict")
        return super().predict(X)

    def _look(self, X: Any, at: str) -> None:
        if at == self.at and (X[:, 0] == 7).any():
            raise RuntimeError("not this one")


@pytest.mark.parametrize("jobs", [None, 2])
def test_a_copy_that_fails_to_answer_is_absent_if_it_may(jobs: int | None) -> None:
    half = np.arange(60), np.arange(60, N)
    with pytest.warns(AbsentWarning, match="'m' failed out of fold on 60 rows .* RuntimeError: not this one"):
        found = fit(Fails(), rows(), [half, half[::-1]], on_error="absent", n_jobs=jobs)
    assert np.isnan(found.said["m"][:60]).all()
    assert np.isfinite(found.said["m"][60:]).all()
    with pytest.raises(RuntimeError, match="not this one"):
        fit(Fails(), rows())
    with pytest.raises(RuntimeError, match="not this one"):
        fit(Fails(at="fit"), rows(), on_error="absent")


@pytest.mark.parametrize(("method", "words"), [(PREDICT, "predictions of model"), (DECIDE, "actions of policy")])
def test_an_answer_of_the_wrong_shape_is_named(method: str, words: str) -> None:
    class Wide(Remembers):
        decide = Remembers.predict

    given = rows()
    options: dict[str, Any] = {"names": OutputNames(), "seed": 0, "n_jobs": None, "progress": silent}
    splits = member_folds(2, given, time_ordered=False, seed=0)
    with pytest.raises(InputError, match=f"the {words} 'm' must have shape"):
        cross_fit([Trainee("m", Wide(labels=3), method)], given, splits, **options)


def test_members_in_other_processes_know_the_configuration() -> None:
    """Two steps: weights would not reach the second where metadata routing is not known to be enabled."""
    given = rows(weights=np.random.default_rng(1).uniform(0.5, 2.0, N))
    with config_context(enable_metadata_routing=True):
        scaled = StandardScaler().set_fit_request(sample_weight=False)
        model = make_pipeline(scaled, Ridge().set_fit_request(sample_weight=True))
        one, two = (fit(model, given, n_jobs=jobs) for jobs in (None, 2))
    assert np.array_equal(one.said["m"], two.said["m"])


def test_seeds_that_were_given_here_are_taken_away_again() -> None:
    piped = make_pipeline(StandardScaler(), RandomForestRegressor())
    seeded = with_seeds(clone(piped), "m", 3)
    assert seeded[1].random_state is not None
    assert without_seeds(clone(seeded), "m", 3)[1].random_state is None
    assert without_seeds(clone(seeded), "m", 4)[1].random_state == seeded[1].random_state
    assert without_seeds(RandomForestRegressor(random_state=3), "m", 3).random_state == 3
