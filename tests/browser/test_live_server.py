"""The page of a real server in a real browser, while decisions and labels stream in."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

import optensemble as oe
from tests.serving.processes import Server, running
from tests.serving.worlds import M, ensemble, labels, rows

pytestmark = [pytest.mark.browser, pytest.mark.no_cover]

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
DESK, PHONE = 1280, 360
TOKEN = "a-token-of-some-length"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
LIVE = "Live: the page updates by itself"


@dataclass
class Stream(threading.Thread):
    """Has a server decide row after row, and gives it the labels later."""

    server: Server
    headers: dict[str, str] = field(default_factory=dict)
    decided: int = 0
    failure: BaseException | None = None

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self.over = threading.Event()

    __hash__ = threading.Thread.__hash__

    def run(self) -> None:
        try:
            while not self.over.wait(0.02):
                self.go_on()
        except BaseException as error:
            self.failure = error

    def go_on(self, count: int = 3, late: int = 30) -> None:
        """Decide some rows, and learn as many labels of earlier ones."""
        places = list(range(self.decided, self.decided + count))
        ids = [f"row {place}" for place in places]
        self._post("/decide", {"rows": rows(*(place % M for place in places)), "ids": ids})
        known = [place - late for place in places if place >= late]
        if known:
            given = labels(*(place % M for place in known))
            self._post("/observe", {"ids": [f"row {place}" for place in known], "labels": given})
        self.decided += count

    def _post(self, path: str, body: Any) -> None:
        status, _, answer = self.server.ask("POST", path, body, self.headers)
        assert status == 200, answer

    def stop(self) -> None:
        self.over.set()
        self.join(30)
        assert self.failure is None


@contextmanager
def streaming(server: Server, headers: dict[str, str] | None = None) -> Iterator[Stream]:
    """A stream of decisions and labels meanwhile."""
    stream = Stream(server, headers or {})
    stream.start()
    try:
        yield stream
    finally:
        stream.stop()


@dataclass
class Visit:
    """An open page, and everything that it said and asked for."""

    page: Page
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def figure(self, title: str) -> str:
        card = self.page.locator("#totals .card", has=self.page.locator("h2", has_text=re.compile(f"^{title}$")))
        return card.locator(".big").inner_text()

    def shot(self, name: str) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"server-{name}.png", full_page=True)


Open = Callable[..., Visit]


@pytest.fixture
def visit(browser: Browser) -> Iterator[Open]:
    contexts = []

    def open_page(address: str, width: int = DESK, scheme: Any = "light") -> Visit:
        context = browser.new_context(
            viewport={"width": width, "height": 740 if width == PHONE else 800}, color_scheme=scheme
        )
        contexts.append(context)
        seen = Visit(context.new_page())
        seen.page.on("console", lambda message: seen.said.append(message.text))
        seen.page.on("pageerror", lambda error: seen.said.append(str(error)))
        seen.page.on("request", lambda request: seen.asked.append(request.url))
        seen.page.goto(address)
        return seen

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "a.db"
    oe.LiveEnsemble(ensemble(), log=path, refit=100).close()
    return path


def address_of(server: Server) -> str:
    return f"http://127.0.0.1:{server.port}/"


def number(text: str) -> float:
    return float(text.replace(",", "").replace("\N{MINUS SIGN}", "-"))


# In place


def test_the_page_follows_what_happens(visit: Open, log: Path) -> None:
    with running(log, "--quiet") as server:
        seen = visit(address_of(server))
        expect(seen.page.locator("#connection")).to_have_text(LIVE)
        seen.shot("empty")
        seen.page.evaluate("window.before = true")
        with streaming(server) as stream:
            expect(seen.page.locator("#decisions tbody tr").first).to_be_visible(timeout=20_000)
            figures = list[float]()
            for _ in range(3):
                before = seen.page.locator("#as-of").inner_text()
                expect(seen.page.locator("#as-of")).not_to_have_text(before, timeout=20_000)
                figures.append(number(seen.figure("Labelled rows")))
            assert figures == sorted(set(figures)), "numbers grow"
            seen.page.wait_for_function("document.querySelectorAll('#refits tbody tr').length", timeout=30_000)
            seen.shot("stream")
        expect(seen.page.locator("#as-of")).to_contain_text(f": {stream.decided:,} rows decided", timeout=20_000)
        assert number(seen.figure("Labelled rows")) == stream.decided - 30
        newest = seen.page.locator("#decisions tbody th").first
        expect(newest).to_have_text(f"row {stream.decided - 1}")
        assert seen.page.evaluate("window.before"), "it was not loaded again"
        assert seen.said == []
        assert set(seen.asked) == {address_of(server), f"{address_of(server)}events"}
        assert server.told() == ""


# The connection


def test_a_server_that_is_started_again_is_found_again(visit: Open, log: Path) -> None:
    with running(log, "--quiet") as first:
        seen = visit(address_of(first))
        status = seen.page.locator("#connection")
        with streaming(first) as stream:
            expect(seen.page.locator("#decisions tbody tr").first).to_be_visible(timeout=20_000)
        assert first.stop() == 0
        expect(status).to_contain_text("Disconnected: last updated 20", timeout=10_000)
        seen.shot("disconnected")
        seen.page.evaluate("window.before = true")
    with running(log, "--quiet", port=first.port) as second:
        expect(status).to_have_text(LIVE, timeout=30_000)
        stream.server = second
        stream.go_on()
        expect(seen.page.locator("#as-of")).to_contain_text(f": {stream.decided:,} rows decided", timeout=20_000)
        assert seen.page.evaluate("window.before")
        assert all("ERR_CONNECTION_REFUSED" in text or "503" in text or "ERR_INCOMPLETE" in text for text in seen.said)
        assert set(seen.asked) == {address_of(second), f"{address_of(second)}events"}


# Signing in


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_signing_in(visit: Open, log: Path, width: int) -> None:
    with running(log, "--quiet", "--token-env", "SECRET", token=TOKEN) as server:
        seen = visit(address_of(server), width)
        page = seen.page
        assert page.title() == "Sign in"
        expect(page.locator("#token")).to_be_focused()
        assert page.locator("#connection").count() == 0
        seen.shot(f"sign-in-{width}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.locator("#token").fill("not-the-token-at-all")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_have_text("This is not the token.")
        seen.shot(f"wrong-token-{width}")
        page.goto(address_of(server))
        assert page.title() == "Sign in"
        page.locator("#token").fill(TOKEN)
        page.keyboard.press("Enter")
        expect(page.locator("#connection")).to_have_text(LIVE)
        assert page.url == address_of(server)
        with streaming(server, BEARER) as stream:
            expect(page.locator("#decisions tbody tr").first).to_be_visible(timeout=20_000)
        expect(page.locator("#as-of")).to_contain_text(f": {stream.decided:,} rows decided", timeout=20_000)
        assert all("401" in text for text in seen.said)  # the browser's own words on what it was refused
        assert TOKEN not in page.content()
        assert page.evaluate("document.cookie") == ""
        assert all(url.startswith(address_of(server)) and TOKEN not in url for url in seen.asked)


# Looks


def test_several_pages_fit_their_screens_while_they_change(visit: Open, log: Path) -> None:
    looks = [(width, scheme) for width in (DESK, PHONE) for scheme in ("light", "dark")]
    with running(log, "--quiet") as server:
        pages = [visit(address_of(server), *look) for look in looks]
        with streaming(server) as stream:
            for (width, _), seen in zip(looks, pages, strict=True):
                for part in ("#decisions", "#refits"):
                    expect(seen.page.locator(f"{part} tbody tr").first).to_be_visible(timeout=30_000)
                    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        for (width, scheme), seen in zip(looks, pages, strict=True):
            expect(seen.page.locator("#as-of")).to_contain_text(f": {stream.decided:,} rows decided", timeout=20_000)
            seen.shot(f"{width}-{scheme}")
            assert seen.said == []
