from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble.exceptions import InputError
from optensemble.feasible import Box, FeasibleSet, Oracle, Simplex, Vertices
from optensemble.feasible.contract import Report, check
from tests.sample_sets import Floats, every_set
from tests.sets_by_row import CASES

SETS = every_set()


class Corners(FeasibleSet):
    """A good set of a user's: the corners of a cube, the lowest index first. The broken ones derive from it."""

    def __init__(self, dimension: int = 3) -> None:
        self._set_bounds(0.0, 1.0, dimension)

    def _argmax(self, coefficients: Floats) -> Floats:
        return np.where(coefficients > 0, 1.0, 0.0)

    def violation(self, actions: Floats) -> Floats:
        return self._outside_box(actions)

    def spec(self) -> dict[str, Any] | None:
        return {"dimension": self.dimension}


class OfTheBatch(Corners):
    def _argmax(self, coefficients: Floats) -> Floats:
        return np.where(coefficients > coefficients.mean(axis=0), 1.0, 0.0)


class OfTheRowBefore(Corners):
    def _argmax(self, coefficients: Floats) -> Floats:
        actions = super()._argmax(coefficients)
        actions[1:] = np.where(coefficients[1:] == 0, actions[:-1], actions[1:])
        return actions


class NotOptimal(Corners):
    def _argmax(self, coefficients: Floats) -> Floats:
        return np.where(coefficients > 0.1, 1.0, 0.0)


class Infeasible(Corners):
    def violation(self, actions: Floats) -> Floats:
        excess: Floats = np.maximum(actions.sum(axis=1) - 2.0, 0.0)
        return excess


class BeyondTheBounds(Corners):
    def _argmax(self, coefficients: Floats) -> Floats:
        return super()._argmax(coefficients) * 2.0


class Stateful(Corners):
    calls = 0

    def _argmax(self, coefficients: Floats) -> Floats:
        self.calls += 1
        return np.where(coefficients > 0, 1.0, np.where(coefficients < 0, 0.0, self.calls % 2))


class Scribbles(Corners):
    def _argmax(self, coefficients: Floats) -> Floats:
        actions = super()._argmax(coefficients)
        coefficients *= 2.0
        return actions


class RefusesZeros(Corners):
    def _argmax(self, coefficients: Floats) -> Floats:
        if not coefficients.any(axis=1).all():
            raise ZeroDivisionError("nothing to choose by")
        return super()._argmax(coefficients)


class RandomTies(Corners):
    def _argmax(self, coefficients: Floats) -> Floats:
        coins = np.random.default_rng().integers(0, 2, size=coefficients.shape)
        return np.where(coefficients > 0, 1.0, np.where(coefficients < 0, 0.0, coins))


class NotFinite(Corners):
    def _argmax(self, coefficients: Floats) -> Floats:
        return np.where(np.abs(coefficients) > 1e200, np.nan, super()._argmax(coefficients))


class WrongShape(Corners):
    def _argmax(self, coefficients: Floats) -> Floats:
        best: Floats = super()._argmax(coefficients)[:1]
        return best


class OnlyAlone(Corners):
    def _argmax(self, coefficients: Floats) -> Floats:
        if len(coefficients) > 1:
            raise MemoryError("one row at a time")
        return super()._argmax(coefficients)


class BelievesHints(Corners):
    def argmax(self, C: Any, hint: Any = None) -> Floats:
        return super().argmax(C) if hint is None else np.clip(hint, 0.0, 1.0)


class ScaleMatters(Corners):
    def _argmax(self, coefficients: Floats) -> Floats:
        return np.where(coefficients > 1e-6, 1.0, 0.0)


class NeedsRows(Corners):
    def _argmax(self, coefficients: Floats) -> Floats:
        if not len(coefficients):
            raise IndexError("no rows")
        return super()._argmax(coefficients)


class ForgetsItsArguments(Corners):
    def spec(self) -> dict[str, Any] | None:
        return {"dimension": 2}


