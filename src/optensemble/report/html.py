"""HTML: elements, tables and whole pages, each page one file that opens offline and loads nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import NamedTuple

_HOT, _COLD = "217 130 43", "43 140 196"
_DENSEST = 0.55  # opacity: text on the strongest colour has a contrast of at least 4.5 in both colour schemes


class Html(str):
    """HTML, which is not escaped again."""

    __slots__ = ()


class Cell(NamedTuple):
    """A table cell: the text shown, and the value it is sorted by (None: by its text).

    ``heat`` is the background, from -1 (cold) to 1 (hot); 0 is no colour.
    """

    text: str
    value: float | str | None = None
    heat: float = 0.0


@dataclass(frozen=True)
class Column:
    """A table column: its heading, the heading of its group, and its kind.

    ``kind`` is "number", "text", or "prose", which may be broken into lines.
    """

    heading: str
    group: str = ""
    kind: str = "number"


@dataclass(frozen=True)
class Sheet:
    """A table before it becomes HTML or text; the first column holds the row headings."""

    caption: str
    columns: list[Column]
    rows: list[list[Cell]]


def element(tag: str, *children: str, **attributes: str) -> Html:
    """Return an element with escaped text; ``class_`` stands for ``class``, and ``_`` in a name for ``-``.

    >>> element("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    names = {name: name.rstrip("_").replace("_", "-") for name in attributes}
    written = "".join(f' {names[name]}="{escape(value)}"' for name, value in attributes.items())
    return Html(f"<{tag}{written}>{join(children)}</{tag}>")


def join(parts: Iterable[str]) -> Html:
    """Concatenate texts and elements; text is escaped."""
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def sortable_table(sheet: Sheet) -> Html:
    """Return a table that the reader can sort by any column; on a narrow screen it scrolls by itself."""
    heads = [
        element("th", element("button", column.heading, type="button"), scope="col", class_=column.kind)
        for column in sheet.columns
    ]
    head = element("thead", _group_row(sheet.columns), element("tr", *heads))
    body = [
        element("tr", *(_sortable_cell(cell, column, column is sheet.columns[0]) for cell, column in cells))
        for cells in _paired_rows(sheet)
    ]
    whole = element("table", element("caption", sheet.caption), head, element("tbody", *body))
    return element("div", whole, class_="scroll", tabindex="0", role="region", aria_label=sheet.caption)


def plain_table(sheet: Sheet) -> Html:
    """Return a table without caption or sorting, for where no script runs."""
    heads = [element("th", column.heading, scope="col", **_plain_class(column)) for column in sheet.columns]
    head = element("thead", _group_row(sheet.columns), element("tr", *heads))
    body = [
        element(
            "tr", *(element("td", cell.text, **_plain_class(column), **_heat_style(cell)) for cell, column in cells)
        )
        for cells in _paired_rows(sheet)
    ]
    return element("table", head, element("tbody", *body))


def bar_element(name: str, percent_of_width: float, text: str, **look: str) -> Html:
    """Return a horizontal bar with its name on the left and a text on the right; ``look`` are attributes of the bar."""
    rectangle = element("rect", x="1", y="1", width=f"{percent_of_width:.1f}", height="8", **look)
    picture = element("svg", rectangle, viewBox="0 0 102 10", preserveAspectRatio="none", aria_hidden="true")
    return element("div", element("span", name), picture, element("b", text), class_="bar")


def html_page(title: str, *body: str, scripts: Sequence[str] = ("page.js",), connects: bool = False) -> str:
    """Return a whole page; the Content-Security-Policy in its head forbids the browser to load anything.

    ``scripts`` are those of this folder that it runs; one that ``connects`` may ask the server it came from.
    """
    style, script = _asset("page.css"), "".join(map(_asset, scripts))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:"
    allowed += "; connect-src 'self'" if connects else ""
    head = [
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{escape(allowed)}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        Html('<link rel="icon" href="data:,">'),
        element("title", title),
        element("style", Html(style)),
    ]
    content = [element("main", *body), element("script", Html(script))]
    return f'<!doctype html>\n<html lang="en">{element("head", *head)}{element("body", *content)}</html>\n'


def _paired_rows(sheet: Sheet) -> Iterator[list[tuple[Cell, Column]]]:
    for row in sheet.rows:
        yield list(zip(row, sheet.columns, strict=True))


def _group_row(columns: Sequence[Column]) -> Html:
    """Return the row above the headings; nothing if no column belongs to a group."""
    if not any(column.group for column in columns):
        return Html("")
    spans: list[tuple[str, int]] = []
    for column in columns:
        if spans and spans[-1][0] == column.group:
            spans[-1] = (column.group, spans[-1][1] + 1)
        else:
            spans.append((column.group, 1))
    cells = [
        element("th", group, colspan=str(width), scope="colgroup") if group else element("td", colspan=str(width))
        for group, width in spans
    ]
    return element("tr", *cells, class_="groups")


def _sortable_cell(cell: Cell, column: Column, first: bool) -> Html:
    value = cell.text if cell.value is None else str(cell.value)
    if first:
        prose = {"class_": "prose"} if column.kind == "prose" else {}
        return element("th", cell.text, scope="row", data_value=value, **prose)
    return element("td", cell.text, data_value=value, class_=column.kind, **_heat_style(cell))


def _plain_class(column: Column) -> dict[str, str]:
    return {} if column.kind == "text" else {"class_": column.kind}


def _heat_style(cell: Cell) -> dict[str, str]:
    """Return the attribute for the background; none for a cell without heat."""
    if not cell.heat:
        return {}
    return {"style": f"background: rgb({_HOT if cell.heat > 0 else _COLD} / {min(abs(cell.heat), 1.0) * _DENSEST:.3f})"}


def _asset(name: str) -> str:
    return files("optensemble.report").joinpath(name).read_text(encoding="utf-8")
