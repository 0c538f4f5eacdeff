"""Notebook output in a real browser, between the rules that JupyterLab has for tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

import optensemble as oe
from tests.report.ensembles import electricity

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"

HEIGHTS = """[...document.querySelectorAll('th')].map(
  head => head.clientHeight / parseFloat(getComputedStyle(head).fontSize))"""

RIGHT_EDGES = """[...document.querySelectorAll('table')].flatMap(table =>
  [...table.tHead.rows[table.tHead.rows.length - 1].cells].flatMap((head, place) => {
    if (!head.classList.contains('number')) return []
    const edge = cell => {
      const range = document.createRange()
      range.selectNodeContents(cell)
      return range.getBoundingClientRect().right
    }
    return [[head, ...[...table.tBodies[0].rows].map(row => row.cells[place])].map(edge)]
  }))"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_in_a_narrow_cell_headings_stay_in_one_line_and_numbers_line_up(browser: Browser, scheme: str) -> None:
    found = electricity()
    ensemble: Any = found.data.ensemble
    colours = "background: #111; color: #eee" if scheme == "dark" else "background: #fff; color: #111"
    # as JupyterLab has it: centred tables of right-aligned cells
    theirs = "table { margin: 0 auto; font-size: 12px } td, th { text-align: right; white-space: normal }"
    live = oe.LiveEnsemble(ensemble)
    live.answer(found.X)
    shown: list[Any] = [found.data.audit, ensemble, live, ensemble.promise(found.X), ensemble.explain(found.X, 0)]
    outputs = "".join(f"<section>{each._repr_html_()}</section>" for each in shown)
    page = browser.new_page(viewport={"width": 700, "height": 900})
    style = f"<style>body {{ font: 14px system-ui; {colours} }} {theirs}</style>"
    page.set_content(f"<!doctype html>{style}{outputs}")
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"notebook-{scheme}.png", full_page=True)
    heights = page.evaluate(HEIGHTS)
    assert max(heights) < 2.2  # of one line with its padding
    edges = page.evaluate(RIGHT_EDGES)
    assert len(edges) > 20
    assert all(max(of) - min(of) < 1 for of in edges)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")  # tables scroll by themselves
    page.close()
