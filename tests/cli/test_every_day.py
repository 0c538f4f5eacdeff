"""The week of the page *Every day*, as its crontab has it, with every step killed in its middle."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from tests.cli.warm_commands import warm_commands
from tests.jobs.worlds import LABELS, make_rows, write_job, write_table

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

START = Path(__file__).parents[2] / "docs" / "start"
HISTORY, DAILY, FIRST = 120, 8, pd.Timestamp("2026-06-02")  # a Tuesday: the week ends with its Monday
WATCHED = ("ensemble.oe", "decisions.csv")
_LINE = re.compile(r"(\d+)\s+(\d+)\s+\*\s+\*\s+(\*|\d)\s+(.+)")


@dataclass(frozen=True)
class Entry:
    """A line of a crontab."""

    minute: int
    hour: int
    weekday: str
    command: str

    def is_due(self, day: pd.Timestamp) -> bool:
        return self.weekday in ("*", str(day.isoweekday() % 7))


def entries() -> list[Entry]:
    """Return the lines of the crontab, in the order of a day."""
    lines = [line for line in (START / "crontab").read_text().splitlines() if line and not line.startswith("#")]
    found = [_LINE.fullmatch(line) for line in lines]
    assert all(found), "a line that this test does not know how to read"
    parts = [match.groups() for match in found if match is not None]
    listed = [Entry(int(minute), int(hour), weekday, command) for minute, hour, weekday, command in parts]
    return sorted(listed, key=lambda entry: (entry.hour, entry.minute))


def all_rows() -> pd.DataFrame:
    rows = make_rows(HISTORY + 7 * DAILY)
    times = pd.date_range(end=FIRST + pd.Timedelta(days=7), periods=len(rows) + 1, freq="3h")[:-1]
    return rows.assign(date=times.strftime("%Y-%m-%dT%H:%M")).drop(columns=["day", "region", "customer"])


ROWS = all_rows()
TIMES = pd.to_datetime(ROWS["date"])


def export(folder: Path, day: pd.Timestamp) -> None:
    """Write the tables of a day: what is to be decided, and all labels known by its evening; some come a day late."""
    end, late = day + pd.Timedelta(days=1), TIMES.dt.hour == 21
    rows = ROWS.copy()
    rows.loc[late & (day <= TIMES), LABELS] = np.nan
    write_table(rows[TIMES.dt.floor("D") == day].drop(columns=LABELS), folder / "new.csv")
    write_table(rows[(TIMES >= FIRST) & (end > TIMES)], folder / "labelled.csv")
    write_table(rows[(day - pd.Timedelta(days=6) <= TIMES) & (end > TIMES)], folder / "week.csv")


@dataclass
class Home:
    """A home folder with a crontab's files, and how its commands are run."""

    path: Path
    environment: dict[str, str]
    printed: list[str] = field(default_factory=list)

    @property
    def battery(self) -> Path:
        return self.path / "battery"

    def start(self, command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["sh", "-c", command],
            cwd=self.path,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            process_group=0,
        )

    def run(self, command: str) -> tuple[int, str]:
        process = self.start(command)
        printed, _ = process.communicate(timeout=120)
        return process.returncode, printed

    def kept(self) -> tuple[bytes, ...]:
        paths = [self.battery / name for name in WATCHED]
        return tuple(path.read_bytes() if path.exists() else b"" for path in paths)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of cron: optensemble is on the path, and starts at once."""
    with warm_commands(tmp_path_factory.mktemp("bin")) as folder:
        yield {**os.environ, "PATH": f"{folder}:/usr/bin:/bin"}


@pytest.fixture(scope="module")
def homes(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Home]:
    """Homes that all begin with the same ensemble."""
    first = Home(tmp_path_factory.mktemp("home"), environment)
    first.battery.mkdir()
    for name in ("weekly.sh", "refit.sh"):
        shutil.copy(START / name, first.battery)
    write_table(ROWS[:HISTORY], first.battery / "history.csv")
    write_job(first.battery, data={"time": "date"})
    assert first.run("cd battery && optensemble fit job.toml --quiet") == (0, "")

    def home(name: str) -> Home:
        other = tmp_path_factory.mktemp(name)
        shutil.copytree(first.battery, other / "battery")
        return Home(other, environment)

    return home


def play(home: Home, step: Callable[[Home, int, str], None]) -> None:
    """Go through the week, hour by hour."""
    number = 0
    for days in range(7):
        day = FIRST + pd.Timedelta(days=days)
        export(home.battery, day)
        for entry in entries():
            if entry.is_due(day):
                step(home, number, entry.command)
                number += 1


@pytest.fixture(scope="module")
def undisturbed(homes: Callable[[str], Home]) -> tuple[Home, list[tuple[bytes, ...]]]:
    """A week without trouble, and what was kept after each step."""
    states = list[tuple[bytes, ...]]()

    def step(home: Home, _: int, command: str) -> None:
        code, printed = home.run(command)
        assert code == 0, (command, printed)
        home.printed.append(printed)
        states.append(home.kept())

    home = homes("quiet")
    states.append(home.kept())
    play(home, step)
    return home, states


def test_a_week_of_the_crontab(undisturbed: tuple[Home, list[tuple[bytes, ...]]], homes: Callable[[str], Home]) -> None:
    """All rows are in the last ensemble, once each, in time order: it is that of a fit on all of them."""
    home, states = undisturbed
    assert "".join(home.printed).count("optensemble: warning: a refit is due: ") == 2  # on Monday: update, and refit.sh
    assert re.fullmatch(r"promised .* new rows, gap .*: (kept|too few rows to tell)\b.*\n", home.printed[-2])
    assert home.printed[-1].endswith("fitted again\n")
    decided = pd.read_csv(home.battery / "decisions.csv")
    assert len(decided) == DAILY
    ensemble = oe.load(home.battery / "ensemble.oe")
    labelled = (FIRST + pd.Timedelta(days=7) > TIMES) & ~(
        (TIMES.dt.hour == 21) & (FIRST + pd.Timedelta(6, "D") <= TIMES)
    )
    assert (ensemble.n_rows_, ensemble.n_updated_, ensemble.refit_due_) == (int(labelled.sum()), 0, "")
    whole = homes("whole")
    write_table(ROWS[labelled], whole.battery / "history.csv")
    assert whole.run("cd battery && optensemble fit job.toml --quiet")[0] == 0
    assert whole.kept()[0] == states[-1][0]


MOMENTS = ("begun", "writing", "written")


def kill_at(home: Home, command: str, moment: str, delay: float) -> bool:
    """Start a command and kill it: after a delay, while a file is being written, or right after; say if it was."""
    before, process = home.kept(), home.start(command)
    deadline = time.monotonic() + (delay if moment == "begun" else 60.0)
    while process.poll() is None and time.monotonic() < deadline:
        if moment == "writing" and any(name.startswith((".ensemble.oe.", ".decisions.csv.")) for name in _names(home)):
            break
        if moment == "written" and home.kept() != before:
            break
        time.sleep(0.0005)
    running = process.poll() is None
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    for name in _names(home):
        if name.startswith("."):
            (home.battery / name).unlink(missing_ok=True)  # what a killed process was writing
    return running


def _names(home: Home) -> list[str]:
    return os.listdir(home.battery)


def test_a_week_in_which_every_step_is_killed(
    undisturbed: tuple[Home, list[tuple[bytes, ...]]], homes: Callable[[str], Home]
) -> None:
    """What is kept is always that of before or of after the step; run again, it is the same to the last bit."""
    _, states = undisturbed
    rng, killed, times = np.random.default_rng(0), Counter[str](), Counter[str]()

    def step(home: Home, number: int, command: str) -> None:
        before, after = states[number], states[number + 1]
        times[command] += 1  # the first time at every moment, then at one after the other
        for moment in MOMENTS if times[command] == 1 else [MOMENTS[times[command] % len(MOMENTS)]]:
            killed[moment] += kill_at(home, command, moment, float(rng.uniform(0.01, 0.3)))
            kept = home.kept()
            assert all(now in (old, new) for now, old, new in zip(kept, before, after, strict=True)), (command, moment)
        code, printed = home.run(command)
        assert code == 0, (command, printed)
        assert home.kept() == after, command

    play(homes("killed"), step)
    assert killed["begun"] >= 4
    assert killed["writing"] >= 2
    assert killed["written"] >= 2
