"""Columns by pattern: what the star stands for decides, never where a column is in the table."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from optensemble.exceptions import InputError
from optensemble.tables.patterns import align, coordinates, natural, split, stars

WORDS = st.text("abNS_.é", min_size=1, max_size=4)
NUMBERS = st.integers(0, 10**6).map(str)
STARS = st.lists(st.one_of(WORDS, NUMBERS), min_size=2, max_size=8, unique=True)
ENDS = st.text("abc_-. ", max_size=3)


def shuffled(names: list[str], seed: int) -> list[str]:
    return random.Random(seed).sample(names, len(names))


# Alignment


@given(found=STARS, before=ENDS, after=ENDS, seed=st.integers(0, 99))
def test_columns_go_with_labels_of_the_same_star_in_whatever_order_the_table_has_them(
    found: list[str], before: str, after: str, seed: int
) -> None:
    assume(before or after)
    labels, members = [f"y!{star}" for star in found], [f"{before}{star}{after}" for star in found]
    columns = shuffled([*labels, *members], seed)
    assume(sum(name.startswith(before) and name.endswith(after) for name in columns) == len(members))
    wanted = stars("y!*", labels, "here")
    assert sorted(wanted) == sorted(found)
    assert align(f"{before}*{after}", wanted, columns, "here") == [f"{before}{star}{after}" for star in wanted]
    assert sorted(stars("y!*", columns, "here")) == sorted(found)


@given(numbers=st.lists(st.integers(0, 10**9), min_size=1, max_size=12, unique=True), seed=st.integers(0, 99))
def test_numbered_labels_are_ordered_by_number(numbers: list[int], seed: int) -> None:
    columns = shuffled([f"y_{number}" for number in numbers], seed)
    assert stars("y_*", columns, "here") == [str(number) for number in sorted(numbers)]


def test_labels_that_differ_only_in_leading_zeros_have_an_order_of_their_own() -> None:
    columns = ["y_1", "y_01", "y_001"]
    assert stars("y_*", columns, "here") == stars("y_*", columns[::-1], "here")


@given(names=st.lists(st.text("aB19_٣", max_size=6), max_size=8))
def test_natural_order_takes_any_names(names: list[str]) -> None:
    in_order = sorted(names, key=natural)
    assert sorted(in_order) == sorted(names)
    assert [natural(name) for name in in_order] == sorted(natural(name) for name in names)


def test_words_come_in_the_order_of_the_table() -> None:
    assert stars("y_*", ["y_north", "note", "y_10", "y_east"], "here") == ["north", "10", "east"]


def test_the_star_may_be_at_the_front_or_in_the_middle() -> None:
    columns = ["b_price", "a_price", "price", "in_a_out", "in_b_out"]
    assert stars("*_price", columns, "here") == ["b", "a"]
    assert align("in_*_out", ["b", "a"], columns, "here") == ["in_b_out", "in_a_out"]


def test_the_star_stands_for_something() -> None:
    assert stars("y*", ["y", "y1"], "here") == ["1"]
    assert stars("ab*ba", ["aba", "abba", "abxba"], "here") == ["x"]  # begin and end do not overlap


def test_columns_that_no_label_asks_for_are_left_alone() -> None:
    assert align("a_*", ["0", "1"], ["a_note", "a_1", "a_0", "a_2"], "here") == ["a_0", "a_1"]


@pytest.mark.parametrize("pattern", ["a*_*", "**", "a"])
def test_a_pattern_has_one_star(pattern: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"here: the pattern {pattern!r} must have exactly one star")):
        split(pattern, "here")


def test_a_pattern_that_finds_nothing_names_the_closest() -> None:
    columns = ["day", "price_0", "price_1", "vendor_0", "vendor_1"]
    with pytest.raises(InputError, match=re.escape("here: no column matches 'pirce_*'. Did you mean 'price_*'?")):
        stars("pirce_*", columns, "here")
    with pytest.raises(InputError, match=re.escape("There are 'day', 'price_0', 'price_1', 'vendor_0', 'vendor_1'.")):
        stars("zzz*", columns, "here")


def test_a_column_that_is_missing_for_a_label_is_named() -> None:
    message = "here: 'a_*' finds no column 'a_2': the star is '0', '1', 'x', in the labels '0', '2'. List the columns"
    with pytest.raises(InputError, match=re.escape(message)):
        align("a_*", ["0", "2"], ["a_0", "a_1", "a_x"], "here")


# Names of coordinates


@given(names=st.lists(st.text("ab1_ ", min_size=1, max_size=6), min_size=2, max_size=6, unique=True))
def test_coordinates_are_distinct_ends_of_the_labels_after_one_common_beginning(names: list[str]) -> None:
    found = coordinates(names)
    assert all(found)
    assert len(set(found)) == len(names)
    assert len({name.removesuffix(end) for name, end in zip(names, found, strict=True)}) == 1


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["y_9", "y_10"], ["9", "10"]),
        (["y_1", "y_10"], ["1", "10"]),
        (["y_10", "y_11"], ["10", "11"]),
        (["price_north", "price_nouth"], ["north", "nouth"]),
        (["north", "nouth"], ["north", "nouth"]),
        (["h 1", "h 2"], ["1", "2"]),
        (["y1", "y2"], ["1", "2"]),
        (["demand"], ["demand"]),
    ],
)
def test_coordinates_do_not_cut_words_or_numbers_in_two(labels: list[str], expected: list[str]) -> None:
    assert coordinates(labels) == expected
    assert coordinates(labels[::-1]) == expected[::-1]
