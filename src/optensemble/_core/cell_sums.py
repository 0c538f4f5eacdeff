"""Counts and exact sums of rows that lie in several cells each, by part of the rows.

``cells[i, e]`` is the cell of row ``i`` in event ``e``, or -1 for a cell that is not kept. A cell belongs to one event,
and a row lies in at most one cell of an event. Everything is added in place, so that rows may come chunk after chunk;
``part[i]`` is the fold, or another part of all rows, that row ``i`` belongs to.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import extending, njit, types

from optensemble._core.arrays import Floats, Indices
from optensemble._core.exact_sums import grids
from optensemble._core.kernel import inner, maker

Cells = npt.NDArray[np.int32]

Overlaps = npt.NDArray[np.int32] | npt.NDArray[np.float64]
"""The number of rows that each two cells share, or the sum of their weights."""

intrinsic: Any = extending.intrinsic  # numba's type hints keep the first argument, which callers do not give


@njit(cache=True, nogil=True)
def renumbered(cells: Cells, number: Cells) -> Cells:
    """Return the ``number`` of every cell."""
    found = np.empty(cells.shape, np.int32)
    for i in range(cells.shape[0]):
        for e in range(cells.shape[1]):
            found[i, e] = number[cells[i, e]]
    return found


@njit(cache=True, nogil=True)
def picked(shared: Overlaps, places: Indices) -> Overlaps:
    """Return ``shared[places][:, places]``."""
    count = len(places)
    found = np.empty((count, count), shared.dtype)
    for a in range(count):
        line = shared[places[a]]
        for b in range(count):
            found[a, b] = line[places[b]]
    return found


@njit(cache=True, nogil=True)
def count_overlaps(cells: Cells, part: Indices, moving: Indices, shared: Cells) -> None:
    """Add to ``shared`` (parts, moving, count), in place, how many rows of each part each two cells share.

    Only those of which one at least is among ``moving``: what the others share may be known already. ``shared[p, m]``
    is the line of cell ``moving[m]``. Two moving cells are counted in one of their two places only, which may change
    from chunk to chunk: they share the sum of both.
    """
    parts, _, count = shared.shape
    starts, order = _rows_by_part(part, parts)
    line = np.full(count, -1, np.int64)
    for m in range(len(moving)):
        line[moving[m]] = m
    for p in range(parts):
        rows = order[starts[p] : starts[p + 1]]
        tally = rows_of_cells(cells, rows, count)
        if _bits_are_quicker(len(rows), cells.shape[1], np.count_nonzero(tally)):
            overlaps_by_bits(cells, rows, tally, line, shared[p])
        else:
            overlaps_by_pairs(cells, rows, line, shared[p])


@inner
def _bits_are_quicker(rows: int, events: int, found: int) -> bool:
    """Return whether bits are likely to count the overlaps of ``found`` cells sooner than pairs.

    Measured: two cells of a row take 1 to 2.5 ns; two cells 2 to 3 ns whatever the rows, and 0.1 to 0.2 ns for a word.
    """
    words = min(rows / 64, rows * events / max(found, 1))  # a cell has at most as many words as rows
    return rows * events**2 > found**2 * (2 + words / 12)


@njit(cache=True, nogil=True)
def rows_of_cells(cells: Cells, rows: Indices, count: int) -> Indices:
    """Return how many of some rows lie in each of ``count`` cells."""
    tally = np.zeros(count, np.int64)
    for i in rows:
        for e in range(cells.shape[1]):
            if cells[i, e] >= 0:
                tally[cells[i, e]] += 1
    return tally


@njit(cache=True, nogil=True)
def overlaps_by_pairs(cells: Cells, rows: Indices, line: Indices, shared: Cells) -> None:
    """Add the overlaps of some rows to ``shared``, one for every two cells of a row; ``line`` is -1 for fixed cells."""
    events = cells.shape[1]
    kept = np.empty(events, np.int64)
    for i in rows:
        m = 0
        for e in range(events):
            kept[m] = cells[i, e]
            m += kept[m] >= 0
        for p in range(m):
            for q in range(p, m):
                if line[kept[p]] >= 0:
                    shared[line[kept[p]], kept[q]] += 1
                elif line[kept[q]] >= 0:
                    shared[line[kept[q]], kept[p]] += 1


@njit(cache=True, nogil=True)
def weigh_overlaps(cells: Cells, part: Indices, weights: Floats, moving: Indices, shared: Floats) -> None:
    """Add to ``shared``, as :func:`count_overlaps` does, the weights of the rows that each two cells share."""
    events = cells.shape[1]
    line, kept = np.full(shared.shape[2], -1, np.int64), np.empty(events, np.int64)
    for m in range(len(moving)):
        line[moving[m]] = m
    for i in range(len(part)):
        m, here = 0, shared[part[i]]
        for e in range(events):
            kept[m] = cells[i, e]
            m += kept[m] >= 0
        for p in range(m):
            for q in range(p, m):
                if line[kept[p]] >= 0:
                    here[line[kept[p]], kept[q]] += weights[i]
                elif line[kept[q]] >= 0:
                    here[line[kept[q]], kept[p]] += weights[i]


@njit(cache=True, nogil=True)
def overlaps_by_bits(cells: Cells, rows: Indices, tally: Indices, line: Indices, shared: Cells) -> None:
    """Add the overlaps of some rows to ``shared``, 64 rows at a time; ``line`` is -1 for fixed cells.

    A cell is a set of rows, with a bit for each of them. Most cells hold few rows: of two cells, only those words of
    64 rows are compared in which the rarer one has any. Hence cells are in the order of their numbers of rows, moving
    ones first, and the same word of all cells lies side by side, so that several are compared with one at once.
    """
    n, events, count = len(rows), cells.shape[1], len(line)
    names = np.argsort(np.where(line >= 0, tally, tally + n + 1), kind="mergesort")
    names = names[tally[names] > 0]
    found = len(names)
    place = np.empty(count, np.int64)
    for a in range(found):
        place[names[a]] = a

    words = (n + 63) // 64
    bits = np.zeros((words + 1, found), np.int64)  # the last word stays empty
    for r in range(n):
        bit = np.int64(1) << np.int64(r % 64)
        for e in range(events):
            if cells[rows[r], e] >= 0:
                bits[r // 64, place[cells[rows[r], e]]] |= bit

    used, sums = np.empty(words + 1, np.int64), np.empty(found, np.int64)
    for a in range(np.count_nonzero(line[names] >= 0)):
        m = 0
        for w in range(words):
            used[m] = w
            m += bits[w, a] != 0
        used[m] = words  # two words at a time: if their number is odd, one of them is the empty one
        totals = sums[a:]  # as arrays of their own, words are compared several at a time
        totals[:] = 0
        for g in range(0, m, 2):
            first, second = bits[used[g], a:], bits[used[g + 1], a:]
            one, two = first[0], second[0]
            for b in range(found - a):
                totals[b] += _ones(first[b] & one) + _ones(second[b] & two)
        target = shared[line[names[a]]]
        for b in range(a, found):
            target[names[b]] += np.int32(sums[b])


@njit(cache=True, nogil=True)
def fill_lower(halves: Overlaps, penalty: float, normal: Floats) -> None:
    """Write ``G + penalty·I`` into the lower triangle of ``normal``; ``halves`` has each count in one of two places."""
    count = len(halves)
    for first in range(0, count, _TILE):  # one of the two places is across the lines of memory: tile by tile
        for second in range(0, first + 1, _TILE):
            for b in range(second, min(second + _TILE, count)):
                for a in range(max(first, b), min(first + _TILE, count)):
                    normal[a, b] = halves[a, b] + halves[b, a] if a != b else halves[a, a] + penalty


_TILE = 64  # counts in a line: a tile and its mirror image fit into the first cache


@njit(cache=True, nogil=True)
def add_limbs(
    cells: Cells,
    part: Indices,
    values: Floats,
    top: float,
    total: int,
    counts: Indices,
    high: Floats,
    low: Floats,
) -> None:
    """Add some of ``total`` rows, none larger than ``top``, to the limbs of the sums of their cells by part, in place.

    ``counts`` is (parts, count), ``high`` and ``low`` are (parts, count, d). A part gets the same bits as from
    :func:`~optensemble._core.exact_sums.add_rows`, in any order of rows and chunks. In each event the cell with most
    rows is not summed: it is what the others, kept or not, leave of the sum of all rows. Limbs are on a grid on which
    neither sums nor differences are rounded, so that this is exact.
    """
    coarse, fine = grids(top, total)
    events, d = cells.shape[1], values.shape[1]
    parts, count = counts.shape
    starts, order = _rows_by_part(part, parts)
    sums = np.empty((count + events, 2 * d))
    for p in range(parts):
        rows = order[starts[p] : starts[p + 1]]
        if len(rows) > 0:
            tally, most, event = _tally(cells, rows, count)
            _sum_limbs(cells, rows, values, coarse, fine, tally, most, event, sums)
            for c in range(count):
                if tally[c] > 0:
                    counts[p, c] += tally[c]
                    for j in range(d):
                        high[p, c, j] += sums[c, j]
                    for j in range(d):
                        low[p, c, j] += sums[c, d + j]


@inner
def _slot(cell: int, event: int, count: int) -> int:
    return cell if cell >= 0 else count + event


@maker
def _tally(cells: Cells, rows: Indices, count: int) -> tuple[Indices, Indices, Indices]:
    """Return the rows of each cell, the cell with most rows of each event, and the event of each cell.

    Rows that are not in a kept cell of event ``e`` are in cell ``count + e``, as :func:`_slot` has it.
    """
    events = cells.shape[1]
    tally, event = np.zeros(count + events, np.int64), np.full(count + events, -1, np.int64)
    for i in rows:
        for e in range(events):
            c = _slot(cells[i, e], e, count)
            tally[c] += 1
            if event[c] != e:
                if event[c] >= 0:
                    raise ValueError("a cell belongs to one event")
                event[c] = e
    most = np.arange(count, count + events)
    for c in range(count):
        if tally[c] > 0 and tally[c] > tally[most[event[c]]]:
            most[event[c]] = c
    return tally, most, event


@maker
def _sum_limbs(
    cells: Cells,
    rows: Indices,
    values: Floats,
    coarse: float,
    fine: float,
    tally: Indices,
    most: Indices,
    event: Indices,
    sums: Floats,
) -> None:
    """Sum the limbs of the rows of each cell that has any, the high ones first, then the low ones."""
    slots, width = sums.shape
    d, events = width // 2, len(most)
    count = slots - events
    for c in range(slots):
        if tally[c] > 0:
            for j in range(width):
                sums[c, j] = 0.0
    limbs, whole = np.empty(width), np.zeros(width)
    others = np.empty(events, np.int64)
    for i in rows:
        for j in range(d):
            limbs[j] = np.rint(values[i, j] / coarse) * coarse
            limbs[d + j] = np.rint((values[i, j] - limbs[j]) / fine) * fine
        for j in range(width):
            whole[j] += limbs[j]
        m = 0
        for e in range(events):  # without a branch, which would be mispredicted in every other event
            others[m] = _slot(cells[i, e], e, count)
            m += others[m] != most[e]
        for k in range(m):
            cell = others[k]  # read once: the compiler cannot know that sums are not written over it
            for j in range(width):
                sums[cell, j] += limbs[j]
    for e in range(events):
        for j in range(width):
            sums[most[e], j] = whole[j]
    for c in range(slots):
        if tally[c] > 0 and c != most[event[c]]:
            rest = most[event[c]]
            for j in range(width):
                sums[rest, j] -= sums[c, j]


@maker
def _rows_by_part(part: Indices, parts: int) -> tuple[Indices, Indices]:
    """Return the rows in the order of their parts, and where each part starts among them."""
    starts = np.zeros(parts + 1, np.int64)
    for i in range(len(part)):
        starts[part[i] + 1] += 1
    for p in range(parts):
        starts[p + 1] += starts[p]
    free, order = starts.copy(), np.empty(len(part), np.int64)
    for i in range(len(part)):
        order[free[part[i]]] = i
        free[part[i]] += 1
    return starts, order


@intrinsic
def _ones(typing_context: Any, word: Any) -> Any:
    """Return the number of ones in a word, by an instruction that processors have for several words at once."""
    return types.int64(types.int64), lambda context, builder, signature, words: builder.ctpop(words[0])
