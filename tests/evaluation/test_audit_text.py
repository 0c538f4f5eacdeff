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


def test_the_verdict_says_when_row_assessments_exceed_the_promise() -> None:
    verdict = make_audit(
        observe(n=3000, realised=exact(0.1), promised=np.full(3000, 2.5), interval=promise(0.0, -1, 1))
    ).verdict
    assert verdict.endswith("(but row by row it assessed itself at 2.50)")


def test_rows_that_were_fitted_on_prove_nothing() -> None:
    with pytest.warns(UserWarning, match=r"1,200 of these 3,000 rows .* proves nothing. Give rows it has not seen"):
        found = make_audit(observe(n=3000, seen=1200))
    assert "on 3,000 rows, 1,200 of them fitted on, gap" in found.verdict
    assert found.verdict.endswith(": this proves nothing")
    assert found.summary["seen"].iloc[0] == 1200
    assert found.kept is None


def test_a_few_rows_that_were_fitted_on_are_told_but_not_warned_of() -> None:
    found = make_audit(observe(n=3000, realised=exact(2.1), seen=30))
    assert found.verdict.startswith("promised 2.10, earned 2.10 ± 0.07 on 3,000 rows, 30 of them fitted on, gap")
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
