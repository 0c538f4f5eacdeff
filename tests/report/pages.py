"""Pages of the ensembles, read back as tables and numbers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.report.ensembles import CASES, page_of
from tests.report.reading import Node, read

EACH = pytest.mark.parametrize("name", CASES)
FOR_ALL = ["period", "typical", "technical"]
SECTIONS = [*FOR_ALL, "baselines", "time", "cells", "swaps", "guarantees", "decisions", "glossary"]


@cache
def root_of(name: str) -> Node:
    return read(page_of(name))


def tables_of(root: Node, *headings: str) -> list[Node]:
    """The tables that begin with these headings."""
    return [table for table in root.every("table") if _headings(table)[: len(headings)] == list(headings)]


def _headings(table: Node) -> list[str]:
    return [head.text for head in table.the("thead").elements[-1].elements]


def the_table(root: Node, *headings: str) -> Node:
    (found,) = tables_of(root, *headings)
    return found


def column(table: Node, heading: str) -> list[str]:
    """What the cells of a column are sorted by."""
    place = _headings(table).index(heading)
    return [row[place].attributes["data-value"] for row in table.rows()]


def numbers(table: Node, heading: str) -> list[float]:
    return [float(value) if value else np.nan for value in column(table, heading)]


def same(found: list[float], expected: Any) -> bool:
    return bool(np.allclose(found, np.asarray(expected, dtype=float), rtol=1e-9, atol=1e-12, equal_nan=True))


def read_number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


def rounds_to(text: str, value: float) -> bool:
    """Whether a text is a number, rounded to the decimals shown."""
    places = len(text.partition(".")[2])
    return abs(read_number(text) - value) <= 0.5 * 10.0**-places * (1 + 1e-9)
