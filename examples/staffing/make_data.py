"""Make the files of the staffing example: days of takings at ten kiosks, three forecasts of them, and who is there.

Takings follow the season, the weather, the coaches that have booked, and the day of the week. One forecaster counts the
bookings, one knows the weather, and one repeats the mean of the same week of the year before. So all of them know what
a kiosk usually takes, and none of them what a Sunday is.
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

SUMMER = np.array([30.0, 0, -30])
"""What the height of summer adds, likewise."""

KINDS = {"weekday": [0.0, 0, 0], "saturday": [0.0, 120, -40], "sunday": [60.0, -160, 120]}
"""What the kind of day adds, likewise: on Sundays the shops in town are closed."""

FALLS_ILL, DAYS_ILL = 0.04, 4
"""How often a keeper falls ill, and for how many days."""


def make_days(days: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return a table of days: takings and forecasts, in EUR, and who is there."""
    shape = days, len(NAMES)
    dates = pd.date_range("2024-01-01", periods=days)
    kind = np.array(["weekday"] * 5 + ["saturday", "sunday"])[dates.day_of_week.to_numpy()]
    of_kind = np.array([KINDS[name] for name in kind])[:, REGION]
    summer = -np.cos(2 * np.pi * dates.day_of_year.to_numpy() / 365)[:, None] * SUMMER[REGION]
    sun = rng.normal(size=(days, 1)) * SUN[REGION]
    coaches = 90.0 * rng.poisson(0.6, size=shape)
    ill = np.zeros(shape, dtype=bool)
    for begin in np.argwhere(rng.uniform(size=shape) < FALLS_ILL):
        ill[begin[0] : begin[0] + DAYS_ILL, begin[1]] = True
    columns = {
        "takings": USUAL + summer + of_kind + sun + coaches + rng.normal(scale=50, size=shape),
        "bookings": USUAL + coaches,
        "weather": USUAL + sun + rng.normal(scale=15, size=shape),
        "last_year": USUAL + summer + of_kind[:7].mean(axis=0) + rng.normal(scale=30, size=shape),
        "keeper": ~ill,
    }
    table = {
        f"{what}_{site}": values[:, j].astype(float) for what, values in columns.items() for j, site in enumerate(NAMES)
    }
    rows = pd.DataFrame(table).round(0)
    rows.insert(0, "day", dates.strftime("%Y-%m-%d"))
    rows.insert(1, "kind", kind)
    rows.insert(2, "helpers", rng.integers(4, size=days))
    return rows


def main() -> None:
    """Write the files."""
    rows = make_days(HISTORY + NEW, np.random.default_rng(0))
    later = rows[HISTORY:].reset_index(drop=True)
    new = later.drop(columns=[f"takings_{site}" for site in NAMES])
    for name, table in {"history": rows[:HISTORY], "new": new, "later": later}.items():
        table.to_csv(f"{name}.csv", index=False)
        print(f"wrote {name}.csv: {len(table)} days")


if __name__ == "__main__":
    main()
