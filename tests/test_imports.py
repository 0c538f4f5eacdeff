"""Quick to open: the package, its help, its version and TAB completion load nothing heavy."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
import sklearn.exceptions

import optensemble as oe
from optensemble import exceptions, experiments

pytestmark = pytest.mark.slow

HEAVY = ("sklearn", "scipy", "pandas", "numba", "matplotlib", "highspy", "clarabel", "pyarrow", "numpy")

RUN = """
import sys
{before}
from optensemble.cli import main
try:
    main()
except SystemExit as done:
    assert done.code in (0, None), done.code
sys.stderr.write(" ".join(name for name in {heavy} if name in sys.modules))
"""


def loaded(code: str, *arguments: str, **environment: str) -> tuple[str, list[str]]:
    """What a fresh process prints, and which of the heavy modules it has loaded."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, done.stderr.split()


def command(*arguments: str, **environment: str) -> tuple[str, list[str]]:
    return loaded(RUN.format(before=f"sys.argv = ['optensemble', *{list(arguments)!r}]", heavy=HEAVY), **environment)


def completed(line: str) -> tuple[list[str], list[str]]:
    words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    out, heavy = command(_OPTENSEMBLE_COMPLETE="complete_bash", **words)
    return out.split(), heavy


def test_the_package_opens_without_anything_heavy() -> None:
    code = f"import sys, optensemble; sys.stderr.write(' '.join(name for name in {HEAVY} if name in sys.modules))"
    assert loaded(code) == ("", [])


@pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        ("--help",),
        *((name, "--help") for name in ("init", "check", "fit", "decide", "audit", "update", "refit")),
        *((name, "--help") for name in ("explain", "report", "reproduce", "live", "log", "serve")),
        *(("live", name, "--help") for name in ("start", "decide", "observe", "refit", "status", "report")),
        *(("log", name, "--help") for name in ("export", "prune")),
    ],
)
def test_help_and_version_load_nothing_heavy(arguments: tuple[str, ...]) -> None:
    out, heavy = command(*arguments)
    assert "optensemble" in out
    assert heavy == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("optensemble de", ["decide"]),
        ("optensemble live re", ["refit", "report"]),
        ("optensemble re", ["refit", "report", "reproduce"]),
        ("optensemble reproduce --n", ["--noise"]),
        ("optensemble reproduce --trees ", ["histogram", "exact"]),
        ("optensemble decide --i", ["--id-column"]),
        ("optensemble init --fe", ["--feasible"]),
        ("optensemble fit jo", []),  # the shell completes paths
        ("optensemble fit job.toml -o en", []),
        ("optensemble audit ensemble.oe la", []),
    ],
)
def test_completion_loads_nothing_heavy(line: str, expected: list[str]) -> None:
    assert completed(line) == (expected, [])


def run_quietly(folder: Path, *arguments: str) -> set[str]:
    """Run a command, and return all modules that it loads."""
    program = [sys.executable, "-X", "importtime", "-m", "optensemble", *arguments]
    done = subprocess.run(program, cwd=folder, capture_output=True, text=True, timeout=300, check=True)
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


def fit_small(folder: Path) -> None:
    """Write rows as CSV and Parquet, and fit an ensemble on them."""
    lines = [f"{i},{i % 7},{i % 5},{i % 3},{i % 4},{i % 6},{i % 5}\n" for i in range(200)]
    (folder / "rows.csv").write_text("id,m_a,m_b,n_a,n_b,y_a,y_b\n" + "".join(lines))
    pq.write_table(csv.read_csv(folder / "rows.csv"), folder / "rows.parquet")
    (folder / "job.toml").write_text(
        '[data]\nfit = "rows.csv"\nlabels = "y_*"\nid = "id"\n[models]\nm = "m_*"\nn = "n_*"\n'
        '[feasible]\nkind = "polytope"\nA_ub = [[1, 1]]\nb_ub = [1]\n'
    )
    run_quietly(folder, "fit", "job.toml", "--quiet")


def test_a_quiet_decision_loads_only_what_it_needs(tmp_path: Path) -> None:
    fit_small(tmp_path)
    modules = run_quietly(tmp_path, "decide", "ensemble.oe", "rows.csv", "-o", "decisions.csv", "--quiet")
    assert {"numba", "pandas", "scipy.linalg"} <= modules  # the lines were understood
    assert not modules & {"sklearn", "matplotlib", "dask", "skops", "highspy", "clarabel", "cvxpy", "scipy.stats"}
    assert not modules & {"numpy.f2py", "numpy.testing", "rich.console", "scipy.special", "narwhals"}
    rooms = {f"optensemble.{room}" for room in ("explanation", "report.html", "experiments.run", "evaluation.audit")}
    assert not modules & {*rooms, "optensemble.ensembles._decision_fit", "optensemble.ensembles._paper"}


def test_a_quiet_decision_from_parquet_to_parquet_loads_no_pandas(tmp_path: Path) -> None:
    fit_small(tmp_path)
    modules = run_quietly(tmp_path, "decide", "ensemble.oe", "rows.parquet", "-o", "decisions.parquet", "--quiet")
    assert {"numba", "pyarrow.parquet"} <= modules  # the lines were understood
    assert not modules & {"pandas", "narwhals", "pyarrow.compute", "pyarrow.dataset", "scipy.special", "sklearn"}
    run_quietly(tmp_path, "decide", "ensemble.oe", "rows.csv", "-o", "by_pandas.parquet", "--quiet")
    assert_same_decisions(tmp_path / "decisions.parquet", tmp_path / "by_pandas.parquet")


def assert_same_decisions(*paths: Path) -> None:
    """Require the same decisions; ids in CSV files are text."""
    left, right = (pq.read_table(path).drop_columns(["id"]) for path in paths)
    assert left.equals(right)


def test_every_public_name_is_found_listed_and_kept() -> None:
    assert set(oe.__all__) <= set(dir(oe))
    for name in oe.__all__:
        found = getattr(oe, name)
        assert getattr(oe, name) is found
        assert found.__name__.rpartition(".")[2] == name


@pytest.mark.parametrize("module", [oe, exceptions, experiments])
def test_other_names_are_not_there(module: object) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = module.Nothing  # type: ignore[attr-defined]


def test_exceptions_of_scikit_learn_are_made_once_and_are_its_own_too() -> None:
    assert set(exceptions.__all__) <= set(dir(exceptions))
    assert exceptions.NotFittedError is exceptions.NotFittedError
    assert issubclass(exceptions.NotFittedError, exceptions.OptEnsembleError)
    assert issubclass(exceptions.NotFittedError, sklearn.exceptions.NotFittedError)
    assert issubclass(exceptions.NotConvergedWarning, sklearn.exceptions.ConvergenceWarning)
    error = exceptions.NotFittedError("not yet")
    for again in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert type(again) is exceptions.NotFittedError
        assert again.args == ("not yet",)


def test_an_exception_is_unpickled_by_a_process_that_has_not_made_its_class() -> None:
    text = pickle.dumps(exceptions.NotFittedError("not yet")).hex()
    code = f"import pickle; error = pickle.loads(bytes.fromhex({text!r})); print(type(error).__qualname__, error)"
    assert loaded(code)[0] == "NotFittedError not yet\n"


def test_threads_that_ask_at_once_get_the_same_class() -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
from optensemble import exceptions
with ThreadPoolExecutor(8) as pool:
    print(len(set(pool.map(lambda _: exceptions.NotFittedError, range(64)))))
"""
    assert loaded(code)[0] == "1\n"
