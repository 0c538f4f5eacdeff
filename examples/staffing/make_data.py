"""Make the files of the staffing example: days of takings at ten kiosks, and three forecasts of them.

Takings follow the weather, the coaches that have booked, and the day of the week. One forecaster counts the bookings,
one knows the weather, and one repeats the same date of the year before, which fell on another day of the week. So all
of them know what a kiosk usually takes, and none of them what a Sunday is.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

HISTORY, NEW = 400, 200
SITES = {
    "harbour": ["pier", "beach", "ferry"],
    "town": ["market", "castle", "station"],
    "hills": ["lake", "summit", "lift", "meadow"],
}
NAMES = [site for sites in SITES.values() for site in sites]
REGION = np.repeat(np.arange(3), [len(sites) for sites in SITES.values()])

USUAL = np.array([320.0, 300, 260, 300, 280, 320, 260, 280, 300, 250])
SUN = np.array([60.0, -30, 30])
"""What sun adds to the takings of a kiosk by the harbour, in town and in the hills, in EUR a day."""

KINDS = {"weekday": [0.0, 0, 0], "saturday": [30.0, 90, 0], "sunday": [60.0, -120, 90]}
"""What the kind of day adds, likewise: on Sundays the shops in town are closed."""


def make_days(days: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return a table of days: takings and forecasts, in EUR."""
    shape = days, len(NAMES)
    dates = pd.date_range("2024-01-01", periods=days)
    kind = np.array(["weekday"] * 5 + ["saturday", "sunday"])[dates.day_of_week.to_numpy()]
    of_kind = np.array([KINDS[name] for name in kind])[:, REGION]
    sun = rng.normal(size=(days, 1)) * SUN[REGION]
    coaches = 90.0 * rng.poisson(0.6, size=shape)
    before = np.roll(of_kind, 1, axis=0) + rng.normal(scale=70, size=shape)  # a year is 52 weeks and a day
    columns = {
        "takings": USUAL + of_kind + sun + coaches + rng.normal(scale=50, size=shape),
        "bookings": USUAL + coaches,
        "weather": USUAL + sun + rng.normal(scale=15, size=shape),
        "last_year": USUAL + before,
    }
    table = {f"{what}_{site}": values[:, j] for what, values in columns.items() for j, site in enumerate(NAMES)}
    rows = pd.DataFrame(table).round(0)
    rows.insert(0, "day", dates.strftime("%Y-%m-%d"))
    rows.insert(1, "kind", kind)
    return rows


def main() -> None:
    """Write the files."""
    rows = make_days(HISTORY + NEW, np.random.default_rng(0))
    later = rows[HISTORY:].reset_index(drop=True)
    new = later.drop(columns=[f"takings_{site}" for site in NAMES])
    for name, table in {"history": rows[:HISTORY], "new": new, "later": later}.items():
        table.to_parquet(f"{name}.parquet", index=False)
        print(f"wrote {name}.parquet: {len(table)} days")


if __name__ == "__main__":
    main()
