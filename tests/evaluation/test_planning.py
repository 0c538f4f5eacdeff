"""Planning: what it says is enough is enough, and what it says is detectable is detected; found by simulation."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from optensemble.evaluation.audit import make_audit
from optensemble.evaluation.audit_inputs import AuditInputs
from optensemble.evaluation.payoff_record import Record
from optensemble.evaluation.planning import RowPlan, plan
from optensemble.evaluation.promise import Promise
from optensemble.exceptions import InputError
from optensemble.stats.sample_size import MIN_CELL, MINIMUM_ROWS
from tests.evaluation.observations import cell_names

z = NormalDist().inv_cdf
PROMISE, ARMS, WHITE, BLACK = "promise of the mean", "two candidates compared", "white box cells", "black box cells"


def part(of: RowPlan, name: str) -> Any:
    return of.parts.set_index("part").loc[name]


# The formulas


def test_the_parts_go_with_the_access() -> None:
    assert plan(2, 3).parts["part"].tolist() == [PROMISE, ARMS, WHITE]
    assert plan(2, 3, access="black").parts["part"].tolist() == [PROMISE, ARMS, BLACK]
    assert plan(2, 3, access="mixed").parts["part"].tolist() == [PROMISE, ARMS, WHITE, BLACK]


def test_cells_are_counted_as_they_are() -> None:
    found = plan(3, 4, 0.25, rows=1200, access="mixed")
    white, black = part(found, WHITE), part(found, BLACK)
    assert white["cells"] == 3 * 4 * 4
    assert black["cells"] == (3 + 1) * 4 * 4
    # the cells of a coordinate divide the rows among them
    assert white["rows_per_cell"] == 1200 / (3 * 4)
    assert black["rows_per_cell"] == 1200 / 4
    assert white["needed"] == MIN_CELL * 3 * 4
    assert black["needed"] == MIN_CELL * 4


def test_without_a_target_the_least_is_enough() -> None:
    found = plan(1, 1, 1.0, access="black")
    assert found.parts["needed"].tolist() == [MINIMUM_ROWS] * 3
    assert found.rows == found.needed == MINIMUM_ROWS
    assert found.enough
    assert not found.given


def test_detectable_sizes_are_those_of_the_docstring() -> None:
    found = plan(2, 3, 0.5, noise=1.5, payoff_noise=0.7, rows=900, access="mixed")
    assert part(found, PROMISE)["detects"] == pytest.approx(z(0.975) * 0.7 * (1 / 900 + 50 / 900**2) ** 0.5)
    assert part(found, ARMS)["detects"] == pytest.approx(2.8 * 2**0.5 * 0.7 / 30, rel=1e-3)
    for name, cells, rows in ((WHITE, 12, 225), (BLACK, 18, 450)):
        wanted = (z(1 - 0.025 / (3 * cells)) + z(0.8)) * 1.5 / rows**0.5
        assert part(found, name)["detects"] == pytest.approx(wanted)


sizes = st.integers(1, 30)
few = st.integers(1, 5)
positive = st.floats(0.01, 100)
widths = st.sampled_from([1.0, 0.5, 0.25, 0.2, 0.1, 0.05])
accesses = st.sampled_from(["white", "black", "mixed"])


@given(k=sizes, d=sizes, width=widths, noise=positive, accuracy=positive, alpha=positive, access=accesses)
def test_as_many_rows_as_needed_detect_what_was_asked_for(
    k: int, d: int, width: float, noise: float, accuracy: float, alpha: float, access: str
) -> None:
    given: dict[str, Any] = {"accuracy": accuracy, "alpha": alpha, "access": access}
    found = plan(k, d, width, noise, **given)
    assert found.parts["enough"].all()
    assert found.needed >= MINIMUM_ROWS
    for name, row in found.parts.set_index("part").iterrows():
        again: Any = part(
            plan(k, d, width, noise, accuracy=accuracy, alpha=alpha, access=access, rows=row["needed"]), str(name)
        )
        probability = again["rows_per_cell"] / row["needed"]
        if name in (PROMISE, ARMS):
            assert again["detects"] <= accuracy * (1 + 1e-9)
        else:
            assert probability * again["detects"] <= alpha * (1 + 1e-9)
            assert again["rows_per_cell"] >= MIN_CELL


@given(
    k=sizes, d=sizes, width=widths, noise=positive, rows=st.integers(1, 10**6), access=accesses, more=st.integers(1, 5)
)
def test_more_rows_detect_more_and_more_cells_less(
    k: int, d: int, width: float, noise: float, rows: int, access: str, more: int
) -> None:
    def detects(**changes: Any) -> Any:
        given: dict[str, Any] = {"k": k, "d": d, "bucket_width": width, "noise": noise, "rows": rows, "access": access}
        return plan(**(given | changes)).parts["detects"].to_numpy()

    now = detects()
    assert (detects(rows=rows + more) < now).all()
    assert (detects(noise=noise * (1 + more)) > now).all()
    assert (detects(k=k + more) >= now).all()
    assert (detects(d=d + more) >= now).all()
    assert (detects(bucket_width=width / 2) >= now).all()
    assert (detects(d=d + more)[2:] > now[2:]).all()


@given(k=sizes, d=sizes, width=widths, noise=positive, target=positive, access=accesses, more=few)
def test_what_is_harder_needs_no_fewer_rows(
    k: int, d: int, width: float, noise: float, target: float, access: str, more: int
) -> None:
    given: dict[str, Any] = {"k": k, "d": d, "bucket_width": width, "noise": noise, "access": access}
    given |= {"accuracy": target, "alpha": target}
    now = plan(**given).parts["needed"]
    for harder in ({"noise": noise * (1 + more)}, {"accuracy": target / 2}, {"alpha": target / 2}, {"d": d + more}):
        assert (plan(**(given | harder)).parts["needed"] >= now).all()


# Plans checked by simulation


def test_the_promise_is_as_wide_as_planned() -> None:
    rng, n, noise = np.random.default_rng(0), 400, 1.7
    planned = part(plan(2, 3, payoff_noise=noise, rows=n), PROMISE)["detects"]
    halves = []
    for _ in range(50):
        assessed = rng.normal(size=n)
        record = Record(assessed, 0.6 * assessed + noise * rng.normal(size=n))
        promised = record.promise(rng.normal(size=1_000_000))
        halves.append((promised.high - promised.low) / 2)
    assert np.mean(halves) == pytest.approx(planned, rel=0.02)


def test_a_detectable_difference_between_arms_is_detected_in_four_of_five() -> None:
    rng, n = np.random.default_rng(0), 200
    difference = part(plan(2, 3, payoff_noise=1.3, rows=n), ARMS)["detects"]
    left, right = 1.3 * rng.normal(size=(2, 3000, n))
    found = stats.ttest_rel(left + difference, right, axis=1).pvalue < 0.05
    assert 0.77 <= found.mean() <= 0.83


@pytest.mark.slow
@pytest.mark.no_cover
def test_a_detectable_bias_is_detected_by_an_audit_in_about_four_of_five() -> None:
    n, d, parts = 800, 2, 4
    bias = part(plan(1, d, 1 / parts, noise=0.8, rows=n, access="black"), BLACK)["detects"]
    found = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        levels = [rng.permutation(np.arange(n) % parts) for _ in range(2 * d)]
        residuals = 0.8 * rng.normal(size=(n, d))
        residuals[levels[0] == 2, 1] += bias
        zeros = np.zeros(n, dtype=np.int64)
        observed = AuditInputs(
            promised=np.zeros(n),
            realised=np.zeros(n),
            interval=Promise(0.0, -1.0, 1.0, n, -1.0),
            names=["own"],
            chosen=zeros,
            arms=np.zeros((1, n)),
            rivals={},
            residuals=residuals,
            partitions=[(cell_names(*(f"{p}:{i}" for i in range(parts))), level) for p, level in enumerate(levels)],
        )
        cells = make_audit(observed, random_state=seed).cells
        there = cells[(cells["cell"] == "0:2") & (cells["coordinate"] == 1)]
        found += int(there["significant"].any())
    assert 0.7 <= found / 150 <= 0.9


# Text


def test_a_plan_says_what_there_are_too_few_rows_for() -> None:
    few = plan(3, 4, rows=200, accuracy=1.0)
    nothing = plan(1, 1, 1.0, rows=99)
    assert not nothing.parts["enough"].any()
    assert not few.enough
    assert str(few).splitlines()[0] == f"200 rows are too few for: {WHITE}"
    assert str(plan(3, 4, rows=2000, accuracy=1.0)).splitlines()[0] == "2,000 rows are enough"
    assert str(plan(3, 4)).splitlines()[0] == "1,500 rows are enough"
    assert len(str(few).splitlines()) == 1 + len(few.parts)
    assert repr(few) == f"RowPlan('200 rows are too few for: {WHITE}')"


def test_the_page_of_a_plan_is_its_sentence_and_its_table() -> None:
    found = plan(3, 4, rows=200, access="mixed")
    page = found._repr_html_()
    assert str(found).splitlines()[0] in page
    assert page.count("<tr") == 1 + len(found.parts)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"k": 0}, "k must be a whole number at least 1; got 0"),
        ({"d": 2.5}, "d must be a whole number"),
        ({"noise": 0.0}, "noise must be a finite number greater than 0"),
        ({"bucket_width": 0.3}, "bucket_width must divide 1"),
        ({"rows": 0}, "rows must be a whole number at least 1"),
        ({"access": "grey"}, "access must be one of 'white', 'black', 'mixed'"),
        ({"accuracy": -1.0}, "accuracy must be a finite number greater than 0"),
        ({"alpha": float("nan")}, "alpha must be a finite number greater than 0"),
        ({"payoff_noise": 0}, "payoff_noise must be a finite number greater than 0"),
    ],
)
def test_what_cannot_be_planned_for_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        plan(**({"k": 2, "d": 3} | changes))
