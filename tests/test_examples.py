"""Every example runs as its page says, prints what is shown there, and decides within its limits."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import pairwise, product
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Browser
from scipy.optimize import linprog

import optensemble as oe
from optensemble._core.arrays import Floats

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

FOLDER = Path(__file__).parent.parent / "examples"
PAGES = FOLDER.parent / "docs" / "examples"
SCREENSHOTS = FOLDER.parent / "build" / "screenshots"
NAMES = ["battery", "portfolio", "routes", "staffing"]
IDS = {"battery": "day", "routes": "trip", "staffing": "day"}
LABELS = {"battery": "price", "portfolio": "return", "routes": "minutes", "staffing": "takings"}
MODELS = {
    "battery": ["demand", "weather", "yesterday"],
    "portfolio": ["macro", "trend", "letter"],
    "routes": ["timetable", "sensors"],
    "staffing": ["bookings", "weather", "last_year"],
}
NOISE = 1e-7  # what a solver may be off by


@dataclass(frozen=True)
class Shown:
    """A command of a page and what is shown of its output; nothing shown is nothing said."""

    command: str
    output: str


@dataclass(frozen=True)
class Played:
    """An example after all its commands were run in a folder that was empty."""

    name: str
    folder: Path
    shown: list[Shown]
    results: list[subprocess.CompletedProcess[str]]

    def table(self, name: str) -> pd.DataFrame:
        """Read one of the tables of the folder."""
        return pd.read_csv(self.folder / f"{name}.csv")

    @property
    def coordinates(self) -> list[str]:
        return [
            name.removeprefix("action_") for name in map(str, self.table("decisions")) if name.startswith("action_")
        ]

    def columns(self, table: str, prefix: str) -> Floats:
        """Return the columns of one kind, in the order of the actions."""
        rows = self.table(table)
        return rows[[f"{prefix}_{coordinate}" for coordinate in self.coordinates]].to_numpy(dtype=float)


def shown_in(page: str) -> list[Shown]:
    found: list[Shown] = []
    for block in re.findall(r"^```console\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL):
        assert block.startswith("$ ")
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append(Shown(command, output))
    return found


def is_shown(shown: str, printed: str) -> bool:
    """Compare line by line; three dots stand for anything, on a line of their own for any lines."""
    lines = [" ".join(line.split()) for line in shown.splitlines() if line.strip()]
    parts = ["(.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + "\n" for line in lines]
    found = [" ".join(line.split()) + "\n" for line in printed.splitlines() if line.strip()]
    return re.fullmatch("".join(parts), "".join(found)) is not None


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    here = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "PYTHONUTF8": "1"}
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | here
    words = shlex.split(command)
    words[0] = shutil.which(words[0], path=here["PATH"]) or words[0]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False)


@pytest.fixture(scope="module", params=NAMES)
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Played:
    name = str(request.param)
    folder = tmp_path_factory.mktemp(name)
    shutil.copy(FOLDER / name / "example.py", folder)
    shown = shown_in((PAGES / f"{name}.md").read_text(encoding="utf-8"))
    return Played(name, folder, shown, [run(each.command, folder) for each in shown])


def test_three_dots_stand_for_anything_and_nothing_else_does() -> None:
    printed = "first  line\n\nsecond: 12.5 EUR\nthird\n"
    assert is_shown("first line\n...\nthird", printed)
    assert is_shown("...\nsecond: ... EUR\n...", printed)
    assert is_shown("first line\n...\nsecond: 12.5 EUR\nthird\n...", printed)
    assert not is_shown("first line\nthird", printed)
    assert not is_shown("first line\nsecond: 12.5 EUR", printed)
    assert not is_shown("...\nsecond: 12x5 EUR\n...", printed)
    assert not is_shown("...\nsecond: 12.6 EUR\n...", printed)


def test_every_command_succeeds_without_a_word_of_warning(played: Played) -> None:
    for result in played.results:
        assert result.returncode == 0, f"{result.args}\n{result.stdout}\n{result.stderr}"
        assert result.stderr == "", result.args


def test_commands_print_what_the_page_shows(played: Played) -> None:
    assert sum(bool(each.output) for each in played.shown) >= 5
    for each, result in zip(played.shown, played.results, strict=True):
        if each.output:
            assert is_shown(each.output, result.stdout), f"$ {each.command}\n{result.stdout}"


def test_the_page_goes_all_the_way_from_data_to_report(played: Played) -> None:
    commands = [each.command for each in played.shown]
    begin = [f"init --example {played.name}", "check job.toml", "fit job.toml -o ensemble.oe"]
    assert commands[:3] == [f"optensemble {words}" for words in begin]
    used = [command.split()[1] for command in commands if command.startswith("optensemble")]
    assert used == ["init", "check", "fit", "decide", "audit", "explain", "report"]
    assert commands[-1] == "python example.py"


def test_what_ships_is_what_the_script_makes(played: Played, tmp_path: Path) -> None:
    result = run(f"python {shlex.quote(str(FOLDER / played.name / 'make_data.py'))}", tmp_path)
    assert result.returncode == 0, result.stderr
    made = sorted(path.name for path in tmp_path.iterdir())
    named = {"history.csv", "new.csv", "later.csv"}
    assert named <= set(made)
    for name in made:
        header = 0 if name in named else None
        mine, shipped = (pd.read_csv(folder / name, header=header) for folder in (tmp_path, played.folder))
        pd.testing.assert_frame_equal(mine, shipped, obj=f"{name}: python examples/ship.py renews it")
    job = (FOLDER / played.name / "job.toml").read_bytes()
    assert job == (played.folder / "job.toml").read_bytes(), "python examples/ship.py renews it"


def test_there_is_one_decision_for_every_row_and_ids_are_kept(played: Played) -> None:
    decisions, new = played.table("decisions"), played.table("new")
    assert len(decisions) == len(new) == 200
    assert not any(name.startswith(LABELS[played.name]) for name in map(str, new))
    if played.name in IDS:
        ids = [pd.Series(rows[IDS[played.name]]).astype(str).tolist() for rows in (decisions, new)]
        assert ids[0] == ids[1]


def test_later_rows_are_the_new_ones_with_labels(played: Played) -> None:
    new, later = played.table("new"), played.table("later")
    pd.testing.assert_frame_equal(later[list(new)], new)
    assert set(later) - set(new) == {f"{LABELS[played.name]}_{name}" for name in played.coordinates}


def kept_charge(new: pd.DataFrame) -> Floats:
    """Return what must be in the battery at the end of each hour, in MWh: the reserve, and at midnight its charge."""
    booked: dict[str, range] = {"none": range(0), "morning": range(6, 10), "evening": range(17, 21)}
    kept = 0.5 * np.array([[hour in booked[name] for hour in range(24)] for name in new["reserve"]])
    kept[:, -1] = new["charge"]
    return kept


def battery_is_kept(played: Played, actions: Floats) -> bool:
    """From each day's own charge: no faster than 0.5 MW, never below what must be kept nor above 3 MWh."""
    new = played.table("new")
    stored = new["charge"].to_numpy()[:, None] - np.cumsum(actions, axis=1)
    inside = (stored >= kept_charge(new) - NOISE).all() and stored.max() <= 3 + NOISE
    return bool(inside and np.abs(actions).max() <= 0.5 + NOISE)


