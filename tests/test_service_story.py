"""As an operator: an ensemble goes into service, its world breaks, a refit rescues it, and nothing is ever lost."""

from __future__ import annotations

import http.client
import json
import re
import resource
import signal
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.serving.processes import Server, running

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

SHELL = run_path(str(Path(__file__).parent.parent / "docs" / "console.py"))["Shell"]
HOURS = [f"{hour:02d}" for hour in range(24)]
PRICES = [f"price_{hour}" for hour in HOURS]
BREAK, KILLED, STOPPED, DAYS, LATE, SECONDS = 80, 200, 360, 400, 20, 60
DONE, FAILED, ALARM, REFIT_DUE = 0, 1, 3, 5  # exit codes


@dataclass
class Operator:
    """Asks a server to decide day by day, and tells it the prices once they are known."""

    server: Server
    days: pd.DataFrame
    prices: pd.DataFrame
    received: dict[str, Any] = field(default_factory=dict)

    def post(self, path: str, body: Any) -> Any:
        status, _, answer = self.server.ask("POST", path, body)
        assert status == 200, answer
        return json.loads(answer)

    def get(self, path: str) -> Any:
        return json.loads(self.server.ask("GET", path)[2])

    def decide(self, start: int, stop: int) -> None:
        """Decide some days in one request; what was received for a day before must be received again."""
        asked = self.days[start:stop]
        decisions = self.post("/decide", {"rows": asked.to_dict("records")})["decisions"]
        assert [each["id"] for each in decisions] == asked["day"].tolist()
        for each in decisions:
            assert self.received.setdefault(each["id"], each) == each

    def observe(self, start: int, stop: int) -> Any:
        ids, labels = self.days["day"][start:stop], self.prices[start:stop]
        return self.post("/observe", {"ids": ids.tolist(), "labels": labels.to_dict("records")})

    def go_on(self, start: int, stop: int, step: int = 5) -> None:
        """Decide further days, and learn what became of those before, late."""
        for day in range(start, stop, step):
            end = min(day + step, stop)
            self.decide(day, end)
            if day >= LATE:
                assert self.observe(day - LATE, end - LATE)["learned"] == end - day

    def actions(self, ids: Iterable[str]) -> Any:
        """The actions that were received."""
        return np.array([[self.received[day]["action"][price] for price in PRICES] for day in ids])

    def payoffs(self, ids: Iterable[str]) -> Any:
        """What they came to."""
        prices = self.prices.set_axis(self.days["day"]).loc[list(ids)]
        return (self.actions(ids) * prices.to_numpy()).sum(axis=1)


