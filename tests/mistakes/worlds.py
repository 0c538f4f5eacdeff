"""Clean, honest worlds: models that know some of the labels, a plan, groups and times; as any kind of table."""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pyarrow as pa

import optensemble as oe
from optensemble import cli, feasible
from tests.evaluation.data_worlds import SETS, autocorrelated, make_set

Floats = npt.NDArray[np.float64]

PLACES = ("north", "south", "west")
LABELS = [f"price_{place}" for place in PLACES]
NEAR, FAR, PLAN = ([f"{who}_{place}" for place in PLACES] for who in ("near", "far", "plan"))
MODELS = (("near", oe.Columns("near_*")), ("far", oe.Columns("far_*")))
POLICIES = (("plan", oe.Columns("plan_*")),)
FIT, LATER = 500, 160
LEVEL = 5.0


@dataclass(frozen=True, eq=False)
class World:
    """Rows to fit on, and later ones: prices of three places, two forecasts of them, and the plan of a planner.

    ``X`` and ``Y`` are frames with an index of ids; ``X_new`` and ``Y_new`` are of later rows.
    """

    X: pd.DataFrame
    Y: pd.DataFrame
    X_new: pd.DataFrame
    Y_new: pd.DataFrame

    @staticmethod
    @cache
    def usual() -> World:
        """The world in which mistakes are made."""
        return World.make(0)

    @staticmethod
    def make(seed: int) -> World:
        rng, n = np.random.default_rng(seed), FIT + LATER
        signal = rng.normal(size=(n, 3))
        prices = LEVEL + signal + 0.8 * rng.normal(size=(n, 3))
        said = {"near": LEVEL + signal + 0.4 * rng.normal(size=(n, 3))}
        said["far"] = LEVEL + 0.7 * signal + 0.6 * rng.normal(size=(n, 3))
        said["plan"] = np.eye(3)[(signal + 1.5 * rng.normal(size=(n, 3))).argmax(axis=1)]
        columns: dict[str, Any] = {
            f"{who}_{place}": values[:, j] for who, values in said.items() for j, place in enumerate(PLACES)
        }
        columns |= {f"seen_{place}": signal[:, j] for j, place in enumerate(PLACES)}
        columns["region"] = rng.choice(["hill", "coast", "lake", "bay", "isle", "dale"], size=n)
        columns["customer"] = rng.integers(0, n // 4, size=n)
        ids = pd.Index([f"case-{number}" for number in rng.permutation(n)], name="case")
        X, Y = pd.DataFrame(columns, index=ids), pd.DataFrame(prices, index=ids, columns=LABELS)
        return World(X[:FIT], Y[:FIT], X[FIT:], Y[FIT:])

    @property
    def days(self) -> pd.DatetimeIndex:
        return pd.date_range("2025-01-01", periods=FIT, name="day")

    def table(self, n: int = FIT) -> pd.DataFrame:
        """Return the rows to fit on as they would be in a file, with ids and labels."""
        return pd.concat([self.X, self.Y], axis=1).reset_index()[:n]

    def later_table(self) -> pd.DataFrame:
        return pd.concat([self.X_new, self.Y_new], axis=1).reset_index()


def ensemble(models: Any = MODELS, policies: Any = POLICIES, **options: Any) -> oe.DecisionEnsemble:
    """Return the ensemble of the usual world, with other members or options."""
    options = {"feasible": feasible.Simplex(3), **options}
    return oe.DecisionEnsemble(list(models), list(policies), **options)


def numbers(fitted: oe.DecisionEnsemble, X: Any) -> Floats:
    """Return decisions, by the names of the labels if they have any, promises, and their limits, in one array."""
    answer, promise = fitted.answer(X), fitted.promise(X)
    names = getattr(fitted, "labels_", None)
    order = np.argsort(names) if names is not None else np.arange(answer.actions.shape[1])
    return np.concatenate(
        [answer.actions[:, order].ravel(), answer.promised, [promise.mean, promise.low, promise.high]]
    )


def audited(audit: oe.Audit) -> Floats:
    """Return the numbers of an audit's verdict."""
    return audit.summary[["promised", "realised", "half_width", "low", "high"]].to_numpy(dtype=float).ravel()


# Job files


class Said(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


def command(folder: Path, *arguments: str) -> Said:
    """Run the command line in this process, in a folder; what warns, warns as it would for a user."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["optensemble", *arguments]
    try:
        with (
            contextlib.chdir(folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("default")
            cli.main()
        code: Any = 0
    except SystemExit as ended:
        code = ended.code
    finally:
        sys.argv = before
    return Said(int(code or 0), out.getvalue(), err.getvalue())


JOB: Mapping[str, Mapping[str, str]] = {
    "data": {"fit": '"history.csv"', "labels": '"price_*"', "id": '"case"'},
    "models": {"near": '"near_*"', "far": '"far_*"'},
    "policies": {"plan": '"plan_*"'},
    "feasible": {"kind": '"simplex"'},
    "ensemble": {},
}


def job_text(**changes: Mapping[str, str | None]) -> str:
    """Return the job file of the usual world with other values, which are TOML; None leaves a key out."""
    lines = list[str]()
    for section, keys in JOB.items():
        merged = {**keys, **changes.get(section, {})}
        lines += [f"[{section}]", *(f"{key} = {value}" for key, value in merged.items() if value is not None)]
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def job_folder(history: pd.DataFrame | str, text: str, **files: pd.DataFrame) -> Iterator[Path]:
    """A folder with a table ``history.csv``, a job file, and further tables."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, table in {"history": history, **files}.items():
            path = folder / f"{file}.csv"
            if isinstance(table, str):
                path.write_text(table, encoding="utf-8")
            else:
                table.to_csv(path, index=False)
        (folder / "job.toml").write_text(text, encoding="utf-8")
        yield folder


# Worlds of all kinds


class CleanWorld(NamedTuple):
    """An ensemble and rows without a mistake, of any size, set, sense and kind of table."""

    ensemble: oe.DecisionEnsemble
    X: Any
    Y: Any
    X_new: Any
    Y_new: Any
    options: dict[str, Any]
    audit_options: dict[str, Any]


KINDS = ("pandas", "polars", "pyarrow", "numpy")
SEASONS = 0.6


def clean_world(seed: int) -> CleanWorld:
    """Make a world: every third in time order, every fifth with groups, tables of all kinds in turn."""
    rng = np.random.default_rng(9000 + seed)
    d, n, later = int(rng.integers(2, 8)), int(rng.choice([300, 600, 1500])), 200
    sense, time_ordered, grouped = str(rng.choice(["max", "min"])), seed % 3 == 0, seed % 5 == 1
    omega, sign = make_set(str(rng.choice(SETS)), d, rng), 1.0 if sense == "max" else -1.0
    share, total = SEASONS if time_ordered else 0.0, n + later
    levelled = isinstance(omega, (feasible.Simplex, feasible.TopK))  # elsewhere a level would leave nothing to decide
    level, unit = (4.0 if levelled else 0.0), 10.0 ** rng.integers(-2, 4)
    signal, noise = (autocorrelated(total, d, share, rng) for _ in range(2))
    labels = unit * (level + signal + rng.uniform(0.4, 1.5) * noise)
    columns, models = dict[str, Floats](), list[str]()
    for i in range(int(rng.integers(1, 5))):
        said = unit * (level + signal + (0.2 + 0.3 * i) * rng.normal(size=(total, d)))
        models.append(f"m{i}")
        columns |= {f"m{i}_{j}": said[:, j] for j in range(d)}
    for i in range(int(rng.integers(0, 3))):
        wanted = sign * (signal + (1 + i) * rng.normal(size=(total, d)))
        columns |= {f"p{i}_{j}": each for j, each in enumerate(omega.argmax(wanted).T)}
    policies = sorted({name.partition("_")[0] for name in columns} - set(models))
    frame = pd.DataFrame(columns | {"customer": rng.integers(0, total // 4, size=total)})
    prices = pd.DataFrame(labels, columns=[f"y_{j}" for j in range(d)])
    if time_ordered or seed % 4 == 0:  # rows with times may be independent
        frame.index = prices.index = pd.date_range("2024-01-01", periods=total, freq="h")
    kind = KINDS[seed % 4]
    places = {name: [list(frame.columns).index(f"{name}_{j}") for j in range(d)] for name in [*models, *policies]}
    member = {name: (name, oe.Columns(places[name] if kind == "numpy" else f"{name}_*")) for name in places}
    groups = frame["customer"].to_numpy() if grouped and not time_ordered else None
    first, last = (
        {"time_ordered": time_ordered, "groups": None if groups is None else groups[rows]}
        for rows in (slice(n), slice(n, None))
    )
    X, Y, X_new, Y_new = (table_of(each, kind) for each in (frame[:n], prices[:n], frame[n:], prices[n:]))
    made = oe.DecisionEnsemble([member[name] for name in models], [member[name] for name in policies], omega, sense)
    return CleanWorld(made, X, Y, X_new, Y_new, first, last)


def table_of(frame: pd.DataFrame, kind: str) -> Any:
    """Return a frame as another kind of table."""
    if kind == "numpy":
        return frame.to_numpy()
    if kind == "polars":
        return pl.from_pandas(frame)
    return pa.Table.from_pandas(frame, preserve_index=False) if kind == "pyarrow" else frame
