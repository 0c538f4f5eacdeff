"""The page written from Python: the same as the command's, whatever the order of the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import InputError, NotFittedError
from optensemble.report.data import report_data
from optensemble.report.page import make_report_page
from tests.report.ensembles import black_box, electricity, portfolio, white_box
from tests.report.reading import read

pytestmark = pytest.mark.slow


def by_day() -> tuple[Any, pd.DataFrame, pd.DataFrame]:
    case = electricity()
    assert case.data.when is not None
    days = pd.DatetimeIndex(case.data.when)
    return case.data.ensemble, case.X.set_index(days), pd.DataFrame(case.data.labels, index=days)


@pytest.mark.parametrize("case", [portfolio, white_box, black_box])
def test_the_page_is_that_of_the_audit(case: Any, tmp_path: Path) -> None:
    found = case()
    ensemble, X, Y = found.data.ensemble, found.X, found.data.labels
    path = ensemble.report(X, Y, tmp_path / "report.html")
    assert path == tmp_path / "report.html"
    audit, answer = ensemble.audit_with_answer(X, Y)
    page = path.read_text(encoding="utf-8")
    assert page == make_report_page(report_data(ensemble, audit, answer, X, Y, source="a table in memory"))
    assert list(tmp_path.iterdir()) == [path]


def test_the_page_has_its_terms_and_times(tmp_path: Path) -> None:
    ensemble, X, Y = by_day()
    path = ensemble.report(X, Y, str(tmp_path / "page.html"), title="Battery, Leipzig", unit="day", currency="€")
    text = read(path.read_text(encoding="utf-8")).text
    assert "Battery, Leipzig" in text
    assert str(X.index[0].date()) in text


def test_rows_in_another_order_give_the_same_page(tmp_path: Path) -> None:
    ensemble, X, Y = by_day()
    order = np.random.default_rng(0).permutation(len(X))
    pages = [
        ensemble.report(rows, Y, tmp_path / f"{name}.html").read_bytes()
        for name, rows in {"sorted": X, "shuffled": X.iloc[order]}.items()
    ]
    assert pages[0] == pages[1]


def test_rows_without_labels_are_left_out_with_their_weights(tmp_path: Path) -> None:
    ensemble, X, Y = by_day()
    weights, gaps = np.linspace(0.5, 1.5, len(X)), np.arange(len(X)) % 7 == 0
    partly = Y.copy()
    partly.iloc[gaps, 3] = np.nan
    dropped = ensemble.report(X, partly, tmp_path / "a.html", missing_labels="drop", sample_weight=weights)
    kept = ensemble.report(X[~gaps], Y[~gaps], tmp_path / "b.html", sample_weight=weights[~gaps])
    assert dropped.read_bytes() == kept.read_bytes()
    with pytest.raises(InputError, match="labels"):
        ensemble.report(X, partly, tmp_path / "c.html")


def test_what_is_wrong_is_said_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble, X, Y = by_day()
    monkeypatch.setattr(type(ensemble), "_audited_rows", None)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"path": tmp_path}, "is a folder. Give the name of a file"),
        ({"path": tmp_path / "none" / "r.html"}, "does not exist. Give the name of a file"),
        ({"path": 3}, "path must be the name of a file; got 3"),
        ({"path": tmp_path / "r.html", "unit": " "}, "unit is empty"),
    ]
    for given, message in wrong:
        with pytest.raises(InputError, match=message):
            ensemble.report(X, Y, **given)
    assert not list(tmp_path.iterdir())


def test_an_ensemble_that_is_not_fitted_says_so(tmp_path: Path) -> None:
    ensemble = oe.DecisionEnsemble(models=[("a", np.asarray)], feasible=feasible.Simplex(2))
    with pytest.raises(NotFittedError, match=r"Call fit\(X, Y\) first"):
        ensemble.report(np.ones((3, 2)), np.ones((3, 2)), tmp_path / "r.html")


def test_a_page_that_was_there_stays_whole_if_the_audit_fails(tmp_path: Path) -> None:
    ensemble, X, Y = by_day()
    page = tmp_path / "report.html"
    page.write_text("the page of last week")
    with pytest.raises(InputError):
        ensemble.report(X, Y.iloc[:, :3], page)
    assert page.read_text() == "the page of last week"