def portfolio_is_kept(played: Played, actions: Floats) -> bool:
    """Shares of at most one unit of money, each of at most 40 percent."""
    whole = bool((actions.sum(axis=1) <= 1.0 + NOISE).all())
    return whole and bool(actions.min() >= -NOISE) and bool(actions.max() <= 0.4 + NOISE)


def routes_are_kept(played: Played, actions: Floats) -> bool:
    """Lead from each trip's own origin to its own destination, by open streets and no others."""
    new = played.table("new")
    streets = [name.split("-") for name in played.coordinates]
    is_open = played.columns("new", "closed") == 0.0
    return all(
        set(row) <= {0.0, 1.0} and bool(is_open[i][row == 1].all()) and is_walk(streets, row, *ends)
        for i, (row, ends) in enumerate(zip(actions, new[["from", "to"]].to_numpy(), strict=True))
    )


def is_walk(streets: list[list[str]], used: Floats, start: str, end: str) -> bool:
    """Drive from crossing to crossing while exactly one unused street leads on; all must be used by the end."""
    left, here = [street for street, taken in zip(streets, used, strict=True) if taken], start
    while here != end:
        onwards = [street for street in left if here in street]
        if len(onwards) != 1:
            return False
        left.remove(onwards[0])
        here = onwards[0][onwards[0][0] == here]
    return not left


