"""Findings of a LiveEnsemble as JSON documents."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import optensemble
from optensemble.ensembles.live import LiveEnsemble
from optensemble.monitoring.alarm import Alarm
from optensemble.monitoring.monitor import Monitor

_LATEST = 100  # alarms that are listed


def refit_due(live: LiveEnsemble) -> str:
    """Return why a refit is due; empty if none is, or if only a function of the user's would tell."""
    asks = callable(live.refit) and live._current.running is None
    return "" if asks else live.refit_due_


def status(live: LiveEnsemble) -> dict[str, Any]:
    """Return where an ensemble stands."""
    now, refits, log = live._current, live._current.refits, live.log
    return {
        "version": optensemble.__version__,
        "sense": live.ensemble_.sense,
        "decided": live.decided_,
        "labels": live.rows_,
        "open": now.open,
        "expired": live.expired_,
        "policies": dict(zip(live.policies_, live.weights_.tolist(), strict=True)),
        "correction": live.correction_,
        "refit": {
            "due": refit_due(live),
            "running": now.running is not None,
            "made": sum(not each.failed for each in refits),
            "failed": sum(bool(each.failed) for each in refits),
            "last": refits[-1].outcome if refits else None,
        },
        "finding": live.finding_,
        "alarms": [alarm.sentence(live.ensemble_.sense) for alarm in standing(live)],
        "log": None if log is None else _counts(log),
    }


def _counts(log: Any) -> dict[str, Any]:
    counts = log.counts()
    names = ("entries", "decisions", "labels", "checkpoints", "pruned_rows", "pruned_entries", "bytes")
    moments = {name: getattr(counts, name) for name in ("first_at", "last_at")}
    return {name: getattr(counts, name) for name in names} | {
        name: None if at is None else at.isoformat() for name, at in moments.items()
    }


def certificate(live: LiveEnsemble) -> dict[str, Any]:
    """Return the regret against each policy, and a bound on it."""
    frame = live.certificate()
    of_policy = ["policy", "weight", "lost", "bound", "lost_per_row", "bound_per_row"]
    of_all = ["rows", "counted", "open", "expired", "promise_error"]
    first: dict[str, Any] = {name: float(frame[name].iloc[0]) for name in of_all}
    whole = {name: int(first[name]) for name in ("rows", "open", "expired")}
    return {
        "finding": live.finding_,
        "policies": frame[of_policy].to_dict("records"),
        **first,
        **whole,
        **{name: float(frame.attrs[name]) for name in ("regret", "drift", "played")},
    }


def monitor(live: LiveEnsemble) -> dict[str, Any]:
    """Return what the monitor has seen; no alarm and a null where there is no monitor."""
    found = live.monitor
    if found is None:
        return {"finding": "there is no monitor: the fit left no record out of fold", "watches": None, "alarms": []}
    latest = found.alarms.tail(_LATEST).to_dict("records")
    return {
        "finding": str(found),
        "watches": {
            "rows": found.rows,
            "doubt": found.doubt,
            "threshold": found.threshold,
            "evidence": evidence(found),
            "standing": [asdict(alarm) for alarm in found.standing],
            "restarts": list(found.restarts[-_LATEST:]),
        },
        "alarms": latest,
    }


def standing(live: LiveEnsemble) -> tuple[Alarm, ...]:
    """Return the alarms that stand."""
    return () if live.monitor is None else live.monitor.standing


def evidence(found: Monitor) -> dict[str, float]:
    """Return the latest evidence of drift in each direction, as a decimal logarithm."""
    frame = found.evidence
    return {name: float(frame[name].iloc[-1]) for name in found.directions} if len(frame) else {}
