"""What is told of an ensemble in service: the data of its page, and its state as a document."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from optensemble.ensembles.live import LiveEnsemble
from optensemble.jobs.roles import Roles
from optensemble.report.live.data import LivePageData, known_terms
from optensemble.report.live.verdict import live_verdict

_LATEST = 100
"""Decisions that a page shows at most."""


def live_page_data(live: LiveEnsemble, **terms: str | None) -> LivePageData:
    """Return the data of a page on an ensemble with a log; ``terms`` given here replace those of the job file."""
    table = live.ensemble_.table_
    return LivePageData.of(
        live,
        live.log.latest(_LATEST),
        datetime.now(UTC),
        terms=known_terms(live).replaced(**terms),
        coordinates=Roles.of_plain(table).coordinates if table else None,
    )


def live_status(live: LiveEnsemble) -> dict[str, Any]:
    """Return the state of an ensemble with a log, in plain types."""
    data = LivePageData.of(live, [], datetime.now(UTC))
    totals, verdict = data.totals, live_verdict(data)
    rows = data.rows
    promised, earned = (totals.promised, totals.realised) if rows else (None, None)
    oldest = live.open_["age"]
    monitor = live.monitor
    return {
        "log": _log_document(live),
        "decided": data.decided,
        "labelled": rows,
        "open": data.open,
        "oldest_age": int(oldest.max()) if len(oldest) else None,
        "expired": data.expired,
        "counted": totals.weight if rows else 0.0,
        "promised": promised,
        "earned": earned,
        "gap": None if promised is None or earned is None else earned - promised,
        "cost": data.cost,
        "correction": data.correction,
        "certificate": live.finding_,
        "policies": data.certificate[["policy", "weight", "lost_per_row", "bound_per_row"]],
        "verdict": {"status": verdict.status, "headline": verdict.headline, "sentence": verdict.sentence},
        "alarms": [] if monitor is None else [vars(alarm) for alarm in monitor.standing],
        "refits": live.refits_,
        "refit_due": live.refit_due_,
    }


def _log_document(live: LiveEnsemble) -> dict[str, Any]:
    log = live.log
    counts = {name: _as_text(value) for name, value in vars(log.counts()).items()}
    return {"name": log.name, "leader": log.leader, **counts}


def _as_text(value: Any) -> Any:
    return value.isoformat(timespec="seconds") if isinstance(value, datetime) else value
