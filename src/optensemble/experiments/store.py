"""Finished experiments on disk: a JSON file each, from which a run goes on, and a summary for readers."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from optensemble._core.atomic_files import replace
from optensemble.exceptions import FileError
from optensemble.experiments.outcome import (
    BLACK,
    FORESIGHT,
    FRESH,
    HONEST,
    IN_SAMPLE,
    MEASURES,
    POLICIES,
    WHITE,
    Judgement,
    Outcome,
    costs_frame,
    curve_columns,
    debiasing_seconds,
)
from optensemble.experiments.settings import Settings

FORMAT = 2
RESULTS = "results.json"
_PACKAGES = ("optensemble", "numpy", "scipy", "scikit-learn", "numba", "pandas", "matplotlib")


def path_of(folder: Path, name: str) -> Path:
    """Return where an experiment is kept."""
    return folder / f"experiment_{name}.json"


def save(folder: Path, outcome: Outcome, settings: Settings) -> None:
    """Keep a finished experiment, whole or not at all."""
    document = {
        "format": FORMAT,
        "settings": asdict(settings),
        "versions": _versions(),
        **_numbers(outcome),
        "curves": {where: _lists(curves) for where, curves in outcome.curves.items()},
        "disagreement": outcome.disagreement.tolist(),
    }
    replace(path_of(folder, outcome.name), _json(document, None))


def load(folder: Path, name: str, settings: Settings) -> Outcome | None:
    """Return a finished experiment, or None if there is none; refuse one that was run with other settings."""
    path = path_of(folder, name)
    if not path.exists():
        return None
    ours: dict[str, Any] = {"format": FORMAT}
    try:
        document = json.loads(path.read_bytes())
        theirs = {"format": document["format"]}
        if theirs == ours:  # what else there is depends on the format
            ours |= asdict(settings) | _versions()
            theirs |= document["settings"] | document["versions"]
        outcome = _outcome(document, name) if theirs == ours else None
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}. Start anew without --resume.") from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise FileError(
            f"{path} is not a whole experiment ({type(error).__name__}: {error}). Delete it, or start anew without "
            "--resume."
        ) from error
    if outcome is None:
        keys = [key for key in {**ours, **theirs} if theirs.get(key) != ours.get(key)]
        other = "; ".join(f"{key.replace('_', ' ')} {theirs.get(key)}, not {ours.get(key)}" for key in keys)
        raise FileError(
            f"{path} was run with {other}. Give the same options, another --out, or start anew without --resume."
        )
    return outcome


def _outcome(document: dict[str, Any], name: str) -> Outcome:
    """Return what was saved; raise an error if something is not there."""
    if document["name"] != name:
        raise ValueError(f"it is experiment {document['name']}")
    outcome = Outcome(
        name=name,
        note=str(document["note"]),
        members=[str(member) for member in document["members"]],
        best=str(document["best"]),
        payoffs=pd.DataFrame(document["payoffs"]).astype(dict.fromkeys(MEASURES, np.float64)),
        costs=costs_frame(document["costs"]),
        curves={where: pd.DataFrame(document["curves"][where]) for where in (IN_SAMPLE, FRESH)},
        disagreement=np.array(document["disagreement"], dtype=np.float64),
        judgement=_judgement(document["judgement"]),
    )
    for where, curves in outcome.curves.items():
        for policy in POLICIES:
            line = outcome.payoff(where, policy)
            if not np.isfinite(line.realised if policy == FORESIGHT else [line.promised, line.realised]).all():
                raise ValueError(f"no payoff of {policy}")
        curves[curve_columns(outcome.members)]
        if outcome.disagreement.shape[0] != len(curves):
            raise ValueError(f"disagreement has {outcome.disagreement.shape[0]} looks, and curves have {len(curves)}")
    for ensemble in (WHITE, BLACK, HONEST):
        if outcome.cost(ensemble) is None:
            raise LookupError(f"costs of {ensemble}")
    return outcome


def _judgement(document: dict[str, Any]) -> Judgement:
    low, high, way_error = np.array([document[key] for key in ("low", "high", "way_error")], dtype=np.float64).tolist()
    if not low <= high:
        raise ValueError("no interval of the promise")
    judgement = Judgement(
        low=low,
        high=high,
        kept=bool(document["kept"]),
        gains=pd.DataFrame(document["gains"]).astype(dict.fromkeys(("gain", "gain_error"), np.float64)),
        way_error=way_error,
        verdict=str(document["verdict"]),
        finding=str(document["finding"]),
    )
    for policy in POLICIES:
        if policy not in (FORESIGHT, HONEST) and not np.isfinite(judgement.gain(policy).gain):
            raise ValueError(f"no gain over {policy}")
    return judgement


def summary(outcomes: Sequence[Outcome], settings: Settings, seconds: dict[str, float]) -> dict[str, Any]:
    """Return everything but curves and disagreement."""
    return {
        "format": FORMAT,
        "settings": asdict(settings),
        "versions": _versions(),
        "machine": platform.platform(),
        "seconds": {"debiasing": debiasing_seconds(outcomes), **seconds},
        "experiments": {outcome.name: _numbers(outcome) for outcome in outcomes},
    }


def save_summary(folder: Path, document: dict[str, Any]) -> None:
    """Write what :func:`summary` returned."""
    replace(folder / RESULTS, _json(document, 2))


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


def _numbers(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.name,
        "note": outcome.note,
        "members": outcome.members,
        "best": outcome.best,
        "payoffs": outcome.payoffs.to_dict("records"),
        "costs": outcome.costs.to_dict("records"),
        "judgement": {**vars(outcome.judgement), "gains": outcome.judgement.gains.to_dict("records")},
    }


def _lists(frame: pd.DataFrame) -> dict[str, list[Any]]:
    return {str(name): frame[name].tolist() for name in frame.columns}


def _json(document: dict[str, Any], indent: int | None) -> bytes:
    return json.dumps(_plain(document), indent=indent, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: no numpy scalars, and null for what is not a number."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if value is pd.NA or (isinstance(value, float) and not math.isfinite(value)) else value
