"""Make the files of the battery example: days of 24 hourly prices, three forecasts of them, and each day's limits.

A price is made of a usual shape, of demand, of wind and sun, of what the grid is short of, and of a level that wanders
from week to week. One forecaster knows the demand, one the weather, and one repeats the prices of the day before. When
the grid will be short of power, its operator books reserve. No forecaster knows of that, but the battery does.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

HISTORY, NEW = 600, 200
CAPACITY = 3.0  # MWh
RESERVE = 0.5  # MWh
SHORTAGE = 40.0  # EUR per MWh
HOURS = np.arange(24)
BOOKED = {"none": [], "morning": [6, 7, 8, 9], "evening": [17, 18, 19, 20]}
"""What the operator may book, and the hours at the end of which the reserve must be in the battery."""


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
    """Return a table of days: prices and forecasts, in EUR per MWh, and what the battery is free to do, in MWh."""
    usual = 80 + 20 * hump(8, 2) + 22 * hump(19, 2) - 15 * hump(3, 3) - 10 * hump(13, 2.5)
    peaks = np.stack([hump(hour, 1.5) for hour in (7, 9.5, 18, 21)])
    dips = np.stack([hump(hour, 2) for hour in (2, 5, 12, 15, 23)])
    demand = rng.normal(scale=15, size=(days, len(peaks))) @ peaks
    renewables = -rng.normal(scale=15, size=(days, len(dips))) @ dips
    level = wander(rng, days, keep=0.9, step=5)[:, None]
    reserve = rng.choice(list(BOOKED), size=days, p=[0.4, 0.3, 0.3])
    short = {"none": 0.0 * HOURS, "morning": SHORTAGE * hump(8, 2), "evening": SHORTAGE * hump(19, 2)}
    shortage = np.stack([short[booked] for booked in reserve])
    prices = usual + demand + renewables + level + shortage + rng.normal(scale=6, size=(days, 24))
    charge = rng.integers(7, size=days) / 2  # MWh, from empty to full
    kept = RESERVE * np.array([np.isin(HOURS, BOOKED[booked]) for booked in reserve])
    kept[:, -1] = charge  # by midnight it is as full as it was
    columns = {
        "price": prices,
        "demand": usual + demand + rng.normal(size=(days, 24)),
        "weather": usual + renewables + rng.normal(size=(days, 24)),
        "yesterday": np.vstack([usual, prices[:-1]]),
        "free": charge[:, None] - kept,
        "room": CAPACITY - charge[:, None] + 0 * kept,
    }
    table = {f"{name}_{hour:02d}": values[:, hour] for name, values in columns.items() for hour in HOURS}
    rows = pd.DataFrame(table).round(2)
    rows.insert(0, "day", pd.date_range("2024-01-01", periods=days))
    rows.insert(1, "charge", charge)
    rows.insert(2, "reserve", reserve)
    return rows


def main() -> None:
    """Write the files."""
    rows = make_days(HISTORY + NEW, np.random.default_rng(0))
    later = rows[HISTORY:].reset_index(drop=True)
    new = later.drop(columns=[f"price_{hour:02d}" for hour in HOURS])
    for name, table in {"history": rows[:HISTORY], "new": new, "later": later}.items():
        table.to_csv(f"{name}.csv", index=False)
        print(f"wrote {name}.csv: {len(table)} days")
    sold = np.tril(np.ones((24, 24)))  # since midnight, on balance
    np.savetxt("limits.csv", np.vstack([sold, -sold]), fmt="%g", delimiter=",")
    print("wrote limits.csv: 48 limits")


if __name__ == "__main__":
    main()