class SharesAWorkspace(Corners):
    def __init__(self, dimension: int = 3) -> None:
        super().__init__(dimension)
        self.workspace: Floats = np.empty(0)

    def _argmax(self, coefficients: Floats) -> Floats:
        self.workspace = np.zeros_like(coefficients)
        mine = self.workspace
        time.sleep(0.05)  # long enough for another thread to take the workspace
        if self.workspace is mine:
            return super()._argmax(coefficients)
        return self.workspace


BROKEN: dict[type[Corners], str] = {
    OfTheBatch: "a row alone is as in a batch",
    OfTheRowBefore: "the order does not matter",
    NotOptimal: "no other action is better",
    Infeasible: "actions are feasible",
    BeyondTheBounds: "actions lie within the bounds",
    Stateful: "a repeated call gives the same",
    Scribbles: "coefficients are left alone",
    RefusesZeros: "every row is answered by finite numbers",
    RandomTies: "a repeated call gives the same",
    NotFinite: "every row is answered by finite numbers",
    WrongShape: "every row is answered by finite numbers",
    OnlyAlone: "every row is answered by finite numbers",
    BelievesHints: "hints change nothing",
    ScaleMatters: "scale does not matter",
    NeedsRows: "no rows are fine",
    ForgetsItsArguments: "spec() makes the same set",
    SharesAWorkspace: "threads do not matter",
}


def failed(report: Report) -> list[str]:
    return [finding.rule for finding in report.findings if finding.passed is False]


@pytest.mark.no_cover
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SETS))
def test_good_sets_pass(name: str) -> None:
    report = check(SETS[name], rows=60)
    assert report.ok, str(report)
    assert str(report).count("\n") + 1 == len(report.findings) == 17


@pytest.mark.slow
@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_broken_sets_are_found_by_the_rule_they_break(kind: type[Corners]) -> None:
    report = check(kind(), rows=40)
    assert not report.ok
    assert BROKEN[kind] in failed(report), str(report)
    assert check(Corners(), rows=40).ok


@pytest.mark.parametrize("kind", [NotOptimal, Infeasible, Scribbles, RefusesZeros, NotFinite, NeedsRows, BelievesHints])
def test_a_broken_set_fails_no_other_rule(kind: type[Corners]) -> None:
    allowed = {BROKEN[kind]} | ({"scale does not matter"} if kind is NotOptimal else set())
    assert set(failed(check(kind(), rows=40))) <= allowed


def test_a_finding_names_the_row_and_what_to_do() -> None:
    report = check(RefusesZeros(), rows=40)
    rule, passed, detail = report.findings[0]
    assert (rule, passed) == ("every row is answered by finite numbers", False)
    zero = int(np.flatnonzero(~report.coefficients.any(axis=1))[0])
    assert detail.startswith(f"row {zero} [0. 0. 0.] raised ZeroDivisionError: nothing to choose by")
    assert str(report).startswith(f"FAILED  {rule}: row {zero}")
    assert "although each row alone is answered" in check(OnlyAlone(), rows=40).findings[0].detail
    shape = report.coefficients.shape
    assert f"must return an array of shape {shape}; got (1, 3)" in check(WrongShape(), rows=40).findings[0].detail


def test_rows_keep_their_numbers_when_others_are_dropped() -> None:
    class Both(RefusesZeros, NotOptimal):
        pass

    report = check(Both(), rows=40)
    found = next(finding for finding in report.findings if finding.rule == "no other action is better")
    row = int(found.detail.split()[1])
    shown = np.array2string(report.coefficients[row], precision=3)
    assert found.detail.startswith(f"row {row} {shown} misses")


def test_a_set_that_answers_nothing_is_reported() -> None:
    class Silent(Corners):
        def _argmax(self, coefficients: Floats) -> Floats:
            raise RuntimeError("no licence")

    report = check(Silent(), rows=40)
    assert [finding.passed for finding in report.findings] == [False]
    assert "no licence" in str(report)


