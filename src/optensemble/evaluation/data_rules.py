"""Rules that doubt one model, given its predictions beside the labels: each returns a sentence, or None."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble.evaluation.data_sample import ModelRows, Series, beyond_chance, number, percent, times

FAR = 5.0
"""Standard errors, between stretches of rows, that chance does not make in the many looks at the data of one fit."""

LEAKED = 0.999
"""The share of variance, or of foresight, above which labels were known: no forecast of anything uncertain has it."""

_OUT_OF_SCALE = 10.0  # forecasts are as large as what they forecast, or smaller if they know little
_ALIKE = 0.3  # cosine: a model that knows little is small too, but then it is not alike
_FLIPPED = -0.3  # correlation
_AHEAD, _BEHIND = 0.1, 0.2  # differences of correlations; a forecast made of the past goes with the past
_NO_USE, _BY_CHANCE = 0.1, 2.0  # correlation, standard errors: the past cannot have been meant to tell the present
_BEHIND_ROWS = 200  # fewer do not show whether labels go on as they were
_LAGS = (1, 2, 3)
_REORDERED = 0.2  # difference of correlations
_FAR_OFF = 10.0  # variances of the labels
_STRETCHES, _FITTED = 10, 4.0  # tenths; the ratio of mean squared errors
_AT_ONCE = np.log(2.0)  # between one tenth and the next
_SLACK, _OUTWARD = 1e-6, 1.01  # of the set's extent; a step that leaves the set from its border
_CODE, _FARTHEST = 5.0, 100.0  # ranges of the other values: for 999 and the like, for any number
_FEW, _SOME = 0.1, 0.5  # of the rows
_FROM_ZERO = 3.0  # standard deviations of the labels
_GATE_ROWS, _QUANTILE_ROWS = 256, 2048
_LOG_GAIN, _LOG_LEAST = 0.5, 0.02  # shares of variance


def same_in_all_rows(rows: ModelRows) -> str | None:
    """Doubt a model that does not look at the rows."""
    if not rows.said.constant.all():
        return None
    return "it says the same in all rows. Look whether it is given the right columns"


def odd_value(rows: ModelRows) -> str | None:
    """Doubt a value far beyond all others."""
    found = find_code(rows.said, rows.title) or _zero_for_missing(rows)
    return None if found is None else f"its prediction of {found}"


def _zero_for_missing(rows: ModelRows) -> str | None:
    """Return in words the first prediction that is 0 in some rows, where labels are far from 0."""
    low, high = rows.said.ends
    for j in np.flatnonzero((low == 0) | (high == 0) | (low * high < 0)).tolist():
        zero = rows.said.values[j] == 0
        count = int(zero.sum())
        if 0 < count <= _SOME * rows.count:
            level, spread = float(rows.labels.values[j, zero].mean()), float(np.sqrt(rows.labels.variance[j]))
            if min(abs(level), abs(float(rows.labels.values[j].mean()))) > _FROM_ZERO * spread:
                return (
                    f"{rows.title(j)} is 0 in {count:,} of {rows.count:,} rows, in which that label is "
                    f"{number(float(f'{level:.3g}'))} on average. If 0 stands for a missing value, give NaN"
                )
    return None


def find_code(series: Series, title: Callable[[int], str]) -> str | None:
    """Return in words the first value that looks like a code for a missing one: it is rare, and far from the others."""
    # most columns are cleared by their ends alone: no value is further out than these
    (low, high), values = series.ends, series.values
    n = values.shape[1]
    first, last = _most(values[:, :: -(-n // _GATE_ROWS)])
    reach = np.maximum(high - last, first - low)
    for j in np.flatnonzero((reach > _CODE * (last - first)) | _is_code(low) | _is_code(high)).tolist():
        for value in (float(low[j]), float(high[j])):
            count = int((values[j] == value).sum())
            others = values[j, :: -(-n // _QUANTILE_ROWS)]
            others = others[others != value]
            if count > _FEW * n or not others.size:
                continue
            near, far = (float(end) for end in _most(others))
            beyond = max(near - value, value - far)
            code = bool(_is_code(np.array(value))) and beyond > _CODE * (far - near)
            if code or (far > near and beyond > _FARTHEST * (far - near)):
                where = f"{count:,} of {n:,} rows"
                return (
                    f"{title(j)} is {number(value)} in {where}, far from all others ({number(near)} to "
                    f"{number(far)}). It looks like a code for a missing value, or an outlier"
                )
    return None


def _most(values: Floats) -> tuple[Floats, Floats]:
    """Return the quantiles between which 98 % of each line lie; as ``np.quantile``, in a fraction of its time."""
    ordered, last = np.sort(values, axis=-1), values.shape[-1] - 1
    place = int(0.01 * last)
    share = 0.01 * last - place
    following = min(place + 1, last)
    low = ordered[..., place] + share * (ordered[..., following] - ordered[..., place])
    high = ordered[..., last - place] - share * (ordered[..., last - place] - ordered[..., last - following])
    return low, high


def _is_code(values: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return which numbers are 999, 9999, … or a large power of ten, of either sign."""
    size = np.abs(values)
    if (size < 999).all():
        return np.zeros(size.shape, dtype=np.bool_)
    digits, powers = np.log10(size + 1.0), np.log10(np.maximum(size, 1.0))
    nines = (size >= 999) & (size < 1e10) & (np.abs(digits - np.round(digits)) < 1e-12)
    return np.asarray(nines | ((size >= 1e10) & (np.abs(powers - np.round(powers)) < 1e-12)))


