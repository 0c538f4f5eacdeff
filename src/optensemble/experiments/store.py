"""Finished experiments on disk: a JSON file each, from which a run resumes, and a summary for readers."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from optensemble._core.atomic_files import replace
from optensemble.exceptions import FileError
from optensemble.experiments.outcome import (
    BLACK_BOX_ENSEMBLE,
    DECISION_ENSEMBLE,
    FORESIGHT,
    FRESH,
    IN_SAMPLE,
    POLICIES,
    WHITE_BOX_ENSEMBLE,
    DecisionAudit,
    Outcome,
    PolicyCost,
    PolicyGain,
    PolicyPayoff,
    curve_columns,
    debiasing_seconds,
)
from optensemble.experiments.settings import Settings

FORMAT = 2
RESULTS = "results.json"
_PACKAGES = ("optensemble", "numpy", "scipy", "scikit-learn", "numba", "pandas", "matplotlib")


Content = TypeVar("Content")


def path_of(folder: Path, name: str) -> Path:
    """Return the path of an experiment's file."""
    return folder / f"experiment_{name}.json"


def save_outcome(folder: Path, outcome: Outcome, settings: Settings) -> None:
    """Write a finished experiment, whole or not at all."""
    content = {
        **_number_document(outcome),
        "curves": {where: _column_lists(curves) for where, curves in outcome.curves.items()},
        "disagreement": outcome.disagreement.tolist(),
    }
    save_content(path_of(folder, outcome.name), content, asdict(settings))


def load_outcome(folder: Path, name: str, settings: Settings) -> Outcome | None:
    """Return a finished experiment, or None if there is none; raise :class:`FileError` if its settings differ."""
    return load_content(path_of(folder, name), lambda document: _read_outcome(document, name), asdict(settings))


def save_content(path: Path, content: dict[str, Any], settings: dict[str, Any]) -> None:
    """Write a document with the settings and versions it was made with, whole or not at all."""
    document = {"format": FORMAT, "settings": settings, "versions": _versions(), **content}
    replace(path, _json_bytes(document, None))


def load_content(path: Path, read: Callable[[dict[str, Any]], Content], settings: dict[str, Any]) -> Content | None:
    """Return what ``read`` makes of a document, or None if there is none.

    Raises :class:`FileError` if it was made with other settings or versions, or if ``read`` finds it malformed.
    """
    if not path.exists():
        return None
    ours: dict[str, Any] = {"format": FORMAT}
    try:
        document = json.loads(path.read_bytes())
        theirs = {"format": document["format"]}
        if theirs == ours:  # other formats have other contents
            ours |= _json_value(settings) | _versions()
            theirs |= document["settings"] | document["versions"]
        content = read(document) if theirs == ours else None
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}. Start anew without --resume.") from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise FileError(
            f"{path} is not a whole experiment ({type(error).__name__}: {error}). Delete it, or start anew without "
            "--resume."
        ) from error
    if content is None:
        keys = [key for key in {**ours, **theirs} if theirs.get(key) != ours.get(key)]
        other = "; ".join(f"{key.replace('_', ' ')} {theirs.get(key)}, not {ours.get(key)}" for key in keys)
        raise FileError(
            f"{path} was run with {other}. Give the same options, another --out, or start anew without --resume."
        )
    return content


