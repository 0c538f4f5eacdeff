"""Make the files of the portfolio example: weekly returns of six assets, three forecasts of them, and a risk model.

A return is made of a steady part, of three causes and of luck. Each forecaster knows one of the causes: one watches the
economy, which moves all assets; one follows trends; one writes a letter that takes gossip for news and boasts of both.
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
MARKET = np.array([-0.2, 0.6, 0.1, 0.8, 0.7, 0.8])  # correlation with the market


def risk_model() -> npt.NDArray[np.float64]:
    """Return the covariance of luck: all assets share that of the market, and have some of their own."""
    correlation = np.outer(MARKET, MARKET)
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(correlation * np.outer(SPREAD, SPREAD))


def trends(weeks: int, rng: np.random.Generator, keep: float = 0.7) -> npt.NDArray[np.float64]:
    """Return a trend for each asset, of spread 1, that keeps a share of the week before."""
    found = np.zeros((weeks, len(ASSETS)))
    for week in range(1, weeks):
        found[week] = keep * found[week - 1] + np.sqrt(1 - keep**2) * rng.normal(size=len(ASSETS))
    return found


def make_weeks(weeks: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return a table of weeks: returns and forecasts, in percent."""
    shape = weeks, len(ASSETS)
    economy = rng.normal(size=(weeks, 1)) * ECONOMY
    trend = 0.35 * SPREAD * trends(weeks, rng)
    news, gossip = 0.35 * SPREAD * rng.normal(size=(2, *shape))
    luck = rng.normal(size=shape) @ np.linalg.cholesky(risk_model()).T
    columns = {
        "return": STEADY + economy + trend + news + luck,
        "macro": STEADY + economy,
        "trend": STEADY + trend,
        "letter": 1.0 + 3 * (news + gossip),
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
        table.to_parquet(f"{name}.parquet", index=False)
        print(f"wrote {name}.parquet: {len(table)} weeks")
    np.savetxt("covariance.csv", risk_model(), fmt="%.4f", delimiter=",")
    print(f"wrote covariance.csv: {len(ASSETS)} assets")


if __name__ == "__main__":
    main()