def feasible_decisions(rows: ModelRows) -> str | None:
    """Doubt predictions that are feasible in every row, and on the border of the set in most of them."""
    omega, slack = rows.omega, _SLACK * rows.omega.extent
    low, high = rows.said.ends
    if (low < omega.lower - slack).any() or (high > omega.upper + slack).any():  # this nearly always tells
        return None
    for some in (slice(64), slice(None)):
        said = np.ascontiguousarray(rows.said.values[:, some].T)
        if (omega.take(some).violation(said) > slack).any():
            return None
    outside = omega.violation(_OUTWARD * said) > slack
    if outside.sum() <= 0.5 * (said != 0).any(axis=1).sum():
        return None  # what is within wide bounds need not be a decision
    return "its columns are feasible decisions in every row. If they are decisions, list them among the policies"


def seen_before(rows: ModelRows) -> str | None:
    """Doubt a model whose errors are much smaller in the first rows than in the others: it was trained on them."""
    tenths = np.linspace(0, len(rows.missed), _STRETCHES + 1).astype(np.int64)
    error = np.add.reduceat(rows.missed, tenths[:-1]) / np.diff(tenths)
    logs = np.log(error + 1e-12 * error.max() + np.finfo(float).tiny).tolist()
    for tenth in range(1, _STRETCHES):
        before, after = logs[:tenth], logs[tenth:]
        apart = max(max(before) - min(before), max(after) - min(after))
        # training ends at once: errors that grow little by little come from the world
        if min(after) - max(before) <= max(_AT_ONCE, apart):
            continue
        begin, end = slice(0, int(tenths[tenth])), slice(int(tenths[tenth]), None)
        small, large = rows.missed[begin].mean(), rows.missed[end].mean()
        calm, wild = (rows.labels.values[:, part].var(axis=1).mean() for part in (begin, end))
        calmer = calm / max(wild, np.finfo(float).tiny)
        if large * min(calmer, 1.0) > _FITTED * small and _distinct(rows.missed[begin], rows.missed[end]):
            factor = f"{large / small:.2g} times smaller" if small * 1e6 > large else "almost nothing, and less"
            return (
                f"its errors in the first {10 * tenth} % of the rows are {factor} than in the others: these look like "
                "the rows it was trained on. Fit the ensemble on other rows"
            )
    return None


