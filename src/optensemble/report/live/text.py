"""Words and numbers of a live page: key figures, the certificate, and why a decision was made."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.number_format import (
    NO_NUMBER,
    column_decimals,
    format_number,
    format_percent,
    format_significant,
)
from optensemble.ensembles._live_log import LoggedDecision
from optensemble.ensembles._live_state import chosen_of
from optensemble.ensembles._live_text import certificate_text
from optensemble.monitoring.monitor import Monitor
from optensemble.report.figures import axis_name
from optensemble.report.live.data import LivePageData
from optensemble.report.overview.text import foresight_figure
from optensemble.report.phrases import KeyFigure, as_sentence, capitalise, count_of, join_words

TITLE = "Decisions in service"
"""The title of a page that was given none."""

ABOUT_MONITOR = (
    "The monitor compares what each fit promised of its own actions, without the correction, with what these came to, "
    "row by row."
)

_EQUALS = "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}"
_ALONE = 0.9995  # the weight of a policy beside which the others do not count
_NOTABLE = 0.005  # of the bound: smaller parts are not named
_SAME = 1e-9  # of the largest coordinate: actions that differ by less are the same


def live_title(data: LivePageData) -> str:
    """Return the title as given, or that of all."""
    return data.terms.title.strip() or TITLE


# Key figures


def live_figures(data: LivePageData) -> list[KeyFigure]:
    """Return what was promised and earned so far, the gap and the share of foresight, and how many rows there are."""
    totals, terms, came = data.totals, data.terms, "Paid" if data.cost else "Earned"
    rows = [_row_figure(data), _open_figure(data)]
    if not data.rows:
        none = "no labels have arrived yet"
        titles = "Promised so far", f"{came} so far", "Gap", "Share of foresight"
        return [*(KeyFigure(title, NO_NUMBER, none) for title in titles), *rows]
    decimals = column_decimals([totals.promised, totals.realised, totals.foresight or 0.0])
    gap = totals.realised - totals.promised
    promised, realised = (terms.amount(format_number(each, decimals)) for each in (totals.promised, totals.realised))
    return [
        KeyFigure("Promised so far", promised, _per_row(data, totals.promised)),
        KeyFigure(f"{came} so far", realised, _per_row(data, totals.realised)),
        KeyFigure(
            "Gap",
            terms.amount(format_number(gap, decimals, "+")),
            f"{came.lower()} − promised; {_per_row(data, gap, '+')}",
        ),
        foresight_figure(totals, terms, decimals),
        *rows,
    ]


def _per_row(data: LivePageData, total: float, sign: str = "") -> str:
    """Return a total per row; totals of payoffs are all told with the same decimals."""
    totals = data.totals
    if not totals.weight:
        return "these rows count for nothing"
    means = [each / totals.weight for each in (totals.promised, totals.realised)]
    shown = format_number(total / totals.weight, column_decimals(means), sign)
    return f"{data.terms.amount(shown)} per {data.terms.unit}"


def _row_figure(data: LivePageData) -> KeyFigure:
    counted = data.totals.weight
    weighed = "" if counted == data.rows else f"; they count for {counted:,.6g}"
    return KeyFigure(f"Labelled {data.terms.units}", f"{data.rows:,}", f"of {data.decided:,} decided{weighed}")


def _open_figure(data: LivePageData) -> KeyFigure:
    told = [f"the oldest for {count_of(oldest_age(data), 'decision')}"] if data.oldest else ["every label has come"]
    told += [f"{data.expired:,} expired"] if data.expired else []
    if not data.decided:
        told = ["nothing has been decided yet"]
    return KeyFigure(f"Open {data.terms.units}", f"{data.open:,}", "; ".join(told))


def oldest_age(data: LivePageData) -> int:
    """Return how many rows were decided since the oldest open one."""
    return data.decided - 1 - data.oldest[0].number


# Sentences


def finding_text(data: LivePageData) -> str:
    """Return the certificate as a sentence."""
    return as_sentence(certificate_text(data.certificate, cost=data.cost))


def about_bound(data: LivePageData) -> str:
    """Return what the bound is made of, and the rows that it does not cover."""
    bound, parts = (
        float(data.certificate["bound"].max()),
        {"drift": "late labels", "played": "playing one policy"},
    )
    shares = {what: data.certificate.attrs[name] / bound for name, what in parts.items()} if bound > 0 else {}
    prices = [f"{format_percent(share)} is due to {what}" for what, share in shares.items() if share >= _NOTABLE]
    made = f" Of it, {join_words(prices)}." if prices else ""
    missing = [f"{data.open:,} open"] if data.open else []
    missing += [f"{data.expired:,} expired"] if data.expired else []
    verb = "row is" if data.open + data.expired == 1 else "rows are"
    left = f" {capitalise(join_words(missing))} {verb} not covered: nothing is known of them." if missing else ""
    return f"The bound holds for any labels and any delays.{made}{left}"


def about_weights(data: LivePageData) -> str:
    """Return what is played."""
    if data.mixes:
        return "What is played is the mixture of the policies' actions by these weights."
    return "What is played is the action of the policy with the largest weight."


def monitor_text(monitor: Monitor) -> str:
    """Return what the monitor has found, and how sure it is."""
    doubt = "" if monitor.standing else f"; {monitor.doubt}"  # an alarm tells it by itself
    return as_sentence(f"{monitor}{doubt}")


def about_open(data: LivePageData) -> str:
    """Return how many rows are open and expired."""
    units, expired = data.terms.count(data.open), ""
    if data.expired:
        expired = f" {capitalise(data.terms.count(data.expired))} expired: labels of them are not taken any more."
    if not data.open:
        return f"No {data.terms.unit} is open.{expired}"
    age = count_of(oldest_age(data), "further decision")
    verb = "is" if data.open == 1 else "are"
    return f"{units} {verb} decided and without labels; the oldest has waited for {age}.{expired}"


# Decisions


def action_text(action: Floats, names: Sequence[str], most: int) -> str:
    """Return an action by the names of its coordinates: the largest that are not 0, in their order.

    >>> action_text(np.array([0.25, 0.0, 0.75]), ["north", "south", "east"], 2).replace(chr(160), " ")
    'north = 0.25, east = 0.75'
    >>> action_text(np.zeros(2), ["north", "south"], 2), action_text(np.array([0.5]), ["north"], 2)
    ('all 0', '0.5')
    """
    decimals = column_decimals(action.tolist())
    if len(action) == 1:
        return _trimmed(float(action[0]), decimals)
    largest = np.sort(np.argsort(-np.abs(action), kind="stable")[:most])
    shown = [(names[j], float(action[j])) for j in largest.tolist() if action[j] != 0]
    return ", ".join(f"{axis_name(name)}{_EQUALS}{_trimmed(value, decimals)}" for name, value in shown) or "all 0"


def _trimmed(value: float, decimals: int) -> str:
    """Return a number without zeros at its end."""
    text = format_number(value, decimals)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def why_text(decision: LoggedDecision, policies: Sequence[str], *, mixes: bool) -> str:
    """Return why a decision was made: whom it follows, whether the policies agree, and how its promise is corrected."""
    followed = _mixed(decision, policies) if mixes else _heaviest(decision, policies)
    return f"{followed} {_agreement(decision, policies)} {_shift(decision)}"


def _mixed(decision: LoggedDecision, policies: Sequence[str]) -> str:
    order = np.argsort(-decision.weights, kind="stable")
    first = float(decision.weights[order[0]])
    if first > _ALONE:
        return f"Follows {policies[order[0]]}, which has {format_percent(first)} of the weight."
    some = [
        f"{policies[i]} {format_percent(float(decision.weights[i]))}" for i in order.tolist() if decision.weights[i] > 0
    ]
    return f"Mixes {join_words(some)}."


def _heaviest(decision: LoggedDecision, policies: Sequence[str]) -> str:
    played = int(chosen_of(decision.weights, mixes=False).argmax())
    return f"Follows {policies[played]}, the heaviest policy with {format_percent(float(decision.weights[played]))}."


def _agreement(decision: LoggedDecision, policies: Sequence[str]) -> str:
    """Return which policies propose the same action."""
    groups = list[list[int]]()
    close = _SAME * (float(np.abs(decision.proposed).max(initial=0.0)) or 1.0)
    for i, action in enumerate(decision.proposed):
        alike = [group for group in groups if np.abs(decision.proposed[group[0]] - action).max() <= close]
        if alike:
            alike[0].append(i)
        else:
            groups.append([i])
    if len(groups) == 1:
        return "All policies propose this action."
    if len(groups) == len(policies):
        return "Each policy proposes another action."
    together, alone = sorted(groups, key=len, reverse=True)
    names = join_words(policies[i] for i in together)
    return f"{capitalise(names)} propose the same action, {policies[alone[0]]} another."


def _shift(decision: LoggedDecision) -> str:
    shift = decision.promised - decision.raw
    if not isfinite(shift) or abs(shift) <= _SAME * max(abs(decision.raw), abs(decision.promised)):
        return "The promise is not corrected."
    way = "raises" if shift > 0 else "lowers"
    return f"The correction {way} the promise by {format_significant(abs(shift), 2)}."
