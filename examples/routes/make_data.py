"""Make the files of the routes example: trips across a town, two forecasts of the minutes, and a dispatcher's routes.

The town is a grid of four by four crossings; streets lead east or south. A river runs between the rows B and C, and
four bridges cross it. The timetable knows the rush hour, but nothing of today. Sensors see today's traffic, but stand
only in the streets along the river. The dispatcher hears by radio which bridges are up, which no model knows; for the
rest the routes are those of old.
"""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt
import pandas as pd

HISTORY, NEW = 600, 200
SIDE = 4
CROSSINGS = [f"{row}{column}" for row in "ABCD" for column in "1234"]
"""A1 is in the north-west, where trips begin; D4 in the south-east, where they end."""

UP, WAIT = 0.4, 15.0
"""How often a bridge is up, and how many minutes that takes."""


def streets() -> list[tuple[str, str]]:
    """Return every street from crossing to crossing."""
    found = []
    for number, crossing in enumerate(CROSSINGS):
        if number % SIDE < SIDE - 1:
            found.append((crossing, CROSSINGS[number + 1]))
        if number // SIDE < SIDE - 1:
            found.append((crossing, CROSSINGS[number + SIDE]))
    return found


def all_routes() -> npt.NDArray[np.float64]:
    """Return every route from A1 to D4 as a row of zeros and ones, one for each street."""
    steps, known = 2 * (SIDE - 1), streets()
    routes = []
    for south in combinations(range(steps), SIDE - 1):
        passed = np.cumsum([0, *(SIDE if step in south else 1 for step in range(steps))])
        used = [(CROSSINGS[a], CROSSINGS[b]) for a, b in pairwise(passed)]
        routes.append([float(street in used) for street in known])
    return np.array(routes)


def make_trips(trips: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return a table of trips: minutes and forecasts of them for every street, and the dispatcher's route."""
    known, routes = streets(), all_routes()
    shape = trips, len(known)
    bridge = np.array([tail[0] == "B" and head[0] == "C" for tail, head in known])
    watched = np.array([tail[0] in "BC" and head[0] == tail[0] for tail, head in known])
    usual = np.where(watched, 4.0, 5.0)
    rush = rng.uniform(size=(trips, 1)) * np.where(watched, 3.0, 1.0)
    traffic = rng.gamma(1.0, np.where(watched, 4.0, 2.0), size=shape)
    wait = WAIT * (rng.uniform(size=shape) < UP) * bridge
    habit = usual + wait + rng.normal(size=shape)
    columns = {
        "minutes": usual + rush + traffic + wait + rng.gamma(2.0, 0.5, size=shape),
        "timetable": usual + rush + rng.normal(scale=0.3, size=shape),
        "sensors": np.where(watched, usual + traffic + rng.normal(scale=0.5, size=shape), 5.0),
        "drove": routes[(habit @ routes.T).argmin(axis=1)],
    }
    names = ["-".join(street) for street in known]
    table = {f"{what}_{name}": values[:, j] for what, values in columns.items() for j, name in enumerate(names)}
    rows = pd.DataFrame(table).round(1)
    rows.insert(0, "trip", [f"T{number:03d}" for number in range(1, trips + 1)])
    return rows


def main() -> None:
    """Write the files."""
    rows = make_trips(HISTORY + NEW, np.random.default_rng(0))
    later = rows[HISTORY:].reset_index(drop=True)
    new = later.drop(columns=[f"minutes_{tail}-{head}" for tail, head in streets()])
    for name, table in {"history": rows[:HISTORY], "new": new, "later": later}.items():
        table.to_csv(f"{name}.csv", index=False)
        print(f"wrote {name}.csv: {len(table)} trips")
    pd.DataFrame(streets()).to_csv("streets.csv", index=False, header=False)
    print(f"wrote streets.csv: {len(streets())} streets")


if __name__ == "__main__":
    main()
