"""The report of an ensemble, read back: there for any ensemble, every name escaped, nothing loaded."""

from __future__ import annotations

import re
from dataclasses import replace
from html import escape
from importlib.metadata import version
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import optensemble as oe
from optensemble import feasible
from optensemble._core.buckets import Interval
from optensemble.multicalibration.cell_names import CellName, Leader, LevelSet, Subgroup
from optensemble.report.cell_text import cell_text
from optensemble.report.data import ReportData
from optensemble.report.drawing import inline_svg, new_figure, style
from optensemble.report.page import make_report_page
from tests.report.ensembles import CASES, LONG, NASTY, boxes, electricity, journey, judge, paper, portfolio, simplex
from tests.report.pages import EACH, SECTIONS, _headings, column, root_of, tables_of, the_table
from tests.report.reading import read

pytestmark = pytest.mark.slow

# Names


def test_names_are_escaped_wherever_they_come() -> None:
    case = simplex(3, 2, 60, n=200, names=[NASTY, LONG], coordinates=[NASTY, LONG, "plain"])
    data = replace(case.data, source=NASTY)
    text = make_report_page(data)
    root = read(text)
    assert len(list(root.every("script"))) == 1
    assert "<script>alert" not in text
    assert not [node for node in root.every() for name in node.attributes if name.startswith("on")]
    assert NASTY in root.the("footer").text
    assert NASTY in column(the_table(root, "baseline"), "baseline")
    assert [row[0].text for row in the_table(root, "coordinate", "mean").rows()] == [NASTY, LONG, "plain"]
    assert any(NASTY[:21] in node.text for node in root.every("text"))  # shortened beside an axis
    assert set(re.findall(r'https?://[^"\s<]+', text)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_a_name_in_a_picture_says_what_it_says(name: str) -> None:
    shown = name.strip() or "x"
    printable = "".join(letter if letter.isprintable() else "?" for letter in shown)
    with style():
        figure = new_figure(2, 1)
        figure.suptitle(printable)
        text = inline_svg(figure, "prefix", "label")
    assert escape(printable, quote=False).replace("&gt;", ">") in text.replace("&gt;", ">")


@given(st.text(), st.integers(0, 3), st.sampled_from([Interval("0", "0.1", False), Interval("-0.5", "1e+03", True)]))
def test_cells_are_named_by_their_coordinates_whatever_a_member_is_called(who: str, j: int, bucket: Interval) -> None:
    coordinates = ["north", "south", "east", "west"]
    low, high = (text.replace("-", "−") for text in (bucket.low, bucket.high))
    limits = f"{low} to {'' if bucket.closed else 'below '}{high}"
    own = CellName((LevelSet(j, bucket, own=True),))
    assert cell_text(own, coordinates) == f"own action on {coordinates[j]} is {limits}"
    expected = f"action of {who} on {coordinates[j]} is {limits}"
    assert cell_text(CellName((LevelSet(j, bucket, member=who),)), coordinates) == expected
    followed = f"{who} is followed, and its action on {coordinates[j]} is {limits}"
    assert cell_text(CellName((Leader(who), LevelSet(j, bucket))), coordinates) == followed
    assert cell_text(CellName((Subgroup("region=north"),)), coordinates) == "region=north"


# Any ensemble, any rows


@pytest.mark.parametrize(
    "case",
    [
        lambda: simplex(1, 1, 20),
        lambda: simplex(4, 2, 20, time_ordered=True),
        lambda: simplex(3, 2, 2),
        lambda: simplex(3, 2, 50, constant=True),
        lambda: simplex(40, 20, 40, n=150),
        lambda: simplex(200, 3, 60, n=150),
        lambda: simplex(4, 3, 60, sense="min"),
        lambda: boxes("black", "min", n=120, m=60),
        lambda: boxes("black", n=60, validation=None),
    ],
    ids=["d=1", "20 rows", "2 rows", "constant", "k=20", "d=200", "costs", "black box of costs", "no limits"],
)
@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
def test_there_is_a_page_for_any_ensemble_and_the_same_every_time(case: Any) -> None:
    data: ReportData = case().data
    text = make_report_page(data)
    assert text == make_report_page(replace(data))
    root = read(text)
    assert [head.attributes["id"] for head in root.every("h2") if "id" in head.attributes] == SECTIONS
    assert not re.search(r"(?<![\w−-])(nan|inf|None)(?![\w-])", root.the("main").text)
    found = [node.attributes["id"] for node in root.every() if "id" in node.attributes]
    assert len(found) == len(set(found))


def test_a_single_candidate_has_no_table_of_swaps() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    Y = X + rng.normal(scale=0.5, size=X.shape)
    alone = oe.WhiteBoxEnsemble([("only", np.asarray)], feasible.Simplex(2)).fit(X[:150], Y[:150])
    root = read(make_report_page(judge(alone, X[150:], Y[150:], ["a", "b"]).data))
    assert [node.text for node in root.every("strong")].count(
        "There is only one candidate: nothing can be swapped."
    ) == 1
    assert "followed" not in [_headings(table)[0] for table in root.every("table") if "only" in _headings(table)]


def test_without_baselines_cells_or_comparisons_the_page_says_so() -> None:
    data = portfolio().data
    audit = data.audit
    bare = replace(
        audit,
        lift=audit.lift.head(0),
        cells=audit.cells.head(0),
        conditional=audit.conditional.head(0),
        tested=0,
        biased=0,
        thin=2,
    )
    root = read(make_report_page(replace(data, audit=bare)))
    assert not tables_of(root, "baseline")
    assert not tables_of(root, "cell: rows where")
    assert "Gain" not in [card.the("h2").text for card in root.every("section", class_="card")]
    assert "No cell could be tested. 2 cells had too few rows to be tested." in [n.text for n in root.every("strong")]


def test_a_page_does_not_grow_with_the_rows() -> None:
    few, many = (make_report_page(simplex(4, 2, m).data) for m in (1_000, 30_000))
    assert len(many) < 1.2 * len(few) < 300_000


@EACH
def test_the_page_loads_nothing_and_says_where_it_is_from(name: str) -> None:
    data, root = CASES[name]().data, root_of(name)
    policy = root.the("meta", http_equiv="Content-Security-Policy").attributes["content"]
    assert policy.startswith("default-src 'none'")
    assert all(not node.attributes.get("src") for node in root.every())
    foot = root.the("footer").text
    assert f"{data.rows:,} from later.parquet" in foot
    assert f"optensemble {version('optensemble')}" in foot
    assert f"({data.sense})" in foot
    assert f"Fitted on {data.ensemble.n_rows_:,} rows" in foot
    terms = [node.text for node in root.every("dt")]
    assert {"Promise", "Self-assessment", "Cell", "Swap regret"} <= set(terms)


def test_every_picture_says_what_it_shows() -> None:
    for name in CASES:
        pictures = list(root_of(name).every("svg", role="img"))
        assert len(pictures) >= 5
        assert all(len(picture.attributes["aria-label"]) > 10 for picture in pictures)


def test_the_cases_are_of_all_kinds() -> None:
    assert electricity().data.audit.block_length is not None
    assert journey().data.audit.kept is False
    assert portfolio().data.audit.kept is True
    assert paper().data.audit.kept is None
    assert len(portfolio().data.audit.by_choice) > 1
