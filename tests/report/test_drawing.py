"""Figures as files and as a part of a page."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from optensemble.report.drawing import COLOURS, INK, inline_svg, new_figure, png, style, svg

SVG = "{http://www.w3.org/2000/svg}"
LINK = "{http://www.w3.org/1999/xlink}href"


def draw() -> Figure:
    """Everything that needs an identifier or a colour: markers, a clip, an image, text, a legend."""
    figure = new_figure(3, 2)
    axes = figure.subplots()
    axes.plot([0, 1, 2], [0, 3, 1], marker="o", color=COLOURS[0], label="a < b & c")
    axes.imshow([[0.0, 1.0], [1.0, 0.0]], extent=(0, 2, 0, 3), aspect="auto")
    axes.set_title('A "title"')
    axes.legend()
    return figure


def identifiers(root: ElementTree.Element) -> list[str]:
    return [node.attrib["id"] for node in root.iter() if "id" in node.attrib]


def references(text: str) -> set[str]:
    return set(re.findall(r"url\(#([^)]+)\)", text)) | set(re.findall(r'href="#([^"]+)"', text))


def inline(prefix: str = "first", label: str = "what it shows") -> tuple[str, ElementTree.Element]:
    with style():
        text = inline_svg(draw(), prefix, label)
    return text, ElementTree.fromstring(text)


def test_a_picture_is_a_png_on_white() -> None:
    with style():
        content = png(draw())
        assert content == png(draw())
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert (int.from_bytes(content[16:20]), int.from_bytes(content[20:24])) == (3 * 160, 2 * 160)


def test_a_drawing_is_an_svg_with_the_same_bytes_every_time() -> None:
    with style():
        content = svg(draw())
        assert content == svg(draw())
    root = ElementTree.fromstring(content)
    assert root.tag == f"{SVG}svg"
    assert {'A "title"', "a < b & c"} <= {"".join(node.itertext()) for node in root.iter(f"{SVG}text")}
    assert INK.encode() in content
    assert references(content.decode()) <= set(identifiers(root))


def test_inside_a_page_a_drawing_has_the_colour_of_the_text_around_it() -> None:
    text, root = inline()
    assert root.tag == f"{SVG}svg"
    assert INK not in text.lower()
    assert "currentColor" in text
    assert COLOURS[0] in text
    background = root.find(f"{SVG}g/{SVG}g/{SVG}path")
    assert background is not None
    assert "fill: none" in background.attrib["style"]


def test_inside_a_page_a_drawing_takes_its_size_from_the_page() -> None:
    _, root = inline()
    assert "width" not in root.attrib
    assert "height" not in root.attrib
    assert root.attrib["viewBox"].split() == ["0", "0", "216", "144"]
    for image in root.iter(f"{SVG}image"):
        assert float(image.attrib["width"]) > 0
        assert float(image.attrib["height"]) > 0


def test_inside_a_page_identifiers_and_references_have_a_prefix() -> None:
    text, root = inline("mine")
    found = identifiers(root)
    assert len(found) > 5
    assert all(name.startswith("mine-") for name in found)
    assert len(set(found)) == len(found)
    assert len(references(text)) >= 2
    assert references(text) <= set(found)
    assert not set(found) & set(identifiers(inline("yours")[1]))


def test_inside_a_page_a_drawing_loads_nothing_and_says_nothing_of_its_maker() -> None:
    text, root = inline()
    assert "<metadata" not in text
    assert text.startswith("<svg")
    assert set(re.findall(r'https?://[^"\s]+', text)) == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    for image in root.iter(f"{SVG}image"):
        assert image.attrib[LINK].startswith("data:image/png;base64,")


def test_inside_a_page_a_drawing_is_in_the_pages_font() -> None:
    text, root = inline()
    assert "DejaVu" not in text
    styles = [node.attrib["style"] for node in root.iter(f"{SVG}text")]
    assert len(styles) > 5
    assert all("system-ui, sans-serif" in style for style in styles)


@pytest.mark.parametrize("label", ["what it shows", 'a "b" <c> & d', r"back\1slash \g<0>"])
def test_who_cannot_see_a_drawing_is_told_what_it_shows(label: str) -> None:
    _, root = inline(label=label)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"] == label


def test_a_drawing_does_not_style_the_page_around_it() -> None:
    _, root = inline()
    rules = "".join(node.text or "" for node in root.iter(f"{SVG}style"))
    assert "*{" not in rules.replace(" ", "")
