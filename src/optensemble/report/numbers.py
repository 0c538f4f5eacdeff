"""Numbers in tables: as many digits as their doubt leaves, a real minus sign, and a dash where there is none."""

from __future__ import annotations

from collections.abc import Iterable
from math import floor, isfinite, isnan, log10
from statistics import median

from optensemble.report.html import Cell

NOTHING = "–"

_MOST_DECIMALS = 9
_LARGEST = 1e15


def decimals(values: Iterable[float], doubts: Iterable[float] = ()) -> int:
    """Return how many decimals a column deserves: two figures of its doubt, or four of its largest number.

    >>> decimals([2.4138, 2.3842], [0.0719, 0.0702])
    3
    >>> decimals([1234.5, 0.5])
    0
    """
    known = [doubt for doubt in doubts if isfinite(doubt) and doubt > 0]
    if known:
        return max(0, 1 - floor(log10(median(known))))
    sizes = [abs(value) for value in values if isfinite(value) and value != 0]
    return max(0, 3 - floor(log10(max(sizes)))) if sizes else 0


def number(value: float, digits: int, sign: str = "") -> str:
    """Write a number with so many decimals; ``sign`` is ``"+"`` to show that of positive ones too.

    >>> number(-0.25, 1, sign="+"), number(1234.5, 0), number(-0.001, 2), number(float("nan"), 2)
    ('−0.2', '1,234', '0.00', '–')
    """
    if isnan(value):
        return NOTHING
    if not isfinite(value):
        return "∞" if value > 0 else "−∞"
    if digits > _MOST_DECIMALS or abs(value) >= _LARGEST:
        return f"{value:{sign}.4g}".replace("-", "−")
    rounded = round(value, digits) + 0.0  # no -0
    return f"{rounded:{sign if rounded else ''},.{digits}f}".replace("-", "−")


def percent(share: float) -> str:
    r"""Write a share in percent; one that is neither nothing nor all never looks as if it were.

    >>> percent(0.256), percent(0.0), percent(0.999)
    ('26\xa0%', '0\xa0%', '99.9\xa0%')
    """
    space = "\N{NO-BREAK SPACE}"
    if 0 < share < 0.0005 or 0.9995 < share < 1:
        return f"below{space}0.1{space}%" if share < 0.5 else f"above{space}99.9{space}%"
    return f"{100 * share:.{0 if 0.01 <= share < 0.99 or share in (0, 1) else 1}f}{space}%"


def number_cell(value: float, digits: int, sign: str = "") -> Cell:
    """Return a number, sorted last if there is none."""
    return Cell(number(value, digits, sign), "" if isnan(value) else float(value))


def count_cell(value: int) -> Cell:
    """Return a whole number."""
    return Cell(f"{value:,}", int(value))


def percent_cell(share: float) -> Cell:
    """Return a share in percent."""
    return Cell(percent(share), float(share))


def interval_cell(low: float, high: float, digits: int, sign: str = "") -> Cell:
    """Return an interval, sorted by its lower limit; nothing if it has no limits.

    >>> interval_cell(-1.0, 2.5, 1, sign="+")
    Cell(text='−1.0 to +2.5', value=-1.0, heat=0.0)
    """
    text = interval(low, high, digits, sign)
    return Cell(text, "" if text == NOTHING else float(low))


def interval(low: float, high: float, digits: int, sign: str = "") -> str:
    """Write an interval; a dash if it has no limits."""
    if not (isfinite(low) or isfinite(high)):
        return NOTHING
    return f"{number(low, digits, sign)} to {number(high, digits, sign)}"


def flag_cell(value: bool, yes: str = "yes", no: str = NOTHING) -> Cell:
    """Return a yes or no."""
    return Cell(yes if value else no, int(value))
