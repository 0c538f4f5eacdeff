"""DecisionEnsemble.audit: promise and payoff on other rows."""

from __future__ import annotations

import numpy as np
import pytest

from optensemble.exceptions import InputError
from tests.ensembles.decision import ACCESS, NEW, OLD, SENSES, N, fitted, member_actions, payoff, problem


@ACCESS
@SENSES
def test_an_audit_compares_promise_and_payoff_on_new_rows(access: str, sense: str) -> None:
    ensemble, X, Y = fitted(access, sense=sense), problem().X[NEW], problem().Y[NEW]
    audit = ensemble.audit(X, Y)
    row, promise = audit.summary.iloc[0], ensemble.promise(X)
    earned = payoff(ensemble.decide(X), Y)
    assert (row["rows"], row["seen"]) == (N, 0)
    assert (row["promise"], row["low"], row["high"]) == (promise.mean, promise.low, promise.high)
    assert row["promised"] == pytest.approx(ensemble.self_assess(X).mean(), rel=1e-12)
    assert row["realised"] == pytest.approx(earned.mean(), rel=1e-12)
    assert audit.kept == (promise.low <= earned.mean() <= promise.high)
    assert audit.verdict.startswith("promised ")
    sign = 1.0 if sense == "max" else -1.0
    gains = audit.lift.set_index("rival")["gain"]
    for m in range(3):
        lead = sign * (earned - payoff(member_actions(access, sense, m, NEW), Y)).mean()
        assert gains[f"m{m}"] == pytest.approx(lead, rel=1e-9)
    assert {"stack", "ridge", "mean"} <= set(gains.index)
    assert not {"refined", "patched"} & set(gains.index)


def test_an_audit_on_rows_fitted_on_proves_nothing() -> None:
    ensemble, X, Y = fitted("both"), problem().X, problem().Y
    with pytest.warns(UserWarning, match=r"400 of these 400 rows are rows the ensemble was fitted on.*proves nothing"):
        ensemble.audit(X[OLD], Y[OLD])
    with pytest.warns(UserWarning, match="100 of these 200 rows"):
        audit = ensemble.audit(X[N - 100 : N + 100], Y[N - 100 : N + 100])
    assert audit.summary["seen"].tolist() == [100]


def test_an_audit_knows_of_groups_and_time() -> None:
    ensemble, X, Y = fitted(time_ordered=True), problem().X[NEW], problem().Y[NEW]
    assert ensemble.audit(X, Y).block_length is not None
    assert ensemble.audit(X, Y, time_ordered=False).block_length is None
    grouped, plain = (ensemble.audit(X, Y, time_ordered=False, groups=g) for g in (np.arange(N) // 20, None))
    assert grouped.summary["half_width"].iloc[0] != plain.summary["half_width"].iloc[0]
    with pytest.raises(InputError, match="time_ordered must be one of None, True, False; got 'no'"):
        ensemble.audit(X, Y, time_ordered="no")  # type: ignore[arg-type]


def test_a_single_row_is_too_few_to_tell_unless_it_is_far_off() -> None:
    X, Y = problem().X, problem().Y
    ensemble = fitted()
    told = ensemble.audit(X[-1:], Y[-1:])
    assert (told.grade, told.totals.rows) == ("too few rows", 1)
    assert (told.totals.low, told.totals.high) == (ensemble.answer(X[-1:]).low[0], ensemble.answer(X[-1:]).high[0])
    assert "nan" not in str(told)
    assert ensemble.audit(X[-1:], Y[-1:] - 1e3).grade == "less than promised"