def test_a_report_with_notes_alone_passes() -> None:
    wide = Oracle(lambda C: (C > 0) * 0.1, dimension=2)
    report = check(wide, rows=40)
    assert report.ok
    notes = {finding.rule: finding.detail for finding in report.findings if finding.passed is None}
    assert "coordinate 0 stays in [0, 0.1], and its bounds are [0, 1]" in notes["the bounds are near"]
    assert "spec() is None" in notes["the set can be saved"]
    assert "raised" in notes["the set can be copied and pickled"]  # a lambda cannot be pickled
    nervous = check(Oracle(lambda C: np.eye(2)[C.argmax(axis=1)], dimension=2), rows=400)
    assert any(
        finding.rule == "the last digit does not break ties" and not finding.passed for finding in nervous.findings
    )


def test_a_wrong_violation_is_reported() -> None:
    class Wrong(Corners):
        def violation(self, actions: Floats) -> Floats:
            return actions

    assert "violation() returned shape" in str(check(Wrong(), rows=40))


def test_the_seed_decides_and_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    one, same, other = (check(Simplex(3), rows=40, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.coefficients, same.coefficients)
    assert (one.coefficients[:5] != other.coefficients[:5]).all()
    assert capsys.readouterr().out == ""


def test_an_interrupt_is_not_a_finding() -> None:
    class Interrupted(Corners):
        def _argmax(self, coefficients: Floats) -> Floats:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check(Interrupted())


@pytest.mark.parametrize("dimension", [1, 2, 300])
def test_sets_of_any_dimension_pass_the_check(dimension: int) -> None:
    assert check(Corners(dimension), rows=16).ok
    assert check(Vertices(np.eye(dimension)), rows=16).ok


def test_wrong_arguments_are_refused() -> None:
    class Unfinished(Corners):
        def __init__(self) -> None:
            pass

    with pytest.raises(InputError, match=r"got function. Wrap a function as feasible.Oracle"):
        check(lambda C: C)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="rows must be a whole number at least 16; got 3"):
        check(Simplex(2), rows=3)
    with pytest.raises(InputError, match="Unfinished has no dimension yet"):
        check(Unfinished())


# Sets by row


@pytest.mark.parametrize("name", CASES)
def test_our_sets_pass_with_parameters_from_the_row(name: str) -> None:
    omega, X = CASES[name](np.random.default_rng(3), 40)
    report = check(omega, rows=60, X=X)
    assert report.ok, str(report)


def test_a_set_that_varies_needs_rows() -> None:
    omega = Box(upper=oe.Columns("most"), dimension=2)
    with pytest.raises(InputError, match=r"upper of this Box comes from the row. Give some rows too: check\(omega, X="):
        check(omega)
    rows = pd.DataFrame({"most": [1.0, 2.0, 5.0]})
    assert check(omega.for_rows(rows), rows=32).ok
    assert check(Simplex(3), rows=32, X=rows).ok
    with pytest.raises(InputError, match="X has no rows"):
        check(omega, X=rows[:0])


def cheapest(C: Floats, X: pd.DataFrame) -> Floats:
    return np.where(C > 0, np.asarray(X[["most"]], dtype=np.float64), 0.0)


def of_the_batch(C: Floats, X: pd.DataFrame) -> Floats:
    return np.where(C > 0, float(X["most"].max()), 0.0)


def half(C: Floats, X: pd.DataFrame) -> Floats:
    return np.asarray(cheapest(C, X) * np.where(X[["most"]] > 1, 0.5, 1.0), dtype=np.float64)


def within(actions: Floats, X: pd.DataFrame) -> Any:
    return actions.max(axis=1) <= X["most"].to_numpy() + 1e-9


@pytest.mark.parametrize(
    ("function", "failing"),
    [(cheapest, set()), (of_the_batch, {"a row alone is as in a batch"}), (half, {"no other action is better"})],
)
def test_oracles_of_rows_are_found_out(function: Any, failing: set[str]) -> None:
    rows = pd.DataFrame({"most": [1.0, 2.0, 3.0, 1.0]})
    contains = None if function is of_the_batch else within
    report = check(Oracle(function, 2, upper=3.0, contains=contains, rows=True), rows=64, X=rows)
    assert failing <= {finding.rule for finding in report.findings if finding.passed is False}
    assert report.ok == (not failing)
