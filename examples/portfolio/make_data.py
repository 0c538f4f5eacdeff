"""Make the files of the portfolio example: weekly returns of six assets, three forecasts of them, and what is held.

A return is made of a steady part, of the economy, of a trend, of news and of luck. Each forecaster knows one of the
causes: one watches the economy, one follows trends, and one writes a letter that takes gossip for news. In three weeks
of ten the economy surprises, for better or worse. Then money takes flight, into gold and bonds and out of the rest,
whichever way the surprise goes. No forecaster knows of that.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

HISTORY, NEW = 600, 200
ASSETS = ["bonds", "credit", "gold", "home", "property", "world"]
STEADY = np.array([0.04, 0.07, 0.05, 0.12, 0.10, 0.14])  # percent a week
SPREAD = np.array([0.8, 1.2, 2.0, 2.8, 2.2, 2.4])
ECONOMY = np.array([-0.24, 0.32, -0.32, 0.88, 0.64, 0.80])
FLIGHT = np.array([1.0, -1.6, 3.0, -1.6, -1.6, 0.0])
MARKET = np.array([-0.2, 0.6, 0.1, 0.8, 0.7, 0.8])  # correlation with the market


def draw_luck(weeks: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return what nobody knows: all assets share the luck of the market, and have some of their own."""
    correlation = np.outer(MARKET, MARKET)
    np.fill_diagonal(correlation, 1.0)
    shared = rng.normal(size=(weeks, len(ASSETS))) @ np.linalg.cholesky(correlation).T
    return np.asarray(0.7 * SPREAD * shared)


def make_trends(weeks: int, rng: np.random.Generator, keep: float = 0.7) -> npt.NDArray[np.float64]:
    """Return a trend for each asset, of spread 1, that keeps a share of the week before."""
    found = np.zeros((weeks, len(ASSETS)))
    for week in range(1, weeks):
        found[week] = keep * found[week - 1] + np.sqrt(1 - keep**2) * rng.normal(size=len(ASSETS))
    return found


def follow(trends: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the weights of a desk that holds the three assets of the highest trend of the week before."""
    before = np.vstack([trends[:1], trends[:-1]])
    place = (-before).argsort(axis=1).argsort(axis=1)
    return np.array([0.4, 0.4, 0.2, 0.0, 0.0, 0.0])[place]


def make_weeks(weeks: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return a table of weeks: returns and forecasts, in percent, and the weights held before."""
    shape = weeks, len(ASSETS)
    surprise = rng.uniform(size=(weeks, 1)) < 0.3
    size = rng.choice([-1.0, 1.0], size=(weeks, 1)) * rng.uniform(1.5, 2.5, size=(weeks, 1))
    economy = np.where(surprise, size, rng.normal(scale=0.3, size=(weeks, 1))) * ECONOMY
    trends = make_trends(weeks, rng)
    trend = 0.35 * SPREAD * trends
    news, gossip = 0.35 * SPREAD * rng.normal(size=(2, *shape))
    columns = {
        "return": STEADY + economy + surprise * FLIGHT + trend + news + draw_luck(weeks, rng),
        "macro": STEADY + economy,
        "trend": STEADY + trend,
        "letter": STEADY + news + gossip,
        "held": follow(trends),
    }
    table = {f"{name}_{asset}": values[:, j] for name, values in columns.items() for j, asset in enumerate(ASSETS)}
    rows = pd.DataFrame(table).round(3)
    rows.insert(0, "week", pd.date_range("2011-01-07", periods=weeks, freq="W-FRI"))
    return rows


def main() -> None:
    """Write the files."""
    rows = make_weeks(HISTORY + NEW, np.random.default_rng(0))
    later = rows[HISTORY:].reset_index(drop=True)
    new = later.drop(columns=[f"return_{asset}" for asset in ASSETS])
    for name, table in {"history": rows[:HISTORY], "new": new, "later": later}.items():
        table.to_csv(f"{name}.csv", index=False)
        print(f"wrote {name}.csv: {len(table)} weeks")


if __name__ == "__main__":
    main()
