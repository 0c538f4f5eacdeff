"""Pages read back: a tree of elements, strict about what must be closed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img", "input"}


@dataclass
class Node:
    """An element: its tag, attributes, and what is inside, text and elements in order."""

    tag: str
    attributes: dict[str, str]
    children: list[Node | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    @property
    def elements(self) -> list[Node]:
        return [child for child in self.children if isinstance(child, Node)]

    def every(self, tag: str = "", **attributes: str) -> Iterator[Node]:
        """Everything inside, at any depth, with this tag and these attributes; ``class_`` stands for ``class``."""
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        for child in self.elements:
            if tag in ("", child.tag) and wanted.items() <= child.attributes.items():
                yield child
            yield from child.every(tag, **attributes)

    def the(self, tag: str, **attributes: str) -> Node:
        """The only one."""
        (found,) = self.every(tag, **attributes)
        return found

    def rows(self) -> list[list[Node]]:
        """The rows of a table's body, cell by cell."""
        return [row.elements for row in self.the("tbody").elements]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = self._add(tag, attrs)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"<{self.open[-1].tag}> is closed by </{tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)

    def _add(self, tag: str, attrs: list[tuple[str, str | None]]) -> Node:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"<{tag}> has an attribute twice"
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(node)
        return node


def read(text: str) -> Node:
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == [reader.root], f"<{reader.open[-1].tag}> is not closed"
    return reader.root
