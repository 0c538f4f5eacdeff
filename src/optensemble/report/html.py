"""Pages that are one file: they open offline, load nothing, and read well on a phone, in the dark and on paper."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import NamedTuple

_HOT, _COLD = "217 130 43", "43 140 196"
_DENSEST = 0.55


class Html(str):
    """Text that is HTML already, and is not escaped again."""

    __slots__ = ()


class Cell(NamedTuple):
    """What a table shows in one place, and what it is sorted by there.

    ``heat`` colours it: from -1, the coldest, to 1, the hottest; 0 is no colour.
    """

    text: str
    value: float | str | None = None
    heat: float = 0.0


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, the heading of the group it belongs to, and what it holds.

    ``kind`` is "number", "text", or "prose", which may be broken into lines.
    """

    heading: str
    group: str = ""
    kind: str = "number"


def element(tag: str, *children: str, **attributes: str) -> Html:
    """Return an element; text is escaped, ``class_`` stands for ``class``, and ``_`` in a name for ``-``.

    >>> element("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    names = {name: name.rstrip("_").replace("_", "-") for name in attributes}
    given = "".join(f' {names[name]}="{escape(value)}"' for name, value in attributes.items())
    return Html(f"<{tag}{given}>{join(children)}</{tag}>")


def join(parts: Iterable[str]) -> Html:
    """Put texts and elements one after the other."""
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def table(caption: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> Html:
    """Return a table that the reader can sort by any column; on a narrow screen it scrolls by itself.

    The first column is the rows' heading.
    """
    heads = [
        element("th", element("button", column.heading, type="button"), scope="col", class_=column.kind)
        for column in columns
    ]
    head = join([_group_row(columns), element("tr", *heads)])
    body = [
        element("tr", *(_cell(cell, column, column is columns[0]) for cell, column in zip(row, columns, strict=True)))
        for row in rows
    ]
    whole = element("table", element("caption", caption), element("thead", head), element("tbody", *body))
    return element("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


def plain_table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> Html:
    """Return a table for where no script runs, which nobody can sort."""
    heads = [element("th", column.heading, scope="col", **_plain_class(column)) for column in columns]
    body = [
        element(
            "tr",
            *(
                element("td", cell.text, **_plain_class(column), **_colour(cell))
                for cell, column in zip(row, columns, strict=True)
            ),
        )
        for row in rows
    ]
    head = element("thead", join([_group_row(columns), element("tr", *heads)]))
    return element("table", head, element("tbody", *body))


def page(title: str, *body: str) -> str:
    """Return a whole page. A policy in its head forbids the browser to load anything from anywhere."""
    style, script = _asset("page.css"), _asset("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:"
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


def _group_row(columns: Sequence[Column]) -> Html:
    """Return the row above the headings, if any column belongs to a group."""
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


def _cell(cell: Cell, column: Column, first: bool) -> Html:
    value = cell.text if cell.value is None else str(cell.value)
    if first:
        prose = {"class_": "prose"} if column.kind == "prose" else {}
        return element("th", cell.text, scope="row", data_value=value, **prose)
    return element("td", cell.text, data_value=value, class_=column.kind, **_colour(cell))


def _plain_class(column: Column) -> dict[str, str]:
    return {} if column.kind == "text" else {"class_": column.kind}


def _colour(cell: Cell) -> dict[str, str]:
    """Return a background that text in black or white can be read on."""
    if not cell.heat:
        return {}
    return {"style": f"background: rgb({_HOT if cell.heat > 0 else _COLD} / {min(abs(cell.heat), 1.0) * _DENSEST:.3f})"}


def _asset(name: str) -> str:
    return files("optensemble.report").joinpath(name).read_text(encoding="utf-8")
