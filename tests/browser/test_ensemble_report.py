"""The report of an ensemble in a real browser: nothing is loaded, nothing fails, everything can be seen."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Browser, Locator, Page

from optensemble.report.page import make_report_page
from tests.browser.test_report import _luminance as luminance
from tests.report.ensembles import (
    LONG,
    NASTY,
    Case,
    black_box,
    electricity,
    journey,
    paper,
    portfolio,
    simplex,
    white_box,
)

pytestmark = [pytest.mark.browser, pytest.mark.no_cover]

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
DESK, PHONE, SHEET = 1280, 360, 720  # a sheet of A4 is 720 wide
SCREEN = {DESK: 800, PHONE: 740, SHEET: 1020}
"""Heights of what is seen without scrolling."""


def nasty() -> Case:
    """Names that are long, or look like HTML."""
    case = simplex(3, 2, 60, n=200, names=[NASTY, LONG], coordinates=[NASTY, LONG, "plain"])
    return replace(case, data=replace(case.data, source=f"{LONG}{LONG}.parquet"))


MADE: dict[str, Callable[[], Case]] = {
    "electricity": electricity,
    "portfolio": portfolio,
    "journey": journey,
    "white-box": white_box,
    "black-box": black_box,
    "paper": paper,
    "many": lambda: simplex(60, 20, 40, n=150),
    "nasty": nasty,
}
EACH = pytest.mark.parametrize("name", MADE)


@dataclass
class Visit:
    """An open page, and everything it said and asked for."""

    page: Page
    address: str
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


Open = Callable[..., Visit]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reports")


@pytest.fixture
def visit(browser: Browser, folder: Path) -> Iterator[Open]:
    contexts = []

    def open_report(name: str, width: int = DESK, scheme: Any = "light") -> Visit:
        file = folder / f"{name}.html"
        if not file.exists():
            file.write_text(make_report_page(MADE[name]().data), encoding="utf-8")
        size: Any = {"width": width, "height": SCREEN[width]}
        context = browser.new_context(viewport=size, color_scheme=scheme, offline=True)
        contexts.append(context)
        found = Visit(context.new_page(), file.as_uri())
        found.page.on("console", lambda message: found.said.append(message.text))
        found.page.on("pageerror", lambda error: found.said.append(str(error)))
        found.page.on("request", lambda request: found.asked.append(request.url))
        found.page.goto(found.address)
        return found

    yield open_report
    for context in contexts:
        context.close()


@EACH
@pytest.mark.parametrize(("width", "scheme"), [(DESK, "light"), (DESK, "dark"), (PHONE, "light")])
def test_it_opens_offline_without_a_word_and_fits_the_screen(visit: Open, name: str, width: int, scheme: str) -> None:
    found = visit(name, width, scheme)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    picture = SCREENSHOTS / f"ensemble-{name}-{width}-{scheme}.png"
    picture.unlink(missing_ok=True)
    found.page.screenshot(path=picture, full_page=True)
    assert picture.stat().st_size > 100_000
    assert found.said == []
    assert found.asked == [found.address]
    assert found.page.evaluate("document.documentElement.scrollWidth") <= width  # tables scroll, the page does not


FIRST = ("h1", "p.verdict", "p.lead", *(f".facts.top .card >> nth={number}" for number in range(3)))
"""Title, verdict, its sentence with the gap, promised, earned, and the share of foresight."""


@pytest.mark.parametrize(("width", "scheme"), [(DESK, "light"), (PHONE, "dark"), (SHEET, "print")])
@EACH
def test_what_those_who_pay_want_to_know_is_seen_without_scrolling(
    visit: Open, name: str, width: int, scheme: str
) -> None:
    page = visit(name, width, "light" if scheme == "print" else scheme).page
    if scheme == "print":
        page.emulate_media(media="print")
    for part in FIRST:
        box = page.locator(part).bounding_box()
        assert box is not None
        assert 0 <= box["x"] < box["x"] + box["width"] <= width, part
        assert 0 <= box["y"] < box["y"] + box["height"] <= SCREEN[width], part
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"first-{name}-{width}-{scheme}.png")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_shadow_shows_that_a_table_goes_on(visit: Open, scheme: str) -> None:
    """The edge of a table that is cut off is darker, or lighter by night, until its end has been scrolled to."""
    page = visit("journey", PHONE, scheme).page
    table = page.locator("section > .scroll").first
    assert table.evaluate("(region) => region.scrollWidth > region.clientWidth")
    before = _edge(table)
    table.evaluate("(region) => region.scrollLeft = region.scrollWidth")
    after, paper = _edge(table), luminance(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert abs(after - paper) < 0.01
    assert _contrast(before, paper) > 1.3


def _edge(table: Locator) -> float:
    """The luminance of the paper at the right edge of what is seen of a table, the most frequent one."""
    picture = Image.open(io.BytesIO(table.screenshot())).convert("RGB")
    column = picture.crop((picture.width - 2, 0, picture.width - 1, picture.height))
    _, colour = max(column.getcolors(picture.height) or [])
    return luminance(f"rgb{colour}")


def test_typical_decisions_stand_side_by_side_on_a_desk(visit: Open) -> None:
    for width, columns in ((DESK, 3), (PHONE, 1)):
        boxes = [article.bounding_box() for article in visit("journey", width).page.locator("article").all()]
        assert len(boxes) == 3
        assert len({round(box["x"]) for box in boxes if box is not None}) == columns


@EACH
@pytest.mark.parametrize("width", [DESK, PHONE])
def test_every_picture_is_seen_and_can_be_read(visit: Open, name: str, width: int) -> None:
    page = visit(name, width).page
    pictures = page.locator("figure svg").all()
    assert len(pictures) >= 5
    for picture in pictures:
        box = picture.bounding_box()
        assert box is not None
        assert box["width"] > 290
        assert box["height"] > 60
        assert 0 <= box["x"] < box["x"] + box["width"] <= width
        assert _outside(picture) == []
    sizes = page.locator("figure svg text").evaluate_all(
        """(texts) => texts.map((text) => parseFloat(getComputedStyle(text).fontSize)
            * text.ownerSVGElement.getBoundingClientRect().width / text.ownerSVGElement.viewBox.baseVal.width)"""
    )
    assert min(sizes) >= 10  # pixels, as a figure's type comes to the screen


def _outside(picture: Locator) -> list[str]:
    """The texts of a picture that do not lie within it."""
    found: list[str] = picture.evaluate(
        """(svg) => {
            const room = svg.getBoundingClientRect();
            return [...svg.querySelectorAll("text")].filter((text) => {
                const box = text.getBoundingClientRect();
                return box.left < room.left - 6 || box.right > room.right + 6
                    || box.top < room.top - 6 || box.bottom > room.bottom + 6;
            }).map((text) => text.textContent);
        }"""
    )
    return found


@EACH
def test_wide_tables_scroll_by_themselves_and_names_leave_room(visit: Open, name: str) -> None:
    page = visit(name, PHONE).page
    for region in page.locator("section > .scroll").all():
        box, heading = region.bounding_box(), region.locator("tbody th").first.bounding_box()
        assert box is not None
        assert heading is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE
        assert heading["width"] <= 0.75 * PHONE
        last = region.locator("tbody tr").first.locator("td").last
        last.evaluate("(cell) => cell.scrollIntoView({inline: 'end', block: 'center'})")
        seen = last.bounding_box()
        assert seen is not None
        assert seen["x"] + seen["width"] <= PHONE + 1
        assert seen["x"] + seen["width"] > heading["width"]


def test_a_click_on_a_heading_sorts_the_leaderboard(visit: Open) -> None:
    page = visit("journey").page
    table = page.locator("table", has_text="Every candidate").first
    heading = table.locator("thead tr").last.locator("th").nth(2)
    assert heading.inner_text() == "realised"
    cells = table.locator("tbody tr td:nth-child(3)")
    for direction, reverse in (("descending", True), ("ascending", False)):
        heading.locator("button").click()
        assert heading.get_attribute("aria-sort") == direction
        values = [cell.get_attribute("data-value") for cell in cells.all()]
        known = [float(value) for value in values if value]
        assert known == sorted(known, reverse=reverse)
        assert [bool(value) for value in values] == sorted([bool(value) for value in values], reverse=True)


def test_what_is_folded_opens(visit: Open) -> None:
    page = visit("electricity").page
    folded = page.locator("details", has_text="Blocks in numbers")
    assert not folded.locator("table").is_visible()
    folded.locator("summary").click()
    assert folded.locator("tbody tr").count() == 20
    assert folded.locator("table").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["journey", "portfolio"])
def test_text_can_be_read_by_day_and_by_night(visit: Open, name: str, scheme: str) -> None:
    page = visit(name, scheme=scheme).page
    paper = luminance(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert (paper < 0.2) == (scheme == "dark")
    parts = (
        "h1",
        "p.verdict",
        "p.verdict span",
        "p.lead",
        "figcaption",
        "caption",
        "tbody th",
        "tbody td",
        "thead button",
        ".card .soft",
        "summary",
        "dd",
    )
    colours = {part: page.locator(part).first.evaluate("(e) => getComputedStyle(e).color") for part in parts}
    colours["figure"] = page.locator("figure svg text").first.evaluate("(e) => getComputedStyle(e).fill")
    for part, colour in colours.items():
        assert _contrast(luminance(colour), paper) >= 4.5, part


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_hottest_and_coldest_swaps_can_be_read(visit: Open, scheme: str) -> None:
    page = visit("journey", scheme=scheme).page
    mixed = page.locator("td[style]").evaluate_all(
        """(cells) => cells.map((cell) => {
            const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
            const [r, g, b, alpha] = numbers(getComputedStyle(cell).backgroundColor);
            const below = numbers(getComputedStyle(document.body).backgroundColor);
            const mix = [r, g, b].map((value, i) => Math.round(alpha * value + (1 - alpha) * below[i]));
            return [`rgb(${mix.join(", ")})`, getComputedStyle(cell).color];
        })"""
    )
    assert len(mixed) > 5
    for background, ink in mixed:
        assert _contrast(luminance(background), luminance(ink)) >= 4.5


def _contrast(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


@pytest.mark.parametrize("name", ["journey", "electricity"])
def test_it_prints_in_black_on_white_with_whole_tables(visit: Open, name: str) -> None:
    page = visit(name, width=SHEET, scheme="dark").page
    page.emulate_media(media="print")
    assert not any(nav.is_visible() for nav in page.locator("nav").all())
    assert luminance(page.evaluate("getComputedStyle(document.body).backgroundColor")) == 1
    assert luminance(page.evaluate("getComputedStyle(document.body).color")) == 0
    for table in page.locator("section > .scroll > table").all():
        box = table.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= SHEET
    content = page.pdf(format="A4")
    assert content.startswith(b"%PDF")
    (SCREENSHOTS / f"ensemble-{name}.pdf").write_bytes(content)