def _distinct(first: Floats, second: Floats) -> bool:
    """Return whether errors differ by more than chance, in logarithms: a few large ones count little."""
    least = 1e-12 * float(second.mean())
    logs = [np.log(each + least) for each in (first, second)]
    error = np.sqrt(sum(each.var() / len(each) for each in logs))
    return bool(logs[1].mean() - logs[0].mean() > 1.6 * FAR * error)


def labels_known(rows: ModelRows) -> str | None:
    """Doubt a model that is never wrong."""
    share = rows.explained
    if not len(rows.varied) or share <= LEAKED:
        return None
    return (
        f"it explains {percent(share)} of the labels' variance: it seems to know them. Look among its inputs for label "
        "columns, and for columns that are known only afterwards"
    )


def logarithms(rows: ModelRows) -> str | None:
    """Doubt predictions that fit the logarithm of the labels, and not the labels."""
    least = float(rows.labels.ends[0].min())
    if least < 0 or rows.explained >= 0:
        return None
    ways = [("exp", np.log)] if least > 0 else []
    for name, function in [*ways, ("expm1", np.log1p)]:
        share = replace(rows, labels=Series(function(rows.labels.values))).explained
        if len(rows.varied) and share > max(_LOG_LEAST, rows.explained + _LOG_GAIN):
            return (
                f"it explains {share:.2f} of the variance of the labels' logarithm, and nothing of the labels' own. "
                f"If it predicts logarithms, hand on {name}() of what it says"
            )
    return None


def other_units(rows: ModelRows) -> str | None:
    """Doubt predictions that are far larger or smaller than the labels, in all coordinates or in some."""
    said, labels = np.sqrt(rows.said.squares), np.sqrt(rows.labels.squares)
    size, true = (float(np.sqrt(np.square(each).mean())) for each in (said, labels))
    both = np.einsum("ij,ij->i", rows.said.values, rows.labels.values) / rows.count
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio, alike = said / labels, both / (said * labels) > _ALIKE
    off = np.flatnonzero(alike & ((ratio > _OUT_OF_SCALE) | (ratio < 1 / _OUT_OF_SCALE)))
    small = _OUT_OF_SCALE * size < true and float(both.mean()) > _ALIKE * size * true > 0
    if (size > _OUT_OF_SCALE * true > 0 or small) and off.size in (0, int(alike.sum())):
        return f"its predictions are {_scale(size, true)} as the labels. Check units"
    if not off.size:
        return None
    j, others = int(off[0]), f" and {off.size - 1:,} more" if off.size > 1 else ""
    return f"its predictions of {rows.title(j)}{others} are {_scale(said[j], labels[j])} as the labels. Check units"


def _scale(size: float, true: float) -> str:
    return f"{times(size / true)} as large" if size > true else f"{times(true / size)} as small"


def other_sign(rows: ModelRows) -> str | None:
    """Doubt predictions that go against the labels."""
    own = np.diag(rows.table)[rows.varied]
    if not own.size or (own < _FLIPPED).mean() <= 0.5 or beyond_chance(rows.together) > -FAR:
        return None
    return (
        f"its predictions go against the labels, with a correlation of {number(round(float(own.mean()), 2))}. Is the "
        "sign flipped, a cost given for a payoff?"
    )


