"""Numbers in sentences: as many digits as their doubt leaves."""

from __future__ import annotations

from math import floor, isfinite, log10


def figures(values: list[float]) -> list[str]:
    """Write numbers with the digits that their doubt, which is the last of them, leaves, and enough to tell them apart.

    >>> figures([2.4138, 2.3842, 0.0719])
    ['2.41', '2.38', '0.07']
    >>> figures([0.00123, 0.00121, 0.3])
    ['0.00123', '0.00121', '0.30000']
    """
    doubt, known = values[-1], [value for value in values if isfinite(value) and value != 0]
    if not known:
        return [_figure(value, 0) for value in values]
    if isfinite(doubt) and doubt > 0:
        leading = floor(log10(doubt))
        decimals = max(0, -leading + (doubt < 3.5 * 10.0**leading))  # 0.11 and 0.07
    else:
        decimals = max(0, 3 - floor(log10(max(abs(value) for value in known))))
    different = len(set(values[:-1]))
    most = decimals + 5
    while decimals < most and len({_figure(value, decimals) for value in values[:-1]}) < different:
        decimals += 1
    return [_figure(value, decimals) for value in values]


def _figure(value: float, decimals: int) -> str:
    if isfinite(value) and (decimals > 9 or abs(value) >= 1e15):
        return f"{value:.6g}".replace("-", "−")
    return f"{value:,.{decimals}f}".replace("-", "−")
