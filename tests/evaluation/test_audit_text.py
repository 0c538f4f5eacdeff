"""The audit in words: verdict and page."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from optensemble.evaluation.audit import make_audit
from tests.evaluation.observations import Floats, K, N, cell_names, observe, promise


def exact(mean: float, half: float = 0.07, n: int = 3000) -> Floats:
    """Rows of this mean, with an interval of this half-width."""
    values = np.random.default_rng(0).normal(size=n)
    values = (values - values.mean()) / values.std(ddof=1)
    return np.asarray(mean + values * half * np.sqrt(n) / stats.t.ppf(0.975, n - 1))


@pytest.mark.parametrize(
    ("interval", "mean", "half", "sign", "words"),
    [
        ((2.41, 2.3, 2.5), 2.38, 0.07, 1, "promised 2.41, earned 2.38 ± 0.07 on 3,000 new rows: kept"),
        (
            (2.52, 2.4, 2.6),
            -0.36,
            0.11,
            1,
            "promised 2.52 (2.40 to 2.60), earned −0.36 ± 0.11 on 3,000 new rows: not kept, it promised too much",
        ),
        (
            (2.0, 1.9, 2.1),
            2.4,
            0.2,
            1,
            "promised 2.00 (1.90 to 2.10), earned 2.40 ± 0.20 on 3,000 new rows: "
            "not kept, it earned more than promised",
        ),
        ((2.41, 2.3, 2.5), 2.38, 0.07, -1, "promised a cost of 2.41, came to 2.38 ± 0.07 on 3,000 new rows: kept"),
        (
            (2.0, 1.9, 2.1),
            2.4,
            0.05,
            -1,
            "promised a cost of 2.00 (1.90 to 2.10), came to 2.40 ± 0.05 on 3,000 new rows: "
            "not kept, it cost more than promised",
        ),
        (
            (2.0, 1.9, 2.1),
            1.4,
            0.05,
            -1,
            "promised a cost of 2.00 (1.90 to 2.10), came to 1.40 ± 0.05 on 3,000 new rows: "
            "not kept, it cost less than promised",
        ),
        (
            (2.0, -np.inf, np.inf),
            1.4,
            0.05,
            1,
            "promised 2.00 without limits, earned 1.40 ± 0.05 on 3,000 new rows: there was no promise to keep",
        ),
        (
            (12_345_678.0, 12e6, 13e6),
            12_400_000,
            5_000,
            1,
            "promised 12,345,678 (12,000,000 to 13,000,000), earned 12,400,000 ± 5,000 on 3,000 new rows: kept",
        ),
        (
            (12_345_678.0, 12e6, 13e6),
            12_348_000,
            5_000,
            1,
            "promised 12,345,678, earned 12,348,000 ± 5,000 on 3,000 new rows: kept",
        ),
        (
            (1.2e-3, 1e-3, 2e-3),
            1.4e-3,
            1e-4,
            1,
            "promised 0.00120 (0.00100 to 0.00200), earned 0.00140 ± 0.00010 on 3,000 new rows: kept",
        ),
        ((1.2e-3, 1e-3, 2e-3), 1.25e-3, 1e-4, 1, "promised 0.00120, earned 0.00125 ± 0.00010 on 3,000 new rows: kept"),
        (
            (2.41, 2.40, 2.4235),
            2.4236,
            0.07,
            1,
            "promised 2.4100 (2.4000 to 2.4235), earned 2.4236 ± 0.0700 on 3,000 new rows: "
            "not kept, it earned more than promised",
        ),
    ],
)
def test_the_verdict_says_promised_earned_and_kept_or_broken(
    interval: tuple[float, float, float], mean: float, half: float, sign: float, words: str
) -> None:
    observed = observe(
        n=3000,
        realised=exact(mean, half),
        promised=np.full(3000, interval[0]),
        interval=promise(*interval),
        sign=float(sign),
    )
    found = make_audit(observed)
    assert found.verdict == words
    assert found.kept is (None if np.isinf(interval[1]) else interval[1] <= mean <= interval[2])
    assert repr(found) == f"Audit({words!r})"
    assert str(found).splitlines()[0] == words


def test_the_verdict_says_when_row_assessments_exceed_the_promise() -> None:
    verdict = make_audit(
        observe(n=3000, realised=exact(0.1), promised=np.full(3000, 2.5), interval=promise(0.0, -1, 1))
    ).verdict
    assert verdict.endswith(": kept (but row by row it assessed itself at 2.50)")


def test_rows_that_were_fitted_on_prove_nothing() -> None:
    with pytest.warns(UserWarning, match=r"1,200 of these 3,000 rows .* proves nothing. Give rows it has not seen"):
        found = make_audit(observe(n=3000, seen=1200))
    assert found.verdict.endswith("on 3,000 rows, 1,200 of them fitted on: this proves nothing")
    assert found.summary["seen"].iloc[0] == 1200
    assert found.kept is None


def test_a_few_rows_that_were_fitted_on_are_told_but_not_warned_of() -> None:
    found = make_audit(observe(n=3000, realised=exact(2.1), seen=30))
    assert found.verdict.endswith("on 3,000 rows, 30 of them fitted on: kept")
    assert found.kept is True


def test_the_page_shows_every_table_and_escapes_names() -> None:
    evil = "<script>alert(1)</script>"
    observed = observe(names=[evil, "b", "c"], rivals={evil: np.zeros(N)})
    observed = replace(observed, partitions=[(cell_names(evil), np.zeros(N, dtype=np.int64))])
    found = make_audit(observed)
    page = found._repr_html_()
    assert "<script>" not in page
    assert page.count("&lt;script&gt;") >= 5
    assert found.verdict in page
    assert page.count("<table") == 5
    assert len(page) < 20_000


def test_the_page_leaves_out_tables_that_have_no_rows() -> None:
    page = make_audit(observe(rivals={}, partitions=[]))._repr_html_()
    assert page.count("<table") == 2


def test_the_page_lists_only_swaps_that_would_have_gained_the_largest_first() -> None:
    observed = observe()
    arms = observed.arms.copy()
    # instead of b, a would have been better and c better still; instead of a and c, none
    followed = observed.chosen
    for number, (a, b, c) in enumerate([(0.0, -1.0, -2.0), (1.0, 0.0, 2.0), (-1.0, -1.0, 0.0)]):
        arms[:, followed == number] = observed.realised[followed == number] + np.array([[a], [b], [c]])
    found = make_audit(replace(observed, arms=arms))
    title = "Swaps with a gain in hindsight"
    page = found._repr_html_().split(title)[1].split("</table>")[0]
    listed = re.findall(r"<td>(a|b|c)</td>\s*<td>(a|b|c)</td>", page)
    assert listed == [("b", "c"), ("b", "a")]
    none = make_audit(
        replace(observed, arms=np.tile(observed.realised, (K, 1)) - 1e-3 * (np.arange(K)[:, None] != followed))
    )
    assert title not in none._repr_html_()
