"""Numbers as they are shown: to the digits that their uncertainty allows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble._core.number_format import figures


@given(
    st.lists(st.floats(-1e12, 1e12, allow_subnormal=False), min_size=2, max_size=4),
    st.floats(1e-6, 1e6),
)
def test_numbers_are_rounded_to_the_digits_shown(values: list[float], doubt: float) -> None:
    written = figures([*values, doubt])
    read = [float(text.replace("−", "-").replace(",", "")) for text in written]
    assert np.allclose(read[:-1], values, rtol=1e-5, atol=doubt)
    assert read[-1] == pytest.approx(doubt, rel=0.3)
    for a, b in pairwise(values):
        if abs(a - b) > doubt:
            assert figures([a, b, doubt])[0] != figures([a, b, doubt])[1]


def test_numbers_without_uncertainty_or_of_extreme_size_are_shown() -> None:
    assert figures([2.0, 2.0, 0.0]) == ["2.000", "2.000", "0.000"]
    assert figures([0.0, 0.0, 0.0]) == ["0", "0", "0"]
    assert figures([1e20, 2e20, 1e18]) == ["1e+20", "2e+20", "1e+18"]
    assert figures([1e-20, -2e-20, 1e-21]) == ["1e−20", "−2e−20", "1e−21"]
