"""Output of the commands of an ensemble in service: text and tables for a terminal, or JSON."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optensemble._core.number_format import column_decimals, format_number, format_percent, format_significant
from optensemble._core.suggestions import listed
from optensemble.cli.console import CommandOutput
from optensemble.report.html import Cell, Column, Sheet
from optensemble.report.numbers import number_cell, percent_cell
from optensemble.report.phrases import as_sentence, count_of

if TYPE_CHECKING:
    from optensemble.ensembles.live import LiveEnsemble
    from optensemble.jobs.live_decide import LiveDecisions
    from optensemble.jobs.live_table import LiveTable, Observed
    from optensemble.log.pruning import Pruned
    from optensemble.report.live.data import LivePageData

_KILO = 1024
_WIDTH = 12  # characters of what stands before a number


def print_started(output: CommandOutput, table: LiveTable) -> None:
    """Print what a log was begun with."""
    live, roles = table.live, table.roles
    ids = roles.id or "not known: name their column in each command, --id-column"
    output.print_lines(
        f"Began {live.log.name} with {type(live.ensemble_).__name__} fitted on {live.ensemble_.n_rows_:,} rows.",
        f"It follows {listed(list(live.policies_))}; {_refit_terms(live)}.",
        f"ids: {ids}",
        f"labels: {listed(table.label_columns, 3) if roles.labels else 'not known: name them, --labels'}",
    )
    output.print_json(
        {
            "log": live.log.name,
            "policies": list(live.policies_),
            "refit": str(live.refit),
            "play": live.play,
            "id": roles.id,
            "labels": table.label_columns,
            "columns": table.columns_needed,
        }
    )


def _refit_terms(live: LiveEnsemble) -> str:
    if live.refit == "never":
        return "it is not refitted"
    return (
        "a refit is due when labels or an alarm call for it"
        if live.refit == "auto"
        else f"a refit is due every {live.refit:,} labels"
    )


def print_decided(output: CommandOutput, live: LiveEnsemble, decisions: LiveDecisions, out: Path) -> None:
    """Print the summary of a table of decisions."""
    if decisions.unseen:
        unseen = f"{decisions.unseen:,} of {decisions.rows:,} rows are of subgroups that no row of the fit was in"
        warnings.warn(f"{unseen}: for them the promise rests on other subgroups", UserWarning, stacklevel=2)
    mixed = ", ".join(f"{name} {format_percent(weight)}" for name, weight in decisions.weights.items())
    again = f", {decisions.before:,} of them before" if decisions.before else ""
    output.print_lines(
        f"{count_of(decisions.rows, 'row')} decided{again}; weights on average: {mixed}.",
        f"Promised: {format_significant(decisions.promised)} on average.",
        f"Wrote {out}.",
    )
    output.print_json(
        {
            "decisions": str(out),
            "log": live.log.name,
            "key": decisions.key,
            "rows": decisions.rows,
            "before": decisions.before,
            "promised": decisions.promised,
            "weights": decisions.weights,
            "unseen": decisions.unseen,
            "open": int(live.certificate()["open"].iloc[0]),
        }
    )


def print_observed(output: CommandOutput, live: LiveEnsemble, observed: Observed) -> None:
    """Print what became of labels."""
    left = {
        "known with the same labels": observed.known,
        "without labels, left for later": observed.unlabelled,
    }
    open_rows = int(live.certificate()["open"].iloc[0])
    output.print_lines(
        f"{count_of(observed.learned, 'row')} learned from{'' if observed.learned else ': nothing is new'}.",
        *(f"{count_of(count, 'row')} {what}." for what, count in left.items() if count),
        f"{count_of(open_rows, 'row')} open. {as_sentence(live.finding_)}",
    )
    output.print_json(
        {
            **vars(observed),
            "open": open_rows,
            "certificate": live.finding_,
            "refit_due": live.refit_due_,
        }
    )


def print_live_refit(output: CommandOutput, live: LiveEnsemble, *, made: bool) -> None:
    """Print what became of a refit."""
    if not made:
        output.print_lines("No labels have arrived since the last fit: there is nothing to refit for.")
        output.print_json({"refitted": False})
        return
    last: dict[str, Any] = live.refits_.to_dict("records")[-1]  # type: ignore[assignment]
    rows = count_of(last["rows"], "row")
    output.print_lines(
        f"The refit on {rows} {last['outcome'].rstrip('.')}. The fit before it stays in force."
        if last["failed"]
        else f"Refitted on {rows} ({last['why']}). The new fit decides from now on."
    )
    output.print_json({"refitted": not last["failed"], **last})


def print_status(output: CommandOutput, live: LiveEnsemble) -> None:
    """Print how an ensemble in service does."""
    if output.prints_nothing:
        return
    from optensemble.jobs.live_report import live_status

    status = live_status(live)
    output.print_lines(*(f"{what:<{_WIDTH}}{text}" for what, text in _status_rows(status)), "")
    output.print_table(_policy_sheet(status))
    verdict = status["verdict"]
    told = [as_sentence(status["certificate"]), f"{verdict['headline']}.", verdict["sentence"]]
    output.print_lines(*dict.fromkeys(told))
    output.print_json(status)


def _status_rows(status: dict[str, Any]) -> Iterator[tuple[str, str]]:
    log, refits = status["log"], status["refits"]
    yield "log", log["name"]
    yield "led by", log["leader"]
    yield "decided", f"{status['decided']:,} rows"
    yield "labelled", f"{status['labelled']:,} rows"
    age = status["oldest_age"]
    yield "open", f"{status['open']:,} rows" + ("" if age is None else f", the oldest for {count_of(age, 'decision')}")
    if status["expired"]:
        yield "expired", f"{status['expired']:,} rows"
    if status["promised"] is not None:
        came, decimals = (
            ("paid" if status["cost"] else "earned"),
            column_decimals([status["promised"], status["earned"]]),
        )
        for what, name, sign in (("promised", "promised", ""), (came, "earned", ""), ("gap", "gap", "+")):
            yield what, format_number(status[name], decimals, sign)
    yield "refits", f"{len(refits):,}{_last_refit(refits)}"
    yield "refit due", status["refit_due"] or "no"
    pruned = f", {log['pruned_rows']:,} rows pruned" if log["pruned_rows"] else ""
    yield "size", f"{_entries(log['entries'])}, {_size(log['bytes'])}{pruned}"
    at = log["last_at"]
    yield "last entry", "none" if at is None else f"{at.removesuffix('+00:00').replace('T', ' ')} UTC"


def _last_refit(refits: Any) -> str:
    if not len(refits):
        return ""
    last = refits.iloc[-1]
    return f", the last {last['outcome']}" if last["failed"] else f", the last on {last['rows']:,} rows"


def _entries(number: int) -> str:
    return f"{number:,} {'entry' if number == 1 else 'entries'}"


def _size(number: float) -> str:
    """Return a number of bytes in words.

    >>> _size(900), _size(2_500_000)
    ('900 bytes', '2.4 MB')
    """
    if number < _KILO:
        return f"{number:,.0f} bytes"
    for unit in ("kB", "MB", "GB"):
        number /= _KILO
        if number < _KILO or unit == "GB":
            break
    return f"{number:,.1f} {unit}"


def _policy_sheet(status: dict[str, Any]) -> Sheet:
    """Return the weight of each policy, and what was lost to it and at most."""
    policies, verb = status["policies"], "paid beyond it" if status["cost"] else "lost to it"
    decimals = column_decimals([*policies["lost_per_row"], *policies["bound_per_row"]])
    columns = [Column("policy", kind="text"), Column("weight"), Column(f"{verb} per row"), Column("at most")]
    rows = [
        [
            Cell(row["policy"]),
            percent_cell(row["weight"]),
            number_cell(row["lost_per_row"], decimals, "+"),
            number_cell(row["bound_per_row"], decimals),
        ]
        for row in policies.to_dict("records")
    ]
    return Sheet("Policies", columns, rows)


def print_page(output: CommandOutput, data: LivePageData, out: Path) -> None:
    """Print the verdict of a page."""
    from optensemble.report.live.verdict import live_verdict

    verdict = live_verdict(data)
    output.print_lines(f"{verdict.headline}.", verdict.sentence, f"Wrote {out}.")
    found = {"status": verdict.status, "headline": verdict.headline, "sentence": verdict.sentence}
    output.print_json({"report": str(out), "verdict": found, **vars(data.terms)})


def print_exported(output: CommandOutput, log: str, rows: int, out: Path) -> None:
    """Print how many decisions were written."""
    output.print_lines(f"{count_of(rows, 'decision')} of {log}.", f"Wrote {out}.")
    output.print_json({"decisions": str(out), "log": log, "rows": rows})


def print_pruned(output: CommandOutput, log: str, pruned: Pruned, keep_days: float) -> None:
    """Print what was deleted."""
    told = f"{count_of(pruned.rows, 'decision')} deleted, in {_entries(pruned.entries)}"
    nothing = f"Nothing was deleted: what is older than {keep_days:g} days is open, or needed to go on from."
    output.print_lines(f"{told}: older than {keep_days:g} days." if pruned.entries else nothing)
    output.print_json({"log": log, "keep_days": keep_days, **vars(pruned)})
