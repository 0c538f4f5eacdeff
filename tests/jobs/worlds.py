"""A small world of tables and job files: two models that each know half, a planner, and what came true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.ipc as ipc

import optensemble as oe
from optensemble import feasible

Floats = npt.NDArray[np.float64]

STARS = ("0", "1", "2")
LABELS = [f"y_{star}" for star in STARS]
MODELS = {name: oe.Columns([f"{name}_{star}" for star in STARS]) for name in ("a", "b")}
POLICIES = {"plan": oe.Columns([f"plan_{star}" for star in STARS])}
SENSES = ("max", "min")

JOB: dict[str, dict[str, Any]] = {
    "data": {"fit": "history.csv", "labels": "y_*"},
    "models": {"a": "a_*", "b": "b_*"},
    "policies": {"plan": "plan_*"},
    "feasible": {"kind": "simplex"},
    "ensemble": {},
}


def make_rows(n: int = 240, seed: int = 0) -> pd.DataFrame:
    """Make rows with ids, times, regions and customers; a knows the first coordinates, b the last.

    Three rows share a time: times of which most are distinct would be taken for a column that a job should name.
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    truth = x + rng.normal(scale=0.5, size=(n, 3))
    a, b = (x * known + 0.1 * rng.normal(size=(n, 3)) for known in ([1, 1, 0], [0, 1, 1]))
    plan = np.eye(3)[(x + rng.normal(size=(n, 3))).argmax(axis=1)]
    rows = pd.DataFrame(
        {
            "day": [f"{seed}-{i:05d}" for i in range(n)],
            "date": pd.date_range("2025-01-01", periods=n, freq="h").floor("3h").strftime("%Y-%m-%dT%H:%M"),
            "region": rng.choice(["north", "south"], size=n),
            "customer": rng.integers(n // 3, size=n),
        }
    )
    for name, values in (("y", truth), ("a", a), ("b", b), ("plan", plan)):
        for j, star in enumerate(STARS):
            rows[f"{name}_{star}"] = values[:, j]
    return rows


def dated(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with a date of their own each, in order: a column that a job should name as time."""
    return rows.assign(date=pd.date_range("2025-01-01", periods=len(rows)).strftime("%Y-%m-%d"))


def labels_of(rows: pd.DataFrame) -> Floats:
    return rows[LABELS].to_numpy(dtype=np.float64)


def python_ensemble(sense: str = "max", **parameters: Any) -> oe.DecisionEnsemble:
    """The ensemble that the job of this world describes, in Python."""
    return oe.DecisionEnsemble(
        context=None,
        models=list(MODELS.items()),
        policies=list(POLICIES.items()),
        feasible=feasible.Simplex(3),
        sense=sense,
        **parameters,
    )


def write_table(rows: pd.DataFrame, path: Path, **options: Any) -> Path:
    """Write a table in the format of the file's name; ``.stream.arrow`` is a stream."""
    if path.suffix == ".parquet":
        rows.to_parquet(path, index=False, **options)
        return path
    if path.suffix not in (".arrow", ".feather"):
        rows.to_csv(path, index=False, **options)
        return path
    table = pa.Table.from_pandas(rows, preserve_index=False)
    if path.name.endswith(".stream.arrow"):
        with ipc.new_stream(str(path), table.schema) as stream:
            stream.write_table(table, **options)
    elif path.suffix == ".arrow":
        with ipc.new_file(str(path), table.schema) as file:
            file.write_table(table, **options)
    else:
        pf.write_feather(table, path, **options)
    return path


def read_table(path: Path) -> pd.DataFrame:
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    if path.suffix in (".arrow", ".feather"):
        return pd.DataFrame(pf.read_feather(path))
    return pd.read_csv(path)


def job_text(**changes: dict[str, Any] | None) -> str:
    """Return the world's job file with other sections; what is None is left out."""
    parts = {name: {**section, **(changes.get(name, {}) or {})} for name, section in JOB.items()}
    parts |= {name: given for name, given in changes.items() if name not in JOB and given is not None}
    lines: list[str] = []
    for name, section in parts.items():
        if name in changes and changes[name] is None:
            continue
        lines.append(f"[{name}]")
        blocks = section.get("blocks", ()) if isinstance(section.get("blocks", ()), list) else ()
        plain = {key: value for key, value in section.items() if value is not None and not (key == "blocks" and blocks)}
        lines += [f"{json.dumps(key)} = {toml_text(value)}" for key, value in plain.items()]
        for block in blocks:
            lines.append(f"[[{name}.blocks]]")
            lines += [f"{key} = {toml_text(value)}" for key, value in block.items()]
    return "\n".join(lines) + "\n"


def toml_text(value: Any) -> str:
    """Return a value as TOML has it: as JSON, but for tables."""
    if isinstance(value, list):
        return f"[{', '.join(map(toml_text, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(key)} = {toml_text(each)}' for key, each in value.items())}}}"
    return json.dumps(value)


def write_job(folder: Path, **changes: dict[str, Any] | None) -> Path:
    path = folder / "job.toml"
    path.write_text(job_text(**changes), encoding="utf-8")
    return path


def leftovers(folder: Path) -> list[str]:
    """Return the names of temporary files that were left in a folder."""
    return [path.name for path in folder.rglob(".*")]
