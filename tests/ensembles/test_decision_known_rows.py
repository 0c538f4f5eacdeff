"""Rows that an update was given before: recognised by ids, by times, or by their numbers alone."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from optensemble.exceptions import InputError
from tests.ensembles.decision import NEW, OLD, Ensemble, N, fitted, make, problem, same, state

pytestmark = pytest.mark.filterwarnings("ignore::optensemble.exceptions.RefitWarning")

X, Y = problem().X, problem().Y
IDS = np.array([f"row {number}" for number in range(2 * N)])


@pytest.fixture(scope="module")
def known() -> Ensemble:
    """An ensemble that knows the ids of its rows. Shared: copy it before changing it."""
    return make().fit(X[OLD], Y[OLD], ids=IDS[OLD])


def counts(ensemble: Ensemble) -> tuple[int, int, int, int]:
    done = ensemble.last_update_
    return done.rows, done.taken_in, done.skipped, done.changed


def test_rows_given_again_by_id_are_skipped(known: Ensemble) -> None:
    """Overlapping tables, even with rows of the fit, come to the same bits as each row once."""
    once, again = copy.deepcopy(known), copy.deepcopy(known)
    for start in (N, N + 60):
        rows = slice(start, start + 60)
        once.update(X[rows], Y[rows], ids=IDS[rows])
    for first, last in ((N - 50, N + 60), (N, N + 60), (N + 10, N + 120)):
        again.update(X[first:last], Y[first:last], ids=IDS[first:last], repeated="skip")
    assert counts(again) == (110, 60, 50, 0)
    assert again.n_updated_ == once.n_updated_ == 120
    assert same(state(again), state(once))
    before = state(again)
    again.update(X[N : N + 120], Y[N : N + 120], ids=IDS[N : N + 120], repeated="skip")
    assert counts(again) == (120, 0, 120, 0)
    assert again.last_update_.promise is None
    assert same(state(again), before)


def test_new_rows_that_are_alike_are_taken_in_by_their_ids(known: Ensemble) -> None:
    ensemble = copy.deepcopy(known)
    ensemble.update(X[:50], Y[:50], ids=[f"new {number}" for number in range(50)])
    assert counts(ensemble) == (50, 50, 0, 0)


def test_an_id_with_other_labels_is_skipped_and_counted(known: Ensemble) -> None:
    ensemble = copy.deepcopy(known)
    ensemble.update(X[N : N + 20], Y[N : N + 20], ids=IDS[N : N + 20])
    rows, labels = slice(N, N + 40), Y[N : N + 40].copy()
    labels[:3] += 0.1
    with pytest.warns(UserWarning, match="3 of these 40 rows were given before with other labels or forecasts: they"):
        ensemble.update(X[rows], labels, ids=IDS[rows], repeated="skip")
    assert counts(ensemble) == (40, 20, 17, 3)
    with pytest.raises(InputError, match=r"20 of these 20 rows were fitted on or given before, by their ids. Give new"):
        ensemble.update(X[N : N + 20], labels[:20], ids=IDS[N : N + 20])


def test_rows_of_one_time_are_told_apart_by_their_numbers() -> None:
    """Four rows share a time: others of that time are new rows, not changed ones."""
    times = pd.date_range("2026-01-01", periods=N // 2, freq="h").repeat(4)
    ensemble = make().fit(X[OLD], Y[OLD], ids=times[:N])
    rows = slice(N - 2, N + 40)
    ensemble.update(X[rows], Y[rows], ids=times[rows], repeated="skip")
    assert counts(ensemble) == (42, 40, 2, 0)
    ensemble.update(X[N : N + 40], Y[N : N + 40] + 1.0, ids=times[N : N + 40], repeated="skip")
    assert counts(ensemble) == (40, 40, 0, 0)


def test_without_ids_rows_are_known_by_their_numbers() -> None:
    ensemble = copy.deepcopy(fitted())
    rows = slice(N - 30, N + 30)
    ensemble.update(X[rows], Y[rows], repeated="skip")
    assert counts(ensemble) == (60, 30, 30, 0)
    ensemble.update(X[rows], Y[rows], repeated="skip")
    assert counts(ensemble) == (60, 0, 60, 0)
    twice = np.r_[N : N + 30, N + 10 : N + 20]  # ten rows once more than before
    ensemble.update(X[twice], Y[twice], repeated="skip")
    assert counts(ensemble) == (40, 10, 30, 0)


def test_rows_that_are_like_many_are_told_of() -> None:
    nights = np.full(2 * N, -1)
    nights[: N // 2] = np.arange(N // 2)
    rows = np.where(nights < 0, 5, nights)
    ensemble = make().fit(X[rows[:N]], Y[rows[:N]])
    with pytest.warns(UserWarning, match="8 rows that are like many others were skipped as given before, and may be"):
        ensemble.update(X[[5] * 8], Y[[5] * 8], repeated="skip")


def test_where_rows_cannot_be_told_apart_ids_are_asked_for() -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.integers(3, size=(400, 3)).astype(float), rng.integers(2, size=(400, 3)).astype(float)
    models = [("same", lambda X: X), ("turned", lambda X: X[:, ::-1])]
    ensemble = Ensemble(models, feasible=problem().omega).fit(X[:200], Y[:200], ids=range(200))
    with pytest.raises(InputError, match=r"rows given before cannot be told from new ones: many rows are alike. Give"):
        ensemble.update(X[200:], Y[200:], repeated="skip")
    ensemble.update(X[150:300], Y[150:300], ids=range(150, 300), repeated="skip")
    assert counts(ensemble) == (150, 100, 50, 0)


def test_ids_that_the_fit_did_not_have_do_not_hide_its_rows() -> None:
    ensemble = copy.deepcopy(fitted())
    with pytest.raises(InputError, match=r"100 of these 150 rows were fitted on or given before. Give new ones"):
        ensemble.update(X[N - 100 : N + 50], Y[N - 100 : N + 50], ids=IDS[N - 100 : N + 50], repeated="skip")
    ensemble.update(X[N : N + 50], Y[N : N + 50], ids=IDS[N : N + 50], repeated="skip")
    ensemble.update(X[N : N + 80], Y[N : N + 80], ids=IDS[N : N + 80], repeated="skip")
    assert counts(ensemble) == (80, 30, 50, 0)


def test_labels_that_are_missing_come_later(known: Ensemble) -> None:
    ensemble, labels = copy.deepcopy(known), Y[N : N + 40].copy()
    labels[[3, 17, 30]] = np.nan
    terms: dict[str, Any] = {"ids": IDS[N : N + 40], "missing_labels": "drop", "repeated": "skip"}
    ensemble.update(X[N : N + 40], labels, **terms)
    assert counts(ensemble) == (37, 37, 0, 0)
    ensemble.update(X[N : N + 40], Y[N : N + 40], **terms)
    assert counts(ensemble) == (40, 3, 37, 0)


def test_ids_are_kept_by_an_extension(known: Ensemble) -> None:
    ensemble = copy.deepcopy(known)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ensemble.update(X[N : N + 50], Y[N : N + 50], ids=IDS[N : N + 50])
        ensemble.extend(X=X[N + 50 : N + 80], Y=Y[N + 50 : N + 80], ids=IDS[N + 50 : N + 80])
    ensemble.update(X[: N + 100], Y[: N + 100], ids=IDS[: N + 100], repeated="skip")
    assert counts(ensemble) == (N + 100, 20, N + 80, 0)


def test_ids_that_are_none_are_refused(known: Ensemble) -> None:
    frame = pd.DataFrame({"row": X[NEW], "id": [None, *IDS[N + 1 :]]})
    ensemble = copy.deepcopy(known)
    with pytest.raises(InputError, match=r"ids must hold one id for each of the 400 rows, or name a column of X; got"):
        ensemble.update(X[NEW], Y[NEW], ids=IDS[:7])
    with pytest.raises(InputError, match="ids must not be missing; they are in row 0 of 400"):
        ensemble.update(frame, Y[NEW], ids="id")
    with pytest.raises(InputError, match="repeated must be"):
        ensemble.update(X[NEW], Y[NEW], repeated="never")
