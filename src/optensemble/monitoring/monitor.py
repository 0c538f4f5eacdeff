"""The monitor: it compares promised with realised payoffs after every row, and reports when they diverge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import asdict, astuple, dataclass, fields, replace
from math import log10
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble._core.deferred import is_pandas_series, pd
from optensemble._core.spans import Spans
from optensemble._core.validation import as_floats, require_choice, require_number
from optensemble.exceptions import InputError
from optensemble.monitoring.alarm import Alarm
from optensemble.monitoring.detector import DIRECTIONS, KINDS, Detector, Terms

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LISTED = 1000
"""The number of alarms, and of restarts, that are remembered."""

LARGEST_VALUE = 1e120
"""The largest payoff or scale: sums over rows stay small enough for a file."""

LEAST_SIGMA = 1e-300
"""The smallest scale."""

MOST_ROWS = 10**12
"""The longest horizon."""

LEAST_FALSE_ALARMS = 1e-9
"""The smallest probability of a false alarm that may be asked for."""

_INDEPENDENT = 2.0  # a long-run ratio that independent rows hardly exceed: beyond it the rate is approximate

_PLAIN = ("sigma", "half_width", "long_run", "tolerance", "horizon", "false_alarms", "sense")


@dataclass(frozen=True, eq=False)
class Seen:
    """All that a monitor knows, as of one moment: nothing of it changes, further rows make another one.

    Attributes
    ----------
    sigma, half_width, long_run, tolerance
        The scale, as of :class:`Monitor`.
    detector, spans
        The evidence since the last restart, and the history of all rows.
    since
        The row of the last restart.
    restarts, past
        The rows of all restarts, and the alarms before the last.
    """

    sigma: float
    half_width: float | None
    long_run: float
    tolerance: float
    detector: Detector
    spans: Spans
    since: int = 0
    restarts: tuple[int, ...] = ()
    past: tuple[Alarm, ...] = ()


class Monitor:
    """Watch any payoff forecast: check every row, and report when realised payoffs depart from those promised.

    It looks for a change in the mean error, realised − promised, and may be checked after every row: its threshold
    accounts for every look. For each kind of alarm, a false one is raised within ``horizon`` rows after a restart with
    a probability of at most ``false_alarms``, all directions together; over more rows this grows in proportion. No
    distribution is assumed. The guarantee takes only that, given the rows before,

    - the mean error of each row is within the tolerance of 0 (for ``"broken"``, within the half-width), which also
      means that when a row becomes known must not depend on its payoff;
    - the variance of the error is at most its running mean square, which has a memory of 250 rows and is never below
      ``sigma²``. Heavy tails and rare large losses are covered if ``sigma`` is that of all rows: a record that has seen
      none of the rare ones gives one that is too small.

    Where errors depend on each other from row to row, ``long_run`` allows for it, but only approximately.

    Parameters
    ----------
    sigma
        The standard deviation of realised − promised in normal times, best estimated on rows that the forecast was not
        fitted on.
    half_width
        The half-width of the promise's interval, in units of the payoff; None if it is unknown, and then there are no
        ``"broken"`` alarms.
    long_run
        The ratio of the long-run variance of the error to its variance, at least 1; 1 if rows are independent.
    tolerance
        A mean error to ignore, in units of ``sigma``.
    horizon, false_alarms
        The probability of a false alarm within this number of rows.
    directions
        ``"less"`` to raise alarms where less is realised than promised, ``"more"`` where more is, or both.
    sense
        ``"max"`` for payoffs, ``"min"`` for costs: wording only.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> monitor = Monitor(sigma=2.0)
    >>> print(monitor.observe(10.0, rng.normal(10.0, 2.0, size=1000)))
    no alarm in 1,000 rows
    >>> monitor.observe(10.0, rng.normal(8.0, 2.0, size=100)).standing[0].direction
    'less'
    >>> print(monitor.restart().observe(8.0, 8.5))
    no alarm in 1 row since the restart at row 1,100
    """

    def __init__(
        self,
        sigma: float,
        *,
        half_width: float | None = None,
        long_run: float = 1.0,
        tolerance: float = 0.1,
        horizon: int = 5000,
        false_alarms: float = 0.05,
        directions: Sequence[str] = ("less", "more"),
        sense: str = "max",
    ) -> None:
        scale = _as_scale(sigma, half_width, long_run, tolerance)
        require_number(horizon, "horizon", at_least=1, whole=True)
        require_number(false_alarms, "false_alarms", at_least=LEAST_FALSE_ALARMS)
        if horizon > MOST_ROWS or false_alarms >= 1:
            raise InputError(
                f"horizon must be at most {MOST_ROWS:,} rows, and false_alarms, a probability, below 1; got "
                f"{horizon:,} and {false_alarms:g}. The defaults are 5,000 and 0.05."
            )
        require_choice(sense, "sense", ["max", "min"])
        self.directions = _as_directions(directions)
        self.horizon, self.false_alarms = int(horizon), float(false_alarms)
        self.sense = sense
        fresh = Detector.fresh(len(self.directions), 0), Spans(history_columns(self.directions))
        self._seen = Seen(*scale, *fresh)

    # Rows

    def observe(self, promised: Any, realised: Any) -> Self:
        """Take in what was promised and realised, in the order in which it became known.

        Parameters
        ----------
        promised, realised
            An array with a number for each row, or a single number, in the same unit; a single promise applies to all
            rows. Two series of pandas must have the same index.
        """
        seen, (before, after) = self._seen, _as_pairs(promised, realised)
        with np.errstate(over="ignore"):  # the detector takes errors for no larger than it can count
            errors = (after - before) / seen.sigma
        detector, shown = seen.detector.look(errors, seen.spans.rows, self._terms)
        spans = seen.spans.copy()
        spans.add(np.column_stack([before, after, shown]))
        self._seen = replace(seen, detector=detector, spans=spans)
        return self

    def restart(
        self,
        sigma: float | None = None,
        *,
        half_width: float | None = None,
        long_run: float | None = None,
        tolerance: float | None = None,
    ) -> Self:
        """Start afresh, as after a refit: evidence is dropped, past alarms stay listed.

        Parameters
        ----------
        sigma, half_width, long_run, tolerance
            The scale from now on, as in the constructor; what is None stays as it is.
        """
        seen, rows = self._seen, self.rows
        scale = _as_scale(
            seen.sigma if sigma is None else sigma,
            seen.half_width if half_width is None else half_width,
            seen.long_run if long_run is None else long_run,
            seen.tolerance if tolerance is None else tolerance,
        )
        self._seen = Seen(
            *scale,
            detector=Detector.fresh(len(self.directions), rows),
            spans=seen.spans,
            since=rows,
            restarts=(*seen.restarts, rows)[-MOST_LISTED:],
            past=(*seen.past, *_in_order(self.standing))[-MOST_LISTED:],
        )
        return self

    def copy(self) -> Self:
        """Return a monitor that has seen the same rows, and goes on by itself."""
        return copy(self)  # what it has seen never changes

    # Findings

    @property
    def sigma(self) -> float:
        """The standard deviation of realised − promised in normal times."""
        return self._seen.sigma

    @property
    def half_width(self) -> float | None:
        """The half-width of the promise's interval."""
        return self._seen.half_width

    @property
    def long_run(self) -> float:
        """The ratio of the long-run variance to the variance."""
        return self._seen.long_run

    @property
    def tolerance(self) -> float:
        """A difference of means that is ignored, in units of ``sigma``."""
        return self._seen.tolerance

    @property
    def rows(self) -> int:
        """The number of rows observed, since the very first."""
        return self._seen.spans.rows

    @property
    def threshold(self) -> float:
        """The evidence at which an alarm is raised."""
        return self.horizon / self.false_alarms * len(self.directions)

    @property
    def doubt(self) -> str:
        """The false-alarm rate in words; an approximate one where rows depend on each other."""
        most = "at most" if self.long_run <= _INDEPENDENT else "at most about"
        return f"false alarms {most} {100 * self.false_alarms:g} % in {self.horizon:,} rows"

    @property
    def restarts(self) -> tuple[int, ...]:
        """The rows at which the monitor was restarted, the last 1,000 of them."""
        return self._seen.restarts

    @property
    def standing(self) -> tuple[Alarm, ...]:
        """The alarms since the last restart, at most one of each kind and direction; ``"broken"`` comes first."""
        seen = self._seen
        raised, strength = seen.detector.raised, seen.detector.strength
        return tuple(
            Alarm(int(row), int(onset), self.directions[way], KINDS[kind], float(strength[kind, way]), seen.since)
            for kind in range(len(KINDS))
            for row, onset, way in sorted((*raised[kind, way].tolist(), way) for way in range(len(self.directions)))
            if row >= 0
        )

    @property
    def alarms(self) -> pd.DataFrame:
        """All alarms, the last 1,000 of them, with a column for each attribute of :class:`Alarm`."""
        found = [*self._seen.past, *_in_order(self.standing)][-MOST_LISTED:]
        return pd.DataFrame([asdict(alarm) for alarm in found], columns=[field.name for field in fields(Alarm)])

    @property
    def evidence(self) -> pd.DataFrame:
        """The evidence over time, in at most 512 spans of equally many rows.

        A row for each span has the number of its ``first`` row and of its ``rows``, what was ``promised`` and
        ``realised`` in it on average, and for each direction the largest decimal logarithm of the evidence of drift.
        ``attrs["threshold"]`` is that of the threshold.
        """
        frame = self._seen.spans.frame()
        for name in ("promised", "realised"):
            frame[name] /= frame["rows"]
        for name in self.directions:
            frame[name] = np.log10(np.maximum(frame[name], _LEAST_SHOWN))
        frame.attrs["threshold"] = log10(self.threshold)
        return frame

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the evidence over time on a logarithmic scale, with the threshold, alarms, onsets and restarts.

        Parameters
        ----------
        ax
            Axes of matplotlib to draw into; by default those of a new figure of ``matplotlib.pyplot``.

        Returns
        -------
        The axes drawn into.
        """
        from optensemble.report.plots import plot_monitor

        return plot_monitor(self, ax)

    def __str__(self) -> str:
        if standing := self.standing:
            return standing[0].sentence(self.sense, doubt=self.doubt)
        seen = self._seen
        rows = seen.spans.rows - seen.since
        began = f" since the restart at row {seen.since:,}" if seen.restarts else ""
        return f"no alarm in {rows:,} row{'' if rows == 1 else 's'}{began}"

    def __repr__(self) -> str:
        return f"Monitor({self})"

    @property
    def _terms(self) -> Terms:
        signs = np.array([DIRECTIONS[name] for name in self.directions])
        broken = np.inf if self.half_width is None else max(self.tolerance, self.half_width / self.sigma)
        return Terms(signs, np.array([broken, self.tolerance]), self.long_run, self.threshold)

    # State

    def state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return all that the monitor knows, as plain values and arrays: :meth:`of_state` goes on from there."""
        document = {name: getattr(self, name) for name in _PLAIN}
        seen = self._seen
        document |= {"directions": list(self.directions), "since": seen.since, "restarts": list(seen.restarts)}
        document["alarms"] = [list(astuple(alarm)) for alarm in seen.past]
        arrays = {name: each.copy() for name, each in seen.detector._asdict().items()}
        return document, arrays | {f"spans/{name}": each for name, each in seen.spans.arrays().items()}

    @classmethod
    def of_state(cls, document: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return the monitor that :meth:`state` tells of."""
        given = {name: document[name] for name in _PLAIN}
        monitor = cls(given.pop("sigma"), directions=document["directions"], **given)
        of_spans = {name: arrays[f"spans/{name}"] for name in ("values", "place")}
        monitor._seen = replace(
            monitor._seen,
            detector=Detector.of_arrays(arrays),
            spans=Spans.of_arrays(history_columns(monitor.directions), of_spans),
            since=document["since"],
            restarts=tuple(document["restarts"]),
            past=tuple(Alarm(*alarm) for alarm in document["alarms"]),
        )
        return monitor


_LEAST_SHOWN = 1e-300  # evidence of 0 has no logarithm


def history_columns(directions: Sequence[str]) -> dict[str, str]:
    """Return the columns of a monitor's history, and how they are joined."""
    return {"promised": "sum", "realised": "sum", **dict.fromkeys(directions, "max")}


def _in_order(alarms: Sequence[Alarm]) -> list[Alarm]:
    return sorted(alarms, key=lambda alarm: alarm.row)


def _as_directions(given: Any) -> tuple[str, ...]:
    directions = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    for each in directions:
        require_choice(each, "directions", list(DIRECTIONS))
    if not directions or len(set(directions)) < len(directions):
        raise InputError(f"directions must be 'less', 'more' or both; got {given!r}. Name each once.")
    return directions


def _as_pairs(promised: Any, realised: Any) -> tuple[Floats, Floats]:
    """Return promised and realised payoffs as arrays of the same length."""
    indexes = [each.index for each in (promised, realised) if is_pandas_series(each)]
    if len(indexes) == 2 and len(promised) == len(realised) and not indexes[0].equals(indexes[1]):
        raise InputError(
            "promised and realised are series with different indexes. Put them in one order, that in which the rows "
            "became known, or pass arrays (to_numpy()) if they are in the same order."
        )
    given = {"promised": promised, "realised": realised}
    before, after = (np.atleast_1d(as_floats(values, name)) for name, values in given.items())
    if before.ndim > 1 or after.ndim > 1 or (len(before) != len(after) and np.ndim(promised)):
        raise InputError(
            f"promised and realised must have a number for each row; got shapes {before.shape} and {after.shape}. Give "
            "arrays of the same length, or single numbers."
        )
    for name, values in zip(given, (before, after), strict=True):
        if len(values) and np.abs(values).max() > LARGEST_VALUE:
            raise InputError(
                f"{name} must be at most {LARGEST_VALUE:g} in size; got {np.abs(values).max():.3g}. Use larger units."
            )
    return np.broadcast_to(before, after.shape), after


def _as_scale(sigma: Any, half_width: Any, long_run: Any, tolerance: Any) -> tuple[float, float | None, float, float]:
    _require_size(sigma, "sigma", at_least=LEAST_SIGMA)
    if half_width is not None:
        _require_size(half_width, "half_width", at_least=0.0)
    _require_size(long_run, "long_run", at_least=1.0)
    _require_size(tolerance, "tolerance", at_least=0.0)
    return float(sigma), None if half_width is None else float(half_width), float(long_run), float(tolerance)


def _require_size(value: Any, name: str, *, above: float | None = None, at_least: float | None = None) -> None:
    require_number(value, name, above=above, at_least=at_least)
    if value > LARGEST_VALUE:
        raise InputError(f"{name} must be at most {LARGEST_VALUE:g}; got {value:.3g}. Use larger units.")
