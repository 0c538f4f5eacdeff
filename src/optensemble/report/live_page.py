"""The page of an ensemble in service: whether its promise is kept, what it has earned, and what it decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from optensemble._core.number_format import format_percent
from optensemble.report.html import Html, bar_element, element, html_page, join, sortable_table
from optensemble.report.live.data import LivePageData
from optensemble.report.live.figures import evidence_picture, payoff_picture, promise_picture, weight_picture
from optensemble.report.live.panels import POLICY_COLOURS
from optensemble.report.live.tables import (
    alarm_sheet,
    certificate_sheet,
    decision_sheet,
    open_sheet,
    refit_sheet,
    time_element,
)
from optensemble.report.live.text import (
    ABOUT_MONITOR,
    about_bound,
    about_open,
    about_weights,
    finding_text,
    live_figures,
    live_title,
    monitor_text,
)
from optensemble.report.live.verdict import live_cautions, live_verdict
from optensemble.report.parts import card, panels
from optensemble.report.phrases import count_of

__all__ = ["LivePageData", "changed_sections", "live_sections", "make_live_page"]

_HEAD = "as-of", "verdict", "totals"
"""The parts above the sections, which have no heading of their own."""


def make_live_page(data: LivePageData, *, events: str = "") -> str:
    """Return the page, one file that opens offline.

    With ``events``, the path of a stream of server-sent events, it keeps itself up to date: each event is a JSON object
    of :func:`live_sections`, or of those that have changed.
    """
    parts = live_sections(data)
    sections = [
        element("section", part, id=name, aria_labelledby=f"{name}-title")
        for name, part in parts.items()
        if name not in _HEAD
    ]
    status = (
        [element("p", id="connection", class_="soft connection", role="status", data_events=events)] if events else []
    )
    head = element(
        "header",
        element("h1", live_title(data)),
        element("p", parts["as-of"], class_="soft subject", id="as-of"),
        *status,
        *(element("div", parts[name], id=name) for name in _HEAD[1:]),
        _links(data),
    )
    foot = element("footer", *(element("p", line) for line in data.about), class_="soft")
    scripts = ("page.js", "live.js") if events else ("page.js",)
    return html_page(_tab_title(data), head, *sections, foot, scripts=scripts, connects=bool(events))


def live_sections(data: LivePageData) -> dict[str, Html]:
    """Return what may be replaced on a page when time has gone on: the content of each part, by its id."""
    contents = {name: make(data) for name, (_, make) in _sections(data).items()}
    titled = {
        name: join([element("h2", title, id=f"{name}-title"), *contents[name]])
        for name, (title, _) in _sections(data).items()
    }
    return {"as-of": _as_of(data), "verdict": _verdict(data), "totals": _totals(data), **titled}


def changed_sections(before: Mapping[str, Html], after: Mapping[str, Html]) -> dict[str, Html]:
    """Return the parts of ``after`` that are not the same in ``before``."""
    return {name: part for name, part in after.items() if before.get(name) != part}


def _sections(data: LivePageData) -> dict[str, tuple[str, Callable[[LivePageData], list[Html]]]]:
    """Return the title and content of each section, the most important first."""
    return {
        "so-far": (f"Promised and {'paid' if data.cost else 'earned'} so far", _so_far),
        "certificate": ("Certificate", _certificate),
        "weights": ("Weights of the policies", _weights),
        "evidence": ("Evidence against the promise", _evidence),
        "open": (f"Open {data.terms.units}", _open),
        "refits": ("Refits", _refits),
        "decisions": ("Latest decisions", _decisions),
    }


def _links(data: LivePageData) -> Html:
    items = [element("li", element("a", title, href=f"#{name}")) for name, (title, _) in _sections(data).items()]
    return element("nav", element("ul", *items), aria_label="Sections")


def _tab_title(data: LivePageData) -> str:
    return f"{live_verdict(data).mark} {live_title(data)}"


# Above the sections


def _as_of(data: LivePageData) -> Html:
    counts = f"{data.terms.count(data.decided)} decided, {data.rows:,} with labels"
    return join(["As of ", time_element(data.at), f" UTC: {counts}"])


def _verdict(data: LivePageData) -> Html:
    verdict = live_verdict(data)
    mark = element("span", verdict.mark, aria_hidden="true")
    look = f"verdict {verdict.status}"
    return join(
        [
            element("p", mark, f" {verdict.headline}", class_=look, aria_live="polite", data_title=_tab_title(data)),
            element("p", verdict.sentence, class_="lead"),
            *(element("p", caution, class_="caution") for caution in live_cautions(data)),
        ]
    )


def _totals(data: LivePageData) -> Html:
    return element("div", *map(card, live_figures(data)), class_="facts top")


# Sections


def _so_far(data: LivePageData) -> list[Html]:
    if not data.rows:
        return [_none("No labels have arrived yet.")]
    return [panels(payoff_picture(data.series, data.terms), promise_picture(data.series, data.terms))]


def _certificate(data: LivePageData) -> list[Html]:
    if not data.totals.weight:
        return [_none(f"{finding_text(data)} The regret against each policy is known with the first of them.")]
    said = element("p", element("strong", finding_text(data)), " ", about_bound(data))
    return [said, sortable_table(certificate_sheet(data))]


def _weights(data: LivePageData) -> list[Html]:
    now = zip(data.policies, data.certificate["weight"].tolist(), POLICY_COLOURS, strict=False)
    bars = [bar_element(name, 100 * weight, format_percent(weight), fill=colour) for name, weight, colour in now]
    followed = element("div", element("h3", "Now"), *bars, element("p", about_weights(data)), class_="followed beside")
    return [panels(*([weight_picture(data.series)] if data.rows else []), followed)]


def _evidence(data: LivePageData) -> list[Html]:
    monitor = data.series.monitor
    if monitor is None:
        return [_none("There is no monitor: the fit left no record out of fold to judge by.")]
    if not monitor.rows:
        return [_none("The monitor has not seen any rows yet.")]
    said = element("p", element("strong", monitor_text(monitor)))
    alarms = [sortable_table(alarm_sheet(monitor))] if len(monitor.alarms) else []
    words = element("div", said, element("p", ABOUT_MONITOR), class_="beside")
    return [panels(evidence_picture(data.series), words), *alarms]


def _open(data: LivePageData) -> list[Html]:
    return [element("p", about_open(data)), *([sortable_table(open_sheet(data))] if data.oldest else [])]


def _refits(data: LivePageData) -> list[Html]:
    if data.series.refits.empty:
        return [_none("The ensemble has not been refitted yet.")]
    return [sortable_table(refit_sheet(data))]


def _decisions(data: LivePageData) -> list[Html]:
    if data.decisions:
        return [element("div", sortable_table(decision_sheet(data)), class_="decisions")]
    made = f"{count_of(data.decided, 'decision')} {'was' if data.decided == 1 else 'were'} made"
    return [_none(f"{made}; single ones are listed where there is a log." if data.decided else "None yet.")]


def _none(what: str) -> Html:
    return element("p", what, class_="soft")
