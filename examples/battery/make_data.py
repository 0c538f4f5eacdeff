"""Make the files of the battery example: days of 24 hourly prices, three forecasts of them, and the battery's limits.

A price is made of a usual shape, of demand, of wind and sun, and of a level that wanders from week to week. One
forecaster knows the demand, one the weather, and one repeats the prices of the day before.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

HISTORY, NEW = 600, 200
CAPACITY = 3.0  # MWh; an hour at full power moves 1 MWh
HOURS = np.arange(24)


def hump(centre: float, width: float) -> npt.NDArray[np.float64]:
    """Return a rise of height 1 around an hour of the day."""
    return np.asarray(np.exp(-0.5 * ((HOURS - centre) / width) ** 2))


def wander(rng: np.random.Generator, days: int, keep: float, step: float) -> npt.NDArray[np.float64]:
    """Return a level for every day that keeps a share of the day before."""
    level = np.zeros(days)
    for day in range(1, days):
        level[day] = keep * level[day - 1] + rng.normal(scale=step)
    return level


def make_days(days: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return a table of days: prices and forecasts, in EUR per MWh."""
    usual = 80 + 15 * hump(8, 2) + 25 * hump(19, 2) - 15 * hump(3, 3) - 10 * hump(13, 2.5)
    peaks = np.stack([hump(hour, 1.5) for hour in (7, 9.5, 18, 21)])
    dips = np.stack([hump(hour, 2) for hour in (2, 5, 12, 15, 23)])
    demand = rng.normal(scale=15, size=(days, len(peaks))) @ peaks
    renewables = -rng.normal(scale=15, size=(days, len(dips))) @ dips
    level = wander(rng, days, keep=0.9, step=5)[:, None]
    prices = usual + demand + renewables + level + rng.normal(scale=6, size=(days, 24))
    columns = {
        "price": prices,
        "demand": usual + demand + rng.normal(scale=4, size=(days, 24)),
        "weather": usual + renewables + rng.normal(scale=4, size=(days, 24)),
        "yesterday": np.vstack([usual, prices[:-1]]),
    }
    table = {f"{name}_{hour:02d}": values[:, hour] for name, values in columns.items() for hour in HOURS}
    rows = pd.DataFrame(table).round(2)
    rows.insert(0, "day", pd.date_range("2024-01-01", periods=days))
    return rows


def battery_limits() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return A and b of ``A a <= b``: since midnight at most 0 was sold on balance, and at most CAPACITY stored."""
    sold = np.tril(np.ones((24, 24)))
    return np.vstack([sold, -sold]), np.repeat([0.0, CAPACITY], 24)


def main() -> None:
    """Write the files."""
    rows = make_days(HISTORY + NEW, np.random.default_rng(0))
    later = rows[HISTORY:].reset_index(drop=True)
    new = later.drop(columns=[f"price_{hour:02d}" for hour in HOURS])
    for name, table in {"history": rows[:HISTORY], "new": new, "later": later}.items():
        table.to_parquet(f"{name}.parquet", index=False)
        print(f"wrote {name}.parquet: {len(table)} days")
    for name, numbers in zip(["limits_A", "limits_b"], battery_limits(), strict=True):
        np.savetxt(f"{name}.csv", numbers, fmt="%g", delimiter=",")
        print(f"wrote {name}.csv: {len(numbers)} limits")


if __name__ == "__main__":
    main()
