"""Make the files of the routes example: trips across a town, two forecasts of the minutes, and a dispatcher's routes.

The town is a grid of four by four crossings. A river runs between the rows B and C, and four bridges cross it. On most
trips one of them is closed for works, and its traffic takes the bridges beside it; any other may be up. The timetable
knows the rush hour, but nothing of today. Sensors see today's traffic, but stand only in the streets along the river.
The dispatcher hears by radio which bridges are up, which no model knows; for the rest the routes are those of old.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt
import pandas as pd

HISTORY, NEW = 600, 200
SIDE = 4
CROSSINGS = [f"{row}{column}" for row in "ABCD" for column in "1234"]
"""A1 is in the north-west, D4 in the south-east; trips begin in row A and end in row D."""

UP, WAIT = 0.4, 15.0
"""How often a bridge is up, and how many minutes that takes."""

WORKS, JAM = 0.8, 12.0
"""How often a bridge is closed for works, and how many minutes that adds on the bridges beside it."""


def streets() -> list[tuple[str, str]]:
    """Return every street from crossing to crossing; it may be driven both ways."""
    found = []
    for number, crossing in enumerate(CROSSINGS):
        if number % SIDE < SIDE - 1:
            found.append((crossing, CROSSINGS[number + 1]))
        if number // SIDE < SIDE - 1:
            found.append((crossing, CROSSINGS[number + SIDE]))
    return found


def fastest(start: str, end: str, minutes: npt.NDArray[np.float64]) -> list[int]:
    """Return the streets of the fastest route (Dijkstra); a closed street takes forever."""
    queue, seen = [(0.0, start, list[int]())], set[str]()
    while queue:
        spent, here, used = heappop(queue)
        if here == end:
            return used
        seen.add(here)
        for number, ends in enumerate(streets()):
            if here in ends:
                there = ends[ends[0] == here]
                if there not in seen:
                    heappush(queue, (spent + minutes[number], there, [*used, number]))
    raise ValueError(f"no way from {start} to {end}")


def make_trips(trips: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return a table of trips: minutes and forecasts of them for every street, what is closed, and a route."""
    known = streets()
    shape = trips, len(known)
    names = np.array(["-".join(street) for street in known])
    bridge = np.flatnonzero([tail[0] == "B" and head[0] == "C" for tail, head in known])
    watched = np.array([tail[0] in "BC" and head[0] == tail[0] for tail, head in known])
    start, end = rng.choice(CROSSINGS[:SIDE], size=trips), rng.choice(CROSSINGS[-SIDE:], size=trips)
    works = np.where(rng.uniform(size=trips) < WORKS, rng.integers(SIDE, size=trips), -1)
    closed = np.zeros(shape, dtype=bool)
    closed[works >= 0, bridge[works[works >= 0]]] = True
    closed[np.arange(trips), rng.choice(np.delete(np.arange(shape[1]), bridge), size=trips)] = True  # and one street
    jam, wait = np.zeros(shape), np.zeros(shape)
    jam[:, bridge] = JAM * ((works[:, None] >= 0) & (abs(works[:, None] - np.arange(SIDE)) == 1))
    wait[:, bridge] = WAIT * (rng.uniform(size=(trips, SIDE)) < UP)
    usual = np.where(watched, 4.0, 5.0)
    rush = rng.uniform(size=(trips, 1)) * np.where(watched, 3.0, 1.0)
    traffic = rng.gamma(1.0, np.where(watched, 4.0, 2.0), size=shape)
    habit = np.where(closed, np.inf, usual + wait + rng.gamma(1.0, 1.0, size=shape))
    columns = {
        "minutes": usual + rush + traffic + wait + jam + rng.gamma(2.0, 0.5, size=shape),
        "timetable": usual + rush + rng.normal(scale=0.3, size=shape),
        "sensors": np.where(watched, usual + traffic + rng.normal(scale=0.5, size=shape), 5.0),
        "closed": closed,
        "drove": [np.isin(np.arange(shape[1]), fastest(*trip)) for trip in zip(start, end, habit, strict=True)],
    }
    table = {
        f"{what}_{name}": np.asarray(values, dtype=float)[:, j]
        for what, values in columns.items()
        for j, name in enumerate(names)
    }
    rows = pd.DataFrame(table).round(1)
    rows.insert(0, "trip", [f"T{number:03d}" for number in range(1, trips + 1)])
    rows.insert(1, "from", start)
    rows.insert(2, "to", end)
    rows.insert(3, "works", np.where(works >= 0, names[bridge][works], "none"))
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
