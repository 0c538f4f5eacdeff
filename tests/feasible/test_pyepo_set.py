from __future__ import annotations

import enum
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from optensemble.exceptions import FallbackWarning, InputError, SolverError
from optensemble.feasible import Vertices
from optensemble.feasible.contract import check
from optensemble.feasible.pyepo_set import PyEPOSet
from optensemble.feasible.registry import to_spec
from tests.sample_sets import Floats, hard_rows

ROUTES = np.array([[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1]], dtype=float)


class Sense(enum.Enum):
    MINIMIZE = 1
    MAXIMIZE = -1


class Routes:
    """Has what PyEPO's models have: an objective that is set, and a solution with its value."""

    num_cost = 4

    def __init__(self, sense: Any = 1, form: Any = list) -> None:
        self.modelSense, self.form = sense, form

    def setObj(self, c: Any) -> None:  # noqa: N802  (PyEPO's name)
        assert np.shape(c) == (4,)
        self.c = np.asarray(c)

    def solve(self) -> tuple[Any, float]:
        values = ROUTES @ self.c
        best = values.argmin() if self.modelSense in (1, Sense.MINIMIZE, "minimize") else values.argmax()
        return self.form(ROUTES[best]), float(values[best])


class Tensor:
    """What is asked of a torch tensor."""

    def __init__(self, values: Floats) -> None:
        self.values = values

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> Floats:
        return self.values


def as_dict(values: Floats) -> dict[str, float]:
    return {f"x{j}": float(value) for j, value in enumerate(values)}


@pytest.mark.parametrize("sense", [1, -1, Sense.MINIMIZE, Sense.MAXIMIZE, "minimize", "MAXIMIZE"])
@pytest.mark.parametrize("form", [list, tuple, np.array, as_dict, Tensor])
def test_a_model_decides_as_its_routes_do(sense: Any, form: Any) -> None:
    C = hard_rows(4, n=40)
    actions = PyEPOSet(Routes(sense, form)).argmax(C)
    values = (C * actions).sum(axis=1)
    best = (C @ ROUTES.T).max(axis=1)
    np.testing.assert_allclose(values, best, rtol=1e-10, atol=0)
    generic = slice(0, 40)
    np.testing.assert_array_equal(actions[generic], Vertices(ROUTES).argmax(C[generic]))
    assert not np.signbit(actions).any()


def test_the_set_passes_the_contract_check() -> None:
    report = check(PyEPOSet(Routes()))
    assert report.ok, str(report)
    assert to_spec(PyEPOSet(Routes())) is None
    np.testing.assert_array_equal(PyEPOSet(Routes()).violation(np.array([[0.0, 1.5, 0.0, 0.0]])), [0.5])


def test_a_model_is_convex_if_the_user_says_so() -> None:
    assert PyEPOSet(Routes(), convex=True).convex is True
    assert PyEPOSet(Routes()).convex is False
    assert to_spec(PyEPOSet(Routes(), convex=True)) is None
    with pytest.raises(InputError, match="convex must be one of True, False; got 1"):
        PyEPOSet(Routes(), convex=1)  # type: ignore[arg-type]


def test_a_model_with_a_memory_is_found_by_the_check() -> None:
    class Stays(Routes):
        last = 0

        def solve(self) -> tuple[Any, float]:
            values = ROUTES @ self.c
            if values[self.last] > values.min():
                self.last = int(values.argmin())
            return ROUTES[self.last], float(values.min())

    failed = [finding.rule for finding in check(PyEPOSet(Stays())).findings if finding.passed is False]
    assert "the order does not matter" in failed


def test_rounding_of_the_solver_is_clipped() -> None:
    class Rounded(Routes):
        def solve(self) -> tuple[Any, float]:
            return np.array([1 + 1e-9, -1e-9, 0.5, -0.0]), 0.0

    action = PyEPOSet(Rounded()).argmax(np.ones((1, 4)))
    np.testing.assert_array_equal(action, [[1, 0, 0.5, 0]])
    assert not np.signbit(action).any()


def test_failures_are_named_or_take_the_fallback() -> None:
    class Fragile(Routes):
        def solve(self) -> tuple[Any, float]:
            if self.c[0] == 1:
                raise RuntimeError("no licence found")
            if self.c[1] == 1:
                return [2.0, 0.0, 0.0, 0.0], 0.0
            if self.c[2] == 1:
                return [np.nan] * 4, 0.0
            if self.c[3] == 1:
                return [1.0], 0.0
            return super().solve()

    C = -np.eye(4)
    omega = PyEPOSet(Fragile())
    with pytest.raises(SolverError, match="row 1 could not be solved: the model raised RuntimeError: no licence found"):
        omega.argmax([[1.0, 2.0, 3.0, 4.0], C[0]])
    with pytest.raises(SolverError, match=r"leaves them by 1\. Give the model's true lower= and upper="):
        omega.argmax(C[1:])
    with pytest.raises(SolverError, match="must be finite and within the bounds"):
        omega.argmax(C[2:])
    with pytest.raises(SolverError, match=r"must have 4 entries; got shape \(1,\)"):
        omega.argmax(C[3:])
    kept = PyEPOSet(Fragile(), on_failure="fallback", fallback=ROUTES[2])
    with pytest.warns(FallbackWarning, match="4 of 5 rows"):
        actions = kept.argmax(np.concatenate([C, [[1.0, 2.0, 3.0, 4.0]]]))
    np.testing.assert_array_equal(actions, ROUTES[[2, 2, 2, 2, 3]])


