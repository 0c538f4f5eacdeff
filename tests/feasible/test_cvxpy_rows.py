"""Parameters of cvxpy problems that come from the row, as cvxpy itself solves each row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble.exceptions import FallbackWarning, InputError, SolverError
from optensemble.feasible import Polytope, RiskBudget
from optensemble.feasible.cvxpy_set import CvxpySet
from optensemble.feasible.registry import from_spec, to_spec
from tests.costs_by_row import CASES
from tests.feasible.test_cvxpy_lifted import battery, require_same
from tests.sample_sets import Floats
from tests.theorems import test_argmax_by_row as contract

pytestmark = pytest.mark.slow

cp = pytest.importorskip("cvxpy")

ROWS = 200  # of each of six problems: cvxpy takes milliseconds for every one


class Example(NamedTuple):
    """A problem, its action and coefficients, the columns of its parameters, and rows."""

    problem: Any
    action: Any
    c: Any
    rows: dict[Any, Any]
    X: pd.DataFrame

    def make(self, **options: Any) -> CvxpySet:
        return CvxpySet(self.problem, self.action, self.c, rows=self.rows, **options)

    def best(self, C: Floats, solver: str = "HIGHS") -> Floats:
        """The optimal values of the user's own problem, row by row."""
        sign = 1.0 if isinstance(self.problem.objective, cp.Maximize) else -1.0
        columns = {parameter: oe.Columns(names).predict(self.X) for parameter, names in self.rows.items()}
        values = []
        for i, row in enumerate(C):
            self.c.value = sign * row.reshape(self.c.shape)
            for parameter, found in columns.items():
                parameter.value = found[i].reshape(parameter.shape) if parameter.shape else found[i, 0]
            values.append(sign * self.problem.solve(solver=solver))
        return np.array(values)


def by_start(rng: np.random.Generator, n: int) -> Example:
    start, price = cp.Parameter(name="start"), cp.Parameter(5)
    charge, discharge, constraints = battery(5, start)
    problem = cp.Problem(cp.Maximize(price @ (discharge - charge)), constraints)
    X = pd.DataFrame({"charge_now": rng.choice([0.0, 0.5, 1.3, 2.0], n) * rng.choice([1.0, rng.uniform()], n)})
    return Example(problem, discharge - charge, price, {start: "charge_now"}, X)


def wear(rng: np.random.Generator, n: int) -> Example:
    """The battery with a cost of the other variables, of which an action has the least."""
    example = by_start(rng, n)
    charge, discharge = example.action.variables()
    cost = 0.05 * cp.sum(charge + discharge)
    objective = cp.Maximize(example.problem.objective.expr - cost)
    return example._replace(problem=cp.Problem(objective, example.problem.constraints))


def portfolio_rows(rng: np.random.Generator, n: int, d: int = 5) -> pd.DataFrame:
    X = pd.DataFrame(rng.dirichlet(np.ones(d), n), columns=[f"held_{j}" for j in range(d)])
    X["limit"], X["rate"] = rng.uniform(0.3, 1.0, n), rng.choice([0.0, 0.1, 0.3], n)
    return X


def turnover_cost(rng: np.random.Generator, n: int) -> Example:
    w, c = cp.Variable(5, nonneg=True), cp.Parameter(5)
    held, limit, rate = cp.Parameter(5, name="held"), cp.Parameter(name="limit"), cp.Parameter(nonneg=True, name="rate")
    moved = cp.Variable(5)
    constraints = [cp.sum(w) == 1, w <= limit, moved == w - held]
    problem = cp.Problem(cp.Minimize(c @ w + rate * cp.norm1(moved)), constraints)
    return Example(problem, w, c, {limit: "limit", rate: "rate", held: "held_*"}, portfolio_rows(rng, n))


