"""The page of a run, read back: every number is there, everything is in the file, and nothing is loaded."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest

from optensemble.experiments import text as sentences
from optensemble.experiments.decision_section import (
    ABOUT_DECISION,
    audit_sentences,
    comparison_sentences,
    decision_summary,
    promise_sentences,
)
from optensemble.experiments.figures import experiment_figures
from optensemble.experiments.outcome import (
    BEST_INITIAL,
    BLACK_BOX_ENSEMBLE,
    DECISION_ENSEMBLE,
    FRESH,
    IN_SAMPLE,
    POLICIES,
    RIDGE_STACKING,
    WHITE_BOX_ENSEMBLE,
)
from optensemble.experiments.page import make_experiment_page
from optensemble.experiments.settings import Settings
from tests.experiments.conftest import NAMES, SMALL, Finished
from tests.experiments.outcomes import made_up
from tests.report.reading import Node, read

pytestmark = pytest.mark.slow

EACH = pytest.mark.parametrize("name", NAMES)
DOCUMENT = {"versions": {"python": "3", "optensemble": "1"}}


@pytest.fixture(scope="module")
def text(finished: Finished) -> str:
    return finished.result.page.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def root(text: str) -> Node:
    return read(text)


@pytest.fixture(scope="module")
def results(finished: Finished) -> Any:
    return json.loads((finished.folder / "results.json").read_text(encoding="utf-8"))


def table_of(root: Node, caption: str) -> Node:
    (found,) = [table for table in root.every("table") if table.the("caption").text.startswith(caption)]
    return found


def value(cell: Node) -> float | None:
    carried = cell.attributes["data-value"]
    return float(carried) if carried else None


def shown(cell: Node) -> str:
    return cell.text.replace("−", "-")


# The numbers


@EACH
def test_every_payoff_is_in_the_table_of_its_experiment(name: str, root: Node, results: Any) -> None:
    rows = table_of(root, f"Experiment {name}").rows()
    assert len(rows) == len(POLICIES)
    for policy, (heading, *cells) in zip(POLICIES, rows, strict=True):
        assert heading.text.startswith(policy)
        lines = {line["where"]: line for line in results["experiments"][name]["payoffs"] if line["policy"] == policy}
        for where, four in ((IN_SAMPLE, cells[:4]), (FRESH, cells[4:8])):
            line = lines[where]
            measures = ("promised", "realised", "gap", "way")
            assert [value(cell) for cell in four] == [line[what] for what in measures]
            for cell, what, form in zip(four, measures, ("{:.2f}", "{:.2f}", "{:+.2f}", "{:.0f}"), strict=True):
                number = (
                    "–"
                    if line[what] is None
                    else form.format(line[what]).replace("-0.00", "0.00").replace("+0.00", "0.00")
                )
                if what == "gap" and where == FRESH and line[what] is not None:
                    number += f" ± {line['gap_error']:.2f}"
                assert shown(cell) == number


@EACH
def test_every_cost_is_in_the_tables(name: str, root: Node, results: Any) -> None:
    costs = {line["policy"]: line for line in results["experiments"][name]["costs"]}
    for policy, row in zip(POLICIES, table_of(root, f"Experiment {name}").rows(), strict=True):
        cost = costs.get(policy, {})
        assert [value(cell) for cell in row[-3:]] == [cost.get(what) for what in ("rounds", "row_solves", "seconds")]
    rows = [row for row in table_of(root, "Debiasing").rows() if row[0].text == name]
    assert [row[1].text for row in rows] == [WHITE_BOX_ENSEMBLE, BLACK_BOX_ENSEMBLE]
    for policy, minutes, row in zip((WHITE_BOX_ENSEMBLE, BLACK_BOX_ENSEMBLE), (83.0, 3.8), rows, strict=True):
        cost = costs[policy]
        expected = [cost[what] for what in ("seconds", "rounds", "row_solves", "avoided")]
        assert [value(cell) for cell in row[2:7]] == [minutes if name == "A" else None, *expected]
        assert row[7].text == cost["stopped"]


def test_the_glance_has_both_ensembles_of_every_experiment(root: Node, finished: Finished) -> None:
    rows = table_of(root, "Overview").rows()
    assert [(row[0].text, row[1].text) for row in rows] == [
        (name, kind) for name in NAMES for kind in (WHITE_BOX_ENSEMBLE, BLACK_BOX_ENSEMBLE)
    ]
    for row in rows:
        outcome, kind = finished.outcome(row[0].text), row[1].text
        payoffs = [outcome.payoff(where, kind) for where in (IN_SAMPLE, FRESH)]
        assert [value(cell) for cell in row[2:6]] == [
            each for line in payoffs for each in (line.promised, line.realised)
        ]
        assert row[6].text == sentences.promise_error(outcome, kind)
        assert value(row[6]) == payoffs[1].gap


def test_the_best_member_is_named(root: Node, finished: Finished) -> None:
    for name in NAMES:
        headings = [row[0].text for row in table_of(root, f"Experiment {name}").rows()]
        assert f"{BEST_INITIAL} ({finished.outcome(name).best})" in headings


def test_headings_and_rows_of_every_table_match(root: Node) -> None:
    assert len(list(root.every("table"))) == 3 + len(NAMES)
    for table in root.every("table"):
        *groups, heads = table.the("thead").elements
        for row in groups:
            assert sum(int(cell.attributes["colspan"]) for cell in row.elements) == len(heads.elements)
        assert {len(row) for row in table.rows()} == {len(heads.elements)}


def test_bars_are_as_long_as_what_they_show(root: Node, finished: Finished) -> None:
    outcomes = finished.result.outcomes
    shares = [
        sentences.mean_ways(outcomes, where, kind)
        for kind in (WHITE_BOX_ENSEMBLE, BLACK_BOX_ENSEMBLE, DECISION_ENSEMBLE)
        for where in (IN_SAMPLE, FRESH)
    ]
    flat = [share for pair in shares for share in pair]
    bars = [bar for card in root.every("section", class_="card") for bar in card.every("div", class_="bar")]
    assert [bar.the("span").text for bar in bars] == ["promised", "realised"] * 6
    widths = [float(bar.the("rect").attributes["width"]) for bar in bars]
    assert widths == pytest.approx([max(share, 0) * 100 / max(*flat, 100) for share in flat], abs=0.06)
    assert [float(shown(bar.the("b")).removesuffix("\N{NO-BREAK SPACE}%")) for bar in bars] == pytest.approx(
        flat, abs=0.5
    )


# The answer


def test_the_page_ends_with_the_answer(text: str, root: Node, finished: Finished) -> None:
    last = list(root.every("h2"))[-1]
    assert (last.text, last.attributes["id"]) == ("DecisionEnsemble on the same models", "decision")
    links = [link.text for link in root.every("a") if link.attributes["href"] == "#decision"]
    assert len(links) == 2  # beside the headline, and in the contents
    end, outcomes = text[text.index('id="decision"') :], finished.result.outcomes
    for sentence in (
        ABOUT_DECISION,
        promise_sentences(outcomes),
        comparison_sentences(outcomes),
        *audit_sentences(outcomes),
    ):
        assert sentence in end
    assert f"{DECISION_ENSEMBLE} on {SMALL.fresh_rows:,} fresh rows" in end


def test_the_answer_has_every_number_of_every_experiment(root: Node, results: Any) -> None:
    rows = table_of(root, DECISION_ENSEMBLE).rows()
    assert [row[0].text for row in rows] == list(NAMES)
    for name, (_, promised, interval, earned, kept, *ahead, way) in zip(NAMES, rows, strict=True):
        judged = results["experiments"][name]["judgement"]
        (line,) = [
            line
            for line in results["experiments"][name]["payoffs"]
            if (line["where"], line["policy"]) == (FRESH, DECISION_ENSEMBLE)
        ]
        assert [value(promised), value(earned)] == [line["promised"], line["realised"]]
        assert [shown(promised), shown(earned)] == [f"{line[what]:.2f}" for what in ("promised", "realised")]
        assert shown(interval) == f"{judged['low']:.2f} to {judged['high']:.2f}"
        assert kept.text == ("yes" if judged["low"] <= line["realised"] <= judged["high"] else "no")
        gains = {gain["policy"]: gain for gain in judged["gains"]}
        for cell, other, digits in zip(ahead, (RIDGE_STACKING, BEST_INITIAL), (3, 2), strict=True):
            gain = gains[other]
            assert value(cell) == gain["gain"]
            assert shown(cell) == f"{gain['gain']:+.{digits}f} ± {gain['gain_error']:.{digits}f}"
        assert value(way) == line["way"]
        assert shown(way) == f"{line['way']:.1f} ± {judged['way_error']:.1f}"


@pytest.mark.parametrize(("allowed", "kept"), [(0.3, "yes"), (0.2, "no")])
def test_a_promise_that_was_not_kept_is_shown_as_such(allowed: float, kept: str) -> None:
    root = read(make_experiment_page([made_up("B", allowed=allowed)], Settings(), DOCUMENT))
    ((_, _, _, _, cell, *_),) = table_of(root, DECISION_ENSEMBLE).rows()
    assert cell.text == kept


# The figures


def test_every_figure_has_a_panel_for_each_experiment(root: Node, finished: Finished) -> None:
    figures = list(root.every("figure"))
    drawn = {picture.name: picture for picture in experiment_figures(finished.result.outcomes)}
    assert {figure.attributes["id"] for figure in figures} == {f"figure-{name}" for name in drawn}
    for figure in figures:
        picture = drawn[figure.attributes["id"].removeprefix("figure-")]
        labels = [panel.attributes["aria-label"] for panel in figure.every("svg", role="img")]
        assert labels == [f"{picture.title}: {name}" for name in NAMES]
        assert figure.the("figcaption").text == picture.caption
        legends = [[entry.text for entry in legend.elements] for legend in figure.every("ul", class_="legend")]
        assert legends == ([[stroke.label for stroke in picture.lines]] if picture.lines else [])


# The file


def test_everything_is_in_the_file(text: str, root: Node) -> None:
    addresses = set(re.findall(r"https?://[^\"'\s<>)]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert not re.search(r"(src|href)=\"(?!#|data:)", text)
    assert not re.search(r"url\((?!#)", text)
    assert [tag for tag in ("img", "iframe", "object", "embed", "video") if list(root.every(tag))] == []


def test_identifiers_are_unique_and_references_lead_somewhere(text: str, root: Node) -> None:
    identifiers = [node.attributes["id"] for node in root.every() if "id" in node.attributes]
    assert len(set(identifiers)) == len(identifiers)
    references = {*re.findall(r'href="#([^"]+)"', text), *re.findall(r"url\(#([^)]+)\)", text)}
    assert len(references) > 10
    assert references <= set(identifiers)


def test_headings_go_down_one_step_at_a_time(root: Node) -> None:
    levels = [int(node.tag[1]) for node in root.every() if re.fullmatch(r"h[1-6]", node.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_the_page_tells_how_to_run_it_again_and_with_what_it_was_made(root: Node, results: Any) -> None:
    assert root.the("code").text == sentences.repeat_command(SMALL, NAMES)
    text = root.the("main").text
    for package, version in results["versions"].items():
        assert f"{package} {version}" in text
    for sentence in sentences.run_facts([], Settings(**results["settings"])):
        assert sentence in text


def test_the_page_says_what_was_found(root: Node, finished: Finished) -> None:
    outcomes, text = finished.result.outcomes, root.the("main").text
    single = (sentences.normalised_summary(outcomes), sentences.speed_summary(outcomes), decision_summary(outcomes))
    for sentence in (*single, *sentences.in_sample_sentences(outcomes), *sentences.fresh_sentences(outcomes)):
        assert sentence in text


def test_few_words_stand_above_the_cards(text: str) -> None:
    above = re.sub("<[^>]*>", " ", text[text.index("<header") : text.index('<div class="cards"')]).split()
    assert above[:2] == ["Model", "ensembling"]
    assert len(above) <= 67  # a third of what once stood there
    assert sentences.ABOUT_EXPERIMENTS in text[text.index('<div class="cards"') :]


def test_whatever_an_experiment_is_called_the_page_stays_whole() -> None:
    nasty = '<b>&amp; "quoted"</b>'
    outcome = made_up("A", members=(nasty, "a & b"), note=f"limit {nasty}")
    root = read(make_experiment_page([outcome], SMALL, DOCUMENT))
    assert not list(root.every("strong", class_="quoted"))
    assert f"limit {nasty}".lower() in root.the("main").text.lower()
    assert "a & b" in {node.text.strip() for node in root.the("figure", id="figure-choices").every("text")}
    assert len(list(root.every("b"))) == 12  # of the bars


def test_numbers_that_are_not_there_are_sorted_last_and_shown_as_a_dash() -> None:
    root = read(make_experiment_page([made_up("B")], Settings(), DOCUMENT))
    foresight = table_of(root, "Experiment B").rows()[0]
    assert [cell.text for cell in foresight[1:5]] == ["–", "12.00", "–", "100"]
    assert [cell.attributes["data-value"] for cell in foresight[1:5]] == ["", "12.0", "", "100.0"]
    assert "in sample, 400 rows" in table_of(root, "Experiment B").the("tr", class_="groups").text
