"""A monitor and the spans of a history as parts of a file: packed, validated, and made again.

Their arrays are among the others under a key of their own. What a monitor looks at goes through compiled code, which
does not check where it writes: :func:`check_monitor` and :func:`check_spans` come first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from optensemble._core.spans import JOINS, MOST_SPANS, OWN_COLUMNS, Spans, are_spans
from optensemble.monitoring.detector import DIRECTIONS, KINDS, LEAST_VARIANCE, MOST_EVIDENCE, SIZES
from optensemble.monitoring.monitor import (
    LARGEST_VALUE,
    LEAST_FALSE_ALARMS,
    LEAST_SIGMA,
    MOST_LISTED,
    MOST_ROWS,
    Monitor,
    history_columns,
)
from optensemble.persistence.archive import Arrays
from optensemble.persistence.packing import under
from optensemble.persistence.parts import MOST_COUNTED, Part, Shelf, Wrong

_ALARM = ("row", "onset", "direction", "kind", "evidence", "since")


def pack_monitor(monitor: Monitor, arrays: Arrays, key: str) -> dict[str, Any]:
    """Put a monitor's arrays among the others, under a key, and return the rest."""
    document, own = monitor.state()
    arrays |= {f"{key}/{name}": array for name, array in own.items()}
    return document


def unpack_monitor(document: Mapping[str, Any], arrays: Arrays, key: str) -> Monitor:
    """Return the monitor that was packed."""
    return Monitor.of_state(document, under(arrays, key))


def pack_spans(spans: Spans, arrays: Arrays, key: str) -> dict[str, Any]:
    """Put the arrays of a history among the others, under a key, and return the rest."""
    arrays |= {f"{key}/{name}": array for name, array in spans.arrays().items()}
    return {"columns": [[name, join] for name, join in spans.columns.items()]}


def unpack_spans(document: Mapping[str, Any], arrays: Arrays, key: str) -> Spans:
    """Return the history that was packed."""
    return Spans.of_arrays({name: join for name, join in document["columns"]}, under(arrays, key))  # noqa: C416


def check_spans(shelf: Shelf, part: Part, key: str) -> int:
    """Check a history; return its number of rows."""
    columns = list(part["columns"])
    for each in columns:
        pair = list(each)
        each.require(len(pair) == 2, "be a name and how its rows are joined")
        pair[0].require(pair[0].text() not in OWN_COLUMNS, "be another name")
        pair[1].choice(JOINS)
    names = [name for name, _ in part["columns"].value]
    part["columns"].require(len(set(names)) == len(names), "have distinct names")
    return check_span_arrays(shelf, key, len(columns))


def check_span_arrays(shelf: Shelf, key: str, columns: int) -> int:
    """Check the arrays of a history of so many columns; return its number of rows."""
    values = shelf.floats(f"{key}/values", None, columns)
    rows, length = shelf.wholes(f"{key}/place", 2, high=MOST_COUNTED // (2 * MOST_SPANS)).tolist()
    if not are_spans(rows, length, len(values)):
        raise Wrong(f"{key}/place", f"be that of {len(values)} spans", [rows, length])
    return int(rows)


def check_monitor(shelf: Shelf, part: Part, key: str) -> int:
    """Check a monitor; return the number of rows that it has observed."""
    _check_terms(part)
    directions = part["directions"].texts(distinct=True)
    part["directions"].require(bool(directions) and set(directions) <= set(DIRECTIONS), "be 'less', 'more' or both")
    rows = check_span_arrays(shelf, f"{key}/spans", len(history_columns(directions)))
    since = part["since"].whole(0, rows + 1)
    restarts = [each.whole(0, since + 1) for each in part["restarts"]]
    part["restarts"].require(len(restarts) <= MOST_LISTED and sorted(restarts) == restarts, "ascend, and be 1,000")
    part["restarts"].require(restarts[-1:] == [since] if restarts else since == 0, f"end with {since}")
    alarms = list(part["alarms"])
    part["alarms"].require(len(alarms) <= MOST_LISTED, f"be at most {MOST_LISTED:,}")
    for alarm in alarms:
        _check_alarm(alarm, since)
    _check_detector(shelf, key, len(directions), since, rows)
    return rows


def _check_terms(part: Part) -> None:
    """Check what the monitor was made with."""
    check_scale({name: part[name] for name in ("sigma", "long_run", "tolerance")})
    if (half_width := part["half_width"]).value is not None:
        check_scale({"half_width": half_width})
    part["horizon"].whole(1, MOST_ROWS + 1)
    part["false_alarms"].require(part["false_alarms"].number(LEAST_FALSE_ALARMS) < 1, "be below 1")
    part["sense"].choice(["max", "min"])


def check_scale(scale: Mapping[str, Part]) -> None:
    """Check numbers that errors are measured by, by their names."""
    least = {"sigma": LEAST_SIGMA, "long_run": 1.0}
    for name, part in scale.items():
        part.require(part.number(least.get(name, 0.0)) <= LARGEST_VALUE, f"be at most {LARGEST_VALUE:g}")


def _check_alarm(part: Part, rows: int) -> None:
    """Check an alarm of before the last restart."""
    values = list(part)
    part.require(len(values) == len(_ALARM), f"be {', '.join(_ALARM)}")
    row, onset, direction, kind, evidence, since = values
    raised = row.whole(0, rows)
    onset.whole(since.whole(0, raised + 1), raised + 1)
    direction.choice(list(DIRECTIONS))
    kind.choice(KINDS)
    evidence.number(0.0)


def _check_detector(shelf: Shelf, key: str, directions: int, since: int, rows: int) -> None:
    """Check the state of a detector that has looked at the rows since a restart."""
    shape = len(KINDS), directions
    sizes = *shape, len(SIZES)
    _require_least(shelf, f"{key}/variance", 1, least=LEAST_VARIANCE)
    for name in ("evidence", "rising"):
        _require_least(shelf, f"{key}/{name}", *sizes)
    if shelf.floats(f"{key}/evidence", *sizes).max() > MOST_EVIDENCE:
        raise Wrong(f"{key}/evidence", f"be at most {MOST_EVIDENCE:g}", "more")
    shelf.wholes(f"{key}/began", *sizes, low=since, high=rows + 1)
    _require_least(shelf, f"{key}/strength", *shape)
    raised = shelf.wholes(f"{key}/raised", *shape, 2, low=-1, high=max(rows, 1))
    row, onset = raised[..., 0], raised[..., 1]
    none, some = (row == -1) & (onset == -1), (since <= onset) & (onset <= row)
    if not (none | some).all():
        raise Wrong(f"{key}/raised", f"be rows from {since} to {rows - 1}, the onset first, or -1", raised.tolist())


def _require_least(shelf: Shelf, name: str, *shape: int, least: float = 0.0) -> None:
    array = shelf.floats(name, *shape)
    if not np.all(array >= least):
        raise Wrong(name, f"be at least {least:g}", float(array.min()))
