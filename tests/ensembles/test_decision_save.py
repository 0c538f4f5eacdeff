"""DecisionEnsemble.save and load: answers to the last bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import InputError, OptEnsembleError, RefitWarning
from tests.ensembles.decision import ACCESS, NEW, OLD, SENSES, Ensemble, N, answers, fitted, make, problem, same, state

pytestmark = pytest.mark.slow


def loaded(ensemble: Ensemble, path: Path, **given: Any) -> Any:
    ensemble.save(path / "ensemble.oe")
    return oe.load(path / "ensemble.oe", **given)


@pytest.mark.no_cover
@ACCESS
@SENSES
@pytest.mark.parametrize("omega", ["simplex", "polytope", "vertices"])
def test_a_loaded_ensemble_answers_to_the_last_bit(access: str, sense: str, omega: str, tmp_path: Path) -> None:
    ensemble = fitted(access, omega, sense)
    again = loaded(ensemble, tmp_path, models=ensemble.models, policies=ensemble.policies)
    assert same(state(again), state(ensemble))
    assert again.promise(problem(omega).X[NEW]) == ensemble.promise(problem(omega).X[NEW])
    for name in ("names_", "winner_", "finding_", "notes_", "n_rows_", "n_updated_", "refit_due_", "time_ordered_"):
        assert getattr(again, name) == getattr(ensemble, name), name
    pd.testing.assert_frame_equal(again.leaderboard_, ensemble.leaderboard_)
    pd.testing.assert_frame_equal(again.guarantees_, ensemble.guarantees_)
    audits = [each.audit(problem(omega).X[NEW], problem(omega).Y[NEW]) for each in (again, ensemble)]
    assert audits[0].verdict == audits[1].verdict


def test_columns_and_corrections_are_in_the_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(4000, 3))
    X = np.concatenate(signal + 0.5 * rng.normal(size=(2, 4000, 3)), axis=1)
    Y = signal + 0.5 * rng.normal(size=(4000, 3))
    Y[:, 0] -= 1.5 * (X[:, 3:].argmax(axis=1) == 0)
    models = [("first", oe.Columns([0, 1, 2])), ("second", oe.Columns([3, 4, 5]))]
    ensemble = Ensemble(models, feasible=feasible.Simplex(3)).fit(X, Y)
    assert {"refined", "patched"} <= set(ensemble.names_)
    assert same(answers(loaded(ensemble, tmp_path), X), answers(ensemble, X))


def test_a_loaded_ensemble_is_updated_as_the_saved_one(tmp_path: Path) -> None:
    X, Y = problem().X, problem().Y
    ensemble = make().fit(X[OLD], Y[OLD], groups=np.arange(N) // 4)
    again = loaded(ensemble, tmp_path, models=ensemble.models)
    for each in (ensemble, again):
        each.update(X[NEW], Y[NEW], groups=np.arange(N) // 4 + N)
    assert same(state(again), state(ensemble))
    assert again.promise(X[NEW]) == ensemble.promise(X[NEW])


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
@pytest.mark.parametrize("time_ordered", [True, False])
def test_load_update_extend_has_all_rows(time_ordered: bool, tmp_path: Path) -> None:
    """To the bit what an ensemble that was never saved comes to: 400 rows and 200, not 200."""
    X, Y = problem().X, problem().Y
    ensemble = make().fit(X[OLD], Y[OLD], time_ordered=time_ordered, random_state=9)
    again = loaded(ensemble, tmp_path, models=problem().models)
    np.testing.assert_array_equal(again.record_.folds, ensemble.record_.folds)
    for start in (N, N + 50, N + 100):
        rows = slice(start, start + 50)
        for each in (ensemble, again):
            each.update(X[rows], Y[rows])
        again = loaded(again, tmp_path, models=problem().models)
    for each in (ensemble, again):
        each.extend(X=X[N + 150 : N + 200], Y=Y[N + 150 : N + 200])
    assert again.n_rows_ == ensemble.n_rows_ == N + 200
    assert same(state(again), state(ensemble))


def test_an_ensemble_without_its_rows_is_not_extended(tmp_path: Path) -> None:
    X, Y = problem().X, problem().Y
    fitted().save(tmp_path / "ensemble.oe", keep_rows=False)
    again = oe.load(tmp_path / "ensemble.oe", models=problem().models)
    before, forgotten = state(again), r"rows of the fit were forgotten when the file was written: extend cannot go on"
    for given in ({"models": [("more", problem().models[0][1])]}, {"X": X[NEW], "Y": Y[NEW]}):
        with pytest.raises(InputError, match=f"{forgotten} from them. Fit again, on all rows"):
            again.extend(**given)
    assert same(state(again), before)
    with pytest.warns(RefitWarning, match=r"more than the promise allows for .*\. Fit again, on all rows\.$"):
        again.update(X[NEW], Y[NEW] + 50)
    with pytest.raises(InputError, match=forgotten):
        loaded(again, tmp_path, models=problem().models).extend()


def test_rows_are_not_in_files_of_earlier_versions() -> None:
    old = oe.load(Path(__file__).parents[1] / "saved" / "decision.oe")
    with pytest.raises(InputError, match="the rows this ensemble was fitted on are not in its file: extend cannot"):
        old.extend(models=[("more", lambda X: X[:, :3])])


def test_members_that_are_not_in_the_file_must_be_given(tmp_path: Path) -> None:
    fitted("both").save(tmp_path / "ensemble.oe")
    with pytest.raises(OptEnsembleError, match="m0"):
        oe.load(tmp_path / "ensemble.oe")
    with pytest.raises(OptEnsembleError, match="m2"):
        oe.load(tmp_path / "ensemble.oe", models=problem().models[:2])