def turnover_limit(rng: np.random.Generator, n: int) -> Example:
    w, c, held, limit = cp.Variable(5), cp.Parameter(5), cp.Parameter(5, name="held"), cp.Parameter(name="limit")
    problem = cp.Problem(cp.Maximize(c @ w), [cp.sum(w) <= 1, w >= 0, w <= 1, cp.norm1(w - held) <= limit])
    return Example(problem, w, c, {held: "held_*", limit: "limit"}, portfolio_rows(rng, n))


def budget_and_stock(rng: np.random.Generator, n: int) -> Example:
    a, c = cp.Variable(5), cp.Parameter(5)
    stock, budget = cp.Parameter(5, name="stock"), cp.Parameter(name="budget")
    constraints = [a >= 0, a <= stock, np.arange(1.0, 6.0) @ a <= budget]
    problem = cp.Problem(cp.Maximize(c @ a), constraints)
    return Example(problem, a, c, {budget: "limit", stock: [f"held_{j}" for j in range(5)]}, portfolio_rows(rng, n))


def transport(rng: np.random.Generator, n: int) -> Example:
    """Flows of two dimensions; a matrix of limits, filled row by row."""
    flow, c = cp.Variable((2, 3), nonneg=True), cp.Parameter((2, 3))
    limits, supply = cp.Parameter((2, 3), name="limits"), cp.Parameter(2, name="supply")
    constraints = [flow <= limits, cp.sum(flow, axis=1) <= supply, cp.sum(flow, axis=0) <= 1]
    problem = cp.Problem(cp.Maximize(cp.sum(cp.multiply(c, flow))), constraints)
    X = pd.DataFrame(rng.uniform(0, 1, (n, 6)), columns=[f"limit_{i}{j}" for i in range(2) for j in range(3)])
    X["supply_a"], X["supply_b"] = rng.uniform(0, 2, (2, n))
    return Example(problem, flow, c, {limits: "limit_*", supply: "supply_*"}, X)


LINEAR: dict[str, Callable[[np.random.Generator, int], Example]] = {
    "battery": by_start,
    "budget and stock": budget_and_stock,
    "transport": transport,
    "turnover cost": turnover_cost,
    "turnover limit": turnover_limit,
    "wear": wear,
}


@pytest.mark.no_cover
@pytest.mark.parametrize("name", sorted(LINEAR))
def test_linear_problems_agree_with_cvxpy_row_by_row(name: str) -> None:
    rng = np.random.default_rng(0)
    example = LINEAR[name](rng, ROWS)
    omega = example.make()
    assert omega.recognised == ("WithCost" if name == "turnover cost" else "Polytope")
    C = rng.normal(size=(ROWS, omega.dimension)) * 0.5
    bound = omega.for_rows(example.X)
    actions = bound.argmax(C)
    require_same(bound.value(actions, C), example.best(C))
    assert bound.violation(actions).max() <= 1e-9
    lower, upper = bound._row_box()
    assert (actions >= lower - 1e-12).all()
    assert (actions <= upper + 1e-12).all()


def parameters_in_the_matrix(rng: np.random.Generator, n: int) -> Example:
    w, c, held = cp.Variable(5, nonneg=True), cp.Parameter(5), cp.Parameter(5, name="held")
    problem = cp.Problem(cp.Maximize(c @ w), [held @ w <= 0.2, w <= 1])
    return Example(problem, w, c, {held: "held_*"}, portfolio_rows(rng, n))


def curved(rng: np.random.Generator, n: int) -> Example:
    w, c, held = cp.Variable(5, nonneg=True), cp.Parameter(5), cp.Parameter(5, name="held")
    limit, rate = cp.Parameter(name="limit", nonneg=True), cp.Parameter(nonneg=True, name="rate")
    moved, weight = cp.Variable(5), cp.Parameter(nonneg=True, value=0.1)  # with a value, it may multiply another
    cost = rate * cp.sum_squares(moved) + weight * cp.norm1(w - held)
    problem = cp.Problem(cp.Maximize(c @ w - cost), [cp.sum(w) <= 1, cp.norm(w) <= limit, moved == w - held])
    return Example(problem, w, c, {held: "held_*", limit: "limit", rate: "rate"}, portfolio_rows(rng, n))


