"""Numbers as text: digits up to the error, a real minus sign, thousands separators, a dash for a missing value."""

from __future__ import annotations

from collections.abc import Iterable
from math import floor, isfinite, isnan, log10
from statistics import median

NO_NUMBER = "–"
"""Stands for a missing number."""

PERCENT_SIGN = "\N{NO-BREAK SPACE}%"
"""With a space that no line break separates from the number."""

# beyond these a number with all its decimals is longer than anyone reads: powers of ten instead
_MOST_DECIMALS = 9
_LARGEST_WITH_DECIMALS = 1e15


def format_number(value: float, decimals: int, sign: str = "") -> str:
    """Format a number with fixed decimals; ``sign="+"`` shows the sign of positive numbers too.

    >>> format_number(-0.25, 1, sign="+"), format_number(1234.5, 0), format_number(-0.001, 2)
    ('−0.2', '1,234', '0.00')
    >>> format_number(float("nan"), 2), format_number(float("-inf"), 2), format_number(1.2346e20, 2)
    ('–', '−∞', '1.235e+20')
    """
    if isnan(value):
        return NO_NUMBER
    if not isfinite(value):
        return "∞" if value > 0 else "−∞"
    if _needs_power(value, decimals):
        return format_significant(value, 4, sign)
    rounded = round(value, decimals) + 0.0  # no -0
    return with_minus(f"{rounded:{sign if rounded else ''},.{decimals}f}")


def format_significant(value: float, digits: int = 4, sign: str = "") -> str:
    """Format a number with significant digits.

    >>> format_significant(-12345.6), format_significant(0.000123456, 3)
    ('−1.235e+04', '0.000123')
    """
    return with_minus(f"{value:{sign}.{digits}g}")


def format_by_error(values: list[float]) -> list[str]:
    """Format numbers with the digits that their error, the last of them, leaves, and enough to tell them apart.

    >>> format_by_error([2.4138, 2.3842, 0.0719])
    ['2.41', '2.38', '0.07']
    >>> format_by_error([0.00123, 0.00121, 0.3])
    ['0.00123', '0.00121', '0.30000']
    """
    error, known = values[-1], [value for value in values if isfinite(value) and value != 0]
    if not known:
        return [_with_decimals(value, 0) for value in values]
    if isfinite(error) and error > 0:
        leading = floor(log10(error))
        decimals = max(0, -leading + (error < 3.5 * 10.0**leading))  # 0.11 and 0.07
    else:
        decimals = max(0, 3 - floor(log10(max(abs(value) for value in known))))
    different = len(set(values[:-1]))
    most = decimals + 5  # numbers that differ only by rounding must not ask for digits without end
    while decimals < most and len({_with_decimals(value, decimals) for value in values[:-1]}) < different:
        decimals += 1
    return [_with_decimals(value, decimals) for value in values]


def format_percent(share: float) -> str:
    r"""Format a share in percent; only 0 and 1 look like nothing and all.

    >>> format_percent(0.256), format_percent(0.0), format_percent(0.999)
    ('26\xa0%', '0\xa0%', '99.9\xa0%')
    """
    if 0 < share < 0.0005 or 0.9995 < share < 1:
        side, limit = ("below", "0.1") if share < 0.5 else ("above", "99.9")
        return f"{side}\N{NO-BREAK SPACE}{limit}{PERCENT_SIGN}"
    return f"{100 * share:.{0 if 0.01 <= share < 0.99 or share in (0, 1) else 1}f}{PERCENT_SIGN}"


def format_interval(low: float, high: float, decimals: int, sign: str = "") -> str:
    """Format an interval; a dash if neither limit is finite.

    >>> format_interval(-1.0, 2.5, 1, sign="+")
    '−1.0 to +2.5'
    """
    if not (isfinite(low) or isfinite(high)):
        return NO_NUMBER
    return f"{format_number(low, decimals, sign)} to {format_number(high, decimals, sign)}"


def column_decimals(values: Iterable[float], errors: Iterable[float] = ()) -> int:
    """Return the decimals of a column: two digits of the median error, or else four of the largest number.

    >>> column_decimals([2.4138, 2.3842], [0.0719, 0.0702])
    3
    >>> column_decimals([1234.5, 0.5])
    0
    """
    known = [error for error in errors if isfinite(error) and error > 0]
    if known:
        return max(0, 1 - floor(log10(median(known))))
    sizes = [abs(value) for value in values if isfinite(value) and value != 0]
    return max(0, 3 - floor(log10(max(sizes)))) if sizes else 0


def with_minus(text: str) -> str:
    """Replace hyphens by minus signs."""
    return text.replace("-", "−")


def _needs_power(value: float, decimals: int) -> bool:
    return decimals > _MOST_DECIMALS or abs(value) >= _LARGEST_WITH_DECIMALS


def _with_decimals(value: float, decimals: int) -> str:
    if isfinite(value) and _needs_power(value, decimals):
        return format_significant(value, 6)
    return with_minus(f"{round(value, decimals) + 0.0:,.{decimals}f}")  # no -0
