"""The certificate of a LiveEnsemble in a sentence."""

from __future__ import annotations

from typing import Any

from optensemble._core.number_format import format_by_error, format_significant

_NUMBERS = {2: "two", 3: "three"}


def certificate_text(certificate: Any, *, cost: bool) -> str:
    """Return what was lost at most to the best policy, and what was, per row; of costs what was paid beyond it."""
    rows, policies = int(certificate["rows"].iloc[0]), len(certificate)
    if not certificate["counted"].iloc[0]:
        return "No labels have arrived yet"
    bound, lost = float(certificate["bound_per_row"].max()), float(certificate["lost_per_row"].max())
    most, was = (
        format_by_error([bound, abs(lost), bound / 10])[:2]
        if bound > 0
        else map(format_significant, (bound, abs(lost)))
    )
    counted = f"On {rows:,} row{'' if rows == 1 else 's'}"
    best = f"the best of the {_NUMBERS.get(policies, policies)} policies"
    verb, more = ("paid", "more than") if cost else ("lost", "against")
    if lost >= 0:
        told = f"you {verb} {was}{' more' if cost else ''}"
    else:
        told = f"you {'paid' if cost else 'earned'} {was} {'less' if cost else 'more'} than it"
    return f"{counted} you {verb} at most {most} a row {more} {best}; {told}"
