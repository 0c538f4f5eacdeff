"""What a live ensemble is made of: what is refused, and what numbers may be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import InputError, NotFittedError
from tests.ensembles.decision import D, Ensemble, N, make, problem
from tests.ensembles.live import Diary, live

X, Y = problem().X, problem().Y

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "play": ({"play": "best"}, "play must be one of 'auto', 'mixture', 'heaviest'; got 'best'"),
    "refit as text": ({"refit": "always"}, "refit must be one of 'auto', 'never'; got 'always'"),
    "refit of no rows": ({"refit": 0}, "refit must be .*1.*got 0"),
    "refit of half a row": ({"refit": 60.5}, "refit must be .*whole.*got 60.5"),
    "refit of nothing": ({"refit": None}, "refit must be .*got .*None"),
    "refit_in": ({"refit_in": "process"}, "refit_in must be one of .*'background', 'asked'; got 'process'"),
    "window of no rows": ({"window": 0}, "window must be .*1.*got 0"),
    "window too small for a fit": ({"window": 99}, "window must be .*100.*got 99"),
    "window as text": ({"window": "all"}, "window must be .*got .*all"),
    "window of half a row": ({"window": 200.5}, "window must be .*whole.*got 200.5"),
    "expire_after": ({"expire_after": 0}, "expire_after must be .*1.*got 0"),
    "expire_after as a share": ({"expire_after": 1.5}, "expire_after must be .*whole.*got 1.5"),
    "horizon": ({"horizon": 0}, "horizon must be .*1.*got 0"),
    "horizon without end": ({"horizon": 10**13}, "horizon must be at most 1,000,000,000,000 rows"),
    "false_alarms of nothing": ({"false_alarms": 0}, "false_alarms must be .*got 0"),
    "false_alarms for certain": ({"false_alarms": 1.0}, "false_alarms, a probability, below 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_parameters_are_refused(name: str) -> None:
    parameters, words = WRONG[name]
    with pytest.raises(InputError, match=words):
        live(**parameters)


def test_whole_numbers_may_be_of_any_type() -> None:
    diary = Diary(live(refit=np.int32(60), window=np.int64(N), expire_after=np.int16(100))).play(range(N, N + 60))
    assert diary.live.refits_["rows"].tolist() == [N]


def test_an_ensemble_must_be_fitted() -> None:
    unfitted = [
        make(),
        oe.WhiteBoxEnsemble(problem().models, feasible.Simplex(D)),
        oe.BlackBoxEnsemble(problem().policies, feasible.Simplex(D)),
    ]
    for each in unfitted:
        with pytest.raises(NotFittedError, match=rf"this {type(each).__name__} is not fitted yet\. Call fit"):
            oe.LiveEnsemble(each)


@pytest.mark.parametrize("given", [None, 3, problem().models, Ensemble], ids=type)
def test_something_that_is_no_ensemble_is_refused(given: Any) -> None:
    with pytest.raises(InputError, match=r"needs a fitted DecisionEnsemble, .*; got .*\. Fit one on past rows"):
        oe.LiveEnsemble(given)


def test_a_live_ensemble_does_not_go_on_from_another() -> None:
    with pytest.raises(InputError, match="got LiveEnsemble"):
        oe.LiveEnsemble(live())  # type: ignore[arg-type]
