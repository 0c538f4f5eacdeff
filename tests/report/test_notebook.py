"""What a notebook shows: the tables of the page, escaped, without a script, in the notebook's own colours."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import sklearn

import optensemble as oe
from optensemble import feasible
from tests.report.ensembles import (
    CASES,
    LONG,
    NASTY,
    Case,
    electricity,
    page_of,
    paper,
    portfolio,
    simplex,
    white_box,
)
from tests.report.reading import Node, read

pytestmark = pytest.mark.slow

EACH = pytest.mark.parametrize("name", CASES)


def headings(table: Node) -> list[str]:
    return [head.text for head in table.the("thead").elements[-1].elements]


def texts(table: Node) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows()]


def tables(text: str) -> dict[tuple[str, ...], Node]:
    return {tuple(headings(table)): table for table in read(text).every("table")}


def by_heading(table: Node) -> dict[str, list[str]]:
    """The columns of a table by their headings; of two of the same heading the last."""
    return dict(zip(headings(table), map(list, zip(*texts(table), strict=True)), strict=True))


def agrees(shown: Node, page: Node) -> bool:
    """Whether a table has the first rows of the page's, and all of its columns or some."""
    short, whole = by_heading(shown), by_heading(page)
    return all(cells == whole[heading][: len(cells)] for heading, cells in short.items())


def with_first(found: dict[tuple[str, ...], Node], *first: str) -> Node:
    (table,) = [table for heads, table in found.items() if heads[: len(first)] == first]
    return table


@EACH
def test_an_audit_shows_its_verdict_and_the_tables_of_the_page(name: str) -> None:
    data = CASES[name]().data
    text = data.audit._repr_html_()
    assert read(text).the("strong").text == data.audit.verdict
    shown = tables(text)
    page = {
        tuple(head.replace("saved by", "gain of") for head in heads): of for heads, of in tables(page_of(name)).items()
    }
    assert len(shown) >= 4
    for first in (("followed", "rows", "share"), ("baseline", "realised")):
        assert agrees(with_first(shown, *first), with_first(page, *first))
    worst = with_first(shown, "cell: rows where", "coordinate")
    of_page = with_first(page, "cell: rows where", "coordinate")
    assert [row[2:] for row in texts(worst)] == [row[2:] for row in texts(of_page)][:10]
    assert [row[1] for row in texts(worst)] == data.audit.cells["coordinate"].head(10).astype(str).tolist()


@EACH
def test_a_fitted_ensemble_shows_the_result_of_the_fit(name: str) -> None:
    ensemble: Any = CASES[name]().data.ensemble
    text = ensemble._repr_html_()
    assert text == ensemble._repr_mimebundle_()["text/html"]
    root = read(text)
    assert root.the("strong").text == f"{type(ensemble).__name__}, fitted on {ensemble.n_rows_:,} rows"
    said = [item.text for item in root.every("li")]
    if hasattr(ensemble, "finding_"):
        assert said[0].lower() == f"{ensemble.finding_}.".lower()
        assert [line.lower() for line in said[1:]] == [f"{note}.".lower() for note in ensemble.notes_]
    else:
        assert ensemble.stopped_ in said[0]
    shown, page = tables(text), tables(page_of(name))
    first = {heads[0] for heads in shown if heads[0] != "rounds"}
    assert first == {"lemma", *(["candidate"] if hasattr(ensemble, "finding_") else [])}
    for heading in first:
        assert agrees(with_first(shown, heading), with_first(page, heading))


def test_long_tables_are_cut_and_the_rest_is_counted() -> None:
    data = simplex(20, 20, 150, n=200).data
    ensemble: Any = data.ensemble
    for text, frames in (
        (data.audit._repr_html_(), {"lift": data.audit.lift}),
        (ensemble._repr_html_(), {"leaderboard_": ensemble.leaderboard_, "guarantees_": ensemble.guarantees_}),
    ):
        root = read(text)
        assert max(len(table.rows()) for table in root.every("table")) <= 12
        more = [note.text for note in root.every("p") if note.attributes.get("class") == "more"]
        for name, frame in frames.items():
            assert f"and {len(frame) - 10} more in {name}" in more


@pytest.mark.parametrize("case", [electricity, white_box])
def test_numbers_are_on_the_right_under_their_headings_and_words_on_the_left(case: Any) -> None:
    found: Case = case()
    ensemble: Any = found.data.ensemble
    shown: list[Any] = [found.data.audit, ensemble, ensemble.explain(found.X, 0)]
    for table in (table for each in shown for table in read(each._repr_html_()).every("table")):
        kinds = [head.attributes.get("class", "text") for head in table.the("thead").elements[-1].elements]
        for row in table.rows():
            assert [cell.attributes.get("class", "text") for cell in row] == kinds
            for cell, kind in zip(row, kinds, strict=True):
                if re.search(r"\d.* to .*\d", cell.text) and kind != "prose":
                    assert kind == "number"  # an interval


def test_a_promise_shows_its_sentence_and_below_it_what_limits_it() -> None:
    promise = oe.Promise(2.4, 2.2, 2.6, rows=500, rely_on=2.2, note="a < b")
    root = read(promise._repr_html_())
    assert root.the("strong").text == "2.40 (95 %: 2.20 to 2.60) on average over 500 rows"
    assert root.the("p").text == f"{root.the('strong').text}a < b"


