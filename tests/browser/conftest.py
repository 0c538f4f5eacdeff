from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from optensemble.experiments.outcome import Settings
from optensemble.experiments.reproduce import reproduce

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a small run of all four experiments."""
    settings = Settings(rows=100, rounds=60, fresh_rows=400, training_rows=1000)
    return reproduce(tmp_path_factory.mktemp("reproduction"), settings).page


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A real browser, without a window."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no Chromium on this machine: `make browser` installs Debian's")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(QUIET))
        yield browser
        browser.close()
