"""False alarms and delays of a monitor that is asked after every row, next to a z test that is repeated as often.

    python benchmarks/monitor.py                       about a minute on one core
    python benchmarks/monitor.py --repetitions 300

Errors of promises that are right on average, of mean 0 and standard deviation 1: independent ones of six distributions,
and series that keep 0.6 or 0.9 of themselves from row to row. 400 rows are those of a fit: their standard deviation is
the scale, and of the series their long-run variance is estimated, or is not. Two worlds are there to show where the
rate is not kept: strong dependence, of which too little is seen in 400 rows, and gains so rare that the 400 rows have
seen few of them or none. 5,000 later rows are looked at one by one. For
delays, payoffs are less from row 1,000 on. Monitors: one that looks for less only, without a tolerance, and one with
defaults: both directions, a tolerance of 0.1 sd. The z test asks from row 30 on whether less is realised, at 5 %.

The script fails if false alarms are more frequent than they may be, by more than two standard errors, or delays longer.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from honesty import show
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parents[1]))

import optensemble as oe
from optensemble.stats.long_run import long_run_ratio
from tests.monitoring.worlds import INDEPENDENT, Errors, autoregressive, very_rare_gains

Floats = npt.NDArray[np.float64]

FITTED, LOOKS, CHANGE = 400, 5000, 1000
DROPS = (0.25, 0.5, 1.0)
NOMINAL = 0.05
MOST_DEPENDENT = 0.08
"""Of false alarms where rows depend on each other: their long-run variance is an estimate, and so is what it is for."""

LONGEST = {0.25: 245, 0.5: 83, 1.0: 30}
"""Median delays of the monitor without a tolerance where errors are normal; by a tenth they may be longer."""

LESS, DEFAULT, REPEATED = "less only", "default", "repeated z"
MONITORS: dict[str, dict[str, Any]] = {LESS: {"directions": "less", "tolerance": 0.0}, DEFAULT: {}}
NORMAL = "normal"
NEVER = LOOKS
_FIRST = 30  # row of the z test
_QUANTILE = 1.645  # of the normal distribution, for 5 % on one side


class World(NamedTuple):
    """Errors, and whether the monitor is told how they depend on each other, and how often it may then be wrong."""

    name: str
    errors: Errors
    estimated: bool
    most: float | None


WORLDS = (
    *(World(name, errors, False, NOMINAL) for name, errors in INDEPENDENT.items()),
    World("AR(1) 0.6, factor estimated", autoregressive, True, MOST_DEPENDENT),
    World("AR(1) 0.6, no factor", autoregressive, False, None),
    World("AR(1) 0.9, factor estimated", partial(autoregressive, share=0.9), True, None),
    World("0.2 % gains of 19 sd", very_rare_gains, False, None),
)


def first_rows(fitting: Floats, rows: Floats, estimated: bool) -> dict[str, int]:
    """Return the row of the first alarm of each method, where there is one among these."""
    sigma, long_run = float(fitting.std()), long_run_ratio(fitting) if estimated else 1.0
    found = {REPEATED: z_test(rows, long_run)}
    for name, given in MONITORS.items():
        standing = oe.Monitor(sigma, long_run=long_run, **given).observe(0.0, rows).standing
        found[name] = min((alarm.row for alarm in standing), default=NEVER)
    return found


def z_test(rows: Floats, long_run: float) -> int:
    """Return the first row after which the mean of all rows is significantly less than 0."""
    counts = np.arange(1, len(rows) + 1)
    sums, squares = np.cumsum(rows), np.cumsum(rows**2)
    with np.errstate(invalid="ignore", divide="ignore"):  # the first rows are not asked
        z = -sums / np.sqrt(counts * long_run * (squares - sums**2 / counts) / (counts - 1))
    late = np.flatnonzero(z[_FIRST - 1 :] > _QUANTILE)
    return int(late[0]) + _FIRST - 1 if len(late) else NEVER


def drawn(world: World, repetitions: int) -> Iterator[tuple[Floats, Floats]]:
    """Draw fitting rows and later rows."""
    for seed in range(repetitions):
        errors = world.errors(np.random.default_rng(seed), FITTED + LOOKS)
        yield errors[:FITTED], errors[FITTED:]


def try_world(world: World, repetitions: int) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Return the share of false alarms of each method, and its median delay for each drop.

    A delay is counted, in rows, where there was no alarm before the change; one that is never raised is longer than
    any.
    """
    methods = (*MONITORS, REPEATED)
    raised = dict.fromkeys(methods, 0)
    delays: dict[str, list[list[int]]] = {name: [[] for _ in DROPS] for name in methods}
    for fitting, rows in drawn(world, repetitions):
        for name, row in first_rows(fitting, rows, world.estimated).items():
            raised[name] += row < NEVER
        for number, drop in enumerate(DROPS):
            changed = np.concatenate([rows[:CHANGE], rows[CHANGE:] - drop])
            for name, row in first_rows(fitting, changed, world.estimated).items():
                if row >= CHANGE:
                    delays[name][number].append(row + 1 - CHANGE)
    shares = {name: count / repetitions for name, count in raised.items()}
    return shares, {
        name: [float(np.median(np.array(each) if each else np.nan)) for each in found] for name, found in delays.items()
    }


