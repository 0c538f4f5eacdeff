"""Figures in one style: as PNG and SVG files, and inline in a page, where they take the page's colours and font."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

INK = "#1b2a3a"
"""The colour of text and axes; inline in a page, that of the surrounding text."""

COLOURS = ("#2f9e62", "#2b8cc4", "#d9822b", "#8e6bc9", "#c9527b")
"""Five colours that are distinct from each other on white and on black."""

PAPER = "#f4f6f8"
"""The colour of text and axes on a dark background."""

MUTED = "#8a94a0"

BAND_OPACITY = 0.2
"""The opacity of an interval drawn as a band: lines are seen through it."""

_FONT = "DejaVu Sans"  # shipped with matplotlib, so files are the same on every machine
_SIZE = 9  # points
_HALF_BRIGHT = 0.5  # brightness, from 0 of black to 1 of white

_RC_PARAMS: dict[Any, Any] = {
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
    "font.size": _SIZE,
    "grid.alpha": 0.35,
    "grid.color": MUTED,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "path.simplify_threshold": 0.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "optensemble",
    "text.color": INK,
    "text.parse_math": False,  # names may contain a $
    "xtick.color": INK,
    "ytick.color": INK,
}


_INKED = [name for name, value in _RC_PARAMS.items() if value == INK]


@contextmanager
def style(ink: str = INK) -> Iterator[None]:
    """Apply the style while figures are drawn and saved, with text and axes in the colour ``ink``."""
    with mpl.rc_context({**_RC_PARAMS, **dict.fromkeys(_INKED, ink)}):
        yield


def current_ink() -> str:
    """Return the colour of text and axes within :func:`style`."""
    return str(mpl.rcParams["text.color"])


def readable_ink(axes: Axes) -> str:
    """Return the colour of text that is readable on the background of some axes: dark on light, light on dark."""
    red, green, blue, opacity = to_rgba(axes.figure.get_facecolor())
    seen = 1 - opacity + opacity * (0.299 * red + 0.587 * green + 0.114 * blue)  # a page is taken for white
    return INK if seen > _HALF_BRIGHT else PAPER


def adopt(axes: Axes) -> None:
    """Give axes that were made outside the style its spines, ticks and grid; call it within :func:`style`."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(MUTED)
    axes.set_axisbelow(True)
    axes.grid(visible=True, **{name: _RC_PARAMS[f"grid.{name}"] for name in ("alpha", "color", "linewidth")})
    axes.tick_params(color=current_ink(), labelcolor=current_ink(), labelsize=_SIZE, labelfontfamily=_FONT)
    for axis in (axes.xaxis, axes.yaxis):
        axis.label.set(color=current_ink(), size=_SIZE, family=_FONT)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure; width and height in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def png(figure: Figure) -> bytes:
    """Return the figure as PNG on white."""
    return _render(figure, "png", facecolor="white", dpi=160, metadata={"Software": None})


def svg(figure: Figure) -> bytes:
    """Return the figure as SVG on white; the same figure gives the same bytes."""
    return _render(figure, "svg", facecolor="white", metadata={"Date": None, "Creator": None})


def inline_svg(figure: Figure, prefix: str, label: str) -> str:
    """Return the figure as an SVG element for a page: without background, in the page's colours and font.

    ``prefix`` makes its identifiers unique in the page; ``label`` is the text for screen readers.
    """
    text = _render(figure, "svg", facecolor="none", metadata={"Date": None, "Creator": None}).decode()
    text = re.sub(r"<(metadata|style)\b.*?</\1>\s*", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r"<[^>]*>", lambda tag: _adapt_tag(tag.group(), prefix), text)  # tags only: texts stay as they are
    head, body = text.split(">", 1)
    head = re.sub(r'\s(width|height)="[^"]*"', "", head)  # the page sets the size
    # from the <style> removed above, which would apply to the whole page
    lines = 'stroke-linejoin="round" stroke-linecap="butt"'
    return f'{head} role="img" aria-label="{escape(label)}" {lines}>{body}'


def _adapt_tag(tag: str, prefix: str) -> str:
    """Return a tag with unique identifiers, and the page's colour and font."""
    tag = re.sub(r'\b(id="|xlink:href="#|url\(#)', rf"\g<1>{prefix}-", tag)
    return tag.replace(INK, "currentColor").replace(f"'{_FONT}'", "system-ui, sans-serif")


def _render(figure: Figure, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # names in other scripts: a browser falls back to a font that has their glyphs
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(buffer, format=kind, **options)
    return buffer.getvalue()