class Lifted(Routes):
    """A model of six variables of which four are predicted: it is given their costs, and returns all variables."""

    c_pred_index: Any = np.array([4, 0, 2, 5])
    fixed = np.zeros(6)

    def solve(self) -> tuple[Any, float]:
        values = ROUTES @ (self.c + self.fixed[self.c_pred_index])
        best = values.argmin() if self.modelSense == 1 else values.argmax()
        full = np.full(6, 7.0)
        full[self.c_pred_index] = ROUTES[best]
        return self.form(full), float(values[best])

    def _fullCost(self, c: Any) -> Any:  # noqa: N802  (PyEPO's name)
        full = self.fixed.copy()
        full[self.c_pred_index] += c
        return full


@pytest.mark.parametrize("sense", [1, -1])
@pytest.mark.parametrize("form", [list, as_dict, Tensor])
def test_other_variables_of_a_model_are_left_out(sense: int, form: Any) -> None:
    C = hard_rows(4, n=40)
    omega = PyEPOSet(Lifted(sense, form))
    np.testing.assert_array_equal(omega.argmax(C), PyEPOSet(Routes(sense)).argmax(C))
    assert omega.dimension == 4
    assert not omega.has_cost
    assert check(omega).ok


@pytest.mark.parametrize("sense", [1, -1])
def test_fixed_costs_of_predicted_variables_are_known_costs(sense: int) -> None:
    model = Lifted(sense)
    model.fixed = np.array([0.5, 0.0, -0.25, 0.0, 1.0, 0.0])
    omega = PyEPOSet(model)
    C = np.random.default_rng(0).normal(size=(200, 4))
    actions = omega.argmax(C)
    unit = sense * model.fixed[model.c_pred_index]  # a model that maximises earns what is fixed
    np.testing.assert_allclose(omega.value(actions, C), ((C - unit) @ ROUTES.T).max(axis=1), atol=1e-9)
    assert omega.has_cost
    np.testing.assert_allclose(omega.cost(ROUTES), ROUTES @ unit)


def test_positions_that_do_not_fit_are_refused() -> None:
    model = Lifted()
    model.fixed = np.array([0.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    with pytest.raises(InputError, match=r"fixed costs of 1 variables that are not predicted.*CvxpySet"):
        PyEPOSet(model)
    for index in ([0, 1], [0, 1, 2, 2], [0.5, 1, 2, 3], [-1, 0, 1, 2]):
        model = Lifted()
        model.c_pred_index = np.array(index)
        with pytest.raises(InputError, match="c_pred_index must have a position for each of the 4"):
            PyEPOSet(model)

    class Short(Lifted):
        def solve(self) -> tuple[Any, float]:
            return [0.0] * 4, 0.0

    with pytest.raises(SolverError, match="c_pred_index goes up to 5; got 4 entries"):
        PyEPOSet(Short()).argmax(np.ones((1, 4)))


def test_an_interrupt_stops_the_batch() -> None:
    class Interrupted(Routes):
        def solve(self) -> tuple[Any, float]:
            raise KeyboardInterrupt

    omega = PyEPOSet(Interrupted())
    for _ in range(2):  # the lock is free again
        with pytest.raises(KeyboardInterrupt):
            omega.argmax(np.ones((2, 4)))


def test_an_object_that_is_not_a_pyepo_model_is_refused() -> None:
    with pytest.raises(InputError, match="got int, which has no setObj"):
        PyEPOSet(3)
    with pytest.raises(InputError, match="got the class Routes"):
        PyEPOSet(Routes)
    for sense in (0, "up", None, 2.5, [1]):
        with pytest.raises(InputError, match=r"modelSense must be EPO\.MINIMIZE"):
            PyEPOSet(Routes(sense))


def test_a_real_model_of_pyepo() -> None:
    if find_spec("ortools"):
        pytest.skip("PyEPO would load OR-Tools, beside which the other tests cannot load HiGHS; see test_loading")
    pytest.importorskip("torch")
    pyepo = pytest.importorskip("pyepo")

    class Shortest(pyepo.model.opt.optModel):  # type: ignore[misc, name-defined]
        def _getModel(self) -> tuple[None, list[int]]:  # noqa: N802
            return None, list(range(4))

        def setObj(self, c: Any) -> None:  # noqa: N802
            self.c = np.asarray(c)

        def solve(self) -> tuple[Any, float]:
            values = ROUTES @ self.c
            return ROUTES[values.argmin()], float(values.min())

    C = np.random.default_rng(0).normal(size=(50, 4))
    np.testing.assert_array_equal(PyEPOSet(Shortest()).argmax(C), Vertices(ROUTES).argmax(C))