def _read_outcome(document: dict[str, Any], name: str) -> Outcome:
    """Return the saved outcome; raise an error if a part is missing or malformed."""
    if document["name"] != name:
        raise ValueError(f"it is experiment {document['name']}")
    outcome = Outcome(
        name=name,
        note=str(document["note"]),
        members=[str(member) for member in document["members"]],
        best=str(document["best"]),
        payoffs=tuple(_read_payoff(line) for line in document["payoffs"]),
        costs=tuple(_read_cost(line) for line in document["costs"]),
        curves={where: pd.DataFrame(document["curves"][where]) for where in (IN_SAMPLE, FRESH)},
        disagreement=np.array(document["disagreement"], dtype=np.float64),
        audit=_read_audit(document["judgement"]),
    )
    for where, curves in outcome.curves.items():
        for policy in POLICIES:
            line = outcome.payoff(where, policy)
            if not np.isfinite(line.realised if policy == FORESIGHT else [line.promised, line.realised]).all():
                raise ValueError(f"no payoff of {policy}")
        curves[curve_columns(outcome.members)]
        if outcome.disagreement.shape[0] != len(curves):
            raise ValueError(f"disagreement has {outcome.disagreement.shape[0]} rounds, and curves have {len(curves)}")
    for ensemble in (WHITE_BOX_ENSEMBLE, BLACK_BOX_ENSEMBLE, DECISION_ENSEMBLE):
        if not outcome.has_cost(ensemble):
            raise LookupError(f"costs of {ensemble}")
    return outcome


def _read_payoff(line: dict[str, Any]) -> PolicyPayoff:
    numbers = {name: read_float(line[name]) for name in ("promised", "realised", "gap", "gap_error", "way")}
    return PolicyPayoff(str(line["where"]), str(line["policy"]), **numbers)


def _read_cost(line: dict[str, Any]) -> PolicyCost:
    counts = {name: None if line[name] is None else int(line[name]) for name in ("rounds", "row_solves", "avoided")}
    return PolicyCost(
        policy=str(line["policy"]),
        **counts,
        seconds=read_float(line["seconds"]),
        converged=None if line["converged"] is None else bool(line["converged"]),
        worst_violation=read_float(line["worst_violation"]),
        stopped=None if line["stopped"] is None else str(line["stopped"]),
    )


def read_float(value: float | None) -> float:
    """Return a number of a JSON document, in which null stands for NaN."""
    return math.nan if value is None else float(value)


def _read_audit(document: dict[str, Any]) -> DecisionAudit:
    low, high, way_error = (read_float(document[key]) for key in ("low", "high", "way_error"))
    if not low <= high:
        raise ValueError("no interval of the promise")
    audit = DecisionAudit(
        low=low,
        high=high,
        kept=bool(document["kept"]),
        gains=tuple(
            PolicyGain(str(line["policy"]), read_float(line["gain"]), read_float(line["gain_error"]))
            for line in document["gains"]
        ),
        way_error=way_error,
        verdict=str(document["verdict"]),
        finding=str(document["finding"]),
    )
    for policy in POLICIES:
        if policy not in (FORESIGHT, DECISION_ENSEMBLE) and not math.isfinite(audit.gain_over(policy).gain):
            raise ValueError(f"no gain over {policy}")
    return audit


def summary_document(outcomes: Sequence[Outcome], settings: Settings, seconds: dict[str, float]) -> dict[str, Any]:
    """Return the content of ``results.json``: everything but curves and disagreement."""
    return {
        "format": FORMAT,
        "settings": asdict(settings),
        "versions": _versions(),
        "machine": platform.platform(),
        "seconds": {"debiasing": debiasing_seconds(outcomes), **seconds},
        "experiments": {outcome.name: _number_document(outcome) for outcome in outcomes},
    }


def save_summary(folder: Path, document: dict[str, Any]) -> None:
    """Write the document of :func:`summary_document`."""
    replace(folder / RESULTS, _json_bytes(document, 2))


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


def _number_document(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.name,
        "note": outcome.note,
        "members": outcome.members,
        "best": outcome.best,
        "payoffs": [asdict(payoff) for payoff in outcome.payoffs],
        "costs": [asdict(cost) for cost in outcome.costs],
        "judgement": asdict(outcome.audit),
    }


def _column_lists(frame: pd.DataFrame) -> dict[str, list[Any]]:
    return {str(name): frame[name].tolist() for name in frame.columns}


def _json_bytes(document: dict[str, Any], indent: int | None) -> bytes:
    return json.dumps(_json_value(document), indent=indent, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _json_value(value: Any) -> Any:
    """Return a value for JSON: Python numbers instead of numpy's, and None for NaN and infinities."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return {key: _json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
