"""Figures that look the same everywhere: as PNG and SVG files, and inside a page, where they follow its colours."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

INK = "#1b2a3a"
"""Text and axes; inside a page, the colour of the text around."""

COLOURS = ("#2f9e62", "#2b8cc4", "#d9822b", "#8e6bc9", "#c9527b")
"""Five colours that can be told apart, on white and on black."""

MUTED = "#8a94a0"

_FONT = "DejaVu Sans"  # comes with matplotlib

_STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "font.family": _FONT,
    "font.size": 9,
    "grid.alpha": 0.35,
    "grid.color": MUTED,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "path.simplify_threshold": 0.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "optensemble",
    "text.color": INK,
    "text.parse_math": False,  # a name with a $ in it is a name
    "xtick.color": INK,
    "ytick.color": INK,
}


@contextmanager
def style() -> Iterator[None]:
    """Draw and save inside of this."""
    with mpl.rc_context(_STYLE):
        yield


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of so many inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def png(figure: Figure) -> bytes:
    """Return the figure as PNG, on white."""
    return _saved(figure, "png", facecolor="white", dpi=160, metadata={"Software": None})


def svg(figure: Figure) -> bytes:
    """Return the figure as SVG, on white; the same figure gives the same bytes."""
    return _saved(figure, "svg", facecolor="white", metadata={"Date": None, "Creator": None})


def inline_svg(figure: Figure, prefix: str, label: str) -> str:
    """Return the figure as an element of a page: without background, in the page's colours and font.

    ``prefix`` keeps its identifiers apart from other figures'; ``label`` says what it shows to who cannot see it.
    """
    text = _saved(figure, "svg", facecolor="none", metadata={"Date": None, "Creator": None}).decode()
    text = re.sub(r"<(metadata|style)\b.*?</\1>\s*", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r"<[^>]*>", lambda tag: _for_page(tag.group(), prefix), text)  # what it says stays as it is
    head, body = text.split(">", 1)
    head = re.sub(r'\s(width|height)="[^"]*"', "", head)  # the page says how large
    lines = 'stroke-linejoin="round" stroke-linecap="butt"'  # what the style said, for this drawing alone
    return f'{head} role="img" aria-label="{escape(label)}" {lines}>{body}'


def _for_page(tag: str, prefix: str) -> str:
    """Return a tag with its own identifiers, and the page's colour and font."""
    tag = re.sub(r'\b(id="|xlink:href="#|url\(#)', rf"\g<1>{prefix}-", tag)
    return tag.replace(INK, "currentColor").replace(f"'{_FONT}'", "system-ui, sans-serif")


def _saved(figure: Figure, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # a name in another script: the reader's own font has what ours lacks
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(buffer, format=kind, **options)
    return buffer.getvalue()