@pytest.mark.filterwarnings("ignore:You are solving a parameterized problem that is not DPP")
@pytest.mark.parametrize("make", [parameters_in_the_matrix, curved])
def test_other_problems_agree_with_cvxpy_row_by_row(make: Any) -> None:
    rng = np.random.default_rng(1)
    example = make(rng, 60)
    omega = example.make()
    assert omega.recognised == "conic"
    C = rng.normal(size=(60, 5))
    bound = omega.for_rows(example.X)
    actions = bound.argmax(C)
    require_same(bound.value(actions, C), example.best(C, "CLARABEL"), 1e-6)
    assert bound.violation(actions).max() <= 1e-8
    for i in range(5):
        example.best(0 * C[: i + 1], "CLARABEL")  # leaves the parameters of row i, and the coefficients at 0
        example.action.value = actions[i]
        for variable in example.problem.variables():
            if variable.id != example.action.id:
                variable.value = actions[i] - next(iter(example.rows)).value  # what is moved from the held
        np.testing.assert_allclose(bound.cost(actions)[i], -example.problem.objective.value, atol=1e-9)


def whole_lots(rng: np.random.Generator, n: int) -> Example:
    """A fixed charge for each item that is bought, a budget and stocks of the row."""
    a, bought, c = cp.Variable(3, nonneg=True), cp.Variable(3, boolean=True), cp.Parameter(3)
    budget, stock = cp.Parameter(name="budget"), cp.Parameter(3, name="stock")
    constraints = [a <= 2 * bought, cp.sum(a) <= budget, a <= stock]
    problem = cp.Problem(cp.Maximize(c @ a - 0.2 * cp.sum(bought)), constraints)
    X = pd.DataFrame(rng.uniform(0, 2, (n, 4)), columns=["budget", "stock_a", "stock_b", "stock_c"])
    return Example(problem, a, c, {budget: "budget", stock: "stock_*"}, X)


@pytest.mark.no_cover
def test_whole_numbers_agree_with_cvxpy_row_by_row() -> None:
    rng = np.random.default_rng(9)
    example = whole_lots(rng, 100)
    omega = example.make()
    assert omega.recognised == "MixedInteger"
    C = rng.normal(size=(100, 3))
    bound = omega.for_rows(example.X)
    actions = bound.argmax(C)
    require_same(bound.value(actions, C), example.best(C))
    assert bound.violation(actions).max() <= 1e-9
    alone = np.concatenate([bound.of_row(i).argmax(C[i : i + 1]) for i in range(20)])
    np.testing.assert_array_equal(actions[:20], alone)


CONTRACT = {**LINEAR, "curved": curved}


