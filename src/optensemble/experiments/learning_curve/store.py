"""Learning curves on disk: a JSON file for each experiment, from which a run resumes, and one table for readers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pandas as pd

from optensemble._core.atomic_files import replace
from optensemble.experiments import store
from optensemble.experiments.learning_curve.points import METHODS, STACKING, CurvePoint, LearningCurve
from optensemble.experiments.outcome import FORESIGHT
from optensemble.experiments.settings import CurveSettings, Settings

TABLE = "learning_curve.csv"

_READ: dict[str, Callable[[Any], Any]] = {
    "str": str,
    "int": int,
    "float": store.read_float,
    "int | None": lambda value: None if value is None else int(value),
    "bool | None": lambda value: None if value is None else bool(value),
}
"""How the values of a point are read, by their type."""


def path_of(folder: Path, name: str) -> Path:
    """Return the path of an experiment's learning curve."""
    return folder / f"learning_curve_{name}.json"


def save_curve(folder: Path, curve: LearningCurve, settings: Settings, how: CurveSettings) -> None:
    """Write the points of an experiment that are finished, whole or not at all."""
    store.save_content(path_of(folder, curve.name), asdict(curve), _stamp(settings, how))


def load_curve(folder: Path, name: str, settings: Settings, how: CurveSettings) -> LearningCurve | None:
    """Return the finished points, of whichever sizes, or None; raise ``FileError`` if other settings differ."""
    return store.load_content(path_of(folder, name), lambda document: _read(document, name), _stamp(settings, how))


def save_table(folder: Path, curves: Sequence[LearningCurve]) -> None:
    """Write all points as a table."""
    replace(folder / TABLE, pd.DataFrame(curve_records(curves)).to_csv(index=False).encode())


def curve_records(curves: Sequence[LearningCurve]) -> list[dict[str, Any]]:
    """Return all points, with what follows from them."""
    return [
        {
            "experiment": curve.name,
            **asdict(point),
            "gap": point.gap,
            "promise_true": curve.is_true(point),
            "within_gap_bound": None if math.isnan(point.gap_bound) else point.within_gap_bound,
            "within_regret_bound": None if math.isnan(point.regret_bound) else point.within_regret_bound,
            "interval_kept": None if math.isnan(point.low) else point.interval_kept,
        }
        for curve in curves
        for policy, stage in ((FORESIGHT, STACKING), *METHODS)
        for point in curve.line(policy, stage)
    ]


def _stamp(settings: Settings, how: CurveSettings) -> dict[str, Any]:
    """Return the settings that a point depends on: neither how many there are nor the time they may take."""
    return {**asdict(settings), "joint_rounds": how.joint_rounds}


def _read(document: dict[str, Any], name: str) -> LearningCurve:
    if document["name"] != name:
        raise ValueError(f"it is experiment {document['name']}")
    return LearningCurve(name, tuple(_read_point(line) for line in document["points"]))


def _read_point(line: dict[str, Any]) -> CurvePoint:
    values: dict[str, Any] = {field.name: _READ[str(field.type)](line[field.name]) for field in fields(CurvePoint)}
    point = CurvePoint(**values)
    if (point.policy, point.stage) not in (*METHODS, (FORESIGHT, STACKING)):
        raise ValueError(f"no policy {point.policy} of stage {point.stage}")
    promised = 0.0 if point.policy == FORESIGHT else point.promised
    if not math.isfinite(promised + point.realised):
        raise ValueError(f"no payoff of {point.policy}")
    return point
