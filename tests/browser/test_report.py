"""The page in a real browser: nothing is loaded, nothing fails, everything can be seen, on a desk and on a phone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page

pytestmark = [pytest.mark.browser, pytest.mark.no_cover]

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
DESK, PHONE = 1280, 390
FIGURES = ("payoffs", "payoffs_fresh", "members", "members_fresh", "choices", "disagreement")


@dataclass
class Visit:
    """An open page, and everything it said and asked for."""

    page: Page
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


Open = Callable[..., Visit]


@pytest.fixture
def visit(browser: Browser, report: Path) -> Iterator[Open]:
    contexts = []

    def open_report(width: int = DESK, scheme: Any = "light") -> Visit:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
        contexts.append(context)
        found = Visit(context.new_page())
        found.page.on("console", lambda message: found.said.append(message.text))
        found.page.on("pageerror", lambda error: found.said.append(str(error)))
        found.page.on("request", lambda request: found.asked.append(request.url))
        found.page.goto(report.as_uri())
        return found

    yield open_report
    for context in contexts:
        context.close()


@pytest.mark.parametrize(("width", "scheme"), [(DESK, "light"), (DESK, "dark"), (PHONE, "light"), (PHONE, "dark")])
def test_it_opens_offline_without_a_word_and_without_a_request(
    visit: Open, report: Path, width: int, scheme: str
) -> None:
    found = visit(width, scheme)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    picture = SCREENSHOTS / f"report-{width}-{scheme}.png"
    picture.unlink(missing_ok=True)
    found.page.screenshot(path=picture, full_page=True)
    assert found.said == []
    assert found.asked == [report.as_uri()]
    assert picture.stat().st_size > 100_000


def test_it_may_load_nothing_even_if_something_asks(visit: Open) -> None:
    page = visit().page
    with page.expect_event("requestfailed") as failed:
        page.evaluate("document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:9/spy.png'}))")
    assert failed.value.failure == "csp"  # refused by the page's own policy, before any connection


@pytest.mark.parametrize("width", [DESK, PHONE])
@pytest.mark.parametrize("name", FIGURES)
def test_every_panel_of_every_figure_is_seen(visit: Open, name: str, width: int) -> None:
    panels = visit(width).page.locator(f"#figure-{name} .panels svg")
    assert panels.count() == 4
    for panel in panels.all():
        box = panel.bounding_box()
        assert box is not None
        assert box["width"] > 300
        assert box["height"] > 180
        assert panel.is_visible()
        assert _drawn(panel) > 4


def _drawn(panel: Locator) -> int:
    """Count what a panel draws within its axes: lines that have a length, and pictures."""
    count: int = panel.evaluate(
        """(svg) => [...svg.querySelectorAll("path, image")].filter((part) => {
            const box = part.getBoundingClientRect();
            return box.width + box.height > 40;
        }).length"""
    )
    return count


def test_a_click_on_a_heading_sorts_the_table(visit: Open) -> None:
    page = visit().page
    table = page.locator("table", has_text="Experiment A: mean payoff")
    heading = table.locator("thead tr").last.locator("th").nth(6)
    assert heading.inner_text() == "realised"
    before = _column(table, 6)
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "descending"
    assert _column(table, 6) == sorted(before, reverse=True) != before
    heading.locator("button").press("Enter")
    assert heading.get_attribute("aria-sort") == "ascending"
    assert _column(table, 6) == sorted(before)
    promised = table.locator("thead tr").last.locator("th").nth(5)
    for _ in range(2):  # foresight promises nothing: whichever way, it comes last
        promised.locator("button").click()
        assert table.locator("tbody th").last.inner_text() == "foresight"
    table.locator("thead tr").last.locator("th").first.locator("button").click()
    assert table.locator("tbody th").first.inner_text() == "foresight"
    assert table.locator("thead [aria-sort]").count() == 1


def _column(table: Locator, number: int) -> list[float]:
    cells = table.locator(f"tbody tr td:nth-child({number + 1})").all()
    return [float(str(cell.get_attribute("data-value"))) for cell in cells]


def test_a_phone_never_scrolls_sideways(visit: Open) -> None:
    page = visit(PHONE).page
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE
    assert float(page.evaluate("parseFloat(getComputedStyle(document.body).fontSize)")) >= 16
    sizes = page.locator(".panels svg text").evaluate_all(
        """(texts) => texts.map((text) => parseFloat(getComputedStyle(text).fontSize)
            * text.ownerSVGElement.getBoundingClientRect().width / text.ownerSVGElement.viewBox.baseVal.width)"""
    )
    assert min(sizes) >= 11  # pixels, as a figure's type comes to the screen


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_by_day_and_by_night(visit: Open, scheme: str) -> None:
    page = visit(scheme=scheme).page
    paper = _luminance(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert (paper < 0.2) == (scheme == "dark")
    texts = ("h1", "p", "caption", "figcaption", "tbody td", "thead button", "pre code", ".card h3")
    colours = {text: page.locator(text).first.evaluate("(e) => getComputedStyle(e).color") for text in texts}
    colours["figure"] = page.locator(".panels svg text").first.evaluate("(e) => getComputedStyle(e).fill")
    for text, colour in colours.items():
        ink = _luminance(colour)
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 4.5, text


def _luminance(colour: str) -> float:
    """The relative luminance of WCAG 2."""
    channels = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_it_prints_in_black_on_white(visit: Open) -> None:
    page = visit(scheme="dark").page
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert _luminance(page.evaluate("getComputedStyle(document.body).backgroundColor")) == 1
    assert _luminance(page.evaluate("getComputedStyle(document.body).color")) == 0
    assert page.pdf().startswith(b"%PDF")


def test_the_links_of_the_summary_lead_somewhere(visit: Open) -> None:
    page = visit().page
    links = page.locator("nav a").all()
    assert links
    for link in links:
        assert page.locator(str(link.get_attribute("href"))).count() == 1


@pytest.mark.parametrize(("width", "scheme"), [(DESK, "light"), (DESK, "dark"), (PHONE, "light"), (PHONE, "dark")])
def test_the_page_ends_with_decision_ensemble(visit: Open, width: int, scheme: str) -> None:
    found = visit(width, scheme)
    page = found.page
    page.locator("header a[href='#decision']").first.click()
    heading = page.locator("h2#decision")
    assert heading.inner_text() == "DecisionEnsemble on the same models"
    assert page.locator("main > h2").last.get_attribute("id") == "decision"
    assert heading.evaluate("(e) => e.getBoundingClientRect().top < innerHeight")  # where the link leads
    page.screenshot(path=SCREENSHOTS / f"decision-{width}-{scheme}.png")
    table = page.locator(".scroll").last
    assert table.locator("tbody th").all_inner_texts() == ["A", "B", "C", "D"]
    box, last = table.bounding_box(), table.locator("td").last
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    last.scroll_into_view_if_needed()  # the table scrolls, not the page
    seen = last.bounding_box()
    assert seen is not None
    assert 0 < seen["x"] < seen["x"] + seen["width"] <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert found.said == []
