"""The look of a verdict: its mark and status by grade."""

from __future__ import annotations

from optensemble.evaluation.verdict import Grade, Verdict

_BROKEN = {"status": "broken", "mark": "✗"}
_LOOKS = {
    Grade.KEPT: {"status": "kept", "mark": "✓"},
    Grade.BIASED: {"status": "doubt", "mark": "≈"},
    Grade.WIDE: {"status": "doubt", "mark": "≈"},
    Grade.FEW: {"status": "unsure", "mark": "?"},
    Grade.LESS: _BROKEN,
    Grade.MORE: _BROKEN,
    Grade.OPEN: {"status": "open", "mark": "–"},
    Grade.SEEN: {"status": "open", "mark": "–"},
}
_OF_A_PROMISE = (Grade.KEPT, Grade.BIASED, Grade.WIDE, Grade.LESS, Grade.MORE)


def status_of(verdict: Verdict) -> str:
    """Return the status that a verdict is coloured by: kept, doubt, unsure, broken or open."""
    return _LOOKS[verdict.grade]["status"]


def mark_of(verdict: Verdict) -> str:
    """Return the mark before a verdict: ✓ kept, ≈ kept with a reservation, ? too few rows, ✗ broken, – none."""
    return _LOOKS[verdict.grade]["mark"]


def headline(verdict: Verdict) -> str:
    """Return the outcome as a heading.

    >>> headline(Verdict(Grade.WIDE, "kept, but too wide to be useful", ""))
    'The promise was kept, but too wide to be useful'
    >>> headline(Verdict(Grade.FEW, "too few rows to tell", ""))
    'Too few rows to tell'
    """
    said = verdict.outcome
    return f"The promise was {said}" if verdict.grade in _OF_A_PROMISE else f"{said[:1].upper()}{said[1:]}"