def test_the_start_and_the_chosen_row_of_cross_validation_are_shown() -> None:
    ensemble: Any = white_box().data.ensemble
    (table,) = [table for heads, table in tables(ensemble._repr_html_()).items() if heads[0] == "rounds"]
    tried = ensemble.validation_
    chosen = tried.loc[tried["chosen"], "rounds"].item()
    assert [row[0] for row in texts(table)] == ["0", *([str(chosen)] if chosen else [])]
    assert texts(table)[-1][-1] == "yes"


def test_an_ensemble_that_is_not_fitted_shows_scikit_learn_s_diagram() -> None:
    for ensemble in (
        oe.DecisionEnsemble(models=[("a", np.asarray)], feasible=feasible.Simplex(2)),
        oe.WhiteBoxEnsemble([("a", np.asarray)], feasible.Simplex(2)),
        oe.BlackBoxEnsemble([("a", np.asarray)], feasible.Simplex(2)),
    ):
        text = ensemble._repr_html_()
        assert "sk-" in text
        assert type(ensemble).__name__ in text
        assert "optensemble h4" not in text
        assert "sk-" in ensemble._repr_mimebundle_()["text/html"]


def test_scikit_learn_s_setting_for_text_is_respected() -> None:
    ensemble: Any = portfolio().data.ensemble
    with sklearn.config_context(display="text"):
        assert not hasattr(ensemble, "_repr_html_")
        assert set(ensemble._repr_mimebundle_()) == {"text/plain"}
    assert ensemble._repr_mimebundle_()["text/plain"] == repr(ensemble)


def test_a_plan_shows_its_parts() -> None:
    plan = oe.plan(k=3, d=4, rows=200, access="mixed")
    text = plan._repr_html_()
    (table,) = tables(text).values()
    assert read(text).the("strong").text == str(plan).splitlines()[0]
    assert [row[0] for row in texts(table)] == plan.parts["part"].tolist()
    assert [int(row[3].replace(",", "")) for row in texts(table)] == plan.parts["needed"].tolist()
    assert [row[4] == "yes" for row in texts(table)] == plan.parts["enough"].tolist()


def test_names_are_escaped_and_there_is_no_script() -> None:
    data = simplex(3, 2, 60, n=200, names=[NASTY, LONG]).data
    for text in (data.audit._repr_html_(), data.ensemble._repr_html_()):
        root = read(text)
        assert not list(root.every("script"))
        assert NASTY in root.text
        assert not [name for node in root.every() for name in node.attributes if name.startswith("on")]


@pytest.mark.parametrize("case", [portfolio, white_box, paper])
def test_the_style_touches_nothing_else_and_sets_no_colour_of_text(case: Any) -> None:
    found: Case = case()
    for text in (found.data.audit._repr_html_(), found.data.ensemble._repr_html_()):
        style = read(text).the("style").text
        for rule in re.findall(r"([^{}]+)\{([^}]*)\}", style):
            assert all(selector.strip().startswith(".optensemble") for selector in rule[0].split(","))
            assert not re.search(r"(^|[;\s])(color|background)\s*:", rule[1])
        assert "url(" not in style
        assert "http" not in text


def test_importing_the_package_draws_nothing_and_neither_does_a_notebook() -> None:
    code = (
        "import sys, optensemble as oe\n"
        "assert not [name for name in sys.modules if name.startswith(('matplotlib', 'optensemble.report'))]\n"
        "oe.plan(k=2, d=2)._repr_html_()\n"
        "import optensemble.report.notebook\n"
        "assert not [name for name in sys.modules if name.startswith('matplotlib')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_live_ensemble_shows_its_certificate_its_monitor_and_its_refits() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(460, 2))
    Y = X + 0.5 * rng.normal(size=X.shape)
    models: Any = [("left <b>", lambda X: X * [1, 0]), ("right", lambda X: X * [0, 1])]
    live = oe.LiveEnsemble(oe.DecisionEnsemble(models, feasible=feasible.Simplex(2)).fit(X[:200], Y[:200]))
    before = read(live._repr_html_())
    assert before.the("strong").text == "No labels have arrived yet"
    assert not list(before.every("table"))
    for start in range(200, 460, 20):
        live.answer(X[start : start + 20], ids=range(start, start + 20))
        live.observe(range(start, start + 20), Y[start : start + 20])
    live.answer(X[:5], ids=range(5))
    text = live._repr_html_()
    assert read(text).the("strong").text == live.finding_
    said = [each.text for each in read(text).every("li")]
    assert said == ["260 rows learned from, 5 open, 0 expired", f"monitor: {live.monitor}"]
    lost, refits = read(text).every("table")
    assert by_heading(lost)["policy"] == ["fitted", "refitted", "online stack"]
    shown = [float(each.replace("−", "-")) for each in by_heading(lost)["at most"]]
    np.testing.assert_allclose(shown, live.certificate()["bound_per_row"], rtol=1e-2)
    assert by_heading(refits)["why"] == live.refits_["why"].tolist()