@pytest.mark.parametrize("name", sorted(CONTRACT))
@pytest.mark.parametrize(
    "promise",
    [
        contract.test_a_row_is_solved_as_by_the_set_of_that_row_alone_to_the_bit,
        contract.test_order_batch_hints_and_threads_do_not_matter,
        contract.test_columns_of_constants_give_the_bits_of_the_fixed_set,
        contract.test_copies_and_specs_make_the_same_set,
        contract.test_a_set_must_be_bound_to_as_many_rows_as_there_are_coefficients,
    ],
)
def test_the_contract_holds(name: str, promise: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def case(rng: np.random.Generator, n: int) -> tuple[CvxpySet, pd.DataFrame]:
        example = CONTRACT[name](rng, n)
        return example.make(), example.X

    monkeypatch.setitem(CASES, name, case)
    if name in ("curved", "transport"):  # the set of a row alone takes a tenth of a second
        monkeypatch.setattr(contract, "ROWS", 24)
        monkeypatch.setattr(contract.make, "__defaults__", (24, 0))
    promise(name)


@pytest.mark.parametrize("make", [*LINEAR.values(), curved, whole_lots])
def test_batches_without_rows(make: Any) -> None:
    example = make(np.random.default_rng(11), 2)
    bound = example.make().for_rows(example.X[:0])
    actions = bound.argmax(np.empty((0, bound.dimension)))
    assert actions.shape == (0, bound.dimension)
    assert bound.value(actions, actions).shape == bound.violation(actions).shape == (0,)


@pytest.mark.parametrize("kind", ["variance", "deviation", "two caps"])
def test_a_limit_of_risk_by_row(kind: str) -> None:
    rng = np.random.default_rng(10)
    F = rng.normal(size=(5, 5)) / 3
    w, c, limit = cp.Variable(5), cp.Parameter(5), cp.Parameter(name="limit", nonneg=True)
    risk = cp.norm(F.T @ w) if kind == "deviation" else cp.sum_squares(F.T @ w)
    most = np.diag(F @ F.T).min() * rng.uniform(0.7, 2.0, 1000)
    X = pd.DataFrame({"limit": np.sqrt(most) if kind == "deviation" else most, "cap": rng.uniform(0.6, 0.9, 1000)})
    constraints, rows = [cp.sum(w) == 1, w >= 0, risk <= limit], {limit: "limit"}
    if kind == "two caps":  # the smaller of them is not linear in the parameter
        cap = cp.Parameter(name="cap")
        constraints, rows, X = [*constraints, w <= cap, w <= 0.7], rows | {cap: "cap"}, X[:60]
    example = Example(cp.Problem(cp.Maximize(c @ w), constraints), w, c, rows, X)
    omega = example.make()
    assert omega.recognised == ("conic" if kind == "two caps" else "RiskBudget")
    C = rng.normal(size=(len(X), 5))
    bound = omega.for_rows(X)
    actions = bound.argmax(C)
    require_same((C * actions).sum(axis=1)[:60], example.best(C[:60], "CLARABEL"), 1e-6)
    assert bound.violation(actions).max() <= 1e-8
    alone = np.concatenate([bound.of_row(i).argmax(C[i : i + 1]) for i in range(20)])
    np.testing.assert_array_equal(actions[:20], alone)
    if kind == "variance":
        assert omega.inner is not None
        assert to_spec(omega.inner) is not None
        expected = RiskBudget(F @ F.T, limit=oe.Columns("limit")).for_rows(X).argmax(C)
        np.testing.assert_allclose((C * actions).sum(axis=1), (C * expected).sum(axis=1), atol=1e-9)
        with pytest.raises(InputError, match=r"limit must .*; in row 1 of 2 it is"):
            omega.for_rows(pd.DataFrame({"limit": [1.0, 1e-9]}))


@pytest.mark.parametrize("name", ["battery", "budget and stock"])
def test_an_inner_set_of_columns_can_be_saved(name: str) -> None:
    rng = np.random.default_rng(2)
    example = LINEAR[name](rng, 50)
    omega = example.make()
    assert to_spec(omega) is None
    assert isinstance(omega.inner, Polytope)
    spec = to_spec(omega.inner)
    assert spec is not None
    again = from_spec("Polytope", spec)
    C = rng.normal(size=(50, omega.dimension))
    padded = np.pad(C, ((0, 0), (0, again.dimension - omega.dimension)))
    actions = again.for_rows(example.X).argmax(padded)[:, : omega.dimension]
    np.testing.assert_array_equal(actions, omega.for_rows(example.X).argmax(C))


def test_what_is_computed_from_columns_works_but_cannot_be_saved() -> None:
    example = turnover_limit(np.random.default_rng(3), 20)
    omega = example.make()
    assert omega.inner is not None
    assert to_spec(omega.inner) is None
    C = np.random.default_rng(4).normal(size=(20, 5))
    padded = np.pad(C, ((0, 0), (0, omega.inner.dimension - 5)))
    found = omega.inner.for_rows(example.X).argmax(padded)[:, :5]
    np.testing.assert_array_equal(found, omega.for_rows(example.X).argmax(C))


def test_a_saved_ensemble_of_an_inner_set_decides_the_same(tmp_path: Any) -> None:
    rng = np.random.default_rng(5)
    example = budget_and_stock(rng, 200)
    X = example.X.assign(**{f"p_{j}": rng.normal(size=200) for j in range(5)})
    Y = X[[f"p_{j}" for j in range(5)]].to_numpy() + 0.3 * rng.normal(size=(200, 5))
    members = [("vendor", oe.Columns("p_*"))]
    omega = example.make()
    assert omega.inner is not None
    ours = oe.DecisionEnsemble(models=members, feasible=omega).fit(X, Y)
    inner = oe.DecisionEnsemble(models=members, feasible=omega.inner).fit(X, Y)
    np.testing.assert_array_equal(ours.decide(X), inner.decide(X))
    inner.save(tmp_path / "stock.oe")
    np.testing.assert_array_equal(oe.load(tmp_path / "stock.oe").decide(X), inner.decide(X))


def test_an_ensemble_nets_costs_by_row() -> None:
    rng = np.random.default_rng(6)
    example = turnover_cost(rng, 300)
    X = example.X.assign(**{f"p_{j}": rng.normal(size=300) for j in range(5)})
    Y = X[[f"p_{j}" for j in range(5)]].to_numpy() + 0.3 * rng.normal(size=(300, 5))
    ensemble = oe.DecisionEnsemble(models=[("vendor", oe.Columns("p_*"))], feasible=example.make()).fit(X, Y)
    actions = ensemble.decide(X)
    assert actions.shape == (300, 5)
    held = X[[f"held_{j}" for j in range(5)]].to_numpy()
    omega = example.make().for_rows(X)
    expected = X["rate"].to_numpy() * np.abs(actions - held).sum(axis=1)
    np.testing.assert_allclose(omega.cost(actions), expected, atol=1e-12)


def test_bad_rows_are_named() -> None:
    rng = np.random.default_rng(7)
    example = turnover_cost(rng, 6)
    omega = example.make()
    X = example.X
    with pytest.raises(InputError, match=r"limit must be a finite number; in row 2 of 6 it is nan \(column 'limit'\)"):
        omega.for_rows(X.assign(limit=np.where(np.arange(6) == 2, np.nan, 0.5)))
    with pytest.raises(InputError, match=r"rate must not be negative; in row 1 of 6 it is -1 \(column 'rate'\)"):
        omega.for_rows(X.assign(rate=np.where(np.arange(6) == 1, -1.0, 0.5)))
    with pytest.raises(InputError, match="must leave room between the bounds of the problem; in row 3 of 6"):
        omega.for_rows(X.assign(limit=np.where(np.arange(6) == 3, -0.5, 0.5)))
    with pytest.raises(InputError, match=r"limit comes from the row, but X has no column 'limit'"):
        omega.for_rows(X.drop(columns="limit"))
    few = X.assign(limit=np.where(np.arange(6) == 4, 0.1, 0.5))  # five weights of 0.1 at most do not sum to 1
    C = rng.normal(size=(6, 5))
    with pytest.raises(
        SolverError, match=r"row 4 could not be solved: no action satisfies .* in this row.*limit = 0\.1"
    ):
        omega.for_rows(few).argmax(C)
    kept = example.make(on_failure="fallback", fallback=np.full(5, 0.2))
    with pytest.warns(FallbackWarning, match="1 of 6 rows"):
        actions = kept.for_rows(few).argmax(C)
    np.testing.assert_array_equal(actions[4], 0.2)
    with pytest.warns(FallbackWarning, match="1 of 6 rows have no set"):
        bound = kept.for_rows(X.assign(limit=np.where(np.arange(6) == 2, np.nan, 0.5)))
    np.testing.assert_array_equal(bound.argmax(C)[2], 0.2)
    assert np.isfinite(bound.value(bound.argmax(C), C)).all()


def test_empty_rows_of_a_cone_are_named() -> None:
    example = curved(np.random.default_rng(8), 4)
    w, c, low = example.action, example.c, cp.Parameter(name="low")
    problem = cp.Problem(cp.Maximize(c @ w), [w <= 1, cp.norm(w) <= 1, w[0] >= low])
    omega = CvxpySet(problem, w, c, rows={low: oe.Columns("low")})
    bound = omega.for_rows(pd.DataFrame({"low": [0.5, 2.0]}))
    with pytest.raises(SolverError, match=r"row 1 could not be solved: no action satisfies .*low = 2 \(column 'low'\)"):
        bound.argmax(np.ones((2, 5)))


def test_what_rows_cannot_be_is_said() -> None:
    a, c, size = cp.Variable(2, nonneg=True), cp.Parameter(2), cp.Parameter(name="size")
    problem = cp.Problem(cp.Maximize(c @ a), [cp.sum(a) <= size])
    with pytest.raises(InputError, match=r"size has none. Set its value, or take it from the row: rows="):
        CvxpySet(problem, a, c)
    with pytest.raises(InputError, match=r"rows must say which columns of X size comes from.*; got ndarray"):
        CvxpySet(problem, a, c, rows={size: np.ones(100)})
    with pytest.raises(InputError, match=r"rows must be a dict .*got str"):
        CvxpySet(problem, a, c, rows="size")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"keys of rows must be parameters of the problem, cvxpy.Parameter; got str"):
        CvxpySet(problem, a, c, rows={"size": "size"})
    with pytest.raises(InputError, match="leave it out of rows="):
        CvxpySet(problem, a, c, rows={size: "size", c: "price_*"})
    with pytest.raises(InputError, match=r"rows names other, which is not in the problem; its parameters are .*size"):
        CvxpySet(problem, a, c, rows={size: "size", cp.Parameter(name="other"): "x"})
    with pytest.raises(InputError, match=r"size needs 1 number in each row"):
        CvxpySet(problem, a, c, rows={size: ["x", "y"]})
    free = cp.Variable(2)
    ball = cp.Problem(cp.Maximize(c @ free), [cp.norm(free) <= size])
    with pytest.raises(InputError, match=r"coordinate 0 of the action needs a lower bound"):
        CvxpySet(ball, free, c, rows={size: "size"})
    held = cp.Parameter(2, name="held")
    twice = cp.Problem(cp.Maximize(c @ a - cp.Parameter(nonneg=True) * cp.norm1(a - held)), [a <= 1])
    rate = next(each for each in twice.parameters() if each.is_nonneg())
    with pytest.raises(InputError, match=r"give that a variable of its own: moved == w - held"):
        CvxpySet(twice, a, c, rows={held: "held_*", rate: "rate"})
    rate.value = 0.5
    assert CvxpySet(twice, a, c, rows={held: "held_*"}).recognised == "WithCost"


def test_functions_and_mixed_lists_are_sources() -> None:
    a, c, size = cp.Variable(2, nonneg=True), cp.Parameter(2), cp.Parameter(2)
    problem = cp.Problem(cp.Maximize(c @ a), [a <= size])
    X = pd.DataFrame({"x": [1.0, 2.0]})
    C = np.ones((2, 2))
    mixed = CvxpySet(problem, a, c, rows={size: [oe.Columns("x"), 0.5]})
    np.testing.assert_array_equal(mixed.for_rows(X).argmax(C), [[1, 0.5], [2, 0.5]])
    assert mixed.inner is not None
    assert to_spec(mixed.inner) is not None
    computed = CvxpySet(problem, a, c, rows={size: lambda X: np.column_stack([X["x"], 2 * X["x"]])})
    np.testing.assert_array_equal(computed.for_rows(X).argmax(C), [[1, 2], [2, 4]])
    size.value = [3.0, 4.0]  # a parameter from the row may have any value
    np.testing.assert_array_equal(computed.for_rows(X).argmax(C), [[1, 2], [2, 4]])
