"""Live ensembles in files: whatever moment they are saved at, they go on to the bit as if they had not been."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import TimeSeriesSplit
from sklearn.neighbors import KNeighborsRegressor

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import InputError, RefitWarning
from optensemble.members.validation import pick_rows
from optensemble.persistence import row_file
from optensemble.persistence.stored_members import UntrustedTypesError
from tests.cli.calling import Line
from tests.cli.refusals import WRONG_USE, require_line
from tests.ensembles.decision import D, N, fitted, problem
from tests.ensembles.live import LABELS, bits, fitted_on_columns, live, table, told
from tests.fuzz_files import Content
from tests.persistence.estimators import NEIGHBOURS
from tests.problems import Floats

END = N + 200
"""The last row of a stream."""

X, Y = problem().X, problem().Y
DATES = pd.date_range("2026-01-01", periods=2 * N, freq="7min")


class Event(NamedTuple):
    """Rows to decide, or labels that come, each with the number of rows that it counts for."""

    rows: list[int]
    labels: bool = False
    counts: Floats | None = None


@dataclass(frozen=True)
class World:
    """Makes a live ensemble, and has the rows it decides; what a file cannot hold is ``given`` again."""

    make: Callable[[], oe.LiveEnsemble]
    X: Any = field(default_factory=lambda: X)
    Y: Floats = field(default_factory=lambda: Y)
    name_rows: Callable[[list[int]], Any] = list
    given: dict[str, Any] = field(default_factory=dict)
    groups: Any = None
    weigh: bool = False

    def step(self, ensemble: oe.LiveEnsemble, event: Event) -> list[Any]:
        """What an event leads to."""
        ids = self.name_rows(event.rows)
        if not event.labels:
            return told(ensemble.answer(pick_rows(self.X, np.asarray(event.rows)), ids=ids))
        groups = None if self.groups is None else self.groups[event.rows]
        ensemble.observe(ids, self.Y[event.rows], sample_weight=event.counts, groups=groups)
        return [ensemble.weights_.tolist(), ensemble.correction_, ensemble.decided_, len(ensemble.refits_)]


def stream(seed: int, expire_after: int | None, *, weigh: bool) -> Iterator[Event]:
    """Batches of any size, and labels in any order, at once, late, twice or never."""
    rng = np.random.default_rng(seed)
    start, waiting, known = N, list[int](), dict[int, float]()
    while start < END:
        stop = min(start + int(rng.choice([1, 2, 9, 30])), END)
        yield Event(list(range(start, stop)))
        waiting, start = [*waiting, *range(start, stop)], stop
        if expire_after is not None:
            waiting = [row for row in waiting if row >= stop - expire_after]
        here = [row for row in waiting if rng.random() < 0.4]
        waiting = [row for row in waiting if row not in set(here) and rng.random() < 0.98]
        here += [row for row in known if rng.random() < 0.02]
        rng.shuffle(here)
        if here:
            counts = rng.choice([0.0, 0.5, 1.0, 3.0], len(here)) if weigh else None
            known |= dict.fromkeys(here, 1.0)
            yield Event(here, labels=True, counts=counts)


# Worlds


def rows_of_all_kinds() -> pd.DataFrame:
    """What members say, what sets need, and groups, in columns of several types."""
    rng, numbers = np.random.default_rng(3), np.arange(2 * N)
    day = [f"day {number // 5}" for number in numbers]
    others: dict[str, Any] = {
        "limit": rng.uniform(0.5, 1.0, 2 * N),
        "key": numbers % 2,
        "day": day,
        "when": rng.permutation(DATES),
    }
    others |= {f"was {j}": rng.uniform(0, 0.5, 2 * N) for j in range(D)}
    return table().reset_index(drop=True).assign(**others, small=(numbers % 7).astype(np.int8))


FRAME = rows_of_all_kinds()
WIDE = np.asfortranarray(np.random.default_rng(8).normal(size=(2 * N, 4)) + Y @ np.ones((D, 4)))
COLUMNS = [(f"m{i}", oe.Columns([f"m{i}_{j}" for j in range(D)])) for i in range(D)]
WAS = oe.Columns([f"was {j}" for j in range(D)])


def on_columns(omega: feasible.FeasibleSet, X: Any = FRAME, fit: Any = None, **terms: Any) -> oe.LiveEnsemble:
    ensemble = oe.DecisionEnsemble(COLUMNS, feasible=omega, context=None)
    return oe.LiveEnsemble(ensemble.fit(X[:N], Y[:N], **(fit or {})), **{"refit": 60, **terms})


def on_estimators() -> oe.LiveEnsemble:
    """Of the members that are fitted again two are fitted with the ensemble, and one is not."""
    models = {"line": LinearRegression(), "ridge": Ridge(2.0), "before": Ridge().fit(WIDE[:N], Y[:N])}
    ensemble = oe.DecisionEnsemble(models, feasible=feasible.Simplex(D), context=None)
    return oe.LiveEnsemble(ensemble.fit(WIDE[:N], Y[:N], time_ordered=False), refit=60)


def on_boxes(kind: str) -> oe.LiveEnsemble:
    """The paper's own algorithms: the first without a record to watch."""
    given, terms = problem(), dict[str, Any](max_rounds=20, alpha=0.05, bucket_width=0.5)
    if kind == "white":
        white = oe.WhiteBoxEnsemble(given.models, given.omega, validation=None, **terms)
        return oe.LiveEnsemble(white.fit(X[:N], Y[:N]), refit=60)
    black = oe.BlackBoxEnsemble(given.policies, given.omega, init=given.models[0][1], **terms)
    return oe.LiveEnsemble(black.fit(X[:N], Y[:N]), refit=70)


