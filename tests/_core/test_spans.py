"""Histories of bounded size: the same bits however rows come, and what each span says of its rows."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble._core.spans import MOST_SPANS, Spans, are_spans
from optensemble.exceptions import InputError
from tests.problems import Floats

COLUMNS = {"total": "sum", "end": "last", "top": "max"}
COUNTS = st.one_of(st.sampled_from([0, 1, 511, 512, 513, 1023, 1024, 1025, 2048, 2049]), st.integers(0, 3000))


def values_of(n: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(size=(n, len(COLUMNS)))


def spans_of(values: Floats, cuts: list[int] | None = None) -> Spans:
    spans = Spans(COLUMNS)
    for part in np.split(values, sorted(cuts or [])):
        spans.add(part)
    return spans


def bits(spans: Spans) -> list[bytes]:
    return [each.tobytes() for each in spans.arrays().values()]


@given(COUNTS, st.lists(st.integers(0, 3000), max_size=5), st.integers(0, 9))
def test_rows_may_be_cut_anywhere(n: int, cuts: list[int], seed: int) -> None:
    values = values_of(n, seed)
    assert bits(spans_of(values, [min(cut, n) for cut in cuts])) == bits(spans_of(values))


@given(COUNTS)
def test_each_span_is_that_of_its_rows(n: int) -> None:
    values, spans = values_of(n), spans_of(values_of(n))
    frame, length = spans.frame(), 1
    while n > MOST_SPANS * length:
        length *= 2
    parts = [values[first : first + length] for first in range(0, n, length)]
    assert (spans.rows, spans.length, len(spans)) == (n, length, len(parts))
    assert len(frame) <= MOST_SPANS
    assert list(frame) == ["first", "rows", *COLUMNS]
    assert frame["first"].tolist() == list(range(0, n, length))
    assert frame["rows"].tolist() == [len(part) for part in parts]
    np.testing.assert_allclose(frame["total"], [part[:, 0].sum() for part in parts], atol=1e-12 * max(n, 1))
    np.testing.assert_array_equal(frame["end"], [part[-1, 1] for part in parts])
    np.testing.assert_array_equal(frame["top"], [part[:, 2].max() for part in parts])


@given(COUNTS, COUNTS)
def test_a_history_goes_on_from_its_arrays_to_the_same_bits(before: int, later: int) -> None:
    values = values_of(before + later)
    first = spans_of(values[:before])
    again = Spans.of_arrays(COLUMNS, first.arrays())
    again.add(values[before:])
    assert bits(again) == bits(spans_of(values))
    assert bits(first) == bits(spans_of(values[:before]))


def test_copies_and_frames_go_their_own_way() -> None:
    spans = spans_of(values_of(700))
    copied, frame, arrays = spans.copy(), spans.frame(), spans.arrays()
    before = bits(spans)
    copied.add(values_of(900))
    frame["total"] = 0.0
    arrays["values"][:] = 0.0
    assert bits(spans) == before
    assert (copied.rows, spans.rows) == (1600, 700)


def test_memory_is_bounded() -> None:
    spans = spans_of(values_of(200_000))
    assert spans.arrays()["values"].shape == (len(spans), len(COLUMNS))
    assert MOST_SPANS / 2 < len(spans) <= MOST_SPANS
    assert spans.frame()["rows"].sum() == 200_000
    assert repr(spans) == f"Spans(200,000 rows in {len(spans)} spans)"


def test_a_single_column_of_each_kind_keeps_extremes() -> None:
    values = np.array([[-1e120], [0.0], [-0.0], [1e120], [-1e-300]])
    for join, expected in (("sum", sum), ("last", lambda rows: rows[-1]), ("max", max)):
        spans = Spans({"one": join})
        for row in np.repeat(values, 200, axis=0):
            spans.add(row[None])
        assert len(spans) == 500
        pairs = np.repeat(values, 200, axis=0).reshape(-1, 2)
        np.testing.assert_array_equal(spans.frame()["one"], [expected(pair.tolist()) for pair in pairs])


@given(st.integers(0, 3000), st.integers(-1, 9), st.integers(-1, 600))
def test_whether_numbers_are_those_of_a_history(rows: int, length: int, count: int) -> None:
    true = reduce(lambda length, _: length if rows <= MOST_SPANS * length else 2 * length, range(9), 1)
    expected = length == true and count == -(-rows // true)
    assert are_spans(rows, length, count) is expected
    assert are_spans(rows, true, -(-rows // true))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            {"payoff": "mean"},
            r"the join of 'payoff' must be one of 'sum', 'last', 'max'; got 'mean'\.",
        ),
        ({"first": "sum"}, r"a column of spans must not be called 'first'; got \['first'\]\. Rename it\."),
        ({"a": "sum", "rows": "last"}, r"must not be called 'rows'; got \['a', 'rows'\]\. Rename it\."),
    ],
)
def test_columns_that_cannot_be(columns: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Spans(columns)


@pytest.mark.parametrize("shape", [(3,), (2, 2), (2, 4), (1, 3, 1)])
def test_rows_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    spans = spans_of(values_of(3))
    before = bits(spans)
    with pytest.raises(InputError, match=r"values must have shape \(n, 3\); got \(.*\)\. Give a row each\."):
        spans.add(np.zeros(shape))
    assert bits(spans) == before
