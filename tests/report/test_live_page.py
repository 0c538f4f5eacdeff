"""The live page: read back, and held against what the ensemble says and what was decided."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optensemble.exceptions import InputError
from optensemble.report.drawing import new_figure
from optensemble.report.live import figures
from optensemble.report.live.panels import LiveSeries
from optensemble.report.live.text import action_text, why_text
from optensemble.report.live_page import LivePageData, changed_sections, live_sections, make_live_page
from optensemble.report.terms import ReportTerms
from optensemble.report.writing import write_live_report
from tests.report.ensembles import LONG, NASTY
from tests.report.live_pages import SERVICES, START, Service, service
from tests.report.pages import column, numbers, read_number, same, the_table
from tests.report.reading import Node, read

EACH = pytest.mark.parametrize("name", SERVICES)
LABELLED = [name for name in SERVICES if name not in ("fresh", "waiting")]
PARTS = ["as-of", "verdict", "totals", "so-far", "certificate", "weights", "evidence", "open", "refits", "decisions"]
SPACE, REPLACED = "\N{NO-BREAK SPACE}", "\N{REPLACEMENT CHARACTER}"


@cache
def data_of(name: str) -> LivePageData:
    return SERVICES[name]().data()


@cache
def page_of(name: str, events: str = "") -> Node:
    return read(make_live_page(data_of(name), events=events))


def the(name: str, part: str) -> Node:
    (found,) = page_of(name).every("", id=part)
    return found


def figure_of(name: str, title: str) -> Node:
    (found,) = [card for card in the(name, "totals").every("section") if card.the("h2").text == title]
    return found


def number_of(name: str, title: str) -> str:
    return figure_of(name, title).the("p", class_="big").text


# The page


@EACH
def test_a_page_has_all_sections_in_order(name: str) -> None:
    root = page_of(name)
    titles = [section.the("h2") for section in root.the("main").elements if section.tag == "section"]
    sections = [section for section in root.the("main").elements if section.tag == "section"]
    assert [section.attributes["id"] for section in sections] == PARTS[3:]
    for section, title in zip(sections, titles, strict=True):
        assert section.attributes["aria-labelledby"] == title.attributes["id"]
    links = [link.attributes["href"].removeprefix("#") for link in root.the("nav").every("a")]
    assert links == PARTS[3:]
    ids = [node.attributes["id"] for node in root.every() if "id" in node.attributes]
    assert len(set(ids)) == len(ids)


@EACH
def test_a_page_loads_nothing_and_runs_its_own_script_alone(name: str) -> None:
    for events, rule in (("", None), ("/events", "'self'")):
        root = page_of(name, events)
        script = root.the("script")
        policy = root.the("meta", http_equiv="Content-Security-Policy").attributes["content"]
        rules = dict(each.strip().split(" ", 1) for each in policy.split(";"))
        digest = base64.b64encode(hashlib.sha256(script.text.encode()).digest()).decode()
        assert rules.pop("connect-src", None) == rule
        assert rules == {
            "default-src": "'none'",
            "style-src": "'unsafe-inline'",
            "script-src": f"'sha256-{digest}'",
            "img-src": "data:",
        }
        assert ("EventSource" in script.text) == bool(events)
        for node in root.every():
            assert not [each for each in node.attributes if each.startswith("on") or each == "src"]
            assert node.attributes.get("href", "#")[:5] in ("#", "data:") or node.attributes["href"].startswith("#")


@EACH
def test_pages_with_and_without_events_show_the_same(name: str) -> None:
    still, moving = page_of(name), page_of(name, "/live/events")
    assert moving.the("p", id="connection").attributes["data-events"] == "/live/events"
    assert moving.the("p", id="connection").attributes["role"] == "status"
    assert not list(still.every("p", id="connection"))
    for part in PARTS:
        (one,), (other,) = still.every("", id=part), moving.every("", id=part)
        assert one == other


@EACH
def test_parts_are_the_contents_of_the_elements_with_their_ids(name: str) -> None:
    text, parts = make_live_page(data_of(name), events="/events"), live_sections(data_of(name))
    assert list(parts) == PARTS
    for part, content in parts.items():
        assert re.search(rf'<\w+[^>]* id="{part}"[^>]*>{re.escape(content)}</', text)
    assert json.loads(json.dumps(parts)) == parts


@EACH
def test_pictures_have_a_text_for_those_who_do_not_see_them(name: str) -> None:
    pictures = [svg for svg in page_of(name).every("svg") if svg.attributes.get("role") == "img"]
    assert len(pictures) == (0 if name in ("fresh", "waiting") else 3 if name == "unwatched" else 4)
    assert all(len(svg.attributes["aria-label"]) > 30 for svg in pictures)
    others = [svg for svg in page_of(name).every("svg") if svg.attributes.get("role") != "img"]
    assert {svg.attributes["aria-hidden"] for svg in others} == {"true"}


def test_titles_units_and_currencies_are_those_given_or_of_the_job_file() -> None:
    found = SERVICES["plain"]()
    root = read(make_live_page(found.data(terms=ReportTerms("Battery, <Leipzig>", unit="day", currency="€"))))
    assert root.the("h1").text == "Battery, <Leipzig>"
    assert root.the("title").text == "✓ Battery, <Leipzig>"
    assert "400 days decided" in root.the("p", id="as-of").text
    cards = {card.the("h2").text: card.the("p", class_="big").text for card in root.the("header").every("section")}
    assert cards["Promised so far"].endswith(f"{SPACE}€")
    assert "Labelled days" in cards
    live = found.live.copy()
    live.ensemble_ = live.ensemble_._as_it_stands()
    live.ensemble_.table_ = {"report": {"title": "From a job", "unit": "order"}}
    assert LivePageData.of(live, (), START).terms == ReportTerms("From a job", unit="order")


def test_the_same_data_give_the_same_page() -> None:
    found = SERVICES["plain"]()
    first = make_live_page(found.data())
    figures._drawn.clear()
    assert make_live_page(found.data()) == first


# What changes


def test_only_parts_that_differ_have_changed() -> None:
    found = service(200).run(100)
    before = live_sections(found.data())
    assert changed_sections(before, live_sections(found.data())) == {}
    assert changed_sections({}, before) == before
    found.decide(1)
    decided = live_sections(found.data())
    changed = changed_sections(before, decided)
    assert {"as-of", "totals", "open", "decisions"} <= set(changed)
    assert not {"so-far", "weights", "evidence", "refits"} & set(changed)  # nothing is learned without a label
    assert all(decided[name] == part for name, part in changed.items())
    found.learn([100])
    learned = set(changed_sections(decided, live_sections(found.data())))
    assert {"so-far", "certificate", "weights", "evidence", "decisions"} <= learned


def test_data_stay_as_they_were_when_the_ensemble_goes_on() -> None:
    found, other = service(200), service(200)
    data = found.run(100).data()
    found.run(100)
    assert live_sections(data) == live_sections(other.run(100).data())


def test_a_picture_is_drawn_once_for_the_same_data(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []

    def count(*size: float) -> Any:
        drawn.append(size)
        return new_figure(*size)

    monkeypatch.setattr(figures, "new_figure", count)
    monkeypatch.setattr(figures, "_drawn", type(figures._drawn)())
    found = service(300, refit="never").run(60)
    for _ in range(2):
        live_sections(found.data())
        assert len(drawn) == 4
    found.decide(5)
    live_sections(found.data())
    assert len(drawn) == 4
    for number in range(10):
        found.learn([60 + number]) if number < 5 else found.run(1, step=1)
        live_sections(found.data())
    assert len(drawn) == 44
    assert len(figures._drawn) == 32


def test_pictures_are_those_of_plot() -> None:
    live = SERVICES["plain"]().live
    series = LiveSeries.of(live)
    titles = [axes.get_title("left") for axes in live.plot(new_figure(7.0, 8.0)).axes]
    assert titles[:2] == [series.payoffs_title, "Weights of the policies"]
    assert titles[2] == series.promises_title
    names = [figure.the("h3").text for figure in the("plain", "so-far").every("figure")]
    assert names == [series.payoffs_title, series.promises_title]
    listed = [[item.text for item in figure.every("li")] for figure in page_of("plain").every("figure")]
    assert sorted(listed[0]) == sorted(["earned", "with foresight", *live.policies_, "refit"])
    assert listed[1] == ["realised", "promised", "tracked correction", "refit"]
    assert listed[2] == [*reversed(live.policies_), "refit"]
    assert set(listed[3]) == {"earned less than promised", "earned more than promised", "threshold", _RESTART}


_RESTART = "first row of a new fit"


# The verdict

VERDICTS = {
    "fresh": ("open", "– No labels have arrived yet"),
    "waiting": ("open", "– No labels have arrived yet"),
    "few": ("unsure", "? Too few labels to tell"),
    "plain": ("kept", "✓ The promise is kept"),
    "paths": ("kept", "✓ The promise is kept"),
    "unwatched": ("open", "– The promise is not watched"),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_the_verdict_says_where_it_stands(name: str) -> None:
    status, headline = VERDICTS[name]
    (said,) = the(name, "verdict").every("p", class_=f"verdict {status}")
    assert said.text == headline
    assert said.attributes["aria-live"] == "polite"
    assert said.attributes["data-title"] == page_of(name).the("title").text
    assert said.the("span").attributes["aria-hidden"] == "true"


def test_rows_since_the_last_fit_are_those_that_the_verdict_goes_by() -> None:
    monitor = SERVICES["plain"]().live.monitor
    assert monitor is not None
    since = monitor.restarts[-1]
    lead = the("plain", "verdict").the("p", class_="lead").text
    assert f"No alarm in {monitor.rows - since} rows since a new fit took over at row {since}" in lead
    assert monitor.doubt in lead


@pytest.mark.parametrize(("name", "headline"), [("broken", "less earned"), ("costs", "more paid")])
def test_an_alarm_that_stands_is_the_headline(name: str, headline: str) -> None:
    live = SERVICES[name]().live
    assert live.monitor is not None
    alarm, told = live.monitor.standing[0], live.monitor.standing
    assert alarm.kind == "broken"
    part = the(name, "verdict")
    said = part.the("p", class_="verdict broken").text
    assert said == f"✗ Alarm at row {alarm.row}: {headline} than promised"
    lead = part.the("p", class_="lead").text
    assert f"since about row {alarm.onset}" in lead
    assert live.monitor.doubt in lead
    table = the_table(the(name, "evidence"), "alarm at row")
    frame = live.monitor.alarms[::-1]
    assert same(numbers(table, "alarm at row"), frame["row"])
    assert same(numbers(table, "since about row"), frame["onset"])
    assert column(table, "kind") == frame["kind"].tolist()
    stands = {(each.row, each.kind, each.direction) for each in told}
    expected = [
        (row, kind, way) in stands for row, kind, way in frame[["row", "kind", "direction"]].to_numpy().tolist()
    ]
    assert [value == "1" for value in column(table, "stands")] == expected


def test_an_error_within_what_the_promise_allows_for_is_a_doubt() -> None:
    data = data_of("broken")
    assert data.series.monitor is not None
    off = data.series.monitor.copy()
    off.restart(half_width=1e6).observe(0.0, np.full(200, -1.0))
    assert {alarm.kind for alarm in off.standing} == {"drifted"}
    root = read(make_live_page(replace(data, series=replace(data.series, monitor=off))))
    said = root.the("p", class_="verdict doubt")
    assert said.text.startswith("≈ Alarm at row")
    assert "of those that the monitor has seen" in root.the("p", class_="lead").text  # it has seen others, too


def test_refits_that_are_due_under_way_or_have_failed_are_told() -> None:
    def cautions(data: LivePageData) -> list[str]:
        return [each.text for each in read(make_live_page(data)).every("p", class_="caution")]

    due = SERVICES["asked"]().live.refit_due_
    assert due
    assert cautions(data_of("asked")) == [f"A refit is due and has not been made: {due}."]
    (failed,) = cautions(data_of("failing"))
    assert failed.startswith("The latest refit failed: RuntimeError: out of order <b>.")
    aside = service(100, refit=60, refit_in="thread").run(60)
    assert cautions(aside.data()) == ["A refit on 180 rows is under way: 60 new labels."]
    assert cautions(data_of("plain")) == []


def test_a_function_that_says_when_to_refit_is_not_asked_for_a_page() -> None:
    asked: list[Any] = []

    def is_due(live: Any) -> bool:
        asked.append(live)
        return False

    found = service(100, refit=is_due).run(40)
    before = len(asked)
    assert make_live_page(found.data())
    assert len(asked) == before > 0


# Numbers


@pytest.mark.parametrize("name", LABELLED)
def test_totals_are_those_of_the_decisions(name: str) -> None:
    found = SERVICES[name]()
    known = [each for each in found.made if each.realised is not None]
    counts = np.ones(len(known)) if found.counts is None else found.counts[[each.number for each in known]]
    promised = counts @ [each.promised for each in known]
    realised = counts @ [each.realised for each in known if each.realised is not None]
    came = "Paid" if found.live.ensemble_.sense == "min" else "Earned"
    expected = {"Promised so far": promised, f"{came} so far": realised, "Gap": realised - promised}
    for title, total in expected.items():
        text = number_of(name, title)
        assert abs(read_number(text) - total) <= 0.51 * 10.0 ** -len(text.partition(".")[2])
    mean = figure_of(name, "Promised so far").the("p", class_="soft").text.removesuffix(" per row")
    assert read_number(mean) == pytest.approx(promised / counts.sum(), rel=1e-3)
    assert number_of(name, "Labelled rows") == str(len(known))
    assert number_of(name, "Open rows") == str(len(found.live.open_))
    assert f"of {len(found.made)} decided" in figure_of(name, "Labelled rows").text


def test_the_share_of_foresight_is_that_of_the_best_actions_in_hindsight() -> None:
    found = SERVICES["plain"]()
    known = [each for each in found.made if each.realised is not None]
    best = sum(float(found.Y[each.number].max()) for each in known)  # all on the best coordinate
    share = sum(each.realised or 0.0 for each in known) / best
    assert number_of("plain", "Share of foresight") == f"{100 * share:.0f}{SPACE}%"


@EACH
def test_the_certificate_is_that_of_the_ensemble(name: str) -> None:
    live = SERVICES[name]().live
    part, frame = the(name, "certificate"), live.certificate()
    assert live.finding_ in part.text
    if not live.rows_:
        assert not list(part.every("table"))
        return
    cost = live.ensemble_.sense == "min"
    rows = part.the("table").rows()
    assert [row[0].text for row in rows] == list(live.policies_)
    for at, column_name in enumerate(("weight", "lost", "bound", "lost_per_row", "bound_per_row"), start=1):
        assert same([float(row[at].attributes["data-value"]) for row in rows], frame[column_name])
    assert ("paid beyond it" if cost else "lost to it") in part.text
    assert ("not covered" in part.text) == bool(len(live.open_) + live.expired_)


@EACH
def test_weights_now_are_those_of_the_ensemble(name: str) -> None:
    found = SERVICES[name]().live
    bars = list(the(name, "weights").every("div", class_="bar"))
    assert [bar.elements[0].text for bar in bars] == list(found.policies_)
    widths = [float(bar.the("rect").attributes["width"]) for bar in bars]
    assert widths == pytest.approx(100 * found.weights_, abs=0.06)
    assert ("mixture" in the(name, "weights").text) == found.mixes_


@EACH
def test_the_oldest_open_rows_are_listed(name: str) -> None:
    found = SERVICES[name]()
    opened, part = found.live.open_, the(name, "open")
    if opened.empty:
        assert "No row is open." in part.text
        assert not list(part.every("table"))
        return
    table = part.the("table")
    assert column(table, "id") == [str(each) for each in opened["id"][:10]]
    assert same(numbers(table, "number"), opened["number"][:10])
    assert same(numbers(table, "decided since"), opened["age"][:10])
    assert same(numbers(table, "promised"), opened["promised"][:10])
    ages = f"{len(opened)} row{'' if len(opened) == 1 else 's'}"
    assert part.the("p").text.startswith(ages)
    assert f"{opened['age'][0]} further decision" in part.text
    assert ("expired" in part.text) == bool(found.live.expired_)


@EACH
def test_refits_are_those_of_the_ensemble(name: str) -> None:
    refits, part = SERVICES[name]().live.refits_[::-1], the(name, "refits")
    if refits.empty:
        assert "not been refitted" in part.text
        return
    table = part.the("table")
    assert same(numbers(table, "labels"), refits["labels"])
    assert same(numbers(table, "decisions"), refits["decided"])
    assert same(numbers(table, "rows"), refits["rows"])
    assert same(numbers(table, "number"), np.arange(len(refits), 0, -1))
    assert column(table, "why") == refits["why"].tolist()
    failed = refits["failed"].tolist()
    assert ["failed: " in text for text in column(table, "outcome")] == failed
    assert [value == "" for value in column(table, "decides from")] == failed


def test_only_the_latest_of_many_refits_and_alarms_are_listed() -> None:
    data = data_of("plain")
    many = data.series.refits.loc[np.zeros(25, int)].assign(labels=np.arange(25))
    monitor = SERVICES["broken"]().live.monitor
    assert monitor is not None
    often = monitor.copy()
    for _ in range(12):
        often.restart().observe(0.0, np.full(100, -3.0))
    root = read(make_live_page(replace(data, series=replace(data.series, refits=many, monitor=often))))
    refits, alarms = the_table(root, "number", "labels"), the_table(root, "alarm at row")
    assert numbers(refits, "labels") == list(range(24, 4, -1))
    assert refits.the("caption").text == "The latest 20 of 25 refits, the latest first"
    assert same(numbers(alarms, "alarm at row"), often.alarms["row"][:-21:-1])


# Decisions


@EACH
def test_decisions_are_told_the_newest_first(name: str) -> None:
    found, part = SERVICES[name](), the(name, "decisions")
    if not found.made:
        assert not list(part.every("table"))
        assert "None yet." in part.text
        return
    latest, table = found.latest(), part.the("table")
    assert column(table, "id") == [str(each.id) for each in latest]
    assert [row[1].text for row in table.rows()] == [f"{each.at:%Y-%m-%d %H:%M:%S}" for each in latest]
    assert same(numbers(table, "promised"), [each.promised for each in latest])
    assert same(numbers(table, "95 % interval"), [each.low if np.isfinite(each.low) else np.nan for each in latest])
    realised = [np.nan if each.realised is None else each.realised for each in latest]
    heading = "cost" if found.live.ensemble_.sense == "min" else "realised"
    assert same(numbers(table, heading), realised)
    out = [each.realised is not None and not each.low <= each.realised <= each.high for each in latest]
    assert [row[5].text.endswith("*") for row in table.rows()] == out


def test_why_says_whom_it_follows_whether_they_agree_and_the_correction() -> None:
    made = SERVICES["plain"]().made[100]
    weights, policies = np.array([0.25, 0.7, 0.05]), ("fitted", "refitted", "online stack")
    one, two, three = np.eye(3)

    def why(mixes: bool = True, **changes: Any) -> str:
        whole: dict[str, Any] = {"weights": weights, "raw": 1.0, "promised": 1.0, "proposed": np.array([one] * 3)}
        whole |= changes
        return why_text(replace(made, **whole), policies, mixes=mixes).replace(SPACE, " ")

    assert why() == (
        "Mixes refitted 70 %, fitted 25 % and online stack 5.0 %. All policies propose this action. The promise is not "
        "corrected."
    ).replace("5.0 %", "5 %")
    assert why(mixes=False).startswith("Follows refitted, the heaviest policy with 70 %.")
    assert why(weights=np.array([0.0, 0.0, 1.0])).startswith("Follows online stack, which has 100 % of the weight.")
    assert why(weights=np.array([0.5, 0.5, 0.0])).startswith("Mixes fitted 50 % and refitted 50 %.")
    split = why(proposed=np.array([one, two, one + 1e-12]))
    assert "Fitted and online stack propose the same action, refitted another." in split
    assert "Each policy proposes another action." in why(proposed=np.array([one, two, three]))
    assert why(promised=1.25).endswith("The correction raises the promise by 0.25.")
    assert why(promised=0.5).endswith("The correction lowers the promise by 0.5.")


@pytest.mark.parametrize("name", ["plain", "paths", "broken", "single"])
def test_every_decision_says_why(name: str) -> None:
    found = SERVICES[name]()
    for each, row in zip(found.latest(), the(name, "decisions").the("table").rows(), strict=True):
        why = row[-1].text.replace(SPACE, " ")
        heaviest = found.live.policies_[int(each.weights.argmax())]
        verb = "Mixes" if found.live.mixes_ and each.weights.max() <= 0.9995 else "Follows"
        assert why.startswith(f"{verb} {heaviest}")
        alike = bool(np.allclose(each.proposed, each.proposed[0]))
        assert ("All policies propose this action." in why) == alike
        shift = each.promised - each.raw
        assert ("raises" in why, "lowers" in why) == (shift > 1e-9, shift < -1e-9)


def test_actions_are_short_and_whole_ones_unfold() -> None:
    found = SERVICES["wide"]()
    cells = [row[2] for row in the("wide", "decisions").the("table").rows()]
    for each, cell in zip(found.latest(), cells, strict=True):
        assert np.count_nonzero(each.action) == 200
        summary = cell.the("summary").text
        assert summary.endswith("and 196 more")
        assert summary.count("=") == 4
        whole = cell.the("details").text.removeprefix(summary).replace(SPACE, "")
        shown = dict(part.split("=") for part in whole.split(", "))
        assert [read_number(shown[f"coordinate {j}"]) for j in range(200)] == pytest.approx(each.action, abs=1e-3)
    named = [row[2] for row in the("shares", "decisions").the("table").rows()]
    for each, cell in zip(SERVICES["shares"]().latest(), named, strict=True):
        parts = [f"{label} = " for label, value in zip(["north", "south", "east"], each.action, strict=True) if value]
        assert [re.sub(r"[\d.]+$", "", part.replace(SPACE, " ")) for part in cell.text.split(", ")] == parts


def test_actions_are_told_by_their_largest_coordinates() -> None:
    action, names = np.array([0.0, -1234.5, 0.25, 7.0, 0.5]), list("abcde")
    assert action_text(action, names, 2).replace(SPACE, "") == "b=−1,234, d=7"
    assert action_text(action, names, 9).replace(SPACE, "") == "b=−1,234, c=0, d=7, e=0"
    assert action_text(np.array([np.pi]), ["only"], 4) == "3.142"
    long = np.arange(1.0, 1001.0)
    made = replace(SERVICES["plain"]().made[0], action=long)
    data = replace(data_of("plain"), decisions=(made,), coordinates=tuple(f"c{j}" for j in range(1000)))
    cell = read(make_live_page(data)).the("section", id="decisions").the("table").rows()[0][2]
    assert cell.the("details").text.endswith(", and 600 smaller ones")


def test_limits_that_are_infinite_are_a_dash() -> None:
    made = replace(SERVICES["plain"]().made[0], low=-np.inf, high=np.inf)
    row = read(make_live_page(replace(data_of("plain"), decisions=(made,)))).the("section", id="decisions")
    assert row.the("table").rows()[0][4].text == "–"


def test_without_a_log_decisions_are_counted() -> None:
    found = SERVICES["plain"]()
    text = read(make_live_page(LivePageData.of(found.live, (), START))).the("section", id="decisions").text
    assert "400 decisions were made; single ones are listed where there is a log." in text


def test_names_and_ids_are_shown_as_they_are() -> None:
    part = the("weighted", "decisions")
    ids = [row[0].text for row in part.the("table").rows()]
    assert NASTY in ids
    assert {"7", "-3", "2.5", "日本語", "('a', 7, '<i>')", "2026-03-02 10:00:00", "\N{REPLACEMENT CHARACTER}"} <= set(
        ids
    )
    assert next(each for each in ids if each.startswith("a_name")) == f"{LONG[:59]}…"
    assert "<script>alert" in part.the("table").rows()[0][2].text + part.text
    root = page_of("weighted")
    assert len(list(root.every("script"))) == 1
    assert not list(root.every("i"))
    assert "they count for" in figure_of("weighted", "Labelled rows").text
    assert "expired" in figure_of("weighted", "Open rows").text
    assert "<b>" in the("failing", "refits").text
    assert not [node for node in the("failing", "refits").every("b") if node.tag == "b"]


# Data


def test_moments_are_told_in_utc_and_need_a_zone() -> None:
    live, east = SERVICES["plain"]().live, timezone(timedelta(hours=3))
    data = LivePageData.of(live, (), datetime(2026, 3, 2, 1, 30, tzinfo=east))
    moment = read(make_live_page(data)).the("p", id="as-of").the("time")
    assert moment.text == "2026-03-01 22:30:00"
    assert datetime.fromisoformat(moment.attributes["datetime"]) == data.at
    with pytest.raises(InputError, match=r"at must have a time zone; got 2026.*datetime\.now\(UTC\)"):
        LivePageData.of(live, (), datetime(2026, 3, 2))


def test_coordinates_may_be_called_otherwise() -> None:
    found = SERVICES["shares"]()
    part = read(make_live_page(found.data(coordinates=["n", "s", "e"]))).the("section", id="decisions")
    assert "north" not in part.text
    assert re.search(rf"[nse]{SPACE}={SPACE}1", part.text)


def test_many_members_are_counted() -> None:
    assert "members: left, right; 3 coordinates" in page_of("plain").the("footer").text
    many = SERVICES["plain"]().live.copy()
    fit = many.ensemble_ = many.ensemble_._as_it_stands()
    fit.members_ = [(f"m{i}", None) for i in range(20)]
    assert "m10, m11 and 8 more;" in LivePageData.of(many, (), START).about[0]


def test_a_report_is_written_from_python(tmp_path: Path) -> None:
    found = SERVICES["shares"]()
    before = datetime.now(UTC)
    path = write_live_report(found.live, tmp_path / "live.html", title="Mine", unit="day", decisions=found.latest(3))
    root = read(path.read_text(encoding="utf-8"))
    assert root.the("h1").text == "Mine"
    assert before - timedelta(seconds=1) < datetime.fromisoformat(
        root.the("p", id="as-of").the("time").attributes["datetime"]
    )
    assert len(root.the("section", id="decisions").the("table").rows()) == 3
    with pytest.raises(InputError, match="does not exist"):
        write_live_report(found.live, tmp_path / "none" / "live.html")
    with pytest.raises(InputError, match="unit is empty"):
        write_live_report(found.live, tmp_path / "live.html", unit=" ")


def test_rows_that_count_for_nothing_have_no_means() -> None:
    found: Service = service(40, refit="never")
    found.counts = np.zeros(40)
    root = read(make_live_page(found.run(40).data()))
    cards = {card.the("h2").text: card for card in root.the("div", id="totals").every("section")}
    assert "these rows count for nothing" in cards["Promised so far"].text
    assert "No labels have arrived yet." in root.the("section", id="certificate").text