def error_of(share: float, repetitions: int) -> float:
    """Return the standard error of a share."""
    return float(np.sqrt(share * (1 - share) / repetitions))


def shown_delays(delays: list[float]) -> str:
    """Return median delays as a table shows them."""
    return " / ".join(
        "–" if np.isnan(delay) else "never" if delay > LOOKS - CHANGE else f"{delay:,.0f}" for delay in delays
    )


def shown_share(share: float, repetitions: int) -> str:
    """Return a share with its standard error."""
    return f"{share:.3f} ± {error_of(share, repetitions):.3f}"


def misses(world: World, shares: dict[str, float], delays: list[float], repetitions: int) -> Iterator[str]:
    """Say what is worse than asked for."""
    if world.most is not None:
        limit = world.most + 2 * error_of(world.most, repetitions)
        for name in MONITORS:
            if shares[name] > limit:
                yield f"{world.name}, {name}: false alarms {shares[name]:.3f}, at most {limit:.3f}"
    if world.name == NORMAL:
        for drop, delay in zip(DROPS, delays, strict=True):
            if delay > 1.1 * LONGEST[drop]:
                yield f"{world.name}, a drop of {drop:g} sd: {delay:.0f} rows, at most {1.1 * LONGEST[drop]:.0f}"


def main() -> int:
    """Try all worlds and print the tables; return 1 if something asked for is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=1000)
    repetitions = parser.parse_args().repetitions
    alarms, late, missed = list[list[str]](), list[list[str]](), list[str]()
    for world in WORLDS:
        shares, delays = try_world(world, repetitions)
        asked = "–" if world.most is None else f"{world.most:g}"
        alarms.append([world.name, *(shown_share(shares[name], repetitions) for name in shares), asked])
        late.append([world.name, *(shown_delays(delays[name]) for name in shares)])
        missed += misses(world, shares, delays[LESS], repetitions)
    columns = ["world", *MONITORS, REPEATED]
    show(f"False alarms in {LOOKS:,} looks, {repetitions:,} repetitions", [*columns, "at most"], alarms)
    drops = ", ".join(f"{drop:g}" for drop in DROPS)
    show(f"Median delay of drops of {drops} sd at row {CHANGE:,}, {repetitions:,} repetitions", columns, late)
    for each in missed:
        print(f"MISSED: {each}")
    print(
        f"asked for: false alarms at most {NOMINAL:g} of independent errors and {MOST_DEPENDENT:g} of dependent ones "
        f"with the factor, within two standard errors; delays of {', '.join(map(str, LONGEST.values()))} rows of "
        f"normal ones, within a tenth: {'missed' if missed else 'kept'}"
    )
    return int(bool(missed))


if __name__ == "__main__":
    with threadpool_limits(1):
        sys.exit(main())
