"""Questions to an explanation, and its sentences, tables and page."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import InputError, NotFittedError
from tests.explanation.retold import SENSES, coordinates, patched, saved, white
from tests.problems import lookup, random_problem

pytestmark = pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")


def ensembles() -> list[tuple[Any, Any]]:
    problem, ensemble = white("round-robin", "max")
    return [patched(), (ensemble, problem.X), saved("black")[:2]]


@pytest.mark.parametrize("row", [-1, 10_000, 1.0, True, "3", None, np.nan])
def test_a_row_that_is_not_there_is_refused(row: Any) -> None:
    for ensemble, X in ensembles():
        with pytest.raises(InputError, match=rf"row must be a whole number from 0 to {len(X) - 1}, as X has .* got "):
            ensemble.explain(X, row)


def test_of_no_rows_none_can_be_explained() -> None:
    for ensemble, X in ensembles():
        with pytest.raises(InputError, match="X has no rows, and so none to explain"):
            ensemble.explain(X[:0])


@pytest.mark.parametrize("names", [["a", "b"], ["a", "b", "a"], "abc", ["a", "b", "c", "d"], 3])
def test_names_of_coordinates_must_be_one_for_each(names: Any) -> None:
    for ensemble, X in ensembles():
        with pytest.raises(InputError, match="coordinates must be 3 distinct names, one for each coordinate"):
            ensemble.explain(X, 0, names)


def test_only_a_fitted_ensemble_explains() -> None:
    problem = random_problem(0)
    for ensemble in (
        oe.DecisionEnsemble(problem.models, feasible=problem.omega),
        oe.WhiteBoxEnsemble(problem.models, problem.omega),
        oe.BlackBoxEnsemble(problem.policies, problem.omega),
    ):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            ensemble.explain(problem.X)


def test_coordinates_can_be_named() -> None:
    for ensemble, X in ensembles():
        numbered, named = ensemble.explain(X, 2), ensemble.explain(X, 2, ["north", "south", "far-east"])
        assert list(named.steps) == ["stage", "y_north", "y_south", "y_far-east"]
        assert list(named.alternatives)[4:] == ["action_north", "action_south", "action_far-east"]
        assert list(named.patches)[4:] == ["y_north", "y_south", "y_far-east"]
        np.testing.assert_array_equal(coordinates(named.patches), coordinates(numbered.patches))
        words = zip(named.patches["cell"], numbered.patches["cell"], strict=True)
        renamed = ((0, "north"), (1, "south"), (2, "far-east"))
        for ours, theirs in words:
            for number, name in renamed:
                theirs = theirs.replace(f"action[{number}]", name)
            assert ours == theirs
        assert "far-east" in str(named)


def test_asking_changes_nothing_and_gives_the_same_twice() -> None:
    for ensemble, X in ensembles():
        before, first = ensemble.answer(X), ensemble.explain(X, 9)
        second, after = ensemble.explain(X, 9), ensemble.answer(X)
        np.testing.assert_array_equal(before.predictions, after.predictions)
        for name in ("alternatives", "steps", "patches"):
            pd.testing.assert_frame_equal(getattr(first, name), getattr(second, name), check_exact=True)


def test_a_row_is_explained_alike_alone_and_among_others() -> None:
    for ensemble, X in ensembles():
        whole, alone = ensemble.explain(X, 9), ensemble.explain(X[9:10])
        assert alone.row == 0
        assert alone.reason == whole.reason
        for name in ("alternatives", "steps", "patches"):
            pd.testing.assert_frame_equal(getattr(alone, name), getattr(whole, name), rtol=1e-9, atol=1e-12)


def test_the_reason_names_the_next_best_and_by_how_much() -> None:
    for sense, value, side in (("max", "value", "above"), ("min", "cost", "below")):
        ensemble, X = patched(sense)
        explanation = ensemble.explain(X, 0)
        others = explanation.alternatives.query("not same and behind == behind")
        best = others.iloc[int(others["behind"].to_numpy().argmin())]
        said = f"its calibrated {value} is {best['behind']:.4g} {side} {best['name']}, the next"
        assert explanation.reason == f"{explanation.followed} is followed: {said}"


def test_where_there_is_no_alternative_there_is_no_margin() -> None:
    problem = random_problem(1, n=40)
    alone = oe.WhiteBoxEnsemble(problem.models[:1], problem.omega, validation=None, max_rounds=5)
    explanation = alone.fit(problem.X, problem.Y).explain(problem.X)
    assert math.isnan(explanation.margin)
    assert explanation.reason == "m0 is followed: there is no other candidate"
    one = feasible.Vertices([[0.2, 0.3, 0.4]])
    agreed = oe.WhiteBoxEnsemble(problem.models, one, validation=None, max_rounds=5).fit(problem.X, problem.Y)
    explanation = agreed.explain(problem.X)
    assert math.isnan(explanation.margin)
    assert explanation.reason == f"{explanation.followed} is followed: all other candidates would do the same"


@SENSES
def test_a_tie_is_said_to_be_one(sense: str) -> None:
    omega = feasible.Simplex(2)
    P = np.array([[1.0, 0.0], [0.0, 1.0]]) * (1 if sense == "max" else -1)
    models = [("left", lambda X: np.tile(P[0], (len(X), 1))), ("right", lambda X: np.tile(P[1], (len(X), 1)))]
    ensemble = oe.WhiteBoxEnsemble(models, omega, sense=sense, validation=None, max_rounds=0)
    explanation = ensemble.fit(np.zeros((4, 2)), np.ones((4, 2))).explain(np.zeros((1, 2)))
    word = "value is no lower" if sense == "max" else "cost is no higher"
    assert explanation.reason == f"left is followed: its corrected {word} than that of right, the next"
    assert explanation.margin == 0


def test_text_has_the_sentence_the_action_and_every_table() -> None:
    for ensemble, X in ensembles():
        explanation = ensemble.explain(X, 2)
        text = str(explanation)
        lines = text.splitlines()
        assert lines[0] == f"row 2: {explanation.reason}"
        assert lines[1].startswith(f"promised {explanation.promised:.4g}".replace("-", "−"))
        for name in [*ensemble.names_, *explanation.steps["stage"], *explanation.patches["cell"].head(10)]:
            assert name in text
        assert max(map(len, lines)) <= 120
        assert repr(explanation) == f"Explanation(row=2, {explanation.reason!r})"


def test_html_is_escaped() -> None:
    problem = random_problem(1, n=40)
    models = [("<b>bold</b>", problem.models[0][1]), ("a & b", problem.models[1][1])]
    ensemble = oe.WhiteBoxEnsemble(models, problem.omega, validation=None, max_rounds=20).fit(problem.X, problem.Y)
    html = ensemble.explain(problem.X, 1, ["<i>", "y", "z"])._repr_html_()
    assert "<b>" not in html
    assert "<i>" not in html
    assert "&lt;b&gt;bold&lt;/b&gt;" in html
    assert "a &amp; b" in html
    assert html.count("<table") == html.count("</table>") == 3


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
def test_of_many_coordinates_the_text_shows_those_that_matter() -> None:
    rng = np.random.default_rng(0)
    P, d = rng.normal(size=(2, 60, 12)), 12
    models = [(f"m{i}", lookup(p)) for i, p in enumerate(P)]
    omega = feasible.Box(np.zeros(d), np.linspace(1, 3, d))
    ensemble = oe.WhiteBoxEnsemble(models, omega, validation=None, max_rounds=1, sense="max")
    explanation = ensemble.fit(np.arange(60), P[0] + 3.0).explain(np.arange(60), 0)
    text = str(explanation)
    assert explanation.steps.shape[1] == d + 1
    largest = np.argsort(-explanation.action, kind="stable")[:6]
    for j in range(d):
        assert (f"y_{j} " in text.replace("\n", " ")) == (j in largest)
    assert "(of 12 coordinates the 6 largest of the action)" in text
    more = int((explanation.action != 0).sum()) - 10
    assert more > 0
    assert f" and {more} more" in text


def test_where_nothing_is_done_that_is_said() -> None:
    omega = feasible.Box(np.zeros(2), np.ones(2))
    ensemble = oe.WhiteBoxEnsemble([("gloomy", lambda X: -np.ones(X.shape))], omega, validation=None, max_rounds=0)
    text = str(ensemble.fit(np.zeros((4, 2)), -np.ones((4, 2))).explain(np.zeros((1, 2))))
    assert "promised 0 for doing nothing" in text
    assert text.splitlines()[-1] == "No patch moved the prediction"


def test_tables_can_be_written_as_json() -> None:
    ensemble, X = patched()
    explanation = ensemble.explain(X, 1)
    for table in (explanation.alternatives, explanation.steps, explanation.patches):
        assert len(json.loads(table.to_json(orient="records"))) == len(table)