def staffing_is_kept(played: Played, actions: Floats) -> bool:
    """At most 4 kiosks, 2 in a region, each with its keeper, and no more large ones than there are helpers."""
    regions = [["pier", "beach", "ferry"], ["market", "castle", "station"], ["lake", "summit", "lift", "meadow"]]
    large = ["pier", "market", "station", "lift"]
    opens = pd.DataFrame(actions, columns=played.coordinates)
    per_region = all(bool((opens[sites].sum(axis=1) <= 2).all()) for sites in regions)
    staffed = bool((actions <= played.columns("new", "keeper")).all())
    helped = bool((opens[large].sum(axis=1) <= played.table("new")["helpers"]).all())
    limited = bool((opens.sum(axis=1) <= 4).all()) and bool(np.isin(actions, [0.0, 1.0]).all())
    return per_region and staffed and helped and limited


KEPT: dict[str, Callable[[Played, Floats], bool]] = {
    "battery": battery_is_kept,
    "portfolio": portfolio_is_kept,
    "routes": routes_are_kept,
    "staffing": staffing_is_kept,
}


def test_every_decision_keeps_within_the_limits_of_its_row(played: Played) -> None:
    actions = played.columns("decisions", "action")
    assert KEPT[played.name](played, actions)
    assert not KEPT[played.name](played, actions + 1.0)
    if played.name != "portfolio":  # there it is the cost that differs
        assert not KEPT[played.name](played, np.roll(actions, 1, axis=0)), "other rows have other limits"


def test_the_dispatcher_keeps_within_the_limits_of_each_trip(played: Played) -> None:
    if played.name == "routes":
        assert routes_are_kept(played, played.columns("new", "drove"))


def payoffs(played: Played, actions: Floats) -> Floats:
    """Return what actions earned on the later rows, or cost, by hand; trading costs 0.2 percent of what is moved."""
    earned = (actions * played.columns("later", LABELS[played.name])).sum(axis=1)
    if played.name == "portfolio":
        earned -= 0.2 * np.abs(actions - played.columns("later", "held")).sum(axis=1)
    return np.asarray(earned)


def test_payoffs_are_those_computed_by_hand(played: Played) -> None:
    ensemble, later = oe.load(played.folder / "ensemble.oe"), played.table("later")
    labels = [f"{LABELS[played.name]}_{name}" for name in played.coordinates]
    realised = ensemble.audit(later, later[labels]).totals.realised
    assert realised == pytest.approx(payoffs(played, played.columns("decisions", "action")).mean(), rel=1e-12)


def best_battery(played: Played, prices: Floats) -> Floats:
    new, sold = played.table("new"), np.tril(np.ones((24, 24)))
    A, charge = np.vstack([sold, -sold]), new["charge"].to_numpy()[:, None]
    limits = np.hstack([charge - kept_charge(new), 3 - np.repeat(charge, 24, axis=1)])
    return np.array(
        [maximise(price, A, limit, [(-0.5, 0.5)] * 24) for price, limit in zip(prices, limits, strict=True)]
    )


def best_portfolio(played: Played, returns: Floats) -> Floats:
    """Weights, and what each is away from the one held, which is at least the difference of either sign."""
    one, held = np.eye(6), played.columns("new", "held")
    A = np.block([[one, -one], [-one, -one], [np.ones((1, 6)), np.zeros((1, 6))]])
    limits = np.hstack([held, -held, np.ones((len(held), 1))])
    gains, bounds = np.hstack([returns, np.full(held.shape, -0.2)]), [(0.0, 0.4)] * 6 + [(0.0, 1.0)] * 6
    return np.array([maximise(gain, A, limit, bounds)[:6] for gain, limit in zip(gains, limits, strict=True)])


