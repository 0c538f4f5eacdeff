"""Names that are not known: the closest is suggested, lists are cut."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble._core.suggestions import did_you_mean, listed
from optensemble.exceptions import InputError
from optensemble.tables.reading import require_columns


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("lables", ["labels", "time"], "labels"),
        ("ID", ["id", "day"], "id"),
        ("Regoin", ["region", "reason"], "region"),
        ("dya", [0, "day", None], "day"),
        (101, [100, 1010], 1010),
    ],
)
def test_a_close_name_is_asked_for(name: object, known: list[object], meant: object) -> None:
    assert did_you_mean(name, known) == f" Did you mean {meant!r}?"


def test_nothing_is_asked_if_nothing_is_close() -> None:
    assert did_you_mean("zebra", ["labels", "time"]) == ""
    assert did_you_mean("x", []) == ""


def test_columns_that_are_not_there_are_refused_with_the_closest_or_with_those_there_are() -> None:
    require_columns(["a", "b"], ["b", "a", "c"], "t.csv")
    with pytest.raises(InputError, match=re.escape("t.csv has no column 'regoin'. Did you mean 'region'?")):
        require_columns(["day", "regoin"], ["day", "region"], "t.csv")
    with pytest.raises(InputError, match=re.escape("t.csv has no column 'zebra'. It has 'day', 'region'.")):
        require_columns(["zebra"], ["day", "region"], "t.csv")


@given(count=st.integers(0, 12), most=st.integers(1, 12))
def test_a_list_names_the_first_and_counts_the_rest(count: int, most: int) -> None:
    names = [f"c{i}" for i in range(count)]
    found = listed(names, most)
    assert re.findall(r"'(c\d+)'", found) == names[:most]
    rest = re.search(r" and (\d+) more$", found)
    assert (int(rest[1]) if rest else 0) == max(count - most, 0)
