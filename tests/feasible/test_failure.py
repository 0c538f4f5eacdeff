"""Rows that cannot be solved, and users who do not want to wait."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
from numba import njit

from optensemble._core.arrays import Floats
from optensemble._core.kernel import make_kernel
from optensemble.exceptions import FallbackWarning, InfeasibleActionError, InputError, SolverError
from optensemble.feasible import FeasibleSet
from optensemble.feasible._batches import Unsolved
from tests.interrupts import heed_interrupts


@njit
def only_positive(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    for i in range(len(C)):
        actions[i] = 1.0
        status[i] = 7 if C[i, 0] < 0.0 else 0


class Picky(FeasibleSet):
    """A box whose kernel solves no row with a negative first coefficient."""

    def __init__(self, on_failure: str = "raise", fallback: Any = None, dimension: int = 2) -> None:
        self._set_bounds(0.0, 1.0, dimension)
        self.kernel = make_kernel(only_positive)
        self._set_failure(on_failure, fallback)

    def _diagnosis(self, status: int) -> str:
        return f"status {status}, it is negative."

    def violation(self, actions: Floats) -> Floats:
        return self._outside_box(actions)

    def spec(self) -> dict[str, Any]:
        return {"dimension": self.dimension, **self._failure_spec()}


class Persistent(Picky):
    """The same with a second solver, which does not solve a second coefficient below -1."""

    def _argmax(self, coefficients: Floats) -> Floats:
        actions = np.where(coefficients > 0, 1.0, 0.0)
        bad = np.flatnonzero(coefficients[:, 1] < -1)
        if bad.size:
            raise Unsolved(actions, {int(row): "too hard." for row in bad})
        return actions


C = np.array([[1.0, 1.0], [-1.0, 1.0], [2.0, -2.0], [-2.0, -2.0]])


def test_the_error_names_the_first_row_its_status_and_the_cause() -> None:
    with pytest.raises(SolverError, match=r"^row 1 could not be solved: status 7, it is negative\.$"):
        Picky().argmax(C)


def test_a_fallback_is_taken_and_counted() -> None:
    omega = Picky("fallback", [0.5, 0.25])
    with pytest.warns(FallbackWarning, match="2 of 4 rows could not be solved and took the fallback action; row 1"):
        actions = omega.argmax(C)
    np.testing.assert_array_equal(actions, [[1, 1], [0.5, 0.25], [1, 1], [0.5, 0.25]])
    np.testing.assert_array_equal(omega.argmax(C[::2]), np.ones((2, 2)))


@pytest.mark.parametrize("omega", [Picky(), Picky("fallback", [0.0, 0.0])], ids=["raise", "fallback"])
def test_an_attempt_says_which_rows_were_solved(omega: Picky) -> None:
    """Neither an error nor a warning, and no fallback."""
    actions, solved = omega.try_argmax(np.array([[1.0, 1.0], [-1.0, 1.0], [2.0, 1.0]]))
    assert solved.tolist() == [True, False, True]
    np.testing.assert_array_equal(actions[solved], 1.0)


def test_an_attempt_of_a_class_with_an_argmax_of_its_own() -> None:
    class Own(Picky):
        def argmax(self, C: Any, hint: Any = None) -> Floats:
            return np.full((len(C), 2), 0.5)

    actions, solved = Own().try_argmax(np.ones((2, 2)))
    assert actions.tolist() == [[0.5, 0.5]] * 2
    assert solved.all()


def test_the_warning_points_at_the_caller() -> None:
    with pytest.warns(FallbackWarning) as caught:
        Picky("fallback", [0.0, 0.0]).argmax(C)
    assert caught[0].filename == __file__


def test_a_second_solver_is_asked_for_rows_that_the_kernel_gives_up() -> None:
    with pytest.raises(SolverError, match="row 3 could not be solved: too hard"):
        Persistent().argmax(C)
    np.testing.assert_array_equal(Persistent().argmax(C[:3]), [[1, 1], [0, 1], [1, 1]])
    with pytest.warns(FallbackWarning, match="1 of 4 rows"):
        actions = Persistent("fallback", [0.5, 0.5]).argmax(C)
    np.testing.assert_array_equal(actions, [[1, 1], [0, 1], [1, 1], [0.5, 0.5]])


def test_what_to_do_on_failure_can_be_saved() -> None:
    spec = Picky("fallback", [0.5, 0.25]).spec()
    assert spec["on_failure"] == "fallback"
    np.testing.assert_array_equal(Picky(**spec).fallback, [0.5, 0.25])
    assert Picky().spec()["fallback"] is None


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("ignore", None), InputError, "must be 'raise' or 'fallback'; got 'ignore'"),
        (("fallback", None), InputError, "do not go together"),
        (("raise", [0.0, 0.0]), InputError, "do not go together"),
        (("fallback", [0.0]), InputError, "must have 2 columns"),
        (("fallback", [[0.0, 0.0], [1.0, 1.0]]), InputError, "one action"),
        (("fallback", [0.0, np.nan]), InputError, "must be finite"),
        (("fallback", [0.0, 1.5]), InfeasibleActionError, "must lie inside the set; it is outside by 0.5"),
    ],
)
def test_an_invalid_on_failure_or_fallback_is_refused(
    arguments: tuple[Any, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Picky(*arguments)


def test_a_set_needs_a_kernel_or_an_argmax() -> None:
    omega = Picky()
    omega.kernel = None
    with pytest.raises(NotImplementedError, match="Picky has neither a kernel nor an _argmax"):
        omega.argmax(C)


LONG = """
import sys, numba, numpy as np
from optensemble.feasible import Vertices
numba.set_num_threads(min(int(sys.argv[1]), numba.get_num_threads()))
omega = Vertices(np.random.default_rng(0).normal(size=(10_000, 20)))
C = np.random.default_rng(1).normal(size=(1_000_000, 20))
omega.argmax(C[:1])
print("begun", flush=True)
try:
    omega.argmax(C)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_stops_a_long_batch(threads: int) -> None:
    command = [sys.executable, "-c", LONG, str(threads)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=heed_interrupts) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=20)  # the whole batch would take half a minute
    assert output == "interrupted\n"
