"""``groups=``, the old name of ``subgroups=``, still works, and says what to write instead."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import optensemble as oe
from optensemble.exceptions import InputError
from tests.ensembles.paper import BOTH, KINDS, OPTIONS, answers, assert_same, assert_same_log, make
from tests.problems import random_problem

PROBLEM = random_problem(11, n=120)
WORDS = r"groups= is now called subgroups=: groups are rows that belong together\. Give subgroups= instead"
pytestmark = pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")


def halves(X: Any) -> Any:
    return X % 2


def old(kind: Any, **parameters: Any) -> Any:
    """Fitted with the old name, which is told on the line that calls ``fit``."""
    ensemble = make(kind, PROBLEM, groups=halves, **parameters)
    with pytest.warns(FutureWarning, match=WORDS) as told:
        ensemble.fit(PROBLEM.X, PROBLEM.Y)
    future = [each for each in told if each.category is FutureWarning]
    assert [each.filename for each in future] == [__file__]
    return ensemble


def new(kind: Any, **parameters: Any) -> Any:
    return make(kind, PROBLEM, subgroups=halves, **parameters).fit(PROBLEM.X, PROBLEM.Y)


@pytest.mark.no_cover
@BOTH
@pytest.mark.parametrize("options", [*OPTIONS, {"validation": "cv", "min_cell": 10, "max_rounds": 20}], ids=str)
def test_the_old_name_gives_the_same_bits(kind: Any, options: dict[str, Any]) -> None:
    ours, theirs = old(kind, **options), new(kind, **options)
    assert_same(answers(ours, PROBLEM.X), answers(theirs, PROBLEM.X))
    assert_same_log(ours, theirs)
    pd.testing.assert_frame_equal(ours.history_, theirs.history_, check_exact=True)
    pd.testing.assert_frame_equal(ours.guarantees_, theirs.guarantees_, check_exact=True)
    assert ours.known_subgroups == theirs.known_subgroups
    assert ours.terms_.subgroups is theirs.terms_.subgroups is halves
    without = make(kind, PROBLEM, **options).fit(PROBLEM.X, PROBLEM.Y)
    assert without.known_subgroups is None


@BOTH
def test_both_names_together_are_refused(kind: Any) -> None:
    ensemble = make(kind, PROBLEM, groups=halves, subgroups=halves)
    words = "groups is the old name of subgroups, and both were given. Leave groups out"
    with pytest.warns(FutureWarning, match=WORDS), pytest.raises(InputError, match=words):
        ensemble.fit(PROBLEM.X, PROBLEM.Y)
    assert not hasattr(ensemble, "log_")


@BOTH
def test_the_constructor_only_stores_and_a_clone_has_what_it_was_given(kind: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ensemble = make(kind, PROBLEM, groups=halves)
        twin = clone(ensemble)
        again = clone(make(kind, PROBLEM, subgroups=halves))
    for each, name, other in ((ensemble, "groups", "subgroups"), (twin, "groups", "subgroups")):
        parameters = each.get_params()
        assert parameters[name] is halves
        assert parameters[other] is None
    assert again.get_params()["subgroups"] is halves
    assert again.get_params()["groups"] is None
    moved = twin.set_params(groups=None, subgroups=halves).fit(PROBLEM.X, PROBLEM.Y)
    assert_same(answers(moved, PROBLEM.X), answers(new(kind), PROBLEM.X))
    fitted_twin = clone(old(kind))
    assert fitted_twin.groups is halves
    assert not hasattr(fitted_twin, "log_")


@BOTH
def test_answers_say_nothing_of_names(kind: Any) -> None:
    ensemble = old(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ensemble.answer(PROBLEM.X)
        ensemble.explain(PROBLEM.X)
        ensemble.audit(PROBLEM.X, PROBLEM.Y + 1.0)
        ensemble.cross_fit()
        ensemble.promise(PROBLEM.X)


def test_an_extension_warns_too_and_goes_on_with_the_same_subgroups() -> None:
    first, rest = np.split(PROBLEM.X, 2)
    fits = []
    for name in ("groups", "subgroups"):
        ensemble = make(oe.BlackBoxEnsemble, PROBLEM, **{name: halves})
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", FutureWarning)
            ensemble.fit(first, PROBLEM.Y[first])
            ensemble.extend(X=rest, Y=PROBLEM.Y[rest])
        future = [each for each in told if each.category is FutureWarning]
        assert [each.filename for each in future] == ([__file__] * 2 if name == "groups" else [])
        fits.append(ensemble)
    assert_same(answers(fits[0], PROBLEM.X), answers(fits[1], PROBLEM.X))
    assert_same_log(*fits)
    with pytest.raises(InputError, match=r"subgroups was .*halves.* at the fit and is None now"):
        fits[1].set_params(subgroups=None).extend(X=rest, Y=PROBLEM.Y[rest])
    with pytest.warns(FutureWarning, match=WORDS):  # the other name for the same
        fits[1].set_params(groups=halves).extend(X=rest, Y=PROBLEM.Y[rest])


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_knows_the_new_name_only(kind: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame({"row": PROBLEM.X, "half": PROBLEM.X % 2})
    given = PROBLEM.models if kind is oe.WhiteBoxEnsemble else PROBLEM.policies
    members = [(name, lambda X, m=member: m(X["row"].to_numpy())) for name, member in given]
    ensemble = kind(members, PROBLEM.omega, validation=None, max_rounds=20, groups="half")
    with pytest.warns(FutureWarning, match=WORDS):
        ensemble.fit(frame, PROBLEM.Y)
    ensemble.save(tmp_path / "e.oe")
    again: dict[str, Any] = {"models" if kind is oe.WhiteBoxEnsemble else "policies": members}
    with pytest.warns(FutureWarning, match="groups= is now called subgroups="):
        by_old_name = oe.load(tmp_path / "e.oe", groups="half", **again)
    by_new_name = oe.load(tmp_path / "e.oe", subgroups="half", **again)
    for loaded in (oe.load(tmp_path / "e.oe", **again), by_new_name, by_old_name):
        assert (loaded.subgroups, loaded.groups) == ("half", None)
        assert_same(answers(loaded, frame), answers(ensemble, frame))
