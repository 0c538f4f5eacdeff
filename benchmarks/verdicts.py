"""Verdicts of audits in simulated worlds: for each grade, worlds in which it is the right one.

    python benchmarks/verdicts.py                      all of it, about five minutes
    python benchmarks/verdicts.py --repetitions 20

An ensemble is fitted and audited on later rows, whose labels are shifted so that the gap between promise and payoff is
known; half of the worlds have payoffs, half have costs. A grade other than the right one is wrong, and so is a promise
that is broken by chance: its limits are to hold 95 times in 100.

The script fails if more than 5 % of all grades are wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from honesty import show
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.theorems.graded_worlds import WORLDS, grades

MOST_WRONG = 0.05


def main() -> int:
    """Try all worlds and print the table; return 1 if too many grades are wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=100)
    repetitions = parser.parse_args().repetitions
    rows, wrong = list[list[str]](), 0
    for world in WORLDS:
        found = Counter(grades(world, range(1000, 1000 + repetitions)))
        missed = repetitions - found.pop(world.grade, 0)
        others = ", ".join(f"{grade} {count}" for grade, count in found.most_common())
        gap = "none set" if world.gap is None else f"{world.gap:+g} half-widths"
        rows.append([world.grade, f"{world.fitted:,}", f"{world.later:,}", gap, f"{missed} of {repetitions}", others])
        wrong += missed
    share = wrong / (repetitions * len(WORLDS))
    columns = ["right grade", "rows of the fit", "later rows", "true gap", "wrong", "graded instead"]
    show("Verdicts", columns, rows)
    print(f"{100 * share:.1f} % of {repetitions * len(WORLDS):,} grades are wrong (at most {100 * MOST_WRONG:g} %)")
    return int(share > MOST_WRONG)


if __name__ == "__main__":
    with threadpool_limits(1):
        sys.exit(main())
