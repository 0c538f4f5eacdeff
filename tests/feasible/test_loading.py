"""Which libraries a set loads, and what becomes of sets whose library cannot be loaded."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from optensemble import feasible
from optensemble.exceptions import SolverError
from optensemble.feasible import Finding, MixedInteger, Polytope, RiskBudget, check
from tests.sample_sets import Floats, every_set, hard_rows

pytestmark = pytest.mark.slow

UNDEFINED = "_core.so: undefined symbol: _ZN5Highs13releaseMemoryEv"

NEED_HIGHS = """
def of_highs():
    rng = np.random.default_rng(0)
    yield lambda: feasible.MixedInteger(A_ub=[[3.0, 4.0, 5.0]], b_ub=[8.0], integer=[0, 1])
    yield lambda: feasible.Polytope(A_ub=[[1.0, 1.0]], b_ub=[1.0], upper=np.inf)
    yield lambda: feasible.Polytope(A_ub=rng.random((400, 500)), b_ub=np.full(400, 9.0))
"""
"""Sets that HiGHS must solve: whole numbers beside others, infinite bounds, a large tableau."""


def run(code: str, *folders: Path) -> str:
    """Return what a process of its own prints; folders come first on its path."""
    path = os.pathsep.join(map(str, (*folders, *filter(None, sys.path))))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_package_loads_no_solver() -> None:
    code = """
    import sys
    import optensemble
    print([name for name in ("highspy", "clarabel", "cvxpy", "pyepo", "ortools") if name in sys.modules])
    """
    assert run(code) == "[]\n"


def test_a_simplex_loads_nothing_but_the_base() -> None:
    """Without the rest of the package. SciPy's optimisers are loaded all the same: scikit-learn needs them."""
    code = f"""
    import sys, types
    package = types.ModuleType("optensemble")
    package.__path__ = [{str(Path(feasible.__file__).parents[1])!r}]
    sys.modules["optensemble"] = package
    from optensemble.feasible import Simplex
    assert Simplex(3).argmax([[1.0, 3.0, 2.0]]).tolist() == [[0.0, 1.0, 0.0]]
    print([name for name in ("highspy", "clarabel", "cvxpy") if name in sys.modules])
    print(sorted(name for name in sys.modules if name.startswith("optensemble.feasible.") and "._" not in name))
    print(sorted(name for name in sys.modules if name.startswith("optensemble.feasible._solvers")))
    """
    assert run(code) == "[]\n['optensemble.feasible.simplex']\n[]\n"


def test_all_names_are_there() -> None:
    assert set(feasible.__all__) <= set(dir(feasible))
    assert all(getattr(feasible, name).__name__ == name for name in feasible.__all__)
    assert not hasattr(feasible, "Simplecks")
    star: dict[str, object] = {}
    exec("from optensemble.feasible import *", star)
    assert set(feasible.__all__) <= set(star)


def test_findings_are_public() -> None:
    finding = check(feasible.Simplex(2), rows=16).findings[0]
    assert isinstance(finding, Finding)
    assert str(finding) == "passed  every row is answered by finite numbers"


@pytest.mark.no_cover
@pytest.mark.parametrize("name", sorted(every_set()))
def test_a_fixed_set_is_the_same_for_all_rows(name: str) -> None:
    omega = every_set()[name]
    assert omega.for_rows(np.zeros((3, 2))) is omega
    assert omega.for_rows(None) is omega


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """Return a folder with a highspy that fails as it does beside OR-Tools."""
    (tmp_path / "highspy.py").write_text(f"raise ImportError({UNDEFINED!r})\n", encoding="utf-8")
    return tmp_path


