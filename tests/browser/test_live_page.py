"""The live page in a real browser, kept up to date by a stream: in place, without a word, and asking nobody else."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from optensemble.report.html import Html
from optensemble.report.live_page import LivePageData, changed_sections, live_sections, make_live_page
from tests.browser.test_report import _luminance as luminance
from tests.report.live_pages import SERVICES, Service, service

pytestmark = [pytest.mark.browser, pytest.mark.no_cover]

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
DESK, PHONE, SHEET = 1280, 360, 720
SHOWN = ["shares", "broken", "costs", "weighted", "wide", "fresh", "failing"]

PARSED = """(html) => {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.innerHTML;
}"""


class Stream:
    """A server on this machine: a page, and a stream of what has changed on it."""

    def __init__(self, data: LivePageData) -> None:
        self.page = make_live_page(data, events="/events")
        self.listeners: list[queue.Queue[Mapping[str, Html] | None]] = []
        self.asked: list[str] = []
        self.refuses = False
        stream = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stream.asked.append(self.path)
                if self.path == "/events":
                    stream.send_events(self)
                else:
                    self.begin("text/html; charset=utf-8")
                    self.wfile.write(stream.page.encode())

            def begin(self, kind: str, status: int = 200) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def send_events(self, handler: Any) -> None:
        if self.refuses:
            handler.begin("text/plain", 503)
            return
        mail: queue.Queue[Mapping[str, Html] | None] = queue.Queue()
        handler.begin("text/event-stream")
        handler.wfile.write(b"retry: 50\n\n")
        handler.wfile.flush()
        self.listeners.append(mail)
        while (parts := mail.get()) is not None:
            handler.wfile.write(f"data: {json.dumps(parts)}\n\n".encode())
            handler.wfile.flush()

    def send(self, parts: Mapping[str, Html]) -> None:
        for mail in self.listeners:
            mail.put(parts)

    def break_off(self) -> None:
        """End all streams."""
        for mail in self.listeners:
            mail.put(None)
        self.listeners.clear()

    def close(self) -> None:
        self.break_off()
        self.server.shutdown()
        self.server.server_close()


@dataclass
class Visit:
    """An open page of an ensemble that goes on, and everything it said and asked for."""

    page: Page
    stream: Stream
    found: Service
    shown: dict[str, Html]
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def go_on(self, rows: int = 1, learned: int = 0) -> None:
        """Decide further rows, learn labels of earlier ones, and have the page follow."""
        if rows:
            self.found.decide(rows)
        if learned:
            start = self.found.live.rows_
            self.found.learn(range(start, start + learned))
        self.update()

    def update(self) -> None:
        now = live_sections(self.found.data())
        self.stream.send(changed_sections(self.shown, now))
        self.shown = now
        moment = f"{self.found.data().at:%Y-%m-%d %H:%M:%S}"
        expect(self.page.locator("#as-of time")).to_have_text(moment)


Open = Callable[..., Visit]


@pytest.fixture
def visit(browser: Browser) -> Iterator[Open]:
    opened: list[tuple[Any, Stream]] = []

    def open_page(found: Service, width: int = DESK, scheme: Any = "light") -> Visit:
        data = found.data()
        stream = Stream(data)
        size: Any = {"width": width, "height": 740 if width == PHONE else 800}
        context = browser.new_context(viewport=size, color_scheme=scheme)
        opened.append((context, stream))
        page = context.new_page()
        told = Visit(page, stream, found, live_sections(data))
        page.on("console", lambda message: told.said.append(message.text))
        page.on("pageerror", lambda error: told.said.append(str(error)))
        page.on("request", lambda request: told.asked.append(request.url))
        page.goto(stream.address)
        expect(page.locator("#connection")).to_have_text("Live: the page updates by itself")
        return told

    yield open_page
    for context, stream in opened:
        stream.break_off()
        context.close()
        stream.close()


def going() -> Service:
    """An ensemble with refits and 60 open rows, that can go on for long."""
    return service(600, labels=["north", "south", "east"]).run(200, late=60)


# In place


def test_what_changes_is_replaced_without_loading_the_page_again(visit: Open) -> None:
    seen = visit(going())
    page = seen.page
    page.evaluate("window.before = document.querySelector('#decisions table')")
    drawn = page.locator("#so-far svg").first.inner_html()
    seen.go_on(rows=2)
    rows = page.locator("#decisions tbody tr")
    expect(rows.first.locator("th")).to_have_text("201")
    assert rows.count() == 20
    assert page.locator("#so-far svg").first.inner_html() == drawn  # nothing was learned
    seen.go_on(rows=0, learned=20)
    expect(page.locator("#totals .card").nth(4).locator(".big")).to_have_text("160")
    assert page.locator("#so-far svg").first.inner_html() != drawn
    assert page.evaluate("window.before === document.querySelector('#decisions table')")
    for part, content in seen.shown.items():
        inner = page.locator(f"#{part}").evaluate("(e) => e.innerHTML")
        made = page.evaluate(
            "(html) => { const t = document.createElement('template'); t.innerHTML = html; return t.innerHTML }",
            content,
        )
        assert inner == made, part
    assert seen.said == []
    assert seen.asked == [seen.stream.address, f"{seen.stream.address}events"]


def test_focus_scroll_sorting_and_what_is_open_stay(visit: Open) -> None:
    seen = visit(service(200, d=200, omega=SERVICES["wide"]().live.ensemble_.feasible_).run(100, late=40), PHONE)
    page, table = seen.page, seen.page.locator("#decisions")
    button = table.locator("thead button", has_text="promised")
    button.click()
    key = table.locator("tbody tr").nth(7).locator("th").inner_text()
    row = table.locator("tbody tr", has=page.locator(f"th[data-value='{key}']"))
    row.locator("summary").click()
    region = table.locator(".scroll")
    region.evaluate("(e) => { e.scrollLeft = 180 }")
    row.locator("summary").focus()
    row.evaluate("(e) => e.scrollIntoView({ block: 'start' })")
    page.evaluate("window.row = document.activeElement.closest('tr')")
    before = row.bounding_box()
    for rows, learned in ((3, 0), (2, 20), (0, 10)):
        seen.go_on(rows=rows, learned=learned)
        assert page.evaluate("document.activeElement.closest('tr') === window.row")
        assert row.locator("details").get_attribute("open") is not None
        assert region.evaluate("(e) => e.scrollLeft") == 180
        after = row.bounding_box()
        assert before is not None
        assert after is not None
        assert after["y"] == pytest.approx(before["y"], abs=1.5)
    heads = table.locator("thead tr").last.locator("th")
    assert heads.nth(3).get_attribute("aria-sort") == "descending"
    values = [float(cell.get_attribute("data-value") or 0) for cell in table.locator("tbody tr td:nth-child(4)").all()]
    assert values == sorted(values, reverse=True)
    assert len(values) == 20
    assert page.locator("#decisions details[open]").count() == 1
    assert seen.said == []


def test_the_focus_stays_on_a_heading_that_sorts(visit: Open) -> None:
    seen = visit(going())
    button = seen.page.locator("#certificate thead button").first
    button.focus()
    seen.page.keyboard.press("Enter")
    seen.go_on(rows=1, learned=20)
    expect(button).to_be_focused()
    names = seen.page.locator("#certificate tbody th").all_inner_texts()
    assert names == sorted(names)
    seen.page.keyboard.press("Enter")
    assert seen.page.locator("#certificate tbody th").all_inner_texts() == names[::-1]


def test_sections_fill_that_were_empty(visit: Open) -> None:
    seen = visit(service(200))
    assert seen.page.locator("#verdict .verdict").inner_text() == "– No labels have arrived yet"
    assert seen.page.locator("table").count() == 0
    seen.page.evaluate("window.said = document.querySelector('#verdict .verdict')")
    seen.go_on(rows=100, learned=80)
    expect(seen.page.locator("#verdict .verdict")).to_have_text("✓ The promise is kept")
    assert seen.page.evaluate("window.said === document.querySelector('#verdict .verdict')")  # it is read out
    assert seen.page.title() == "✓ Decisions in service"
    assert seen.page.locator("figure svg[role=img]").count() == 4
    button = seen.page.locator("#decisions thead button").first  # of a table that was not there before
    button.click()
    assert seen.page.locator("#decisions tbody th").first.inner_text() == "80"
    assert seen.said == []


def test_at_the_top_the_page_stays_at_the_top(visit: Open) -> None:
    seen = visit(service(200))
    seen.go_on(rows=100, learned=80)
    assert seen.page.evaluate("scrollY") == 0


# The connection


def test_a_stream_that_breaks_is_told_and_taken_up_again(visit: Open) -> None:
    seen = visit(going())
    status, shown = seen.page.locator("#connection"), seen.page.locator("#as-of time").inner_text()
    seen.stream.refuses = True
    seen.stream.break_off()
    expect(status).to_have_text(f"Disconnected: last updated {shown} UTC. Trying to reconnect.")
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    seen.page.screenshot(path=SCREENSHOTS / "live-disconnected.png")
    seen.found.decide(4)
    seen.stream.refuses = False
    expect(status).to_have_text("Live: the page updates by itself", timeout=10_000)
    seen.update()
    assert all("503" in text for text in seen.said)  # the browser's own words on what it was refused
    assert set(seen.asked) == {seen.stream.address, f"{seen.stream.address}events"}


def test_markup_in_data_does_nothing_when_it_arrives(visit: Open) -> None:
    seen = visit(going())
    nasty = '<img src=x onerror="document.title = 1"><script>document.title = 2</script>'
    seen.found.decide(1, [nasty])
    seen.update()
    expect(seen.page.locator("#decisions tbody th").first).to_contain_text("<img src=x onerror=")
    assert seen.page.locator("img").count() == 0
    assert seen.page.title().endswith("Decisions in service")
    assert seen.said == []


# Looks


@pytest.mark.parametrize(("width", "scheme"), [(DESK, "light"), (DESK, "dark"), (PHONE, "light"), (PHONE, "dark")])
@pytest.mark.parametrize("name", SHOWN)
def test_it_fits_the_screen(visit: Open, name: str, width: int, scheme: str) -> None:
    seen = visit(SERVICES[name](), width, scheme)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    seen.page.screenshot(path=SCREENSHOTS / f"live-{name}-{width}-{scheme}.png", full_page=True)
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    for picture in seen.page.locator("figure svg[role=img]").all():
        box = picture.bounding_box()
        assert box is not None
        assert box["width"] > 290
        assert 0 <= box["x"] < box["x"] + box["width"] <= width
        assert _outside(picture) == []
    sizes = seen.page.locator("figure svg text").evaluate_all(
        """(texts) => texts.map((text) => parseFloat(getComputedStyle(text).fontSize)
            * text.ownerSVGElement.getBoundingClientRect().width / text.ownerSVGElement.viewBox.baseVal.width)"""
    )
    assert min(sizes, default=10) >= 10
    assert seen.said == []


def _outside(picture: Any) -> Any:
    """The texts of a picture that do not lie within it."""
    return picture.evaluate(
        """(svg) => {
            const room = svg.getBoundingClientRect();
            return [...svg.querySelectorAll("text")].filter((text) => {
                const box = text.getBoundingClientRect();
                return box.left < room.left - 6 || box.right > room.right + 6
                    || box.top < room.top - 6 || box.bottom > room.bottom + 6;
            }).map((text) => text.textContent);
        }"""
    )


@pytest.mark.parametrize("name", ["shares", "broken"])
@pytest.mark.parametrize("width", [DESK, PHONE])
def test_verdict_and_figures_are_seen_without_scrolling(visit: Open, name: str, width: int) -> None:
    page = visit(SERVICES[name](), width).page
    cards = [page.locator("#totals .card").nth(number) for number in range(4)]
    for part in (page.locator("h1"), page.locator("p.verdict"), page.locator("p.lead"), *cards):
        box = part.bounding_box()
        assert box is not None
        assert 0 <= box["y"] < box["y"] + box["height"] <= (740 if width == PHONE else 800)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["shares", "broken", "failing"])
def test_text_can_be_read_by_day_and_by_night(visit: Open, name: str, scheme: str) -> None:
    page = visit(SERVICES[name](), scheme=scheme).page
    paper = luminance(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert (paper < 0.2) == (scheme == "dark")
    parts = [
        "h1",
        "p.verdict",
        "p.verdict span",
        "p.lead",
        "#connection",
        "caption",
        "tbody th",
        "tbody td",
        "figcaption",
    ]
    parts += ["thead button", ".card .soft", ".legend li", ".bar b"]
    colours = {part: page.locator(part).first.evaluate("(e) => getComputedStyle(e).color") for part in parts}
    colours["figure"] = page.locator("figure svg text").first.evaluate("(e) => getComputedStyle(e).fill")
    for part, colour in colours.items():
        one, other = luminance(colour), paper
        assert (max(one, other) + 0.05) / (min(one, other) + 0.05) >= 4.5, part


def test_it_opens_offline_from_a_file(browser: Browser, tmp_path: Path) -> None:
    file, said, asked = tmp_path / "page.html", list[str](), list[str]()
    file.write_text(make_live_page(SERVICES["shares"]().data()), encoding="utf-8")
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    page.locator("#certificate thead button").first.click()
    assert page.locator("#certificate th[aria-sort]").count() == 1
    assert (said, asked) == ([], [file.as_uri()])
    context.close()


def test_it_prints_in_black_on_white_with_whole_tables(visit: Open) -> None:
    page = visit(SERVICES["shares"](), SHEET, "dark").page
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert luminance(page.evaluate("getComputedStyle(document.body).backgroundColor")) == 1
    for table in page.locator(".scroll > table").all():
        box = table.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= SHEET
    content = page.pdf(format="A4")
    assert content.startswith(b"%PDF")
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    (SCREENSHOTS / "live-shares.pdf").write_bytes(content)
