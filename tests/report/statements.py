"""Statements of a report: every number of its sentences, cards and tables, by the quantity that it is said to be.

A sentence is read by the first template that fits it. A sentence that has numbers and fits none is an error, so that no
number escapes; what explains the page, the same in all of them, is left out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.report.reading import Node, read

N = r"[+−]?[\d,]+(?:\.\d+)?(?:e[+−]\d+)?"
_AMOUNT = rf"(?:[€$] )?({N})"

OUT_OF_FOLD, PAIRS = "out of fold", "pairs of cell and coordinate"

COUNTS = (
    *("rows", "blocks", "blocks outside", "rows of a block", PAIRS, "biased pairs", "cells of too few rows"),
    *("significant swaps", "baselines", "members", "rows of the fit", "coordinates"),
)
"""Whole numbers, which are not rounded."""


class Shown(NamedTuple):
    """A number as it is shown, and where; whole numbers are counts, which are not rounded."""

    text: str
    where: str
    whole: bool = False

    @property
    def value(self) -> float:
        return float(self.text.replace("−", "-").replace(",", "").replace("+", "", 1))

    @property
    def rounding(self) -> float:
        """The most that a number may be off by which is rounded to this."""
        if self.whole:
            return 0.0
        mantissa, _, power = self.text.partition("e")
        digits = len(mantissa.partition(".")[2])
        return 0.5 * 10.0 ** (int(power.replace("−", "-") or 0) - digits) * (1 + 1e-6)

    def agrees(self, value: float, rounding: float = 0.0) -> bool:
        return abs(self.value - value) <= self.rounding + rounding


# Sentences: a template, and the quantities of its numbers in their order

_GAP = rf"gap {_AMOUNT}(?: \(95 %: ({N}) to ({N})\))?"
_LEAD = (
    rf"Promised (?:a cost of )?{_AMOUNT}(?: \(({N}) to ({N})\))?(?: without limits)?, (?:earned|came to) {_AMOUNT}"
    rf"(?: ± ({N}))? on ({N}) (?:new )?rows, {_GAP}: .*"
)
_MEANS = ("promise", "promise low", "promise high", "realised", "realised half", "rows", "gap", "gap low", "gap high")

TEMPLATES: list[tuple[str, tuple[str, ...]]] = [
    (_LEAD, _MEANS),
    (rf"({N}) rows?(?:, which count for ({N}))?(?:, .* to .*)?, decided by .*", ("rows", "weight")),
    (rf"[✓≈✗–] The promise was kept, but biased by ({N})(?: %)? \(95 %: .*", ("",)),  # in percent, said once
    (
        rf"({N}) blocks? of ({N})(?: or {N})? rows in (?:time|row) order"
        r": none lies outside its promised interval \(1 in 20 is expected by chance\)\.(?: Picture| More)?",
        ("blocks", "rows of a block"),
    ),
    (
        rf"({N}) blocks? of ({N})(?: or {N})? rows in (?:time|row) order"
        rf": ({N}) (?:lie|lies) outside (?:its|their) promised intervals? \(1 in 20 .*",
        ("blocks", "rows of a block", "blocks outside"),
    ),
    (
        rf"({N}) blocks? of ({N})(?: or {N})? rows in .* order; no interval was promised\..*",
        ("blocks", "rows of a block"),
    ),
    (
        rf"({N}) pairs? of cell and coordinate (?:was|were) tested: no bias is significant\."
        rf"(?: ({N}) cells? had too few rows to be tested\.)?.*",
        (PAIRS, "cells of too few rows"),
    ),
    (
        rf"({N}) pairs? of cell and coordinate (?:was|were) tested: ({N}) ha(?:s|ve) a significant bias\."
        rf"(?: ({N}) cells? had too few rows to be tested\.)?.*",
        (PAIRS, "biased pairs", "cells of too few rows"),
    ),
    (rf"Doubt: ({N}) of ({N}) pairs of cell and coordinate (?:is|are) biased beyond chance\.", ("biased pairs", PAIRS)),
    (
        rf"In hindsight, the best swap would have (?:gained|saved) {_AMOUNT}(?: \S+)? per \w+; "
        rf"(?:no swap is|({N}) swaps? (?:is|are)) significantly better\..*",
        ("best swap", "significant swaps"),
    ),
    (rf"Rows: ({N}) from .*?(?:; intervals from blocks of ({N}) rows)?\.", ("rows", "rows of an interval's block")),
    (rf"Fitted on ({N}) rows; members: .*; ({N}) coordinates?\.", ("rows of the fit", "coordinates")),
    (
        rf"\w+ (?:earns|costs) ({N}) (more|less) than deciding by the mean label"
        rf" out of fold \(95 %: ({N}) to ({N})\)\.",
        ("lead over the mean label", "", "lead low", "lead high"),
    ),
    (
        rf"\w+ does not (?:surely )?beat deciding by the mean label: it (?:earns|costs) ({N}) (more|less)"
        rf"(?: out of fold)? \(95 %: ({N}) to ({N})\).*",
        ("lead over the mean label", "", "lead low", "lead high"),
    ),
    (rf"Of ({N}) baselines?, the ensemble is .*", ("baselines",)),
    (rf"The ensemble is \w.* all ({N}) baselines\..*", ("baselines",)),
    (rf"({N}) of ({N}) cells hold fewer than ({N}) rows and were left out of the patch\.", ("", "", "")),
    (r"\w+ was left out: .*", ()),
    (r"Made with .*", ()),
    (r"Of \d+ coordinates, the 30 used most are shown\.", ()),
    (r".*(?:round|converge|debias|patch|shrinkage|violation).*", ()),  # how the paper's algorithms ended
    (r".*unlike the fitted ones.*", ()),
    (r"The level has been .*", ()),
    (r".*nothing is known of other rows.*", ()),
    (r".* would have done significantly better\.", ()),
]

EXPLAINING = (
    *("From the ", "Dashed and violet", "Strokes are", "Means over all rows", "Colour shows", "Each row of the table"),
    *("A cell is a subset", "The final policy was selected", "Baselines are", "Never followed", "Bounds differ"),
    *("Doubt: the promised limits", "The feasible set differs"),
)


@dataclass
class Statements:
    """The numbers of a page by quantity, and what tables say in words."""

    page: Node
    shown: defaultdict[str, list[Shown]] = field(default_factory=lambda: defaultdict(list))
    unread: list[str] = field(default_factory=list)

    def add(self, quantity: str, text: str | None, where: str) -> None:
        if quantity and text and re.fullmatch(N, text):
            self.shown[quantity].append(Shown(text, where, quantity in COUNTS or quantity.startswith("rows followed")))

    def add_range(self, quantity: str, text: str, where: str) -> None:
        """Add the limits of an interval; a dash is none."""
        low, _, high = text.partition(" to ")
        self.add(f"{quantity} low", low, where)
        self.add(f"{quantity} high", high, where)


def read_statements(html: str) -> Statements:
    """Read a page."""
    found = Statements(read(html))
    main = found.page.the("main")
    for text in _sentences(main):
        _read_sentence(found, text)
    _read_cards(found, main)
    for table in main.every("table"):
        _read_table(found, table)
    _read_bars(found, main)
    return found


def _sentences(main: Node) -> Iterator[str]:
    """Go through paragraphs and items; those of cards and of the glossary are read apart."""
    for node in main.elements:
        yield from _texts(node)


def _texts(node: Node) -> Iterator[str]:
    classes = node.attributes.get("class", "").split()
    if node.tag in ("style", "script", "svg", "table", "nav", "dl") or "card" in classes or "bar" in classes:
        return
    if node.tag in ("p", "li", "figcaption"):
        yield " ".join(node.text.replace("\N{NO-BREAK SPACE}", " ").split())
        return
    for child in node.elements:
        yield from _texts(child)


def _read_sentence(found: Statements, text: str) -> None:
    if text.startswith(EXPLAINING) or not re.search(r"\d", text):
        return
    for template, quantities in TEMPLATES:
        match = re.match(template, text)
        if match:
            if "none lies outside" in text:
                found.add("blocks outside", "0", text)
            if "no bias is significant" in text:
                found.add("biased pairs", "0", text)
            for quantity, number in zip(quantities, match.groups(), strict=True):
                found.add(quantity, number, text)
            return
    found.unread.append(text)


def _read_cards(found: Statements, main: Node) -> None:
    for card in main.every("section", class_="card"):
        title, big, small = (each.text.replace("\N{NO-BREAK SPACE}", " ") for each in card.elements[:3])
        where = f"the card {title}"
        numbers = re.findall(N, big)
        if title.endswith(", mean"):
            what = title.split()[0].lower().replace("promised", "promise")
            found.add(what, numbers[0], where)
            if len(numbers) > 1:
                found.add(f"{what} half", numbers[1], where)
            found.add_range(what, small.removeprefix("95 % interval: "), where)
            if small.startswith("over "):
                found.add("rows", small.split()[1], where)
        elif title in ("Promised", "Promised cost"):
            found.add("promise total", numbers[0], where)
            found.add_range("promise total", small.removeprefix("95 %: "), where)
        elif title in ("Earned", "Actual cost"):
            found.add("realised total", numbers[0], where)
            mean = re.search(rf"({N})(?: ± ({N}))? per ", small)
            assert mean is not None, small
            found.add("realised", mean.group(1), where)
            found.add("realised half", mean.group(2), where)
        elif title in ("Share of foresight", "Above foresight"):
            found.add(title, numbers[0] if numbers else None, where)
            total = re.search(rf"(?:of|than) {_AMOUNT}", small)
            found.add("foresight total", total.group(1) if total else None, where)
        elif title == "Behind foresight":
            found.add("behind foresight", numbers[0], where)
            total = re.search(rf"would have (?:earned|cost) {_AMOUNT}", small)
            found.add("foresight total", total.group(1) if total else None, where)
        elif title in ("Gain", "Saved"):
            _read_gain(found, numbers, small, where)
        else:
            found.unread.append(f"{title}: {big}, {small}")


def _read_gain(found: Statements, numbers: list[str], small: str, where: str) -> None:
    match = re.search(r"(?:over|against|identical to) (.+), the best of (\d+) members? in hindsight", small)
    assert match is not None, small
    found.add(f"gain over {match.group(1)}", numbers[0], where)
    found.add("members", match.group(2), where)
    limits = re.search(rf"95 % interval: ({N} to {N})", small)
    found.add_range(f"gain over {match.group(1)}", limits.group(1) if limits else "–", where)


def headings(table: Node) -> list[str]:
    """The names of the columns."""
    return [head.text for head in table.the("thead").elements[-1].elements]


def texts(table: Node) -> list[dict[str, str]]:
    """The rows of a table; of columns of one name the last has a 2 added."""
    names = list[str]()
    for name in headings(table):
        names.append(name if name not in names else f"{name} 2")
    cells = [[cell.text.replace("\N{NO-BREAK SPACE}", " ") for cell in row] for row in table.rows()]
    return [dict(zip(names, row, strict=True)) for row in cells]


def _read_table(found: Statements, table: Node) -> None:
    caption = table.the("caption").text
    rows = texts(table)
    first = headings(table)[0]
    if first == "baseline":
        found.add("baselines", str(len(rows)), caption)
        for row in rows:
            name, gain = row["baseline"], row.get("gain of the ensemble") or row["saved by the ensemble"]
            found.add(f"realised by {name}", row["realised"], caption)
            found.add(f"gain over {name}", gain, caption)
            found.add_range(f"gain over {name}", row["95 % interval"], caption)
    elif first == "candidate":
        for row in rows:
            name = row["candidate"]
            found.add(f"{OUT_OF_FOLD}: realised by {name}", row["realised"], caption)
            found.add(f"{OUT_OF_FOLD}: {name} against what decides", row["difference"], caption)
            found.add_range(f"{OUT_OF_FOLD}: {name} against what decides", row["95 % interval 2"], caption)
    elif caption == "Promised and realised, by followed candidate":
        for row in rows:
            found.add(f"rows followed by {row['followed']}", row["rows"], caption)
            found.add(f"share followed by {row['followed']}", row["share"].removesuffix(" %"), caption)
        if len(rows) == 1:
            found.add("realised", rows[0]["realised"], caption)
    elif caption.startswith("Mean ") and caption.endswith(" of each block"):
        found.add("blocks", str(len(rows)), caption)
        if any(row["kept"] in ("yes", "no") for row in rows):
            found.add("blocks outside", str(sum(row["kept"] == "no" for row in rows)), caption)
        found.add("rows", f"{sum(int(row['rows'].replace(',', '')) for row in rows):,}", caption)
    elif first == "cell: rows where" and "pairs of cell and coordinate" in caption:
        match = re.search(rf"({N}) pairs", caption)
        assert match is not None
        found.add(PAIRS, match.group(1), caption)
    elif first == "followed":
        for row in rows:
            found.add(f"rows followed by {row['followed']}", row["rows"], caption)
    elif first == "lemma":
        _read_lemmas(found, rows, caption)
    elif first == "coordinate" and len(rows) < 30:
        found.add("coordinates", str(len(rows)), caption)


def _read_lemmas(found: Statements, rows: list[dict[str, str]], caption: str) -> None:
    for row in rows:
        match = re.fullmatch(r"(?:payoff of (.+) − of (.+)|cost of (.+) − of (.+))", row["quantity"])
        if match is None or "95 % interval" not in row or match.group(2) is None or match.group(2).endswith(" alone"):
            continue
        found.add(f"{OUT_OF_FOLD}: {match.group(1)} against what decides", row["observed"], caption)


def _read_bars(found: Statements, main: Node) -> None:
    for bar in main.every("div", class_="bar"):
        name, share = bar.the("span").text, bar.the("b").text.replace("\N{NO-BREAK SPACE}", " ")
        found.add(f"share followed by {name}", share.removesuffix(" %"), "the bars")