def broken_world(later: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The later days of the example twice; from some day on two vendors predict the opposite of what they know."""
    once = pd.read_csv(later, dtype={"day": str})
    after = (pd.to_datetime(once["day"]) + pd.Timedelta(days=len(once))).dt.strftime("%Y-%m-%d")
    world = pd.concat([once, once.assign(day=after)], ignore_index=True)
    for vendor in ("demand", "weather"):
        columns = [f"{vendor}_{hour}" for hour in HOURS]
        told = world[columns].to_numpy(copy=True)
        told[BREAK:] = 2 * told[BREAK:].mean(axis=1, keepdims=True) - told[BREAK:]
        world[columns] = told
    return world.drop(columns=PRICES), world[PRICES]


@dataclass
class Story:
    """A folder in which commands are run, and an operator of what they make."""

    folder: Path
    shell: Any = None

    def __post_init__(self) -> None:
        self.shell, self.log = SHELL(self.folder), self.folder / "decisions.db"

    def run(self, command: str, *codes: int) -> str:
        """Return what a command prints."""
        printed: str = self.shell.run(f"optensemble {command}")
        assert self.shell.code in (codes or (DONE,)), printed
        return printed

    def start(self) -> None:
        """Put the example into service."""
        self.run("init --example battery")
        self.run("fit job.toml -o ensemble.oe")
        self.run("live start ensemble.oe --log decisions.db --window 150")

    def earned_alone(self, days: pd.DataFrame, prices: pd.DataFrame) -> Any:
        """What the ensemble earns each day as it was fitted: a command that knows nothing of the log decides."""
        days.to_csv(self.folder / "days.csv", index=False)
        self.run("decide ensemble.oe days.csv -o alone.csv")
        actions = pd.read_csv(self.folder / "alone.csv")[[f"action_{hour}" for hour in HOURS]]
        return (actions.to_numpy() * prices.to_numpy()).sum(axis=1)

    def exported(self) -> pd.DataFrame:
        """The decisions in the log."""
        self.run("log export --log decisions.db -o decisions.parquet")
        return pd.read_parquet(self.folder / "decisions.parquet").set_index("id")

    def figure(self, page: str, title: str) -> float:
        """A figure at the top of a page."""
        found = re.search(rf'<h2>{title}</h2><p class="big">([^<]*)</p>', page)
        assert found, title
        return float(found[1].split("\N{NO-BREAK SPACE}")[0].replace(",", "").replace("\N{MINUS SIGN}", "-"))


def test_an_ensemble_in_service(tmp_path: Path) -> None:
    before, story = _processor_seconds(), Story(tmp_path)
    story.start()
    days, prices = broken_world(tmp_path / "later.csv")
    with running(story.log) as server:
        operator = Operator(server, days, prices)
        operator.go_on(0, 30, step=1)
        operator.go_on(30, BREAK)
        assert operator.get("/monitor")["watches"]["standing"] == []
        alarmed = _until_an_alarm(operator, story)
        rescued = _until_a_refit(operator, alarmed)
        operator.go_on(rescued, KILLED)
        reached = _until_it_is_killed(operator)
    with running(story.log) as server:
        operator.server = server
        _nothing_is_lost(operator, reached)
        operator.go_on(reached + 5, STOPPED)
        _stopped_under_load(operator)
    _what_is_read_is_what_was_received(operator, story)
    alone, earned = story.earned_alone(days, prices), operator.payoffs(days["day"][:STOPPED])
    alone = alone[:STOPPED]
    assert abs(earned[:BREAK].mean() - alone[:BREAK].mean()) < 10
    assert earned[rescued:].mean() > alone[rescued:].mean() + 200
    assert earned[KILLED:].mean() > 0.6 * earned[:BREAK].mean() > 0 > alone[KILLED:].mean()
    assert _processor_seconds() - before < SECONDS


def _processor_seconds() -> float:
    """The time of processors: that on the clock is also that of other tests."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _until_an_alarm(operator: Operator, story: Story) -> int:
    """The vendors are wrong, and whoever looks is told so; return how many days were decided by then."""
    reached = BREAK
    while not (standing := operator.get("/monitor")["watches"]["standing"]):
        operator.go_on(reached, reached + 5)
        reached += 5
    assert {each["direction"] for each in standing} == {"less"}
    assert all(BREAK <= each["onset"] <= each["row"] < BREAK + 20 for each in standing)
    assert "Alarm at row" in story.run("live status --log decisions.db", ALARM)
    assert "is led by process" in story.run("live refit --log decisions.db", FAILED)
    return reached


def _until_a_refit(operator: Operator, reached: int) -> int:
    """A refit is made beside requests, and takes over; return how many days were decided by then."""
    while not (refit := operator.get("/status")["refit"])["made"]:
        operator.go_on(reached, reached + 1, step=1)
        reached += 1
        assert reached < BREAK + 80
    assert (refit["failed"], refit["last"]) == (0, "150 rows")
    return reached


def _until_it_is_killed(operator: Operator) -> int:
    """Kill the server while it decides and learns; return how many days an answer was received for."""

    def kill() -> None:
        while len(operator.received) < KILLED + 50:
            time.sleep(0.003)
        operator.server.process.kill()

    threading.Thread(target=kill, daemon=True).start()
    with pytest.raises((OSError, http.client.HTTPException)):
        operator.go_on(KILLED, DAYS)
    assert operator.server.process.wait(20) == -signal.SIGKILL
    return len(operator.received)


def _nothing_is_lost(operator: Operator, reached: int) -> None:
    """Ask again for all that was answered, and for what was not; labels count once."""
    reached += 5
    operator.decide(0, reached)
    learned = operator.observe(0, reached - LATE)
    assert learned["learned"] + learned["known"] == reached - LATE
    assert 0 < learned["learned"] <= 10
    status = operator.get("/status")
    assert (status["decided"], status["labels"]) == (reached, reached - LATE)


def _stopped_under_load(operator: Operator) -> None:
    """Stop the server with requests under way: each is answered, or was never let in."""

    def ask(day: int) -> bool:
        try:
            operator.decide(day, day + 1)
        except (OSError, http.client.HTTPException):
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(ask, day) for day in range(STOPPED, DAYS)]
        assert asked[0].result(30)
        assert operator.server.stop() == 0, operator.server.told()
        assert len(operator.received) == STOPPED + sum(each.result(30) for each in asked)


def _what_is_read_is_what_was_received(operator: Operator, story: Story) -> None:
    """The log, the page and the status agree with the answers, and with sums of their own."""
    found, received = story.exported(), pd.DataFrame(operator.received.values()).set_index("id")
    assert set(found.index) == set(received.index)
    received = received.loc[found.index]
    assert (found[[f"action_{price}" for price in PRICES]].to_numpy() == operator.actions(found.index)).all()
    assert (found["promised"] == received["promised"]).all()
    known = found["realised"].notna()
    labelled, payoffs = found.index[known], operator.payoffs(found.index[known])
    assert list(labelled) == operator.days["day"][: len(labelled)].tolist()
    assert found["realised"][known].to_numpy() == pytest.approx(payoffs)
    status = json.loads(story.run("live status --log decisions.db --json", DONE, REFIT_DUE))
    assert status["earned"] == pytest.approx(payoffs.sum())
    assert status["promised"] == pytest.approx(received["promised"][known].sum())
    assert (status["decided"], status["labelled"]) == (len(received), len(labelled))
    story.run("live report --log decisions.db -o live.html")
    page = (story.folder / "live.html").read_text(encoding="utf-8")
    assert story.figure(page, "Earned so far") == round(payoffs.sum())
    assert story.figure(page, "Promised so far") == round(received["promised"][known].sum())
    assert story.figure(page, "Labelled days") == len(labelled)
    assert story.figure(page, "Open days") == len(received) - len(labelled)
    assert len(status["refits"]) == page.count("took over</td>")