def other_rows(rows: ModelRows) -> str | None:
    """Doubt predictions that go with the labels of later rows, or with those of earlier rows and not with their own."""
    if not len(rows.varied):
        return None
    own = float(rows.together.mean())
    # a forecast that repeats the labels of the row before is of use where labels go on as they were
    told = rows.count >= _BEHIND_ROWS and abs(own) < _NO_USE
    idle = told and abs(beyond_chance(rows.together)) < _BY_CHANCE
    for lag in [*_LAGS, *(-lag for lag in _LAGS if idle)]:
        ahead = rows.lagged(lag) - (rows.together[:-lag] if lag > 0 else rows.together[-lag:])
        gain = min(float(ahead.mean()), own + float(ahead.mean()))  # to go against its own is not to go with others
        if gain > (_AHEAD if lag > 0 else _BEHIND) and beyond_chance(ahead) > FAR:
            row = "row" if abs(lag) == 1 else "rows"
            far = f"{abs(lag)} {row} {'later' if lag > 0 else 'earlier'}"
            return (
                f"its predictions go with the labels of {far}: their correlation is {own + ahead.mean():.2f}, and "
                f"{number(round(own, 2))} with their own. Are labels and predictions shifted by {abs(lag)} {row}?"
            )
    return None


def other_columns(rows: ModelRows) -> str | None:
    """Doubt columns that trade places: each of them goes with another's label better than with its own.

    Each of them must gain. Where a model knows only what labels have in common, its columns may all go best with the
    label that has most of it; but then they cannot all gain by trading places.
    """
    table = rows.table
    gain = table - np.diag(table)[:, None]
    if len(table) < 2 or (gain.max(axis=1) > _REORDERED).sum() < 2:
        return None
    moved = [int(i) for cycle in _cycles(_best_order(table)) if _all_gain(rows, cycle) for i in cycle[:, 0]]
    if not moved:
        return None
    i, k = min(moved), int(_best_order(table)[min(moved)])
    own, other = (rows.title(j) for j in (i, k))
    return (
        f"{len(moved)} of its {len(table)} columns correlate better with other labels than with their own: "
        f"that of {own} has {table[i, k]:.2f} with {other}, and {number(round(float(table[i, i]), 2))} with "
        "its own. Check their order"
    )


def _best_order(table: Floats) -> Indices:
    from scipy.optimize import linear_sum_assignment

    return np.asarray(linear_sum_assignment(table, maximize=True)[1])


def _cycles(order: Indices) -> Iterator[Indices]:
    """Yield the cycles of a permutation that are longer than one, as pairs of place and new place."""
    left = set(np.flatnonzero(order != np.arange(len(order))).tolist())
    while left:
        cycle = [min(left)]
        while (following := int(order[cycle[-1]])) != cycle[0]:
            cycle.append(following)
        left -= set(cycle)
        yield np.array([cycle, order[cycle]]).T


def _all_gain(rows: ModelRows, cycle: Indices) -> bool:
    said, labels, own = rows.said.standard, rows.labels.standard, np.maximum(np.diag(rows.table), 0.0)
    return all(
        rows.table[i, k] - own[i] > _REORDERED and beyond_chance(said[i] * (labels[k] - labels[i])) > FAR
        for i, k in cycle.tolist()
    )


def far_off(rows: ModelRows) -> str | None:
    """Doubt a model whose errors are far larger than the labels' spread, for whatever reason."""
    spread = float(rows.labels.variance.mean())
    if not spread or rows.missed.mean() <= _FAR_OFF * spread:
        return None
    return (
        f"its mean squared error is {rows.missed.mean() / spread:,.0f} times the labels' variance. Check columns, "
        "levels and outliers"
    )


MODEL_RULES: tuple[tuple[str, Callable[[ModelRows], str | None]], ...] = (
    ("constant", same_in_all_rows),
    ("missing", odd_value),
    ("decisions", feasible_decisions),
    ("trained", seen_before),
    ("leak", labels_known),
    ("logarithm", logarithms),
    ("units", other_units),
    ("sign", other_sign),
    ("shifted", other_rows),
    ("order", other_columns),
    ("errors", far_off),
)
"""The rules by kind, the most specific first: of a model only the first is told that finds something."""

OF_LABELS_UNSEEN = ("units", "sign")
"""The kinds that mean nothing of a model that was fitted to these very labels.

It is small if it was made to be, by a penalty; and what knows nothing goes against the labels it is asked about, for
the mean of the others is higher where theirs is lower.
"""
