"""Make three small tables: 500 days that are known, 100 new ones, and the same 100 once prices are known."""

import numpy as np
import pandas as pd

rng = np.random.default_rng(0)
days = pd.Series(pd.date_range("2026-01-01", periods=600).strftime("%Y-%m-%d"), name="day")
weather, demand, rest = rng.normal(scale=3, size=(3, 600, 3))
price = 20 + weather + demand + rest
shares = np.array([0.1, 0.3, 0.6])[np.roll(price, 1, axis=0).argsort(axis=1).argsort(axis=1)]  # most where it was dear


def columns(name, values):
    """Return a column for each town."""
    return pd.DataFrame(values, columns=[f"{name}_{town}" for town in ("north", "south", "west")]).round(2)


members = [columns("alpha", 20 + weather), columns("beta", 20 + 2 * demand), columns("plan", shares)]
table = pd.concat([days, *members, columns("price", price)], axis=1)
table[:500].to_csv("history.csv", index=False)
table[500:].drop(columns=table.filter(like="price").columns).to_csv("new.csv", index=False)
table[500:].to_csv("later.csv", index=False)
