"""Parts of a report page: cards, pictures with captions, and panels beside each other."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.figure import Figure

from optensemble.report.drawing import inline_svg, style
from optensemble.report.html import Html, element
from optensemble.report.phrases import KeyFigure


def card(figure: KeyFigure) -> Html:
    """Return a card with a number."""
    return element(
        "section",
        element("h2", figure.title),
        element("p", figure.number, class_="big"),
        element("p", figure.explanation, class_="soft"),
        class_="card",
    )


def picture(name: str, draw: Callable[[], Figure], label: str, caption: str = "") -> Html:
    """Return a figure; ``label`` is the text for screen readers, ``caption`` says what marks and colours mean."""
    with style():
        drawn = Html(inline_svg(draw(), name, label))
    return element("figure", drawn, *([element("figcaption", caption)] if caption else []), id=f"figure-{name}")


def panels(*parts: Html, kind: str = "panels") -> Html:
    """Return parts beside each other, below each other on a narrow screen."""
    return element("div", *parts, class_=kind)