def maximise(gains: Floats, A: Floats, limits: Floats, bounds: list[tuple[float, float]]) -> Floats:
    found = linprog(-gains, A, limits, bounds=bounds)
    assert found.status == 0
    return np.asarray(found.x)


def best_routes(played: Played, minutes: Floats) -> Floats:
    ends, is_open = played.table("new")[["from", "to"]].to_numpy(), played.columns("new", "closed") == 0.0
    streets = [tuple(name.split("-")) for name in played.coordinates]
    best = []
    for row, (start, end), passable in zip(minutes, ends, is_open, strict=True):
        town = nx.Graph()
        town.add_weighted_edges_from([(*street, row[j]) for j, street in enumerate(streets) if passable[j]])
        steps = {frozenset(step) for step in pairwise(nx.shortest_path(town, start, end, weight="weight"))}
        best.append([float(frozenset(street) in steps) for street in streets])
    return np.array(best)


def best_staffing(played: Played, takings: Floats) -> Floats:
    ways = np.array(list(product([0.0, 1.0], repeat=10)))
    large = np.isin(played.coordinates, ["pier", "market", "station", "lift"])
    per_region = np.stack([ways[:, begin:end].sum(axis=1) for begin, end in ((0, 3), (3, 6), (6, 10))])
    ways = ways[(ways.sum(axis=1) <= 4) & (per_region <= 2).all(axis=0)]
    helpers, keepers = played.table("new")["helpers"], played.columns("new", "keeper")
    best = []
    for row, count, present in zip(takings, helpers, keepers, strict=True):
        allowed = ways[(ways @ large <= count) & (ways <= present).all(axis=1)]
        best.append(allowed[(allowed @ row).argmax()])
    return np.array(best)


BEST: dict[str, Callable[[Played, Floats], Floats]] = {
    "battery": best_battery,
    "portfolio": best_portfolio,
    "routes": best_routes,
    "staffing": best_staffing,
}


@pytest.mark.parametrize("number", range(2))
def test_members_are_judged_by_the_best_action_of_each_row(played: Played, number: int) -> None:
    """The set of the job file finds what another solver finds row by row, by hand-made limits."""
    ensemble, later = oe.load(played.folder / "ensemble.oe"), played.table("later")
    sign, said = (1.0 if ensemble.sense == "max" else -1.0), played.columns("new", MODELS[played.name][number])
    omega, best = ensemble.feasible.for_rows(later), BEST[played.name](played, said)
    assert omega.violation(best).max() <= NOISE
    found = omega.value(omega.argmax(sign * said), sign * said)
    np.testing.assert_allclose(found, omega.value(best, sign * said), rtol=1e-9, atol=1e-9)


def test_python_decides_as_the_commands_do(played: Played) -> None:
    actions = np.loadtxt(played.folder / "actions.csv", delimiter=",")
    np.testing.assert_array_equal(actions, played.columns("decisions", "action"))


def test_what_is_promised_lies_between_its_limits(played: Played) -> None:
    decisions = played.table("decisions")
    assert bool(((decisions["low"] < decisions["promised"]) & (decisions["promised"] < decisions["high"])).all())


def test_it_earns_more_than_every_member_and_their_average(played: Played) -> None:
    ensemble = oe.load(played.folder / "ensemble.oe")
    sign, omega = (1.0 if ensemble.sense == "max" else -1.0), ensemble.feasible.for_rows(played.table("later"))
    said = {name: played.columns("later", name) for name in MODELS[played.name]}
    said["average"] = np.mean(list(said.values()), axis=0)
    others = {name: omega.argmax(sign * predictions) for name, predictions in said.items()}
    if played.name == "routes":
        others["dispatcher"] = played.columns("later", "drove")
    earned = payoffs(played, played.columns("decisions", "action"))
    for name, actions in others.items():
        gain = sign * (earned - payoffs(played, actions))
        assert gain.mean() > 2 * gain.std() / np.sqrt(len(gain)), name