def test_sets_that_need_no_highs_work_where_it_cannot_be_loaded(broken: Path) -> None:
    code = """
    import numpy as np
    from optensemble import feasible
    from tests.sample_sets import grid_path
    A, b = grid_path()
    weights = np.arange(1.0, 25.0).reshape(2, 12)
    for omega in (
        feasible.Simplex(3),
        feasible.Box(dimension=3),
        feasible.TopK(4, 2),
        feasible.Knapsack([3, 4, 5], 8),
        feasible.Knapsack([3, 4, 5], 8, integer=True),
        feasible.Knapsack(weights, [20.0, 40.0]),
        feasible.Polytope([[1, 1, 0], [0, 1, 1]], [0.5, 0.6]),
        feasible.Polytope(A_eq=A, b_eq=b),
        feasible.MixedInteger([[3, 4, 5]], [8]),
        feasible.RiskBudget([[4.0, 0.0], [0.0, 1.0]], limit=2.0),
    ):
        actions = omega.argmax(np.random.default_rng(0).normal(size=(20, omega.dimension)))
        assert omega.violation(actions).max() <= omega.tolerance, omega
    print("solved")
    """
    assert run(code, broken) == "solved\n"


def test_sets_that_need_highs_say_that_it_cannot_be_loaded(broken: Path) -> None:
    code = f"""
    import numpy as np
    import optensemble.exceptions
    from optensemble import feasible
    {textwrap.indent(NEED_HIGHS, "    ").strip()}
    for make in of_highs():
        try:
            make()
        except optensemble.exceptions.SolverError as error:
            print(error)
    """
    lines = run(code, broken).splitlines()
    assert len(lines) == 3
    for line in lines:
        assert line.startswith(f"this set needs HiGHS, and highspy cannot be loaded: {UNDEFINED}. Another library")
        assert "OR-Tools" in line
        assert line.endswith("does not import the other library.")


def test_highspy_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(SolverError, match=r"this set needs HiGHS.*Install it with: pip install highspy"):
        Polytope([[1.0, 1.0]], [1.0], upper=np.inf)


def failing(
    C: Floats, hinted: bool, actions: Floats, status: Floats, own: Floats, floats: Floats, ints: Floats
) -> None:
    """Give up every row, as a kernel does."""
    status[:] = 1


def test_a_row_that_is_left_to_a_missing_highs_takes_no_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that is missing must not change decisions quietly."""
    omega = Polytope([[1.0, 1.0]], [1.0], on_failure="fallback", fallback=[0.0, 0.0])
    assert omega.kernel is not None
    omega.kernel = omega.kernel._replace(function=failing)
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(SolverError, match="this set needs HiGHS"):
        omega.argmax([[1.0, 2.0]])


@pytest.mark.parametrize(
    "omega",
    [
        Polytope([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]], [0.5, 0.6]),
        MixedInteger(A_ub=[[3.0, 4.0, 5.0]], b_ub=[8.0], integer=[0, 1]),
        RiskBudget([[4.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 2.0]], limit=2.0),
    ],
)
def test_pickles_do_without_solvers(omega: feasible.FeasibleSet) -> None:
    C = hard_rows(3, n=10)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(omega)).argmax(C), omega.argmax(C))


@pytest.mark.skipif(
    not all(map(find_spec, ("ortools", "pyepo", "torch"))), reason="OR-Tools and PyEPO are not installed"
)
def test_models_of_or_tools_work_beside_the_package() -> None:
    """In either order: PyEPO imports OR-Tools, whose HiGHS and highspy's cannot be loaded in one process."""
    code = f"""
    {{first}}
    {{second}}
    import numpy as np
    from optensemble import exceptions, feasible
    from pyepo.model.ort import knapsackCpModel, knapsackModel
    C = np.random.default_rng(0).normal(size=(20, 3))
    for model in (knapsackModel, knapsackCpModel):
        omega = feasible.PyEPOSet(model(weights=np.array([[3, 4, 5]]), capacity=np.array([8])))
        best = feasible.Knapsack([3, 4, 5], 8, integer=True).argmax(C)
        np.testing.assert_array_equal(omega.argmax(C), best)
    {textwrap.indent(NEED_HIGHS, "    ").strip()}
    for make in of_highs():
        try:
            make()
        except exceptions.SolverError as error:
            assert "OR-Tools" in str(error)
            print(type(error).__name__)
    """
    for first, second in (("import pyepo", "import optensemble"), ("import optensemble", "import pyepo")):
        assert run(code.format(first=first, second=second)) == "SolverError\n" * 3