def often(ensemble: oe.LiveEnsemble) -> bool:
    """A rule of refits: after fifty labels, then after twenty more each time."""
    return ensemble._now.new >= 50 + 20 * len(ensemble.refits_)


def with_gaps() -> pd.DataFrame:
    frame = FRAME.copy()
    frame.iloc[::3, :D] = np.nan
    return frame


def given_again(access: str = "models", omega: str = "simplex", **others: Any) -> dict[str, Any]:
    return {access: dict(getattr(problem(omega), access)), **others}


def mixed_ids(rows: list[int]) -> list[Any]:
    kinds: list[Callable[[int], Any]] = [str, int, float, lambda row: ("row", row), lambda row: row + 0.5]
    return [kinds[row % 5](row) for row in rows]


THREAD: dict[str, Any] = {"refit": 50, "refit_in": "thread"}
COST = feasible.WithCost(feasible.Simplex(D), 0.1, (0.5, np.eye(D)), (WAS, 0.3))
OF_ROWS = feasible.Oracle(lambda C, X: (C > 0) * X[["limit"]].to_numpy(), D, rows=True)
WORLDS: dict[str, World] = {
    "columns": World(lambda: oe.LiveEnsemble(fitted_on_columns(), refit=60), table()),
    "columns, aside": World(
        lambda: oe.LiveEnsemble(fitted_on_columns(), **THREAD),
        table(),
        name_rows=lambda rows: [f"row {row}" for row in rows],
    ),
    "functions": World(lambda: live(refit=60), given=given_again(), name_rows=lambda rows: DATES[rows]),
    "functions, aside": World(lambda: live(**THREAD), given=given_again(), weigh=True),
    "asked for, of costs": World(
        lambda: live(sense="min", refit=often), given=given_again(refit=often), name_rows=mixed_ids
    ),
    "policies, heaviest": World(
        lambda: live("policies", "vertices", play="heaviest", **THREAD), given=given_again("policies", "vertices")
    ),
    "never, on a polytope": World(lambda: live(omega="polytope", refit="never"), given=given_again(omega="polytope")),
    "expiring": World(lambda: live(refit=60, expire_after=35), given=given_again(), weigh=True),
    "a window": World(
        lambda: live(refit=60, window=300), given=given_again(), name_rows=lambda rows: FRAME["when"][rows]
    ),
    "in time": World(
        lambda: oe.LiveEnsemble(fitted(time_ordered=True), refit=60), given=given_again(), name_rows=np.array
    ),
    "a set per row": World(lambda: on_columns(feasible.Box(upper=WAS)), FRAME),
    "costs from rows": World(lambda: on_columns(COST, **THREAD), FRAME),
    "costs, never": World(lambda: on_columns(COST, refit="never"), FRAME),
    "an oracle of rows": World(lambda: on_columns(OF_ROWS, play="heaviest"), FRAME, given={"feasible": OF_ROWS}),
    "sets by key": World(
        lambda: on_columns(feasible.ByKey("key", {0: feasible.Simplex(D), 1: feasible.Box(upper=[0.4] * D)})), FRAME
    ),
    "top k": World(lambda: on_columns(feasible.TopK(D, 2), play="heaviest"), FRAME),
    "groups by a column": World(lambda: on_columns(feasible.Simplex(D), fit={"groups": "day"}), FRAME),
    "groups": World(
        lambda: on_columns(feasible.Simplex(D), fit={"groups": FRAME["day"][:N]}), FRAME, groups=FRAME["day"].to_numpy()
    ),
    "gaps": World(lambda: on_columns(feasible.Simplex(D), with_gaps()), with_gaps(), weigh=True),
    "estimators": World(on_estimators, WIDE),
    "white box": World(lambda: on_boxes("white"), given=given_again()),
    "black box": World(
        lambda: on_boxes("black"),
        given={"policies": dict(problem().policies), "models": {"init": problem().models[0][1]}},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_a_loaded_ensemble_goes_on_as_one_that_was_never_saved(name: str, tmp_path: Path) -> None:
    world, number = WORLDS[name], list(WORLDS).index(name)
    never, saved = world.make(), world.make()
    events = list(stream(number, never.expire_after, weigh=world.weigh))
    pending = list[int]()
    expected = list[list[Any]]()
    for at, event in enumerate(events):
        pending += [at] if never._now.running is not None else []
        expected.append(world.step(never, event))
    moments = set(np.random.default_rng(number).choice(len(events), 5, replace=False).tolist()) | set(pending[1::7][:2])
    assert never.refit == "never" or len(never.refits_) > 1
    assert bool(pending) == (never.refit_in == "thread")
    for at, event in enumerate(events):
        if at in moments:
            saved.save(tmp_path / f"{at}.oe")
        assert world.step(saved, event) == expected[at]
    assert bits(saved) == bits(never)
    for at in moments:
        loaded = oe.load(tmp_path / f"{at}.oe", **world.given)
        loaded.save(tmp_path / "again.oe")
        first, second = (Content.of(tmp_path / name).arrays for name in (f"{at}.oe", "again.oe"))
        assert {name: each.tobytes() for name, each in first.items()} == {
            name: each.tobytes() for name, each in second.items()
        }
        assert [world.step(loaded, event) for event in events[at:]] == expected[at:]
        assert bits(loaded) == bits(never)


# What a file does not hold


def play(ensemble: oe.LiveEnsemble, world: World, rows: range, open_rows: int = 0) -> oe.LiveEnsemble:
    """Decide rows by tens, each with its labels at once; the last rows stay open."""
    for start in range(rows.start, rows.stop, 10):
        now = list(range(start, min(start + 10, rows.stop)))
        world.step(ensemble, Event(now))
        if start < rows.stop - open_rows:
            world.step(ensemble, Event(now, labels=True))
    return ensemble


def half_way(name: str, **changes: Any) -> oe.LiveEnsemble:
    return play(WORLDS[name].make(), WORLDS[name], range(N, N + 90), **{"open_rows": 20, **changes})


def go_on(ensembles: list[oe.LiveEnsemble], name: str) -> None:
    """They know the same, now and after further rows, some with labels of rows that were open."""
    world, rows = WORLDS[name], range(N + 90, N + 130)
    for ensemble in ensembles:
        world.step(ensemble, Event(list(range(N + 70, N + 90)), labels=True))
        play(ensemble, world, rows)
    assert all(bits(ensemble) == bits(ensembles[0]) for ensemble in ensembles)
    answers = [world.step(ensemble, Event(list(range(N + 130, N + 140)))) for ensemble in ensembles]
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("name", ["columns", "costs from rows", "white box"])
def test_without_its_rows_it_is_not_fitted_again(name: str, tmp_path: Path) -> None:
    world, ensemble = WORLDS[name], half_way(name)
    fits = len(ensemble.refits_)
    ensemble.save(tmp_path / "small.oe", keep_rows=False)
    ensemble.save(tmp_path / "whole.oe")
    assert (tmp_path / "small.oe").stat().st_size < (tmp_path / "whole.oe").stat().st_size
    with pytest.warns(
        RefitWarning, match="forgotten when the file was written: this LiveEnsemble will not be refitted"
    ) as told_of:
        loaded = oe.load(tmp_path / "small.oe", **world.given)
    assert told_of[0].filename == __file__
    assert bits(loaded) == bits(ensemble)
    ensemble._no_rows = "nor is this one"
    go_on([loaded, ensemble], name)
    assert len(loaded.refits_) <= fits + (loaded.refit_in == "thread")
    loaded.save(tmp_path / "again.oe")
    with pytest.warns(RefitWarning, match="forgotten when the file was written"):
        oe.load(tmp_path / "again.oe", **world.given)


def test_too_many_rows_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble = half_way("columns")
    monkeypatch.setattr(row_file, "MOST_BYTES", 30_000)
    with pytest.warns(
        UserWarning, match="the rows of the fit, .* are not in the file, for they are more than"
    ) as told_of:
        ensemble.save(tmp_path / "live.oe")
    assert told_of[0].filename == __file__
    with pytest.warns(RefitWarning, match="are not in the file, for they are more than .* will not be refitted"):
        loaded = oe.load(tmp_path / "live.oe")
    assert bits(loaded) == bits(ensemble)


def test_one_that_never_refits_needs_no_rows(tmp_path: Path) -> None:
    ensemble = half_way("costs, never")
    ensemble.save(tmp_path / "small.oe", keep_rows=False)
    go_on([oe.load(tmp_path / "small.oe"), ensemble], "costs, never")


def test_rows_that_are_not_in_the_file_of_the_ensemble_are_not_in_that_of_the_live_one(tmp_path: Path) -> None:
    """Members that are fitted in time order learn from the first rows alone, which are not among those judged."""
    models = [("line", LinearRegression())]
    ensemble = oe.DecisionEnsemble(models, feasible=feasible.Simplex(D), context=None, cv=TimeSeriesSplit(4))
    given = oe.LiveEnsemble(ensemble.fit(WIDE[:N], Y[:N], time_ordered=True))
    given.save(tmp_path / "live.oe")
    with pytest.warns(RefitWarning, match=r"members alone learned from the first of them: .* not be refitted"):
        loaded = oe.load(tmp_path / "live.oe")
    assert told(loaded.answer(WIDE[N:])) == told(given.answer(WIDE[N:]))


OPEN_ROWS: dict[str, Callable[[slice], Any]] = {
    "a list": lambda rows: X[rows].tolist(),
    "objects": lambda rows: X[rows].astype(object),
    "categories": lambda rows: pd.DataFrame({"row": X[rows], "kind": pd.Categorical(["a"] * len(X[rows]))}),
}


@pytest.mark.parametrize("name", OPEN_ROWS)
def test_open_rows_that_no_file_can_hold_are_not_fitted_on_after_loading(name: str, tmp_path: Path) -> None:
    models = [
        (f"m{i}", lambda X, p=p: p[np.asarray(pd.DataFrame(X))[:, 0].astype(int)]) for i, p in enumerate(problem().P)
    ]
    fit = oe.DecisionEnsemble(models, feasible=feasible.Simplex(D)).fit(X[:N], Y[:N])
    ensemble = oe.LiveEnsemble(fit, refit=60)
    for at in (N, N + 40):
        ensemble.answer(OPEN_ROWS[name](slice(at, at + 40)))
    ensemble.save(tmp_path / "live.oe")
    with pytest.warns(
        RefitWarning, match=r"open rows are not in the file, for .*: this LiveEnsemble will not be refitted"
    ):
        loaded = oe.load(tmp_path / "live.oe", models=dict(models))
    assert bits(loaded) == bits(ensemble)
    loaded.observe(range(80), Y[N : N + 80])
    assert loaded.refits_.empty
    ensemble.observe(range(80), Y[N : N + 80])
    assert ensemble.refits_["outcome"].tolist() == ["480 rows"]
    assert loaded.weights_.tolist() == ensemble.weights_.tolist()


def test_open_rows_that_the_set_takes_and_no_file_can_hold(tmp_path: Path) -> None:
    ensemble = on_columns(OF_ROWS, play="heaviest")
    ensemble.answer(FRAME[N : N + 5].assign(day=pd.Categorical(["today"] * 5)))
    for keep in (True, False):
        with pytest.raises(InputError, match=r"column 'day' of X holds category, .* Observe their labels first"):
            ensemble.save(tmp_path / "live.oe", keep_rows=keep)
    assert not list(tmp_path.iterdir())
    ensemble.observe(range(5), Y[N : N + 5])
    ensemble.save(tmp_path / "live.oe")
    with pytest.raises(RefitWarning, match="the rows of the fit are not in the file, for column 'day' of X"):
        oe.load(tmp_path / "live.oe", feasible=OF_ROWS)  # warnings are errors here


UTC = pd.Timestamp("2026-03-01", tz="UTC")
ODD_IDS: dict[str, list[Any]] = {
    "large numbers": [2**63 - 1, -(2**63), "a"],
    "large numbers in tuples": [("a", 2**63 - 1), ("a", 1)],
    "times": [pd.Timestamp.max, pd.Timestamp.min, pd.Timestamp("2026-01-01")],
    "times with a zone": [UTC, UTC + pd.Timedelta(1, "ns")],
    "times in tuples": [("a", UTC), ("a", "b")],
    "tuples in tuples": [(("a", 1), 2), ()],
    "floats": [0.1, float("inf"), -0.5, 1e300],
    "text": ["", "\0", "🜚", "a" * 10_000],
    "all": ["1", 1, ("1", 1), 1.5, UTC],
}


@pytest.mark.parametrize("name", ODD_IDS)
def test_labels_are_given_under_the_same_ids_whatever_these_are(name: str, tmp_path: Path) -> None:
    ids, ensemble = ODD_IDS[name], live(refit=60)
    ensemble.answer(X[N : N + len(ids)], ids=ids)
    ensemble.save(tmp_path / "live.oe")
    loaded = oe.load(tmp_path / "live.oe", **given_again())
    assert [str(each) for each in loaded.open_["id"]] == [str(each) for each in ensemble.open_["id"]]
    with pytest.raises(InputError, match="were given to rows decided before"):
        loaded.answer(X[:1], ids=ids[-1:])
    loaded.observe(ids[::-1], Y[N : N + len(ids)])
    assert loaded.rows_ == len(ids)
    assert loaded.open_.empty


ODD_COLUMNS: dict[str, tuple[list[Any], bool]] = {
    "the first and the last time": ([pd.Timestamp.min, pd.Timestamp.max], True),
    "large numbers among text": ([2**62 + 1, "a"], False),
    "half of a letter": (["\ud800", 1], False),
    "numbers among text": ([2**62, "a"], True),
}


@pytest.mark.parametrize("name", ODD_COLUMNS)
def test_a_file_has_the_values_that_can_be_read_again(name: str, tmp_path: Path) -> None:
    values, kept = ODD_COLUMNS[name]
    frame = pd.DataFrame({"row": X[: 2 * D + N]}).assign(odd=pd.Series(values * N)[: 2 * D + N])
    models = [("m0", lambda X: problem().P[0][X["row"].to_numpy()])]
    ensemble = oe.DecisionEnsemble(models, feasible=feasible.Simplex(D), context=None)
    ensemble.fit(frame[:N], Y[:N], time_ordered=False).save(tmp_path / "fit.oe")
    loaded = oe.load(tmp_path / "fit.oe", models=dict(models))
    assert bool(loaded._rows) == kept
    if kept:
        pd.testing.assert_frame_equal(loaded._rows[0].X, frame[:N])


@pytest.mark.parametrize("most", [2**62, 2**63 - 1, 10**30, np.int32(10**9)])
def test_numbers_of_rows_that_are_never_reached(most: Any, tmp_path: Path) -> None:
    ensemble = play(live(refit=most, window=most, expire_after=most), WORLDS["functions"], range(N, N + 20), 10)
    ensemble.save(tmp_path / "live.oe")
    assert bits(oe.load(tmp_path / "live.oe", **given_again())) == bits(ensemble)


def test_groups_found_by_a_function_are_given_after_loading(tmp_path: Path) -> None:
    """The file has the groups of all rows whose labels have come."""
    fit = {"groups": lambda X: X["day"]}
    ensemble, rows = on_columns(feasible.Simplex(D), fit=fit), range(40, 80)
    for start in (0, 40):
        ensemble.answer(FRAME[N + start : N + start + 40])
    ensemble.observe(range(40), Y[N : N + 40])
    ensemble.save(tmp_path / "live.oe")
    loaded = oe.load(tmp_path / "live.oe")
    with pytest.raises(InputError, match=r"the rows fitted on had groups\. Give groups= for these rows too"):
        loaded.observe(rows, Y[N + 40 : N + 80])
    loaded.observe(rows, Y[N + 40 : N + 80], groups=FRAME["day"][N + 40 : N + 80])
    ensemble.observe(rows, Y[N + 40 : N + 80])
    assert bits(loaded) == bits(ensemble)
    assert len(loaded.refits_) == 1
    assert told(loaded.answer(FRAME[-9:])) == told(ensemble.answer(FRAME[-9:]))


# What is given again


def test_a_rule_of_refits_is_given_again(tmp_path: Path) -> None:
    half_way("asked for, of costs").save(tmp_path / "asked.oe")
    for given in ({}, {"refit": "auto"}, {"refit": 60}):
        with pytest.raises(
            InputError, match=r"is a callable, which no file holds\. Pass it again: load\(path, refit=…\)"
        ):
            oe.load(tmp_path / "asked.oe", **given_again(**given))
    half_way("functions").save(tmp_path / "counted.oe")
    with pytest.raises(InputError, match=r"the refit rule is in the file, refit=60; got .*often.* Leave refit out"):
        oe.load(tmp_path / "counted.oe", **given_again(refit=often))


def test_members_are_given_again_by_name(tmp_path: Path) -> None:
    ensemble = half_way("functions")
    assert len(ensemble.refits_) == 1
    ensemble.save(tmp_path / "live.oe")
    with pytest.raises(InputError, match=r"must be given again: load\(path, models=\{'m0': …, 'm1': …, 'm2': …\}\)"):
        oe.load(tmp_path / "live.oe")
    loaded = oe.load(tmp_path / "live.oe", **given_again())
    assert loaded.refitted_ is not loaded.ensemble_
    assert all(
        ours is theirs
        for (_, ours), (_, theirs) in zip(loaded.ensemble_.members_, loaded.refitted_.members_, strict=True)
    )


def test_a_set_of_ones_own_is_given_again(tmp_path: Path) -> None:
    oracle = feasible.Oracle(feasible.Simplex(D).argmax, D)
    world = World(lambda: on_columns(oracle, play="heaviest"), FRAME)
    ensemble = play(world.make(), world, range(N, N + 90), 20)
    ensemble.save(tmp_path / "live.oe")
    with pytest.raises(InputError, match=r"feasible set \(Oracle\) cannot be saved.*load\(path, feasible="):
        oe.load(tmp_path / "live.oe")
    loaded = oe.load(tmp_path / "live.oe", feasible=oracle)
    assert loaded.refitted_.feasible_ is not None
    for each in (ensemble, loaded):
        play(each, world, range(N + 90, N + 180))
    assert len(loaded.refits_) == 2
    assert bits(loaded) == bits(ensemble)


# Members that are fitted again


def on_neighbours() -> oe.LiveEnsemble:
    models = [("near", KNeighborsRegressor()), ("line", LinearRegression())]
    ensemble = oe.DecisionEnsemble(models, feasible=feasible.Simplex(D), context=None)
    return oe.LiveEnsemble(ensemble.fit(WIDE[:N], Y[:N], time_ordered=False), **THREAD)


def test_members_that_were_fitted_again_come_back(tmp_path: Path) -> None:
    world = World(on_neighbours, WIDE)
    ensemble = play(world.make(), world, range(N, N + 120))
    fits = [ensemble.ensemble_, ensemble.refitted_, ensemble._now.running.wait().fit if ensemble._now.running else None]
    assert len({id(fit) for fit in fits}) == 3
    ensemble.save(tmp_path / "live.oe")
    with pytest.raises(UntrustedTypesError):
        oe.load(tmp_path / "live.oe")
    loaded = oe.load(tmp_path / "live.oe", trusted=NEIGHBOURS)
    later = [loaded.ensemble_, loaded.refitted_, loaded._now.running.outcome.fit]
    for ours, theirs in zip(later, fits, strict=True):
        np.testing.assert_array_equal(ours.predict(WIDE), theirs.predict(WIDE))  # type: ignore[union-attr]
        assert ours.cross_fitted_ == ["near", "line"]
    for each in (ensemble, loaded):
        play(each, world, range(N + 120, N + 200))
    assert bits(loaded) == bits(ensemble)


def test_without_members_those_of_the_fit_are_given_again_and_those_fitted_since_are_there(tmp_path: Path) -> None:
    ensemble = half_way("estimators")
    ensemble.save(tmp_path / "live.oe", keep_members=False)
    with pytest.raises(InputError, match=r"load\(path, models=\{'line': …, 'ridge': …, 'before': …\}\)"):
        oe.load(tmp_path / "live.oe")
    loaded = oe.load(tmp_path / "live.oe", models=dict(ensemble.ensemble_.members_))
    ours, theirs = dict(loaded.refitted_.members_), dict(ensemble.refitted_.members_)
    assert ours["before"] is theirs["before"]
    assert ours["line"] is not theirs["line"]
    np.testing.assert_array_equal(ours["line"].predict(WIDE), theirs["line"].predict(WIDE))
    go_on([ensemble, loaded], "estimators")


def test_what_was_fitted_again_cannot_be_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble = half_way("estimators")
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(InputError, match=r"'line' was fitted again while deciding, and cannot be stored: .*\[skops\]"):
        ensemble.save(tmp_path / "live.oe")
    assert not list(tmp_path.iterdir())


# Refits that fail, or run


def test_a_refit_that_has_failed_is_told_when_it_would_have_been_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise ZeroDivisionError("no rows")

    ensemble = live(**THREAD)
    ensemble.answer(X[N : N + 60])
    with monkeypatch.context() as patched:
        patched.setattr(oe.DecisionEnsemble, "_fitted_again", fail)
        ensemble.observe(range(60), Y[N : N + 60])
        ensemble.save(tmp_path / "live.oe")
    loaded = oe.load(tmp_path / "live.oe", **given_again())
    for each in (ensemble, loaded):
        each.answer(X[N + 60 : N + 80])
        with pytest.warns(RefitWarning, match=r"the refit on 460 rows failed .ZeroDivisionError: no rows"):
            each.answer(X[N + 80 : N + 90])
        assert each.refits_["outcome"].tolist() == ["failed: ZeroDivisionError: no rows"]
    assert bits(loaded) == bits(ensemble)


def test_an_alarm_and_the_monitor_go_on(tmp_path: Path) -> None:
    """A refit that is due because of an alarm is due at the same row."""
    ensemble = live()
    world = World(live, Y=np.where(np.arange(2 * N)[:, None] >= N, -Y, Y), given=given_again())
    play(ensemble, world, range(N, N + 50))
    assert ensemble.monitor is not None
    assert ensemble.monitor.standing
    ensemble.save(tmp_path / "live.oe")
    loaded = oe.load(tmp_path / "live.oe", **world.given)
    for each in (ensemble, loaded):
        play(each, world, range(N + 50, N + 100))
    assert loaded.refits_["why"][0].startswith("alarm: ")
    assert bits(loaded) == bits(ensemble)


def test_labels_that_were_learned_or_given_up_are_known_after_loading(tmp_path: Path) -> None:
    ensemble = live(expire_after=30)
    ensemble.answer(X[N : N + 30])
    ensemble.observe(range(5), Y[N : N + 5])
    ensemble.answer(X[N + 30 : N + 40])
    ensemble.save(tmp_path / "live.oe")
    loaded = oe.load(tmp_path / "live.oe", **given_again())
    before = bits(loaded)
    loaded.observe(range(5), Y[N : N + 5])
    assert bits(loaded) == before
    with pytest.raises(InputError, match="already have different labels: 0, 1, 2"):
        loaded.observe(range(5), -Y[N : N + 5])
    with pytest.raises(InputError, match=r"5 of these 5 rows have expired: 5, 6, 7 "):
        loaded.observe(range(5, 10), Y[N + 5 : N + 10])
    with pytest.raises(InputError, match="are of no open row"):
        loaded.observe([1000], Y[:1])


def test_saving_twice_gives_the_same_file(tmp_path: Path) -> None:
    ensemble = half_way("estimators")
    for name in ("one.oe", "two.oe"):
        ensemble.save(tmp_path / name)
    assert (tmp_path / "one.oe").read_bytes() == (tmp_path / "two.oe").read_bytes()


# Files of one kind where those of another are expected


@pytest.mark.parametrize("command", [["decide", "-o", "out.csv"], ["audit"], ["explain"], ["report"], ["update"]])
def test_the_command_line_says_what_a_live_file_is(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    half_way("columns").save("live.oe")
    pd.concat([FRAME, pd.DataFrame(Y, columns=LABELS)], axis=1)[N:].to_csv("rows.csv", index=False)
    name, *options = command
    require_line(
        Line(monkeypatch, capsys)(name, "live.oe", "rows.csv", *options),
        WRONG_USE,
        "live.oe",
        "LiveEnsemble",
        "from Python",
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["live.oe", "rows.csv"]


def test_a_live_ensemble_is_not_made_of_another(tmp_path: Path) -> None:
    half_way("columns").save(tmp_path / "live.oe")
    with pytest.raises(InputError, match=r"LiveEnsemble needs a fitted .*; got LiveEnsemble"):
        oe.LiveEnsemble(oe.load(tmp_path / "live.oe"))


# Fits that wait for labels of their rows


def play_late(ensemble: oe.LiveEnsemble, world: World, rows: range, delay: int = 60) -> list[list[Any]]:
    """Decide rows by tens, each with labels of those so many rows before."""
    found = list[list[Any]]()
    for start in range(rows.start, rows.stop, 10):
        found.append(world.step(ensemble, Event(list(range(start, start + 10)))))
        if (late := start - delay) >= N:
            found.append(world.step(ensemble, Event(list(range(late, late + 10)), labels=True)))
    return found


@pytest.mark.parametrize("name", ["columns", "columns, aside", "functions, aside", "groups by a column", "black box"])
def test_fits_whose_rows_have_no_labels_yet_are_watched_after_loading(name: str, tmp_path: Path) -> None:
    """Labels are later than two refits: the scales of those come from the file."""
    world = WORLDS[name]
    ensemble = world.make()
    ensemble.refit = 20
    play_late(ensemble, world, range(N, N + 150))
    watched, fits = ensemble._now.watched, ensemble._now.fits
    assert len(watched.later) >= 2
    assert watched.number < fits
    ensemble.save(tmp_path / "live.oe")
    loaded = oe.load(tmp_path / "live.oe", **world.given)
    assert (loaded._now.watched.number, loaded._now.watched.weighing) == (watched.number, watched.weighing)
    assert loaded._now.watched.later == watched.later
    assert bits(loaded) == bits(ensemble)
    rest = range(N + 150, N + 250)
    assert play_late(loaded, world, rest) == play_late(ensemble, world, rest)
    assert bits(loaded) == bits(ensemble)
    monitor = loaded.monitor
    assert monitor is not None
    assert loaded._now.watched.number >= fits
    assert len(monitor.restarts) > watched.number
    again = loaded._now.watched
    assert (again.number, again.later) == (ensemble._now.watched.number, ensemble._now.watched.later)


def test_weights_of_fits_that_wait_are_in_the_file(tmp_path: Path) -> None:
    fit = {"sample_weight": np.random.default_rng(0).choice([0.5, 1.0, 4.0], size=N)}
    world = World(lambda: on_columns(feasible.Simplex(D), fit=fit, refit=20), FRAME, weigh=True)
    ensemble = world.make()
    play_late(ensemble, world, range(N, N + 120))
    weighings = [weighing for _, weighing in ensemble._now.watched.later.values()]
    assert len(set(weighings)) == len(weighings) >= 2
    ensemble.save(tmp_path / "live.oe")
    loaded = oe.load(tmp_path / "live.oe")
    assert loaded._now.watched.later == ensemble._now.watched.later
    for each in (loaded, ensemble):
        play_late(each, world, range(N + 120, N + 200))
    assert bits(loaded) == bits(ensemble)


# Estimators on a part of a frame


LONG = np.hstack([WIDE, np.random.default_rng(11).normal(size=(2 * N, 3))])
PARTS: dict[str, Callable[[], pd.DataFrame]] = {
    "of an array": lambda: pd.DataFrame(np.ascontiguousarray(LONG), columns=list("abcdefg"), copy=False),
    "of an array by columns": lambda: pd.DataFrame(np.asfortranarray(LONG), columns=list("abcdefg"), copy=False),
    "of a copy": lambda: pd.DataFrame(LONG, columns=list("abcdefg")).copy(),
    "of columns": lambda: pd.DataFrame({name: LONG[:, at].copy() for at, name in enumerate("abcdefg")}),
    "of another": lambda: pd.DataFrame(np.vstack([LONG, LONG]), columns=list("abcdefg"))[: 2 * N],
}
FITTED_HERE: dict[str, Callable[[], Any]] = {
    "lines": lambda: [("ridge", Ridge()), ("firm", Ridge(300.0))],
    "a forest": lambda: [("forest", RandomForestRegressor(4, max_depth=6, random_state=0)), ("ridge", Ridge())],
}


@pytest.mark.parametrize("members", FITTED_HERE)
@pytest.mark.parametrize("part", PARTS)
def test_estimators_that_were_fitted_on_a_part_of_a_frame_go_on_to_the_bit(
    part: str, members: str, tmp_path: Path
) -> None:
    """Sums go by how numbers lie in memory: a file has that too, be it of the first rows or of those that are open."""
    frame = PARTS[part]()

    def make() -> oe.LiveEnsemble:
        ensemble = oe.DecisionEnsemble(FITTED_HERE[members](), feasible=feasible.Simplex(D), context=None)
        return oe.LiveEnsemble(ensemble.fit(frame[:N], Y[:N], random_state=1, time_ordered=False), refit=60)

    world = World(make, frame)
    never, saved = make(), make()
    for ensemble in (never, saved):
        play_late(ensemble, world, range(N, N + 50), delay=20)
    saved.save(tmp_path / "live.oe")
    loaded = oe.load(tmp_path / "live.oe")
    rest = range(N + 50, N + 170)
    assert play_late(loaded, world, rest, delay=20) == play_late(never, world, rest, delay=20)
    assert len(never.refits_) == 2
    assert bits(loaded) == bits(never)
    np.testing.assert_array_equal(loaded.refitted_.decide(frame), never.refitted_.decide(frame))