def test_the_calibrated_choice_decides_and_simple_baselines_are_clearly_behind(played: Played) -> None:
    ensemble = oe.load(played.folder / "ensemble.oe")
    assert ensemble.winner_ == "ensemble"
    board = ensemble.leaderboard_
    simple = board[board["kind"].isin(["baseline", "model", "policy"])]
    assert {"ridge", "stack", "average", "mean"} < set(simple["candidate"])
    sign = 1 if ensemble.sense == "max" else -1
    nearest = simple["difference_high"] if sign > 0 else -simple["difference_low"]
    # of the portfolio, whose returns are mostly noise, the interval of the ridge just reaches 0
    behind = (sign * simple["difference"] < 0) & (nearest < 0.001 * board["realised"].abs().max())
    assert bool(behind.all()), simple[["candidate", "difference_low", "difference_high"]]


SUBGROUPS, POLICIES = r"^subgroups .*\n", r"^\[policies\](.|\n)*?(?=^\[)"
LESSONS = [
    ("battery", SUBGROUPS, "ensemble choice 156.5 ... 100 % yes"),
    ("routes", POLICIES, "ensemble choice 47.0 ... 100 % yes"),
    ("routes", SUBGROUPS, "ensemble choice 46.6 ... 100 % yes"),
    ("staffing", SUBGROUPS, "ensemble choice 1,535 ... 100 % yes"),
]
"""What pages say of the same job without some lines."""


def fit_without(played: Played, lines: str, folder: Path) -> str:
    """Fit the job without some lines in a copy of the example; return what is printed."""
    shutil.copytree(played.folder, folder, dirs_exist_ok=True)
    job, cut = re.subn(lines, "", (folder / "job.toml").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert cut == 1
    (folder / "job.toml").write_text(job.replace("[feasible.set]", "[feasible]"), encoding="utf-8")
    result = run("optensemble fit job.toml -o ensemble.oe", folder)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_what_is_learned_is_what_happens_without_it(played: Played, tmp_path: Path) -> None:
    for name, lines, leader in LESSONS:
        if name == played.name:
            printed = fit_without(played, lines, tmp_path)
            assert is_shown(f"...\n{leader}\n...", printed), printed
    if played.name == "portfolio":
        fit_without(played, r"^\[feasible\](.|\n)*?(?=^\[feasible.set)", tmp_path)
        actions = oe.load(tmp_path / "ensemble.oe").decide(played.table("new"))
        assert f"{payoffs(played, actions).mean():.2f}" == "0.71"


class Outside(HTMLParser):
    """Collects what a page would load from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        wanted = {"src", "srcset"} | ({"href"} if tag in ("link", "image", "use") else set())
        self.loads += [value for name, value in attrs if name in wanted and value and value[:5] != "data:"]


def test_the_report_is_one_file_that_needs_no_other(played: Played) -> None:
    text, page = (played.folder / "report.html").read_text(encoding="utf-8"), Outside()
    page.feed(text)
    assert text.lower().startswith("<!doctype html>")
    assert [load for load in page.loads if not load.startswith("#")] == []
    assert not re.search(r"url\((?!['\"]?(data:|#))|@import", text)
    assert text.rstrip().endswith("</html>")


def test_the_first_page_names_every_example() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert sorted(path.parent.name for path in FOLDER.glob("*/job.toml")) == NAMES
    assert all(f"](../docs/examples/{name}.md)" in text for name in NAMES)


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 360])
def test_the_report_opens_in_a_browser_and_asks_for_nothing(played: Played, browser: Browser, width: int) -> None:
    said: list[str] = []
    asked: list[str] = []
    page = browser.new_page(viewport={"width": width, "height": 900}, offline=True)
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    address = (played.folder / "report.html").as_uri()
    page.goto(address)
    assert (said, asked) == ([], [address])
    job = tomllib.loads((played.folder / "job.toml").read_text(encoding="utf-8"))
    assert page.locator("h1").inner_text() == job["report"]["title"]
    assert page.get_by_text("The promise was kept").first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"example-{played.name}-{width}.png", full_page=True)
    page.close()
