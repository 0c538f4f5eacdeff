"""Elements, tables and pages: escaped, well-formed, and loading nothing."""

from __future__ import annotations

import base64
import hashlib
import re

import hypothesis
import pytest
from hypothesis import strategies as st

from optensemble.report.html import Cell, Column, Html, Sheet, element, html_page, join, sortable_table
from tests.report.reading import Node, read

NASTY = """<script>alert("1")</script> & 'more' — €"""
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]))


@hypothesis.given(TEXT, TEXT)
def test_text_and_attributes_come_back_as_they_were(text: str, value: str) -> None:
    node = read(element("p", text, title=value)).the("p")
    assert node.text == text
    assert node.attributes == {"title": value}
    assert node.elements == []


def test_elements_are_not_escaped_again() -> None:
    inner = element("b", NASTY)
    outer = read(element("p", "a & b ", inner, NASTY)).the("p")
    assert outer.the("b").text == NASTY
    assert outer.text == f"a & b {NASTY}{NASTY}"
    assert len(outer.elements) == 1


def test_parts_are_joined_in_order() -> None:
    assert join(["<", Html("<br>"), ">"]) == "&lt;<br>&gt;"
    assert isinstance(join([]), Html)
    assert join([]) == ""


def test_names_of_attributes_may_be_words_of_python() -> None:
    node = read(element("a", class_="x", aria_label="y", data_value="z")).the("a")
    assert node.attributes == {"class": "x", "aria-label": "y", "data-value": "z"}


# Tables

COLUMNS = [
    Column("who", kind="text"),
    Column("a", "first"),
    Column("b", "first"),
    Column("c", "second"),
    Column("why", kind="prose"),
]
ROWS = [
    [Cell("one"), Cell("1.50", 1.5), Cell("–", ""), Cell("−2", -2.0), Cell(NASTY)],
    [Cell("two", 7), Cell("0", 0.0), Cell("3", 3), Cell("4", 4), Cell("because")],
]


@pytest.fixture
def made() -> Node:
    return read(sortable_table(Sheet(f"Caption {NASTY}", COLUMNS, ROWS)))


def test_a_table_has_a_caption_a_head_and_a_body(made: Node) -> None:
    assert [part.tag for part in made.the("table").elements] == ["caption", "thead", "tbody"]
    assert made.the("caption").text == f"Caption {NASTY}"
    region = made.the("div")
    assert region.attributes["role"] == "region"
    assert region.attributes["aria-label"] == f"Caption {NASTY}"
    assert region.attributes["tabindex"] == "0"  # so that it scrolls by keyboard


def test_every_column_has_a_heading_to_sort_by(made: Node) -> None:
    heads = made.the("thead").elements[-1].elements
    assert [head.the("button").text for head in heads] == ["who", "a", "b", "c", "why"]
    assert [head.attributes for head in heads] == [{"scope": "col", "class": column.kind} for column in COLUMNS]
    assert {head.the("button").attributes["type"] for head in heads} == {"button"}


def test_groups_span_their_columns(made: Node) -> None:
    groups = made.the("tr", class_="groups").elements
    assert [(cell.tag, cell.text, cell.attributes["colspan"]) for cell in groups] == [
        ("td", "", "1"),
        ("th", "first", "2"),
        ("th", "second", "1"),
        ("td", "", "1"),
    ]
    assert sum(int(cell.attributes["colspan"]) for cell in groups) == len(COLUMNS)


def test_a_group_that_comes_again_later_is_another() -> None:
    columns = [Column("a", "x"), Column("b", "y"), Column("c", "x")]
    groups = read(sortable_table(Sheet("", columns, []))).the("tr", class_="groups").elements
    assert [cell.text for cell in groups] == ["x", "y", "x"]


def test_without_groups_there_is_no_row_for_them() -> None:
    head = read(sortable_table(Sheet("", [Column("a"), Column("b")], []))).the("thead")
    assert len(head.elements) == 1


def test_cells_show_a_text_and_carry_what_they_are_sorted_by(made: Node) -> None:
    assert [[cell.text for cell in row] for row in made.rows()] == [[cell.text for cell in row] for row in ROWS]
    assert [[cell.attributes["data-value"] for cell in row] for row in made.rows()] == [
        ["one", "1.5", "", "-2.0", NASTY],
        ["7", "0.0", "3", "4", "because"],
    ]
    for row in made.rows():
        assert [cell.tag for cell in row] == ["th", "td", "td", "td", "td"]
        assert row[0].attributes["scope"] == "row"
        assert [cell.attributes["class"] for cell in row[1:]] == [column.kind for column in COLUMNS[1:]]


def test_a_row_must_have_a_cell_for_each_column() -> None:
    with pytest.raises(ValueError, match=r"longer|shorter"):
        sortable_table(Sheet("", COLUMNS, [ROWS[0][:-1]]))
    with pytest.raises(ValueError, match=r"longer|shorter"):
        sortable_table(Sheet("", COLUMNS[:-1], ROWS))


# Pages


def test_a_page_is_well_formed_and_complete() -> None:
    text = html_page(f"Title {NASTY}", element("p", "hello"), "and text")
    assert text.startswith("<!doctype html>\n")
    root = read(text).the("html")
    assert root.attributes == {"lang": "en"}
    assert [part.tag for part in root.elements] == ["head", "body"]
    assert root.the("title").text == f"Title {NASTY}"
    assert root.the("main").text == "helloand text"
    assert root.the("meta", charset="utf-8") is root.the("head").elements[0]  # before any text
    assert root.the("meta", name="viewport").attributes["content"].startswith("width=device-width")


def test_a_page_allows_its_own_script_and_loads_nothing() -> None:
    root = read(html_page("t", "b"))
    policy = root.the("meta", http_equiv="Content-Security-Policy").attributes["content"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    script = root.the("script")
    digest = base64.b64encode(hashlib.sha256(script.text.encode()).digest()).decode()
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == f"'sha256-{digest}'"
    assert script.attributes == {}
    assert root.the("link").attributes["href"] == "data:,"  # or browsers ask for an icon
    for style in root.every("style"):
        assert "url(" not in style.text
        assert "@import" not in style.text


def test_the_policy_comes_before_what_it_governs() -> None:
    text = html_page("t", "b")
    assert text.index("Content-Security-Policy") < min(text.index(tag) for tag in ("<style", "<script", "<link"))


def test_no_script_or_style_ends_early() -> None:
    for tag in ("script", "style"):
        assert len(re.findall(rf"</{tag}", html_page("t", "b"))) == 1
